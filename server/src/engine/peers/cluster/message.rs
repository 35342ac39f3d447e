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
pub(crate) enum Change {
    /// Slots get another owner, or none.
    Owner {
        slots: Vec<(u16, u16)>,
        owner: Option<usize>,
    },
    /// A node becomes a replica, or a master.
    Master {
        node: usize,
        master: Option<usize>,
    },
    Health {
        node: usize,
        health: Health,
    },
    Epoch {
        node: usize,
        epoch: u64,
    },
    /// A node announces another address.
    Announced {
        node: usize,
        announced: Announced,
    },
}

/// A message of a cluster node to the others.
#[derive(Clone, Debug)]
pub struct ClusterMessage(pub(crate) Claim);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The node has changed its own view, and claims the change.
    Changed(Change),
    /// A pub/sub message for the subscribers on all nodes, or on those of the same shard.
    Message {
        space: Space,
        channel: Blob,
        message: Blob,
    },
    /// The node meets the one at this address, and so all that either knows (CLUSTER MEET).
    Meets { with: Address },
    /// The node forgets a member (CLUSTER FORGET).
    Forgets { member: usize },
    /// The node forgets all others (CLUSTER RESET); `is_hard`: its own name too.
    Resets { is_hard: bool },
    /// A replica takes over from its master. `waits`: only after it has received all writes.
    /// `asks`: only with the votes of most masters.
    TakesOver { waits: bool, asks: bool },
}

impl Cluster {
    /// Applies a change to the map.
    pub(crate) fn learn(&mut self, change: &Change) {
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
pub(crate) struct KeyTransfer {
    pub(in crate::engine) value: Value,
    pub(in crate::engine) form: EncodingHint,
    pub(in crate::engine) deadline: Option<UnixMillis>,
}

impl KeyTransfer {
    /// Adjusts the deadline for a node whose clock is ahead: the time to live stays the same.
    pub(crate) fn for_clock_ahead_by(mut self, millis: i64) -> Self {
        let shift = |deadline: UnixMillis| UnixMillis(deadline.0.saturating_add(millis));
        self.deadline = self.deadline.map(shift);
        self
    }
}
