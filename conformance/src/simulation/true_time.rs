//! True time: time since the start of a run. Virtual time stands still while a task is ready and then moves
//! to the next timer; real time is tokio's.

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

/// The clock of a run. Clones are cheap and share it.
#[derive(Clone, Debug)]
pub(crate) enum TrueTime {
    Virtual(Arc<Virtual>),
    /// Real time since this instant.
    Real(Instant),
}

impl TrueTime {
    /// Starts a clock, in virtual or real time.
    pub(crate) fn start(is_virtual: bool) -> Self {
        if is_virtual {
            Self::Virtual(Arc::default())
        } else {
            Self::Real(Instant::now())
        }
    }

    /// Returns the time since the start.
    pub(crate) fn now(&self) -> Duration {
        match self {
            Self::Virtual(time) => Duration::from_millis(time.now_ms()),
            Self::Real(started) => started.elapsed(),
        }
    }

    /// Returns the time since the start in whole milliseconds.
    pub(crate) fn now_ms(&self) -> u64 {
        match self {
            Self::Virtual(time) => time.now_ms(),
            Self::Real(started) => u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Completes at a true time, or up to a millisecond later.
    pub(crate) fn sleep_until(&self, at: Duration) -> Sleep {
        match self {
            Self::Virtual(time) => Sleep::Virtual(Nap {
                time: Arc::clone(time),
                due_ms: whole_ms(at),
                timer: None,
                has_yielded: false,
            }),
            Self::Real(started) => {
                Sleep::Real(Box::pin(tokio::time::sleep_until(*started + at.min(NEVER))))
            }
        }
    }

    /// Returns the true time of an instant of tokio's, if true time follows tokio's clock.
    pub(crate) fn of(&self, instant: Instant) -> Option<Duration> {
        match self {
            Self::Virtual(_) => None,
            Self::Real(started) => Some(instant.saturating_duration_since(*started)),
        }
    }

    /// Moves virtual time to the next timers and wakes their sleepers; false if there is no timer.
    pub(crate) fn pass(&self) -> bool {
        match self {
            Self::Virtual(time) => time.pass(),
            Self::Real(_) => false,
        }
    }
}

/// Practically never: a hundred years.
const NEVER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Returns the end of the millisecond that contains `at`.
fn whole_ms(at: Duration) -> u64 {
    u64::try_from(at.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Number of sleeps that are over when they begin after which one lets the other tasks run. So a task that sleeps until a time
/// in the past, again and again, does not keep its thread for ever, and its steps are counted.
const OVER_AT_ONCE_MAX: u64 = 128;

/// Virtual time and its timers.
#[derive(Debug, Default)]
pub(crate) struct Virtual {
    now_ms: AtomicU64,
    /// Number of sleeps that were over when they began, since time last passed.
    over_at_once: AtomicU64,
    timers: Mutex<Timers>,
}

#[derive(Debug, Default)]
struct Timers {
    /// A few timers, in the order in which they were set.
    set: Vec<Timer>,
    /// Number of timers so far.
    count: u64,
    /// Empty between turns; its allocation is reused.
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
            self.over_at_once.store(0, Ordering::Relaxed);
            let Timers { set, fired, .. } = &mut *timers;
            let due = set.extract_if(.., |timer| timer.due_ms == next_ms);
            fired.extend(due.map(|timer| timer.waker));
            std::mem::take(fired)
        };
        // A woken task may read the time, so wake it without the lock.
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

/// A future that completes at a time.
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

/// A future that completes at a virtual time.
#[derive(Debug)]
pub(crate) struct Nap {
    time: Arc<Virtual>,
    due_ms: u64,
    /// Number of its timer, if it has one.
    timer: Option<u64>,
    /// True if it was over when it began, and has let the other tasks run.
    has_yielded: bool,
}

impl Nap {
    fn poll(&mut self, cx: &Context<'_>) -> Poll<()> {
        if self.due_ms <= self.time.now_ms() {
            let fired = self.timer.take().is_some();
            if !fired && !self.has_yielded {
                let before = self.time.over_at_once.fetch_add(1, Ordering::Relaxed);
                self.has_yielded = (before + 1).is_multiple_of(OVER_AT_ONCE_MAX);
                if self.has_yielded {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
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
        drop(timer); // its waker may hold the last reference to a task
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
        assert!(!time.pass(), "no timer is left");
        assert!(
            is_over(&mut time.sleep_until(MS(30)), &wakes),
            "up to a millisecond late"
        );
    }

    #[test]
    fn a_dropped_sleeper_does_not_stop_time() {
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
    fn earlier_timers_wake_first() {
        // Of several timers at one time, those set first wake first; the scheduler decides which task runs.
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
