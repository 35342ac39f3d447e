//! True time: how long a run has taken so far. In virtual time it stands still while anybody can run and
//! then goes on to what is due next; on the wall clock it is tokio's.

use super::held;
use redouble::TimeSource;
use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};
use tokio::time::Instant;

/// The clock of a run. Cheap to clone; all clones are the same clock.
#[derive(Clone, Debug)]
pub(crate) enum TrueTime {
    Virtual(Arc<Virtual>),
    /// The wall clock, since then.
    Real(Instant),
}

impl TrueTime {
    /// A clock that starts now, in virtual time or on the wall clock.
    pub(crate) fn start(is_virtual: bool) -> Self {
        if is_virtual {
            Self::Virtual(Arc::default())
        } else {
            Self::Real(Instant::now())
        }
    }

    /// The time since the start.
    pub(crate) fn now(&self) -> Duration {
        match self {
            Self::Virtual(time) => Duration::from_millis(time.now_ms()),
            Self::Real(started) => started.elapsed(),
        }
    }

    /// The same in whole milliseconds.
    pub(crate) fn now_ms(&self) -> u64 {
        match self {
            Self::Virtual(time) => time.now_ms(),
            Self::Real(started) => u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Completes at a true time. Timers know milliseconds: it may be that much later.
    pub(crate) fn sleep_until(&self, at: Duration) -> Sleep {
        match self {
            Self::Virtual(time) => Sleep::Virtual(Nap {
                time: Arc::clone(time),
                due_ms: whole_ms(at),
                timer: None,
            }),
            Self::Real(started) => {
                Sleep::Real(Box::pin(tokio::time::sleep_until(*started + at.min(NEVER))))
            }
        }
    }

    /// The true time of an instant of tokio's, where time is tokio's.
    pub(crate) fn of(&self, instant: Instant) -> Option<Duration> {
        match self {
            Self::Virtual(_) => None,
            Self::Real(started) => Some(instant.saturating_duration_since(*started)),
        }
    }

    /// Virtual time goes on to what is due next, whose sleepers wake up; false if nothing is.
    pub(crate) fn pass(&self) -> bool {
        match self {
            Self::Virtual(time) => time.pass(),
            Self::Real(_) => false,
        }
    }
}

/// As good as never: a hundred years.
const NEVER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// The end of the millisecond in which this is.
fn whole_ms(at: Duration) -> u64 {
    u64::try_from(at.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Time that does not pass by itself, with those who wait for it.
#[derive(Debug, Default)]
pub(crate) struct Virtual {
    now_ms: AtomicU64,
    timers: Mutex<Timers>,
}

#[derive(Debug, Default)]
struct Timers {
    /// A few, in the order in which they were set.
    set: Vec<Timer>,
    /// How many have ever been.
    count: u64,
    /// Empty between turns, kept for its room.
    fired: Vec<Waker>,
}

#[derive(Debug)]
struct Timer {
    id: u64,
    due_ms: u64,
    waker: Waker,
}

impl Virtual {
    fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::Relaxed)
    }

    fn pass(&self) -> bool {
        let mut fired = {
            let mut timers = held(&self.timers);
            let Some(next_ms) = timers.set.iter().map(|timer| timer.due_ms).min() else {
                return false;
            };
            self.now_ms.store(next_ms, Ordering::Relaxed);
            let Timers { set, fired, .. } = &mut *timers;
            let due = set.extract_if(.., |timer| timer.due_ms == next_ms);
            fired.extend(due.map(|timer| timer.waker));
            std::mem::take(fired)
        };
        // Who wakes up may look at the time: not under the lock.
        fired.drain(..).for_each(Waker::wake);
        held(&self.timers).fired = fired;
        true
    }
}

impl TimeSource for TrueTime {
    fn now(&self) -> Duration {
        Self::now(self)
    }

    fn sleep_until(&self, at: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(Self::sleep_until(self, at))
    }
}

/// Waits for a time.
#[derive(Debug)]
pub(crate) enum Sleep {
    Virtual(Nap),
    Real(Pin<Box<tokio::time::Sleep>>),
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match self.get_mut() {
            Self::Virtual(nap) => nap.poll(cx),
            Self::Real(sleep) => sleep.as_mut().poll(cx),
        }
    }
}

/// Waits for a virtual time.
#[derive(Debug)]
pub(crate) struct Nap {
    time: Arc<Virtual>,
    due_ms: u64,
    /// The number of its timer, if it has one.
    timer: Option<u64>,
}

impl Nap {
    fn poll(&mut self, cx: &Context<'_>) -> Poll<()> {
        if self.due_ms <= self.time.now_ms() {
            self.timer = None; // it has fired
            return Poll::Ready(());
        }
        let mut timers = held(&self.time.timers);
        let waker = cx.waker();
        match self.timer {
            Some(id) => {
                let mut set = timers.set.iter_mut();
                if let Some(timer) = set.find(|timer| timer.id == id) {
                    timer.waker.clone_from(waker);
                }
            }
            None => {
                timers.count += 1;
                let id = timers.count;
                self.timer = Some(id);
                timers.set.push(Timer {
                    id,
                    due_ms: self.due_ms,
                    waker: waker.clone(),
                });
            }
        }
        Poll::Pending
    }
}

impl Drop for Nap {
    fn drop(&mut self) {
        let Some(id) = self.timer else { return };
        let timer = {
            let mut timers = held(&self.time.timers);
            let at = timers.set.iter().position(|timer| timer.id == id);
            at.map(|at| timers.set.remove(at))
        };
        drop(timer); // the last hold on a task may be its waker
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Wake;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[derive(Default)]
    struct Count(AtomicU64);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn is_over(sleep: &mut Sleep, wakes: &Arc<Count>) -> bool {
        let waker = Waker::from(Arc::clone(wakes));
        let mut cx = Context::from_waker(&waker);
        Pin::new(sleep).poll(&mut cx).is_ready()
    }

    #[test]
    fn time_goes_from_one_sleeper_to_the_next_and_ends_with_the_last() {
        let (time, wakes) = (TrueTime::start(true), Arc::<Count>::default());
        let mut sleeps = [MS(30), MS(10), MS(10)].map(|at| time.sleep_until(at));
        for sleep in &mut sleeps {
            assert!(!is_over(sleep, &wakes) && !is_over(sleep, &wakes));
        }
        assert!(time.pass());
        assert_eq!((time.now(), wakes.0.load(Ordering::Relaxed)), (MS(10), 2));
        let over = sleeps.each_mut().map(|sleep| is_over(sleep, &wakes));
        assert_eq!(over, [false, true, true]);
        assert!(time.pass());
        assert_eq!((time.now(), wakes.0.load(Ordering::Relaxed)), (MS(30), 3));
        assert!(!time.pass(), "nobody waits");
        assert!(
            is_over(&mut time.sleep_until(MS(30)), &wakes),
            "it is that late"
        );
    }

    #[test]
    fn who_no_longer_sleeps_holds_up_nobody() {
        let (time, wakes) = (TrueTime::start(true), Arc::<Count>::default());
        let mut early = time.sleep_until(MS(5));
        let mut late = time.sleep_until(Duration::from_nanos(8_000_001));
        assert!(!is_over(&mut early, &wakes) && !is_over(&mut late, &wakes));
        drop(early);
        assert!(time.pass());
        assert_eq!(time.now(), MS(9), "timers know milliseconds");
        assert!(is_over(&mut late, &wakes));
    }

    #[test]
    fn what_comes_first_wakes_first() {
        // Of several that are due at once those that were set first; the scheduler decides who runs.
        struct Note(u8, Arc<Mutex<Vec<u8>>>);
        impl Wake for Note {
            fn wake(self: Arc<Self>) {
                held(&self.1).push(self.0);
            }
        }
        let (time, woken) = (TrueTime::start(true), Arc::<Mutex<Vec<u8>>>::default());
        let mut sleeps = [MS(2), MS(1), MS(2)].map(|at| time.sleep_until(at));
        for (sleep, who) in sleeps.iter_mut().zip(0..) {
            let waker = Waker::from(Arc::new(Note(who, Arc::clone(&woken))));
            let polled = Pin::new(sleep).poll(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
        }
        assert!(time.pass() && time.pass());
        assert_eq!(*held(&woken), [1, 0, 2]);
    }
}
