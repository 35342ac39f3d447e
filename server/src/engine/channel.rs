//! Kinds of channels.

/// Kinds of subscriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Channel,
    Pattern,
    Shard,
}

impl Space {
    pub(crate) fn is_shard(self) -> bool {
        self == Self::Shard
    }

    /// The first word of the confirmations, and of a message.
    pub(crate) fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Channel => ("subscribe", "unsubscribe", "message"),
            Self::Pattern => ("psubscribe", "punsubscribe", "pmessage"),
            Self::Shard => ("ssubscribe", "sunsubscribe", "smessage"),
        }
    }
}
