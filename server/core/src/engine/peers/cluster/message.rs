//! Messages between the nodes of a cluster, and what a node does when it receives one.

use super::{Announced, Cluster, Health};
use crate::engine::channel::Space;
use crate::engine::peers::replication::Address;
use crate::engine::time::UnixMillis;
use crate::engine::value::{EncodingHint, Value};
use crate::resp::Blob;
use std::collections::BTreeSet;

/// A change of the cluster map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Slots get another owner, or none.
    Owner {
        /// The first and the last slot of each range.
        slots: Vec<(u16, u16)>,
        /// Index of the new owner.
        owner: Option<usize>,
    },
    /// A node becomes a replica, or a master.
    Master {
        /// Index of the node.
        node: usize,
        /// Index of its master; `None` for a master.
        master: Option<usize>,
    },
    /// The nodes see the health of one differently.
    Health {
        /// Index of the node.
        node: usize,
        /// Its health from now on.
        health: Health,
    },
    /// A node gets a new epoch.
    Epoch {
        /// Index of the node.
        node: usize,
        /// Its epoch from now on.
        epoch: u64,
    },
    /// A node announces another address.
    Announced {
        /// Index of the node.
        node: usize,
        /// What it announces from now on.
        announced: Announced,
    },
}

/// A message of a cluster node to the others.
#[derive(Clone, Debug)]
pub struct ClusterMessage(pub Claim);

/// What one node tells the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The node has changed its own view, and claims the change.
    Changed(Change),
    /// A pub/sub message for the subscribers on all nodes, or on those of the same shard.
    Message {
        /// The kind of the channel.
        space: Space,
        /// The name of the channel.
        channel: Blob,
        /// The message, as PUBLISH got it.
        message: Blob,
    },
    /// The node meets the one at this address, and so all that either knows (CLUSTER MEET).
    Meets {
        /// The address of the other node.
        with: Address,
    },
    /// The node forgets a member (CLUSTER FORGET).
    Forgets {
        /// Index of the member.
        member: usize,
    },
    /// The node forgets all others (CLUSTER RESET).
    Resets {
        /// True if it forgets its own name too.
        is_hard: bool,
    },
    /// A replica takes over from its master.
    TakesOver {
        /// True if it first waits for all writes of the master.
        waits: bool,
        /// True if it needs the votes of most masters.
        asks: bool,
    },
}

impl Cluster {
    /// Applies a change to the map.
    pub fn learn(&mut self, change: &Change) {
        match change {
            Change::Owner { slots, owner } => {
                for (first, last) in slots {
                    (*first..=*last).for_each(|slot| self.set_owner(slot, *owner));
                }
            }
            Change::Master { node, master } => {
                self.members[*node].master = *master;
            }
            Change::Health { node, health } => self.members[*node].health = *health,
            Change::Epoch { node, epoch } => {
                self.members[*node].epoch = *epoch;
                self.epoch = self.epoch.max(*epoch);
            }
            Change::Announced { node, announced } => {
                self.members[*node].announced.clone_from(announced);
            }
        }
        self.settle();
    }

    /// The slots of this node's shard.
    pub(in crate::engine) fn served(&self) -> BTreeSet<u16> {
        let shard = self.shard(self.me);
        let slots = self.slots_of(shard).into_iter();
        slots.flat_map(|(first, last)| first..=last).collect()
    }

    /// Takes over the members and owners of another map.
    pub(in crate::engine) fn adopt(&mut self, other: &Self) {
        self.members.clone_from(&other.members);
        self.owners.clone_from(&other.owners);
        self.epoch = other.epoch;
        self.get_to_know(&other.known);
        self.settle();
    }
}

/// A key with its value and deadline, on its way to another node.
#[derive(Clone, Debug)]
pub struct KeyTransfer {
    pub(in crate::engine) value: Value,
    pub(in crate::engine) form: EncodingHint,
    pub(in crate::engine) deadline: Option<UnixMillis>,
}

impl KeyTransfer {
    /// Adjusts the deadline for a node whose clock is ahead: the time to live stays the same.
    pub fn for_clock_ahead_by(mut self, millis: i64) -> Self {
        let shift = |deadline: UnixMillis| UnixMillis(deadline.0.saturating_add(millis));
        self.deadline = self.deadline.map(shift);
        self
    }
}
