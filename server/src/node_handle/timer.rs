//! The deadline that a server's timer waits for, and the wake-up of the timer when there is an
//! earlier one. Knows no runtime: a future or an event loop waits with [`Timer::poll_rearmed`].

use crate::engine::UnixMicros;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

/// State that a server shares with its drivers that wait for deadlines.
#[derive(Debug)]
pub(crate) struct Timer {
    /// The deadline that is waited for, in microseconds; `i64::MAX` for none, or until it is known.
    armed: AtomicI64,
    /// Number of wake-ups so far.
    rearmed: AtomicU64,
    /// One place for each waiter.
    wakers: Mutex<Vec<Option<Waker>>>,
    /// Wakes the event loop, if that is the timer; the drivers then wait for nothing.
    event_loop: OnceLock<Waker>,
}

/// The registration of one driver at a [`Timer`].
#[derive(Debug)]
pub(crate) struct TimerWaiter {
    place: usize,
    /// Number of wake-ups that the driver has seen.
    seen: u64,
}

impl Default for Timer {
    fn default() -> Self {
        Self {
            armed: AtomicI64::new(i64::MAX),
            rearmed: AtomicU64::new(0),
            wakers: Mutex::default(),
            event_loop: OnceLock::new(),
        }
    }
}

impl Timer {
    pub(crate) fn register(&self) -> TimerWaiter {
        let mut wakers = self.wakers();
        wakers.push(None);
        TimerWaiter {
            place: wakers.len() - 1,
            seen: self.rearmed.load(Ordering::Acquire),
        }
    }

    /// Makes sure that the timer wakes up no later than `due`.
    #[inline]
    pub(crate) fn arm(&self, due: UnixMicros) {
        if due.0 < self.armed.load(Ordering::Acquire) {
            self.rearm();
        }
    }

    /// From now on the event loop that this wakes is the timer.
    pub(crate) fn leave_to_event_loop(&self, waker: Waker) {
        self.event_loop.get_or_init(|| waker);
        self.rearm();
    }

    /// The deadline that the event loop waits for, if it is the timer.
    #[inline]
    pub(crate) fn event_loop_due(&self) -> Option<UnixMicros> {
        self.event_loop.get()?;
        Some(UnixMicros(self.armed.load(Ordering::Acquire)))
    }

    /// Called by the event loop before it looks for the next deadline.
    pub(crate) fn forget_due(&self) {
        self.armed.store(i64::MAX, Ordering::Release);
    }

    /// Called by the event loop: makes sure that the timer fires no later than `due`.
    #[inline]
    pub(crate) fn lower(&self, due: UnixMicros) {
        if due.0 >= self.armed.load(Ordering::Acquire) {
            return;
        }
        if self.event_loop.get().is_some() {
            self.armed.fetch_min(due.0, Ordering::AcqRel);
        } else {
            self.rearm();
        }
    }

    /// Returns true if the event loop is the timer, so that a driver waits for nothing but the end.
    pub(crate) fn is_left_to_event_loop(&self, waiter: &mut TimerWaiter) -> bool {
        let Some(event_loop) = self.event_loop.get() else {
            return false;
        };
        waiter.seen = self.rearmed.load(Ordering::Acquire);
        // What this driver has armed, the event loop finds out anew.
        self.armed.store(i64::MIN, Ordering::Release);
        event_loop.wake_by_ref();
        true
    }

    /// Wakes the timer, to look at the deadlines again.
    pub(crate) fn rearm(&self) {
        if let Some(event_loop) = self.event_loop.get() {
            self.armed.store(i64::MIN, Ordering::Release);
            event_loop.wake_by_ref();
        }
        self.rearmed.fetch_add(1, Ordering::AcqRel);
        let wakers: Vec<Waker> = self.wakers().iter_mut().filter_map(Option::take).collect();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Called by a driver before it looks for the next deadline: from here on every deadline that is
    /// armed wakes it.
    pub(crate) fn prepare(&self, waiter: &mut TimerWaiter) {
        waiter.seen = self.rearmed.load(Ordering::Acquire);
        self.armed.store(i64::MAX, Ordering::Release);
    }

    /// Called by a driver when it knows the deadline that it is going to wait for.
    pub(crate) fn wait_for(&self, due: Option<UnixMicros>) {
        let due = due.map_or(i64::MAX, |due| due.0);
        self.armed.store(due, Ordering::Release);
    }

    /// Ready if there was a wake-up since [`Timer::prepare`].
    pub(crate) fn poll_rearmed(&self, waiter: &TimerWaiter, cx: &Context<'_>) -> Poll<()> {
        let mut wakers = self.wakers();
        // Read under the lock: a wake-up that comes later finds the waker.
        if self.rearmed.load(Ordering::Acquire) != waiter.seen {
            return Poll::Ready(());
        }
        wakers[waiter.place] = Some(cx.waker().clone());
        Poll::Pending
    }

    fn wakers(&self) -> MutexGuard<'_, Vec<Option<Waker>>> {
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
