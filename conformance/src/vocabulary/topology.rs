//! The servers that a lock runs on, and what a backend can do to them.

use serde::{Deserialize, Serialize};

/// The servers that a lock runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Topology {
    /// Independent servers: at least 1, at most 64.
    Nodes(u8),
    /// A master with replicas. Clients connect to one address, which leads to the master.
    Replicated {
        /// Number of replicas, at least 1.
        replicas: u8,
    },
}

impl Default for Topology {
    fn default() -> Self {
        Self::ONE
    }
}

impl Topology {
    /// One server.
    pub const ONE: Self = Self::Nodes(1);

    /// Returns true for one server without replicas.
    #[must_use]
    pub fn is_one(&self) -> bool {
        *self == Self::ONE
    }

    /// Returns the number of addresses that clients connect to.
    #[must_use]
    pub const fn addresses(self) -> u8 {
        match self {
            Self::Nodes(count) => count,
            Self::Replicated { .. } => 1,
        }
    }

    /// Returns the number of servers.
    #[must_use]
    pub const fn servers(self) -> u8 {
        match self {
            Self::Nodes(count) => count,
            Self::Replicated { replicas } => 1 + replicas,
        }
    }

    /// Returns the capability that a backend needs for these servers.
    #[must_use]
    pub const fn needs(self) -> Option<Capability> {
        match self {
            Self::Nodes(0 | 1) => None,
            Self::Nodes(_) => Some(Capability::SeveralNodes),
            Self::Replicated { .. } => Some(Capability::Replicas),
        }
    }
}

/// Capability of a backend that a scenario may need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capability {
    /// Several independent servers.
    SeveralNodes,
    /// A master with replicas, and failovers.
    Replicas,
    /// Killing and restarting a server.
    NodeCrash,
    /// Error replies in place of a server's.
    ErrorReplies,
    /// Flushing a server's scripts, and evicting a key.
    Forgetting,
    /// Setting a server's clock, and changing its rate.
    NodeClock,
    /// Pausing a client.
    ClientPause,
    /// Changing the rate of a client's clock, and stopping it.
    ClientClock,
    /// Setting a client's wall clock.
    ClientWallClock,
}

impl Capability {
    /// Returns a description of the capability.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SeveralNodes => "several nodes",
            Self::Replicas => "replicas",
            Self::NodeCrash => "killing a node",
            Self::ErrorReplies => "error replies",
            Self::Forgetting => "forgetting",
            Self::NodeClock => "moving a node's clock",
            Self::ClientPause => "pausing a client",
            Self::ClientClock => "moving a client's clock",
            Self::ClientWallClock => "setting a client's wall clock",
        }
    }
}
