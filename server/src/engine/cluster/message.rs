//! Messages between the nodes of a cluster, and what a node does when it receives one.

use super::{Cluster, Health, Refusal, slot_of};
use crate::engine::pubsub::Space;
use crate::engine::{EncodingHint, Value};
use crate::engine::{Engine, State, UnixMicros, UnixMillis};
use crate::resp::{Blob, ErrorReply, Reply};
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
        }
        self.settle();
    }

    /// The slots of this node's shard.
    fn served(&self) -> BTreeSet<u16> {
        let shard = self.shard(self.me);
        let slots = self.slots_of(shard).into_iter();
        slots.flat_map(|(first, last)| first..=last).collect()
    }

    /// Takes over the members and owners of another map.
    fn adopt(&mut self, other: &Self) {
        self.members.clone_from(&other.members);
        self.owners.clone_from(&other.owners);
        self.epoch = other.epoch;
        self.settle();
    }
}

/// A key with its value and deadline, on its way to another node.
#[derive(Clone, Debug)]
pub(crate) struct KeyTransfer {
    value: Value,
    form: EncodingHint,
    deadline: Option<UnixMillis>,
}

impl KeyTransfer {
    /// Adjusts the deadline for a node whose clock is ahead: the time to live stays the same.
    pub(crate) fn for_clock_ahead_by(mut self, millis: i64) -> Self {
        let shift = |deadline: UnixMillis| UnixMillis(deadline.0.saturating_add(millis));
        self.deadline = self.deadline.map(shift);
        self
    }
}

impl State {
    /// The keys of a slot, including expired ones.
    pub(crate) fn keys_in_slot(&self, slot: u16) -> impl Iterator<Item = &Blob> {
        let db = &self.dbs[0];
        let next = move |at: &mut u32| {
            let found = db.next_used(*at)?;
            *at = found + 1;
            Some(db.key(found))
        };
        let mut at = 0;
        std::iter::from_fn(move || next(&mut at)).filter(move |key| slot_of(key) == slot)
    }

    /// Changes this node's view of the cluster, and applies the consequences.
    pub(crate) fn learn(&mut self, change: &Change) {
        let Some(cluster) = &mut self.cluster else {
            return;
        };
        let shard = cluster.shard(cluster.me);
        let mut lost: Vec<u16> = Vec::new();
        if let Change::Owner { slots, owner } = change
            && *owner != Some(shard)
        {
            let all = slots.iter().flat_map(|(first, last)| *first..=*last);
            lost.extend(all.filter(|slot| cluster.owner(*slot) == Some(shard)));
        }
        let is_master = shard == cluster.me;
        cluster.learn(change);
        if !lost.is_empty() {
            self.leave_slots(&lost, is_master);
        }
        self.redirect_waiters();
    }

    /// Gives up slots: their channels' subscribers are unsubscribed, and their keys deleted
    /// (`cluster.c: removeChannelsInSlot`, `delKeysInSlot`).
    fn leave_slots(&mut self, slots: &[u16], is_master: bool) {
        for channel in self.pubsub.channels(Space::Shard, None) {
            if slots.contains(&slot_of(&channel)) {
                for conn in self.pubsub.listeners_of(Space::Shard, &channel) {
                    self.pubsub.unsubscribe(conn, Space::Shard, &channel);
                    let counts = self.pubsub.counts(conn);
                    if let Some(session) = self.sessions.get_mut(conn) {
                        session.is_subscribed = !counts.is_zero();
                    }
                    let frame = vec![
                        Reply::bulk("sunsubscribe"),
                        Reply::bulk(&channel),
                        Reply::Int(counts.shards as i64),
                    ];
                    self.push(conn, Reply::Push(frame));
                }
            }
        }
        if !is_master {
            return;
        }
        for slot in slots {
            let keys: Vec<Blob> = self.keys_in_slot(*slot).cloned().collect();
            keys.iter().for_each(|key| drop(self.take_key(key)));
        }
    }

    /// Removes a key from database 0, the only one of a cluster node, and returns it.
    fn take_key(&mut self, key: &[u8]) -> Option<KeyTransfer> {
        let slot = self.dbs[0].find(key)?;
        let (form, deadline) = (self.dbs[0].form(slot), self.dbs[0].deadline(slot));
        let value = self.dbs[0].remove(slot);
        self.touched(0, key);
        Some(KeyTransfer {
            value,
            form,
            deadline,
        })
    }

    /// Redirects clients that are blocked on a key which another node serves now (`cluster.c:
    /// clusterRedirectBlockedClientIfNeeded`).
    fn redirect_waiters(&mut self) {
        let Some(cluster) = &self.cluster else {
            return;
        };
        let is_ok = self.is_cluster_ok();
        let refusal = |key: &[u8]| {
            if !is_ok {
                return Some(Refusal::Down);
            }
            let slot = slot_of(key);
            let serves = cluster.importing.contains_key(&slot);
            match cluster.owner(slot) {
                None => Some(Refusal::Unbound),
                Some(owner) if owner == cluster.me || serves => None,
                Some(to) => Some(Refusal::Moved { slot, to }),
            }
        };
        let waiting = self.waiters.list(&self.sessions).into_iter();
        let sent: Vec<_> = waiting
            .filter_map(|one| Some((one.conn, cluster.text(&refusal(one.keys.first()?)?))))
            .collect();
        for (conn, text) in sent {
            self.waiters.remove(conn);
            let error = ErrorReply::new(text);
            self.stats.count_error(&error);
            self.answer(conn, error.into());
        }
    }
}

/// The calls with which `topology/` changes a cluster node.
impl Engine {
    /// Makes the node a member of a cluster, with this index.
    pub(crate) fn join_cluster(&mut self, mut cluster: Cluster, place: usize) {
        let state = self.state_mut();
        cluster.me = place;
        state.cluster = Some(Box::new(cluster));
        state.guards_writes();
    }

    /// Applies a change of the cluster.
    pub(crate) fn learn(&mut self, change: &Change, now: UnixMicros) {
        let state = self.state_mut();
        state.begin(now);
        state.learn(change);
        self.follow_up(now);
    }

    /// Replaces the node's map after it has missed changes.
    pub(crate) fn catch_up(&mut self, with: &Cluster, now: UnixMicros) {
        let state = self.state_mut();
        state.begin(now);
        if let Some(cluster) = &mut state.cluster {
            let (before, was_master) = (cluster.served(), cluster.own().master.is_none());
            cluster.adopt(with);
            let after = cluster.served();
            let lost: Vec<u16> = before.difference(&after).copied().collect();
            let me = cluster.me;
            let kept = |slot: &u16| after.contains(slot) && with.owner(*slot) == Some(me);
            cluster.migrating.retain(|slot, _| kept(slot));
            cluster.importing.retain(|slot, _| !kept(slot));
            state.leave_slots(&lost, was_master);
        }
        state.redirect_waiters();
        self.follow_up(now);
    }

    /// The node that a slot migrates to.
    pub(crate) fn migrates_to(&self, slot: u16) -> Option<usize> {
        let cluster = self.state().cluster.as_ref()?;
        cluster.migrating.get(&slot).copied()
    }

    /// Seed of all randomness on this node.
    pub(crate) fn seed(&self) -> u64 {
        self.state().config.seed
    }

    /// Starts the migration of a slot to another node or from one; ends it with `None`.
    pub(crate) fn set_migration(&mut self, slot: u16, to: Option<usize>, from: Option<usize>) {
        if let Some(cluster) = &mut self.state_mut().cluster {
            for (map, other) in [(&mut cluster.migrating, to), (&mut cluster.importing, from)] {
                match other {
                    Some(other) => map.insert(slot, other),
                    None => map.remove(&slot),
                };
            }
        }
    }

    /// Delivers a message that was published on another node.
    pub(crate) fn deliver_message(
        &mut self,
        space: Space,
        channel: &[u8],
        message: &[u8],
        now: UnixMicros,
    ) {
        let state = self.state_mut();
        state.begin(now);
        state.deliver(space, channel, message);
        self.follow_up(now);
    }

    pub(crate) fn keys_in_slot(&self, slot: u16) -> Vec<Blob> {
        self.state().keys_in_slot(slot).cloned().collect()
    }

    /// Removes a key and returns it, as MIGRATE does after a successful transfer.
    pub(crate) fn take_key(&mut self, key: &[u8], now: UnixMicros) -> Option<KeyTransfer> {
        let state = self.state_mut();
        state.begin(now);
        let transfer = state.take_key(key);
        self.follow_up(now);
        transfer
    }

    /// Adds a key that was removed on another node.
    pub(crate) fn put_key(&mut self, key: &[u8], transfer: KeyTransfer, now: UnixMicros) {
        let state = self.state_mut();
        state.begin(now);
        let KeyTransfer {
            value,
            form,
            deadline,
        } = transfer;
        state.dbs[0].put(key, value, form, deadline);
        state.touched(0, key);
        self.follow_up(now);
    }
}
