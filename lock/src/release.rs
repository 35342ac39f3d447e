//! The outcome of a release.

use crate::error::NodeError;

/// The outcome of a release.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "this tells whether the lock was held to the end"]
#[non_exhaustive]
pub enum Release {
    /// The guard held the lock until now, and the lock is free.
    Released,
    /// The lock was lost before: its lease had run out, or another client had removed the key. Another
    /// client may have held it meanwhile.
    AlreadyLost,
    /// The owner still holds the lock: it acquired the lock more often than it released it. Only guards that share a grant
    /// return this.
    StillHeld,
    /// The outcome is unknown. Either Redis failed or did not reply: the key may stay until its lease
    /// ends, and the guard goes on removing it in the background. Or the second attempt found no key,
    /// which the first attempt may have removed. The error is the one of the first attempt.
    Unknown(NodeError),
}
