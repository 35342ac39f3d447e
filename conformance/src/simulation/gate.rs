//! A gate on a link: some messages pass, later ones wait until the gate opens.

use crate::{
    scenario::{Direction, Fault},
    vocabulary::OpId,
};
use std::{
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    time::Duration,
};
use tokio::sync::Notify;

pub(super) struct Gate {
    from: Duration,
    to: Duration,
    direction: Direction,
    /// Operation whose end opens the gate early.
    until: Option<OpId>,
    /// Number of messages that may still pass.
    left: AtomicU32,
    open: AtomicBool,
    opened: Notify,
}

impl Gate {
    /// Makes the gate of a `Fault::Hold`; `None` for other faults.
    pub(super) fn of(fault: Fault, from: Duration, to: Duration) -> Option<Self> {
        let Fault::Hold {
            direction,
            after,
            until,
            ..
        } = fault
        else {
            return None;
        };
        Some(Self {
            from,
            to,
            direction,
            until,
            left: AtomicU32::new(after),
            open: AtomicBool::new(false),
            opened: Notify::new(),
        })
    }

    /// Returns the time until which a message that is sent now waits; `None` if it passes.
    pub(super) fn holds(&self, direction: Direction, now: Duration) -> Option<Duration> {
        if direction != self.direction || now < self.from || self.to <= now || self.is_open() {
            return None;
        }
        let passes = |left: u32| left.checked_sub(1);
        let passed = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, passes);
        passed.is_err().then_some(self.to)
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// Records the end of an operation; true if it opens the gate.
    pub(super) fn ended(&self, op: OpId) -> bool {
        let opens = self.until == Some(op) && !self.open.swap(true, Ordering::Relaxed);
        if opens {
            self.opened.notify_waiters();
        }
        opens
    }

    /// Waits until the gate opens.
    pub(super) async fn opening(&self) {
        let opened = self.opened.notified();
        if !self.is_open() {
            opened.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    fn gate() -> Gate {
        let fault = Fault::Hold {
            host: 0,
            node: None,
            direction: Direction::Requests,
            after: 2,
            until: Some(7),
        };
        Gate::of(fault, S(10), S(20)).unwrap()
    }

    #[test]
    fn some_pass_and_later_ones_wait_for_the_end() {
        let gate = gate();
        assert_eq!(gate.holds(Direction::Requests, S(9)), None, "too early");
        assert_eq!(gate.holds(Direction::Replies, S(12)), None, "the other way");
        assert_eq!(gate.holds(Direction::Requests, S(12)), None);
        assert_eq!(gate.holds(Direction::Requests, S(12)), None);
        assert_eq!(gate.holds(Direction::Requests, S(13)), Some(S(20)));
        assert_eq!(gate.holds(Direction::Requests, S(20)), None, "it is over");
    }

    #[test]
    fn the_end_of_its_operation_opens_it() {
        let gate = gate();
        assert!(!gate.ended(6));
        assert!(gate.ended(7) && !gate.ended(7));
        (0..3).for_each(|_| assert_eq!(gate.holds(Direction::Requests, S(12)), None));
    }
}
