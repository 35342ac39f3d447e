//! What an actor can do.

use crate::history::Mode;
use serde::{Deserialize, Serialize};

/// What an actor can do. What makes no sense in its state (releasing without a grant, acquiring
/// with one a lock that nobody may take twice) is skipped, and so is what its lock does not offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Op {
    /// Takes the lock if it is free.
    Try {
        /// How.
        #[serde(default, skip_serializing_if = "Mode::is_exclusive")]
        mode: Mode,
    },
    /// Takes the lock, waiting for it.
    Acquire {
        /// How.
        #[serde(default, skip_serializing_if = "Mode::is_exclusive")]
        mode: Mode,
        /// The longest wait in milliseconds.
        wait_ms: u64,
    },
    /// Like `Acquire`, but the future is dropped at its k-th poll, if it gets there.
    Cancelled {
        /// How.
        #[serde(default, skip_serializing_if = "Mode::is_exclusive")]
        mode: Mode,
        /// The longest wait in milliseconds.
        wait_ms: u64,
        /// How often the future is polled at most.
        polls: u32,
    },
    /// Extends the latest grant by the lease.
    Renew,
    /// Like `Renew`, but the future is dropped at its k-th poll.
    CancelledRenew {
        /// How often the future is polled at most.
        polls: u32,
    },
    /// Gives the latest grant back.
    Release,
    /// Like `Release`, but the future is dropped at its k-th poll.
    CancelledRelease {
        /// How often the future is polled at most.
        polls: u32,
    },
    /// Drops the guard of the latest grant.
    Drop,
    /// Reads the protected resource and writes it, unless the lease is about to end.
    Access,
    /// Sets a latch or a stock up.
    SetUp,
    /// Asks to be among the first N.
    Admit,
    /// Asks for the same once more, under the name under which it asked last. Skipped if it did not.
    AdmitAgain,
    /// Counts a latch down by one.
    CountDown,
    /// Waits until a latch stands at 0.
    Await {
        /// The longest wait in milliseconds.
        wait_ms: u64,
    },
}

impl Op {
    /// Takes a mutex if it is free.
    pub const TRY: Self = Self::Try {
        mode: Mode::Exclusive,
    };

    /// Takes a mutex, waiting for it.
    #[must_use]
    pub const fn acquire(wait_ms: u64) -> Self {
        Self::Acquire {
            mode: Mode::Exclusive,
            wait_ms,
        }
    }

    /// How it takes the lock, if it does.
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

    /// Whether it gives a grant back.
    #[must_use]
    pub const fn gives_back(self) -> bool {
        matches!(
            self,
            Self::Release | Self::CancelledRelease { .. } | Self::Drop
        )
    }

    /// The same with other durations.
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

    /// Simpler operations that may do as well, the nearest one first.
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
