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
    /// The lock stays taken: the same owner has entered it more often than left it. Only from guards that share a grant.
    StillHeld,
    /// No answer that tells. Either Redis failed or was silent: the key may stand until its lease
    /// is over, and its removal goes on in the background. Or the key was gone at the second
    /// attempt, and whether the first one removed it cannot be known. The error is the one of the
    /// first attempt.
    Unknown(NodeError),
}
