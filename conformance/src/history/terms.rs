//! What a lock promised that decides how it is judged, and how slow the world was without any fault.

use std::time::Duration;

/// The terms on which a run is judged. Nobody is judged by a promise that was not made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// A message takes at most so long, faults aside.
    pub latency: Duration,
    /// For how long the machine itself was not there: added to whatever is timed.
    pub slack: Duration,
    /// It waits by itself, and no longer than it was asked to.
    pub waits: bool,
    /// Within which time a waiter that can be reached takes a free lock.
    pub wake: Option<Duration>,
    /// Where nothing is wrong every call has an answer.
    pub answers: bool,
    /// A release tells those who wait, at once.
    pub tells: bool,
    /// A subscription, and the task behind it, may outlive the last waiter by so much.
    pub linger: Duration,
    /// By how much a lease may be shorter than the longest that the lock makes of it.
    pub lease_spread: Duration,
    /// Longest pause of a waiter between two requests; `None` if it is an eighth of the lease.
    pub poll: Option<Duration>,
    /// Longest pause between a failed request and the next attempt.
    pub retry: Duration,
    /// Longest time for which a waiter that stopped asking keeps its place in the queue.
    pub skip: Duration,
    /// A grant that is given back keeps others out until so much time has passed since it was asked for.
    pub hold: Duration,
    /// Whoever asked first is granted first.
    pub fair: bool,
    /// Readers who come later make way for a writer that waits.
    pub prefers_writers: bool,
    /// Leases are extended in the background.
    pub renews: bool,
    /// A holder is told of the loss of its grant, by its deadline.
    pub signals: bool,
    /// It is told at once when others take its grant away at the server.
    pub notices: bool,
    /// It is nothing before somebody has set it up.
    pub set_up: bool,
    /// A counter ends a lease after it has let the first one in, and then begins anew.
    pub anew: bool,
}

/// Timers fire and keys expire in whole milliseconds.
const TIMING_TOLERANCE: Duration = Duration::from_millis(2);

impl Terms {
    /// Nothing is promised, and messages take no time.
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

    /// How late something may be seen that is on time.
    #[must_use]
    pub fn timing_tolerance(&self) -> Duration {
        TIMING_TOLERANCE + self.slack
    }

    /// For how long a release may leave a lock taken, as the clocks of client and server measure it.
    #[must_use]
    pub fn longest_hold(&self) -> Duration {
        if self.hold == Duration::ZERO {
            return Duration::ZERO;
        }
        self.hold + self.hold / 50 + self.timing_tolerance()
    }

    /// The longest time that so many requests take with their replies, one after the other.
    #[must_use]
    pub fn round_trips(&self, count: u32) -> Duration {
        self.latency * 2 * count + self.timing_tolerance()
    }
}
