//! Tasks that change the network or its nodes, and that wait until the nodes are locked.

use crate::engine::Claim;

/// A task that is carried out as soon as the nodes are locked.
#[derive(Clone, Debug)]
pub(super) enum Task {
    /// Makes a node the replica of another, or a master.
    Follow { node: usize, master: Option<usize> },
    /// Ends the sessions of the clients of a node that sentinels have given another role.
    EndSessions { node: usize },
    /// A link was cut or restored.
    Links,
    /// A split began or was healed.
    Sides,
    /// Makes a replica the master. Its former master and the other replicas follow it.
    FailOver { to: usize },
    /// A task of the cluster.
    Cluster(ClusterTask),
}

/// A change of the cluster that a test or a node requests.
#[derive(Clone, Debug)]
pub(crate) enum ClusterTask {
    /// A node claims a change.
    Claim {
        from: usize,
        claim: Claim,
    },
    /// A node was restarted after a crash.
    Restarted {
        node: usize,
    },
    /// A node receives no more changes.
    Exclude {
        node: usize,
    },
    /// A slot moves to a master, with all its keys.
    Move {
        slot: u16,
        to: usize,
    },
    Begin {
        slot: u16,
        to: usize,
    },
    Key {
        key: Vec<u8>,
    },
    Finish {
        slot: u16,
    },
    Cancel {
        slot: u16,
    },
}
