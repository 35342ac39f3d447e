//! The deadline that a server's timer waits for, and the wake-up of the timer when there is an
//! earlier one. Knows no runtime: a future or an event loop waits with [`Timer::poll_rearmed`].

use crate::engine::UnixMicros;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// What a server shares with those of its drivers that wait for deadlines.
#[derive(Debug)]
pub(crate) struct Timer {
    /// The deadline that is waited for, in microseconds; `i64::MAX` for none, or until it is known.
    armed: AtomicI64,
    /// Number of wake-ups so far.
    rearmed: AtomicU64,
    /// One place for each waiter.
    wakers: Mutex<Vec<Option<Waker>>>,
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

    /// Makes sure that the drivers wake up no later than `due`.
    pub(crate) fn arm(&self, due: UnixMicros) {
        if due.0 < self.armed.load(Ordering::Acquire) {
            self.rearm();
        }
    }

    /// Wakes every driver, to look at the deadlines again.
    pub(crate) fn rearm(&self) {
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
