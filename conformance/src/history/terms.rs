//! Promises of a lock that decide how checkers judge it, and the latency of the network without faults.

use std::time::Duration;

/// Terms on which checkers judge a run. They do not judge a lock by a promise that it does not make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Longest time that a message takes, without faults.
    pub latency: Duration,
    /// Time for which the machine did not run the suite. Checkers add it to every time bound.
    pub slack: Duration,
    /// The lock waits by itself, and no longer than the caller asks.
    pub waits: bool,
    /// Time within which a reachable waiter acquires a free lock; `None` if the lock does not promise one.
    pub wake: Option<Duration>,
    /// Without faults every call returns an answer and no error.
    pub answers: bool,
    /// A release wakes waiters at once, and waiters know when a lease ends.
    pub tells: bool,
    /// Time by which a subscription, and the task behind it, may outlive the last waiter.
    pub linger: Duration,
    /// Difference between the longest and the shortest lease that the lock makes of the requested one.
    pub lease_spread: Duration,
    /// Longest pause of a waiter between two requests; `None` if it is an eighth of the lease.
    pub poll: Option<Duration>,
    /// Longest pause between a failed request and the next attempt.
    pub retry: Duration,
    /// Longest time for which a waiter that stopped asking keeps its place in the queue.
    pub skip: Duration,
    /// Time from the request for a grant during which the grant keeps other clients out, even after its release.
    pub hold: Duration,
    /// The lock is granted in queue order.
    pub fair: bool,
    /// Readers that ask later than a waiting writer wait for this writer.
    pub prefers_writers: bool,
    /// The lock extends leases in the background.
    pub renews: bool,
    /// The lock reports the loss of a grant to its holder, by the deadline.
    pub signals: bool,
    /// The lock reports the loss at once if another client removes the grant from the server.
    pub notices: bool,
    /// The lock must be set up before its first use.
    pub set_up: bool,
    /// A counter starts again at zero one lease after its first admission.
    pub anew: bool,
}

/// Timers fire, and keys expire, in whole milliseconds.
const TIMING_TOLERANCE: Duration = Duration::from_millis(2);

impl Terms {
    /// Terms of a lock that promises nothing, with messages that take no time.
    pub const NONE: Self = Self {
        latency: Duration::ZERO,
        slack: Duration::ZERO,
        waits: false,
        wake: None,
        answers: false,
        tells: false,
        linger: Duration::ZERO,
        lease_spread: Duration::ZERO,
        poll: None,
        retry: Duration::ZERO,
        skip: Duration::ZERO,
        hold: Duration::ZERO,
        fair: false,
        prefers_writers: false,
        renews: false,
        signals: false,
        notices: false,
        set_up: false,
        anew: false,
    };

    /// Delay with which an event still counts as on time.
    #[must_use]
    pub fn timing_tolerance(&self) -> Duration {
        TIMING_TOLERANCE + self.slack
    }

    /// Longest time for which a released grant may keep the lock taken, measured with the drift of client and server
    /// clocks.
    #[must_use]
    pub fn longest_hold(&self) -> Duration {
        if self.hold == Duration::ZERO {
            return Duration::ZERO;
        }
        self.hold + self.hold / 50 + self.timing_tolerance()
    }

    /// Longest time that `count` requests with their replies take, one after the other.
    #[must_use]
    pub fn round_trips(&self, count: u32) -> Duration {
        self.latency * 2 * count + self.timing_tolerance()
    }
}
