//! The errors of locks, as the caller sees them.

use std::{error::Error, fmt, sync::Arc, time::Duration};

/// The reason why a lock was not granted, or is not held any more.
///
/// An outcome that is not known is never reported as a failure: [`LockError::Unknown`] says that
/// the request may have been executed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another client holds the lock, or waits for it and goes first (fair mutexes, preferred writers). Only
    /// from calls that do not wait.
    #[error("the lock is held by another owner")]
    Contended,

    /// Other clients held the lock at each request, until the wait was over.
    #[error("other clients held the lock for all of {waited:?}")]
    TimedOut {
        /// How long the call waited.
        waited: Duration,
    },

    /// The lease was lost; or it was over before the grant arrived, which then was not taken.
    #[error("the lease is lost: {0}")]
    Lost(LossReason),

    /// Redis did not say whether it executed the request. After an acquire the key may stand until
    /// its lease is over; its removal goes on in the background. After an extension the lock is
    /// held as before, until its old deadline or longer.
    #[error("the outcome is unknown")]
    Unknown(#[source] NodeError),

    /// Fewer nodes than a quorum agreed, because the rest failed or were silent. What was granted is given
    /// back; a node that was silent may keep the key until its lease is over. After an extension the lock is held
    /// as before, until its old deadline.
    #[error("no quorum")]
    NoQuorum(#[source] NodeError),

    /// Redis could not be asked, refused the request, or a script failed there. Nothing is left of the request: it was
    /// not executed, or what it may have written is removed again.
    #[error("redis failed")]
    Redis(#[source] NodeError),

    /// The lease is too short or too long: after rounding down to milliseconds and taking off drift
    /// and safety margin at least 1 ms must be left, and it must be at most ten years.
    #[error("a lease of {lease:?} cannot be kept")]
    InvalidLease {
        /// The lease that was asked for.
        lease: Duration,
    },

    /// The pauses of [`poll_pauses`](crate::LockBuilder::poll_pauses) or
    /// [`retry_pauses`](crate::LockBuilder::retry_pauses) are too short, too long, or the longest is shorter than the first.
    #[error(
        "pauses from {first:?} to {longest:?} where 1ms <= first <= longest <= {limit:?} is wanted"
    )]
    InvalidPauses {
        /// The first pause.
        first: Duration,
        /// The longest one.
        longest: Duration,
        /// What the longest may be.
        limit: Duration,
    },

    /// The lock was granted, but fewer replicas than asked for confirmed that they have it; it was given back.
    #[error("{confirmed} of {wanted} replicas have the lock")]
    NotReplicated {
        /// How many were asked for.
        wanted: u32,
        /// How many confirmed in time.
        confirmed: u64,
    },

    /// A grant of another lock than the one that was to adopt it.
    #[error("a grant of another lock")]
    OtherLock,

    /// A semaphore cannot give so many permits, ever; or none were asked for.
    #[error("{permits} permits were asked for, of {capacity}")]
    InvalidPermits {
        /// How many were asked for.
        permits: u32,
        /// How many there are.
        capacity: u32,
    },

    /// A lock of several was asked for, without saying of which.
    #[error("there is nothing to lock")]
    NothingToLock,

    /// A latch was counted down that is not set, or not any more.
    #[error("the latch is not set")]
    NotSet,

    /// There is no runtime for the task that a watchdog, or watching the key, needs; the lock was given back.
    #[error("no runtime to run the watchdog on")]
    NoRuntime,
}

impl LockError {
    /// The error of a call that failed because of this one; `known` if nothing is left of the request.
    pub(crate) fn of_node(error: NodeError, known: bool) -> Self {
        if matches!(error.kind, NodeErrorKind::NoQuorum { .. }) {
            Self::NoQuorum(error)
        } else if known {
            Self::Redis(error)
        } else {
            Self::Unknown(error)
        }
    }

    /// Returns true if the lock was not granted because another client held it, at once
    /// ([`Contended`](Self::Contended)) or for the whole wait ([`TimedOut`](Self::TimedOut)).
    #[must_use]
    pub fn is_contended(&self) -> bool {
        matches!(self, Self::Contended | Self::TimedOut { .. })
    }

    /// Returns true if a wait ended without a grant while other clients held the lock.
    #[must_use]
    pub fn is_timed_out(&self) -> bool {
        matches!(self, Self::TimedOut { .. })
    }

    /// Returns true if the lease is lost for good.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost(_))
    }

    /// Returns true if the request may or may not have been executed.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown(_))
    }

    /// Returns true if the same call may succeed later without a change to the program or to the
    /// server's configuration.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Contended
            | Self::TimedOut { .. }
            | Self::Lost(_)
            | Self::Unknown(_)
            | Self::NotReplicated { .. }
            | Self::NoQuorum(_) => true,
            Self::Redis(error) => error.is_transient(),
            Self::InvalidLease { .. }
            | Self::InvalidPauses { .. }
            | Self::InvalidPermits { .. }
            | Self::NothingToLock
            | Self::NotSet
            | Self::OtherLock
            | Self::NoRuntime => false,
        }
    }
}

/// The reason why a lease was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// Its deadline came without a confirmed extension. The key may stand a little longer.
    Expired,
    /// It was held for as long as [`max_hold`](crate::LockBuilder::max_hold) allows.
    MaxHold,
    /// Redis answered that the key is gone or belongs to another acquisition: it was deleted or
    /// evicted, or the server lost it in a restart or a failover.
    Gone,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its deadline has passed",
            Self::MaxHold => "it was held for as long as is allowed",
            Self::Gone => "the key does not hold our token any more",
        })
    }
}

/// The text is not a [`DetachedLock`](crate::DetachedLock).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the text is not a detached lock")]
pub struct DetachedLockError;

/// A failure of one request to one Redis node.
#[derive(Debug, Clone)]
pub struct NodeError {
    kind: NodeErrorKind,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

/// What became of a request that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeErrorKind {
    /// No connection: the request was not sent.
    Unreachable,
    /// Sent, and not answered in time. May have been executed, and may still be.
    TimedOut,
    /// Sent, and the connection ended before the answer. May have been executed.
    Disconnected,
    /// Answered with something that makes no sense here. May have been executed.
    Protocol,
    /// Answered with an error before anything was executed.
    Refused {
        /// The first word of the answer, such as `LOADING` or `NOPERM`.
        code: String,
    },
    /// A command inside a script answered with an error, which ended the script. What the script had written before
    /// stands.
    RaisedInScript {
        /// The first word of the answer, such as `ERR` or `WRONGTYPE`.
        code: String,
    },
    /// The client refused to send it.
    Client,
    /// Two of several nodes are the same server, whose vote must not count twice.
    SameServer,
    /// Of several nodes, fewer said yes than must.
    NoQuorum {
        /// How many said yes.
        granted: usize,
        /// How many must: more than half of all.
        needed: usize,
    },
}

impl NodeError {
    /// Makes an error without a source.
    #[must_use]
    pub fn new(kind: NodeErrorKind) -> Self {
        Self { kind, source: None }
    }

    /// Adds the error that led to this one, usually the client library's.
    #[must_use]
    pub fn with_source(self, source: impl Error + Send + Sync + 'static) -> Self {
        Self {
            source: Some(Arc::new(source)),
            ..self
        }
    }

    /// Returns what became of the request.
    #[must_use]
    pub fn kind(&self) -> &NodeErrorKind {
        &self.kind
    }

    /// Returns true if the request may have been executed all the same.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        match self.kind {
            NodeErrorKind::TimedOut
            | NodeErrorKind::Disconnected
            | NodeErrorKind::Protocol
            | NodeErrorKind::RaisedInScript { .. } => true,
            NodeErrorKind::Unreachable
            | NodeErrorKind::Refused { .. }
            | NodeErrorKind::Client
            | NodeErrorKind::SameServer
            | NodeErrorKind::NoQuorum { .. } => false,
        }
    }

    /// Returns true if the node may answer the same request later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        /// The states that a server gets over by itself.
        const PASSING: [&str; 12] = [
            "ASK",
            "BUSY",
            "CLUSTERDOWN",
            "LOADING",
            "MASTERDOWN",
            "MISCONF",
            "MOVED",
            "NOREPLICAS",
            "NOSCRIPT",
            "OOM",
            "READONLY",
            "TRYAGAIN",
        ];
        match &self.kind {
            NodeErrorKind::Unreachable
            | NodeErrorKind::TimedOut
            | NodeErrorKind::Disconnected
            | NodeErrorKind::Protocol
            | NodeErrorKind::NoQuorum { .. } => true,
            NodeErrorKind::Refused { code } => PASSING.contains(&code.as_str()),
            NodeErrorKind::RaisedInScript { .. }
            | NodeErrorKind::Client
            | NodeErrorKind::SameServer => false,
        }
    }

    /// Returns true if a node of a cluster answered that the request belongs elsewhere, or not here yet: it was not
    /// executed.
    pub(crate) fn is_redirect(&self) -> bool {
        matches!(&self.kind, NodeErrorKind::Refused { code } if ["ASK", "MOVED", "TRYAGAIN"].contains(&code.as_str()))
    }

    /// The same for an error that answered a script. Before Redis runs a script, and before the first write of one, it
    /// refuses with a code that says so. All other codes come from a command inside the script.
    pub(crate) fn of_script(self) -> Self {
        /// Codes that a script never gets from a command after its first write.
        const BEFORE: [&str; 15] = [
            "ASK",
            "BUSY",
            "CLUSTERDOWN",
            "CROSSSLOT",
            "LOADING",
            "MASTERDOWN",
            "MISCONF",
            "MOVED",
            "NOAUTH",
            "NOPERM",
            "NOREPLICAS",
            "NOSCRIPT",
            "OOM",
            "READONLY",
            "TRYAGAIN",
        ];
        let mut error = self;
        if let NodeErrorKind::Refused { code } = &mut error.kind
            && !BEFORE.contains(&code.as_str())
        {
            let code = std::mem::take(code);
            error.kind = NodeErrorKind::RaisedInScript { code };
        }
        error
    }

    /// Returns true if another connection may do better than the one that this error came from.
    pub(crate) fn spoils_the_connection(&self) -> bool {
        match &self.kind {
            NodeErrorKind::TimedOut | NodeErrorKind::Disconnected | NodeErrorKind::Protocol => true,
            // A master that was demoted: the address may lead to its successor by now.
            NodeErrorKind::Refused { code } => code == "READONLY" || code == "MASTERDOWN",
            NodeErrorKind::Unreachable
            | NodeErrorKind::RaisedInScript { .. }
            | NodeErrorKind::Client
            | NodeErrorKind::SameServer
            | NodeErrorKind::NoQuorum { .. } => false,
        }
    }
}

/// Errors are equal if they are of the same kind; their sources are not compared.
impl PartialEq for NodeError {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

impl Eq for NodeError {}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            NodeErrorKind::Unreachable => f.write_str("redis cannot be reached"),
            NodeErrorKind::TimedOut => f.write_str("redis did not answer in time"),
            NodeErrorKind::Disconnected => f.write_str("the connection ended before the answer"),
            NodeErrorKind::Protocol => f.write_str("redis answered something unexpected"),
            NodeErrorKind::Refused { code } => write!(f, "redis answered {code}"),
            NodeErrorKind::RaisedInScript { code } => write!(f, "a script failed with {code}"),
            NodeErrorKind::NoQuorum { granted, needed } => {
                write!(f, "{granted} nodes agreed where {needed} must")
            }
            NodeErrorKind::SameServer => {
                f.write_str("two of the nodes are the same redis server: one server has one vote")
            }
            NodeErrorKind::Client => f.write_str("the client refused to send the request"),
        }
    }
}

impl Error for NodeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source
            .as_deref()
            .map(|source| source as &(dyn Error + 'static))
    }
}
