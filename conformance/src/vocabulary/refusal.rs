//! The reasons for which a lock refuses an operation.

/// The reason for which an operation definitely did not happen.
///
/// A subject returns it as an error if it knows that the operation did not happen. Any other error means that the outcome is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Another client holds the lock, all places are taken, or another client has set up the counter.
    #[error("held by another")]
    Contended,
    /// Other clients held the lock for the whole wait.
    #[error("held by others for the whole wait")]
    TimedOut,
    /// The grant was gone already, its lease ended before the reply arrived, or the latch is not set up.
    #[error("the lease is lost")]
    Lost,
    /// The resource has seen the fencing token of a later grant.
    #[error("refused by the resource: a later grant was seen")]
    Fenced,
    /// The lock does not have this operation.
    #[error("the lock does not offer this operation")]
    NotOffered,
    /// Another reason, for instance that the client reached no server.
    #[error("it could not be done")]
    Other,
}
