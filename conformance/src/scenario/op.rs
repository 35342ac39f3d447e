//! Operations of an actor.

use crate::vocabulary::Mode;
use serde::{Deserialize, Serialize};

/// An operation of an actor. The player skips an operation that does not apply (a release without a grant, a
/// second acquisition of a lock that is not reentrant) or that the lock does not offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Op {
    /// Acquires the lock if it is free.
    Try {
        /// Mode of the lock.
        #[serde(default, skip_serializing_if = "Mode::is_exclusive")]
        mode: Mode,
    },
    /// Acquires the lock, waiting for it.
    Acquire {
        /// Mode of the lock.
        #[serde(default, skip_serializing_if = "Mode::is_exclusive")]
        mode: Mode,
        /// Longest wait, in milliseconds.
        wait_ms: u64,
    },
    /// Like `Acquire`, but the future is dropped at its k-th poll if it is still pending.
    Cancelled {
        /// Mode of the lock.
        #[serde(default, skip_serializing_if = "Mode::is_exclusive")]
        mode: Mode,
        /// Longest wait, in milliseconds.
        wait_ms: u64,
        /// Number of polls until the drop.
        polls: u32,
    },
    /// Extends the latest grant by the lease.
    Renew,
    /// Like `Renew`, but the future is dropped at its k-th poll.
    CancelledRenew {
        /// Number of polls until the drop.
        polls: u32,
    },
    /// Releases the latest grant.
    Release,
    /// Like `Release`, but the future is dropped at its k-th poll.
    CancelledRelease {
        /// Number of polls until the drop.
        polls: u32,
    },
    /// Drops the guard of the latest grant.
    Drop,
    /// Reads the protected resource and writes it, unless the lease is about to end.
    Access,
    /// Sets up a latch or a stock.
    SetUp,
    /// Asks for a place among the first N.
    Admit,
    /// Asks again, under the name of the latest `Admit`. Skipped if there was none.
    AdmitAgain,
    /// Counts a latch down by one.
    CountDown,
    /// Waits until a latch is at 0.
    Await {
        /// Longest wait, in milliseconds.
        wait_ms: u64,
    },
}

impl Op {
    /// Acquires a mutex if it is free.
    pub const TRY: Self = Self::Try {
        mode: Mode::Exclusive,
    };

    /// Returns the operation that acquires a mutex, waiting for it.
    #[must_use]
    pub const fn acquire(wait_ms: u64) -> Self {
        Self::Acquire {
            mode: Mode::Exclusive,
            wait_ms,
        }
    }

    /// Returns the mode of an acquisition.
    #[must_use]
    pub const fn mode(self) -> Option<Mode> {
        match self {
            Self::Try { mode } | Self::Acquire { mode, .. } | Self::Cancelled { mode, .. } => {
                Some(mode)
            }
            Self::Renew
            | Self::CancelledRenew { .. }
            | Self::Release
            | Self::CancelledRelease { .. }
            | Self::Drop
            | Self::Access
            | Self::SetUp
            | Self::Admit
            | Self::AdmitAgain
            | Self::CountDown
            | Self::Await { .. } => None,
        }
    }

    /// Returns true if the operation releases a grant.
    #[must_use]
    pub const fn gives_back(self) -> bool {
        matches!(
            self,
            Self::Release | Self::CancelledRelease { .. } | Self::Drop
        )
    }

    /// Returns the same operation with mapped durations.
    #[must_use]
    pub fn map_ms(mut self, map: impl Fn(u64) -> u64) -> Self {
        if let Self::Acquire { wait_ms, .. }
        | Self::Cancelled { wait_ms, .. }
        | Self::Await { wait_ms } = &mut self
        {
            *wait_ms = map(*wait_ms);
        }
        self
    }

    /// Returns simpler operations that may fail too, the most similar one first.
    #[must_use]
    pub fn simpler(self) -> Vec<Self> {
        match self {
            Self::Cancelled { mode, wait_ms, .. } => {
                vec![Self::Acquire { mode, wait_ms }, Self::Try { mode }]
            }
            Self::Acquire { mode, .. } => vec![Self::Try { mode }],
            Self::CancelledRenew { .. } => vec![Self::Renew],
            Self::CancelledRelease { .. } | Self::Drop => vec![Self::Release],
            Self::Try { .. }
            | Self::Renew
            | Self::Release
            | Self::Access
            | Self::SetUp
            | Self::Admit
            | Self::CountDown
            | Self::Await { .. } => vec![],
            Self::AdmitAgain => vec![Self::Admit],
        }
    }
}
