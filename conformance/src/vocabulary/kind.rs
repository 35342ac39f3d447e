//! Kinds of locks, and the modes in which a client acquires them.

use serde::{Deserialize, Serialize};

/// What kind of thing is locked, and how many may hold it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// One holder.
    #[default]
    Mutex,
    /// One writer, or any number of readers.
    ReadWrite,
    /// So many permits.
    Semaphore(u32),
    /// A counter that lets the first so many in.
    Admission(u32),
    /// A latch that opens after so many counts.
    Latch(u32),
}

impl Kind {
    /// How all of it is taken, where it is a lock.
    #[must_use]
    pub const fn whole(self) -> Option<Mode> {
        match self {
            Self::Mutex | Self::ReadWrite => Some(Mode::Exclusive),
            Self::Semaphore(permits) => Some(Mode::Permits(permits)),
            Self::Admission(_) | Self::Latch(_) => None,
        }
    }
}

/// How a lock is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// No other client may hold the lock.
    #[default]
    Exclusive,
    /// Other clients may hold the lock too, if they share it.
    Shared,
    /// This number of permits of a semaphore.
    Permits(u32),
}

impl Mode {
    /// True if no other client may hold the lock.
    #[must_use]
    pub const fn is_exclusive(&self) -> bool {
        matches!(self, Self::Exclusive)
    }

    /// The permits that it takes; 0 if it is not the mode of a semaphore.
    #[must_use]
    pub const fn permits(self) -> u32 {
        match self {
            Self::Permits(count) => count,
            Self::Exclusive | Self::Shared => 0,
        }
    }
}

/// A request waits for its reply for a fraction of the lease.
pub const REQUESTS_PER_LEASE: u32 = 6;

/// Fewest requests of a waiter per lease, unless its lock promises another number. For a lock that does not wait by itself, the suite
/// sends these requests.
pub const POLLS_PER_LEASE: u32 = 8;

/// Fewest requests per lease of a client that cleans up, unless its lock promises another pause between two of them.
pub(crate) const CLEAN_UPS_PER_LEASE: u32 = 8;
