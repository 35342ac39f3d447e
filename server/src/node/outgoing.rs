//! Messages from a node to other nodes.

use super::{SharedNode, lock};
use crate::engine::{Address, ClusterMessage, Migration, Unit};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A message from a node to the network of its deployment.
#[derive(Clone, Debug)]
pub(crate) enum Outgoing {
    /// A unit for the replicas.
    Unit(Arc<Unit>),
    /// The node becomes the replica of this node, or a master.
    Follow(Option<Address>),
    /// A message for the other nodes of its cluster.
    Cluster(ClusterMessage),
    /// Moves keys to another node.
    Migrate(Box<Migration>),
    /// Makes a replica the master: this one, or one that a sentinel chooses.
    FailOver(Option<Address>),
    /// The node serves no client for a while (DEBUG SLEEP).
    FellAsleep,
    /// The node has crashed: messages on their way from and to it are lost.
    Crashed,
    /// The node runs again.
    Restarted,
}

impl SharedNode {
    /// Sends messages from now on: there are other nodes.
    pub(crate) fn join_network(&self) {
        self.has_network.store(true, Ordering::Release);
    }

    pub(crate) fn has_outgoing(&self) -> bool {
        self.has_outgoing.load(Ordering::Acquire)
    }

    /// Sends a message to the other nodes, if there are any.
    pub(super) fn post(&self, outgoing: Outgoing) {
        if !self.has_network.load(Ordering::Acquire) {
            return;
        }
        lock(&self.outgoing).push_back(outgoing);
        self.has_outgoing.store(true, Ordering::Release);
    }

    /// Takes the messages to other nodes.
    #[inline]
    pub(crate) fn take_outgoing(&self) -> VecDeque<Outgoing> {
        if !self.has_outgoing.swap(false, Ordering::AcqRel) {
            return VecDeque::new();
        }
        std::mem::take(&mut *lock(&self.outgoing))
    }
}
