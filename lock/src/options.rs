//! The options of a lock, with their defaults and limits. They know no lock, builder or guard.

use crate::{
    error::LockError,
    lease::Lease,
    observe::Observer,
    retry::{self, LONGEST_RECHECK},
};
use std::{sync::Arc, time::Duration};

pub(crate) use crate::retry::Pauses;

/// The shortest first pause, and the longest one after a failure.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// How long a call waits for the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// It takes the first answer.
    Not,
    /// It begins no request after this time.
    AtMost(Duration),
    /// As long as other clients hold the lock; but no longer than one lease without any reply.
    Forever,
}

/// What a lock was built with.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) lease: Duration,
    pub(crate) watchdog: bool,
    pub(crate) drift_ppm: u32,
    pub(crate) safety_margin: Duration,
    pub(crate) reply_timeout: Duration,
    pub(crate) wait: Option<Duration>,
    pub(crate) max_poll_interval: Option<Duration>,
    pub(crate) poll: Option<Pauses>,
    pub(crate) retry: Option<Pauses>,
    pub(crate) replicas: u32,
    pub(crate) hold_at_least: Duration,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) metadata: Option<Arc<[u8]>>,
    pub(crate) track_key: bool,
    pub(crate) observer: Observer,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            watchdog: false,
            drift_ppm: 10_000,
            safety_margin: Duration::from_millis(2),
            reply_timeout: Duration::from_millis(500),
            wait: None,
            max_poll_interval: None,
            poll: None,
            retry: None,
            replicas: 0,
            hold_at_least: Duration::ZERO,
            max_hold: None,
            metadata: None,
            track_key: false,
            observer: Observer::default(),
        }
    }
}

impl Options {
    /// How long a waiter counts as alive after it has asked: the longest pause until it asks again, and two reply
    /// timeouts, since the request may be repeated once. The lease plays no part: the waiter sleeps while another
    /// holder's lease runs.
    pub(crate) fn patience(&self) -> Duration {
        let retry = self.retrying().longest;
        match retry > Pauses::RETRY.longest {
            true => retry.saturating_add(self.reply_timeout * 2),
            false => self.look_patience(),
        }
    }

    /// The same for a waiter whose requests do not fail: at most a second and two reply timeouts.
    pub(crate) fn look_patience(&self) -> Duration {
        let look = retry::longest_pause(self.max_poll_interval).max(self.polling().longest);
        look.saturating_add(self.reply_timeout * 2)
    }

    /// How long a call waits that does not say so itself.
    pub(crate) fn wait(&self) -> Wait {
        self.wait.map_or(Wait::Forever, Wait::AtMost)
    }

    /// The pauses of a waiter that nothing wakes.
    pub(crate) fn polling(&self) -> Pauses {
        let by_default = || Pauses::of_a_poll(self.max_poll_interval);
        self.poll.unwrap_or_else(by_default)
    }

    /// The pauses after failures.
    pub(crate) fn retrying(&self) -> Pauses {
        let longest = retry::longest_pause(self.max_poll_interval);
        self.retry.unwrap_or_else(|| Pauses::RETRY.at_most(longest))
    }

    /// Checks everything, and returns the lease of a new grant.
    pub(crate) fn checked(&self) -> Result<Lease, LockError> {
        let polling = self.poll.iter().map(|pauses| (pauses, LONGEST_RECHECK));
        let retrying = self.retry.iter().map(|pauses| (pauses, LONGEST_RETRY));
        for (&Pauses { first, longest }, limit) in polling.chain(retrying) {
            if first < SHORTEST_PAUSE || longest < first || longest > limit {
                return Err(LockError::InvalidPauses {
                    first,
                    longest,
                    limit,
                });
            }
        }
        self.lease(self.lease)
    }

    /// Checks a lease against the drift and the safety margin.
    pub(crate) fn lease(&self, lease: Duration) -> Result<Lease, LockError> {
        Lease::new(lease, self.drift_ppm, self.safety_margin)
    }
}
