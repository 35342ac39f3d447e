//! The promises of a lock that its judges need, and the latency of the run without faults.

use std::time::Duration;

/// The terms by which the checkers judge a run. A lock is judged only by the promises that it made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Longest time that a message takes without a fault.
    pub latency: Duration,
    /// Longest time for which the machine did not run the suite. Each bound is longer by this time.
    pub slack: Duration,
    /// The lock waits by itself, and not longer than the caller asked for.
    pub waits: bool,
    /// Longest time until a waiter that can be reached acquires a free lock.
    pub wake: Option<Duration>,
    /// Without faults each call has a definite result.
    pub answers: bool,
    /// A release wakes the waiters at once.
    pub tells: bool,
    /// Longest time for which a subscription and its task may outlive the last waiter.
    pub linger: Duration,
    /// Each process may keep a subscription and its task.
    pub stays_subscribed: bool,
    /// Number of tasks that a process keeps beside it.
    pub kept_tasks: u32,
    /// A successful release does not say that the lock was still held.
    pub releases_silently: bool,
    /// Longest difference between two leases that the lock makes of the same requested lease.
    pub lease_spread: Duration,
    /// A waiting call may be refused before its wait is over.
    pub refuses_early: bool,
    /// Longest pause of a waiter between two requests; `None` if it is an eighth of the lease.
    pub poll: Option<Duration>,
    /// Difference of clock rates that the lock tolerates, in microseconds per second.
    pub drift_ppm: u32,
    /// Longest pause between a failed request and the next attempt.
    pub retry: Duration,
    /// Longest time for which a waiter that stopped asking keeps its place in the queue.
    pub skip: Duration,
    /// Minimum hold: a released lock stays taken until this time after the acquisition was requested.
    pub hold: Duration,
    /// Waiters are granted in the order of their requests.
    pub fair: bool,
    /// Readers that ask later wait behind a waiting writer.
    pub prefers_writers: bool,
    /// The lock renews leases in the background.
    pub renews: bool,
    /// The lock reports the loss of a grant to its holder by the deadline.
    pub signals: bool,
    /// The lock reports the loss at once when another client removes the grant at the server.
    pub notices: bool,
    /// A client has to set up the latch or counter before its first use.
    pub set_up: bool,
    /// A call that was cancelled or failed, and a dropped guard, leave nothing.
    pub tidy: bool,
    /// A counter ends a lease after its first admission, and then starts again.
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
        stays_subscribed: false,
        kept_tasks: 0,
        releases_silently: false,
        lease_spread: Duration::ZERO,
        refuses_early: false,
        poll: None,
        drift_ppm: 0,
        retry: Duration::ZERO,
        skip: Duration::ZERO,
        hold: Duration::ZERO,
        fair: false,
        prefers_writers: false,
        renews: false,
        signals: false,
        notices: false,
        set_up: false,
        tidy: true,
        anew: false,
    };

    /// Returns how late an event on time may be observed.
    #[must_use]
    pub fn timing_tolerance(&self) -> Duration {
        TIMING_TOLERANCE + self.slack
    }

    /// Returns the longest minimum hold, as the clocks of client and server measure it.
    #[must_use]
    pub fn longest_hold(&self) -> Duration {
        if self.hold == Duration::ZERO {
            return Duration::ZERO;
        }
        self.hold + self.hold / 50 + self.timing_tolerance()
    }

    /// Returns the longest time that this number of successive round trips takes.
    #[must_use]
    pub fn round_trips(&self, count: u32) -> Duration {
        self.latency * 2 * count + self.timing_tolerance()
    }
}
