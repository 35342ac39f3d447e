//! The origin of a request.

/// Origin of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A connection.
    Client,
    /// The queue of a transaction.
    Exec,
    /// `redis.call` of a script.
    Script,
    /// A request that waited for a key.
    Retry,
}
