//! Effects of a request beyond its caller.

use super::time::UnixMicros;
use crate::engine::conn_id::ConnId;
use crate::engine::peers::cluster::ClusterMessage;
use crate::engine::peers::journal::Unit;
use crate::engine::peers::migration::Migration;
use crate::engine::peers::replication::Address;
use crate::engine::persistence::AppendFsync;
use crate::resp::Reply;
use std::collections::VecDeque;
use std::sync::Arc;

/// Something the driver has to carry out.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Answers a request that was parked.
    Reply {
        /// The connection that waited.
        conn: ConnId,
        /// Its answer.
        reply: Reply,
    },
    /// Sends a connection a frame that answers none of its requests: a message, an invalidation, a line of
    /// MONITOR.
    Push {
        /// The connection that gets it.
        conn: ConnId,
        /// Its frame.
        frame: Reply,
    },
    /// Ends a connection, after what was written to it.
    Close {
        /// The connection.
        conn: ConnId,
    },
    /// The node serves no client until this instant of its own clock; input queues.
    Stall {
        /// Time at which the node continues.
        until: UnixMicros,
    },
    /// Sends a unit that has changed keys to the replicas and the disk.
    Propagate(Arc<Unit>),
    /// Makes the node the replica of another node, or a master (REPLICAOF).
    Follow {
        /// Its master to be; `None` for a node that becomes one.
        master: Option<Address>,
    },
    /// Sends a message to the other nodes of the cluster.
    Cluster(ClusterMessage),
    /// Moves keys to another node (MIGRATE).
    Migrate(Box<Migration>),
    /// Makes a replica the master.
    FailOver {
        /// Which one, if a master hands over; a sentinel chooses one.
        to: Option<Address>,
    },
    /// The node's disk keeps its writes from now on, or no longer (`appendonly`).
    KeepWrites(Option<AppendFsync>),
    /// The node ends (SHUTDOWN).
    Shutdown,
}

/// Effects in the order in which they came about; drained by the driver after each input.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outbox(VecDeque<Effect>);

impl Outbox {
    pub(crate) fn push(&mut self, effect: Effect) {
        self.0.push_back(effect);
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if a connection is about to end. It gets no more frames.
    pub(crate) fn closes(&self, conn: ConnId) -> bool {
        let is_its_end =
            |effect: &Effect| matches!(effect, Effect::Close { conn: of } if *of == conn);
        self.0.iter().any(is_its_end)
    }

    /// The next effect to carry out.
    #[inline]
    pub(crate) fn poll_effect(&mut self) -> Option<Effect> {
        self.0.pop_front()
    }
}
