//! What a node has to say to other nodes, or to its disk.

use super::{SharedNode, lock};
use crate::engine::{Address, ClusterMessage, Migration, Unit};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a node wants to reach other nodes, or its disk.
#[derive(Clone, Debug)]
pub(crate) enum Outgoing {
    Unit(Arc<Unit>),
    /// It shall follow this node, or nobody.
    Follow(Option<Address>),
    /// Something for the other nodes of its cluster.
    Cluster(ClusterMessage),
    /// Keys shall go to another node.
    Migrate(Box<Migration>),
    /// A replica shall take its master's place: this one, or one that a sentinel chooses.
    FailOver(Option<Address>),
    /// Everything that was under way from and to it is lost.
    Crashed,
    /// It runs again.
    Restarted,
}

impl SharedNode {
    /// From now on there are others to speak to.
    pub(crate) fn join_network(&self) {
        self.has_network.store(true, Ordering::Release);
    }

    pub(crate) fn has_outgoing(&self) -> bool {
        self.has_outgoing.load(Ordering::Acquire)
    }

    /// Says something to the other nodes, if there are any.
    pub(super) fn post(&self, outgoing: Outgoing) {
        if !self.has_network.load(Ordering::Acquire) {
            return;
        }
        lock(&self.outgoing).push_back(outgoing);
        self.has_outgoing.store(true, Ordering::Release);
    }

    /// Takes what the node has to say to others.
    #[inline]
    pub(crate) fn take_outgoing(&self) -> VecDeque<Outgoing> {
        if !self.has_outgoing.swap(false, Ordering::AcqRel) {
            return VecDeque::new();
        }
        std::mem::take(&mut *lock(&self.outgoing))
    }
}
