//! The load under which a lock is measured.

use std::time::Duration;

/// Load of a bench.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Number of clients. The lock sees each as a process of its own.
    pub clients: u8,
    /// Number of tasks of each client. They share its connections, as the tasks of a process do.
    pub tasks: u8,
    /// Number of keys. The clients are spread over them and stay with their key.
    pub keys: u8,
    /// The lease.
    pub lease: Duration,
    /// Shortest time for which a holder holds the lock.
    pub hold: Duration,
    /// Duration of the measurement.
    pub time: Duration,
    /// Cycles per second that all clients together start. Without a rate, each client starts a cycle when its
    /// last one is over.
    pub rate: Option<f64>,
    /// Longest wait of a client for the lock.
    pub wait: Duration,
    /// Interval between two tries of a lock that does not wait by itself.
    pub poll: Duration,
}

impl Default for Load {
    fn default() -> Self {
        Self {
            clients: 16,
            tasks: 1,
            keys: 1,
            lease: Duration::from_secs(10),
            hold: Duration::from_micros(200),
            time: Duration::from_secs(5),
            rate: None,
            wait: Duration::from_secs(10),
            poll: Duration::from_millis(5),
        }
    }
}

impl Load {
    /// Returns the number of all clients' tasks: the callers of the lock.
    #[must_use]
    pub const fn callers(&self) -> u16 {
        self.clients as u16 * self.tasks as u16
    }

    /// Returns the times since the start at which a caller starts its cycles, in an open loop.
    pub(super) fn begins(&self, caller: u16) -> Option<Slots> {
        let every = 1.0 / self.rate?;
        Some(Slots {
            first: every * f64::from(caller),
            every: every * f64::from(self.callers()),
            until: self.time,
        })
    }
}

/// Equal steps of time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slots {
    first: f64,
    every: f64,
    until: Duration,
}

impl Slots {
    /// Returns the n-th time, if it is before the end.
    pub(super) fn nth(&self, n: u64) -> Option<Duration> {
        let at = Duration::try_from_secs_f64(self.first + self.every * n as f64).ok()?;
        (at < self.until).then_some(at)
    }

    /// Returns the number of times before `at`.
    pub(super) fn before(&self, at: Duration) -> u64 {
        let steps = (at.min(self.until).as_secs_f64() - self.first) / self.every;
        steps.ceil().max(0.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_share_the_rate_in_turn() {
        let load = Load {
            clients: 2,
            tasks: 2,
            rate: Some(100.0),
            time: Duration::from_secs(1),
            ..Load::default()
        };
        let slots: Vec<Slots> = (0..4).filter_map(|caller| load.begins(caller)).collect();
        let ms = |at: Option<Duration>| at.map(|at| at.as_millis());
        assert_eq!(ms(slots[0].nth(0)), Some(0));
        assert_eq!(ms(slots[3].nth(0)), Some(30));
        assert_eq!(ms(slots[1].nth(2)), Some(90));
        assert_eq!(slots[1].nth(25), None);
        let all: u64 = slots.iter().map(|it| it.before(load.time)).sum();
        assert_eq!(all, 100);
        assert_eq!(slots[3].before(Duration::from_millis(10)), 0);
        assert!(Load::default().begins(0).is_none());
    }
}
