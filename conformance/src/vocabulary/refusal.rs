//! The reasons that a client is given why an operation did not happen.

/// Why an operation definitely did not happen, as its caller was told.
///
/// A subject returns it as an error to say that it knows: all other errors mean that it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Another holds the lock; the places are taken; another has set it up.
    #[error("held by another")]
    Contended,
    /// Another held the lock for the whole wait.
    #[error("held by others for the whole wait")]
    TimedOut,
    /// The grant was gone already; or its lease was over before it arrived; or the latch is not set up.
    #[error("the lease is lost")]
    Lost,
    /// The resource knows of a later grant.
    #[error("refused by the resource: a later grant was seen")]
    Fenced,
    /// The lock does not have this operation.
    #[error("the lock does not offer this operation")]
    NotOffered,
    /// Something else, for instance that no server could be reached.
    #[error("it could not be done")]
    Other,
}
