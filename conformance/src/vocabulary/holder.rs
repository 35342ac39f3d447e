//! The holders that a server stores, and the tokens by which it tells them apart.

use super::Mode;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The token of a holder with its expiry: the short form of a [`Holder`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The owner's token.
    pub token: Vec<u8>,
    /// The true time at which it expires; `None` if it never does.
    pub expires: Option<Duration>,
}

impl Stored {
    /// True if it is unexpired at a true time.
    #[must_use]
    pub fn lives(&self, at: Duration) -> bool {
        self.gone_at().is_none_or(|gone| at < gone)
    }

    /// The first true time at which it is expired.
    #[must_use]
    pub fn gone_at(&self) -> Option<Duration> {
        gone_at(self.expires)
    }
}

/// Returns the first true time at which a key with this expiry is gone: a server counts whole milliseconds, and a key is expired
/// when now > deadline.
fn gone_at(expires: Option<Duration>) -> Option<Duration> {
    expires.map(|expires| expires + Duration::from_millis(1))
}

/// A holder that a server stores for a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// The token of the grant, or of its owner.
    pub token: Vec<u8>,
    /// The mode in which the lock is held; `None` if the server does not store it.
    pub mode: Option<Mode>,
    /// How often the owner has acquired the lock; `None` if the server does not store it.
    pub depth: Option<u32>,
    /// The true time at which it expires; `None` if it never does.
    pub expires: Option<Duration>,
}

impl Holder {
    /// True if it is unexpired at a true time.
    #[must_use]
    pub fn lives(&self, at: Duration) -> bool {
        self.gone_at().is_none_or(|gone| at < gone)
    }

    /// The first true time at which it is expired.
    #[must_use]
    pub fn gone_at(&self) -> Option<Duration> {
        gone_at(self.expires)
    }
}

impl From<Stored> for Holder {
    fn from(stored: Stored) -> Self {
        Self {
            token: stored.token,
            expires: stored.expires,
            ..Self::default()
        }
    }
}

/// The token that stands for a grant at the servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The bytes that the servers store.
    pub bytes: Vec<u8>,
    /// What the token tells apart.
    pub scope: Scope,
}

/// What a token tells apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Each grant has a token of its own.
    #[default]
    Grant,
    /// All grants of an owner have the same token, as Redisson's `uuid:thread`.
    Owner,
}

impl Token {
    /// The token of one grant.
    #[must_use]
    pub fn of_grant(bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            bytes: bytes.into(),
            scope: Scope::Grant,
        }
    }

    /// The token of an owner, which all its grants share.
    #[must_use]
    pub fn of_owner(bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            bytes: bytes.into(),
            scope: Scope::Owner,
        }
    }
}
