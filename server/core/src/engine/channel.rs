//! Kinds of channels.

/// Kinds of subscriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// A channel.
    Channel,
    /// All channels that match a pattern.
    Pattern,
    /// A channel of one shard.
    Shard,
}

impl Space {
    /// True if only the nodes of one shard see the messages.
    pub fn is_shard(self) -> bool {
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
