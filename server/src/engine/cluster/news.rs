//! What nodes of a cluster tell each other, and what a node does when it hears of it.

use super::{Cluster, Health, Refusal, slot_of};
use crate::engine::pubsub::Space;
use crate::engine::{EncodingHint, Value};
use crate::engine::{Engine, State, UnixMicros, UnixMillis};
use crate::resp::{Blob, ErrorReply, Reply};
use std::collections::BTreeSet;

/// A change of the map that all nodes have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Slots have another owner, or none.
    Owner {
        slots: Vec<(u16, u16)>,
        owner: Option<usize>,
    },
    /// A node follows another, or nobody.
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

/// What a node of a cluster has to say to the others.
#[derive(Clone, Debug)]
pub struct News(pub(crate) Claim);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// It has changed its own view; this is what it claims for itself.
    Changed(Change),
    /// A message for whoever listens anywhere, or for those of its shard.
    Message {
        space: Space,
        channel: Blob,
        message: Blob,
    },
    /// It wants to take its master's place: not before it has everything, or at once; by the votes of
    /// most masters, or without.
    TakesOver { waits: bool, asks: bool },
}

impl Cluster {
    /// Changes the map.
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

    /// The slots of its shard.
    fn served(&self) -> BTreeSet<u16> {
        let shard = self.shard(self.me);
        let slots = self.slots_of(shard).into_iter();
        slots.flat_map(|(first, last)| first..=last).collect()
    }

    /// Takes over what another knows of nodes and slots.
    fn adopt(&mut self, other: &Self) {
        self.members.clone_from(&other.members);
        self.owners.clone_from(&other.owners);
        self.epoch = other.epoch;
        self.settle();
    }
}

/// A key on its way from node to node.
#[derive(Clone, Debug)]
pub(crate) struct KeyTransfer {
    value: Value,
    form: EncodingHint,
    deadline: Option<UnixMillis>,
}

impl KeyTransfer {
    /// The same for a node whose clock is ahead by so much: what is left of a lifetime stays.
    pub(crate) fn for_clock_ahead_by(mut self, millis: i64) -> Self {
        let shift = |deadline: UnixMillis| UnixMillis(deadline.0.saturating_add(millis));
        self.deadline = self.deadline.map(shift);
        self
    }
}

impl State {
    /// The keys of a slot, expired ones too.
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

    /// Changes this node's view of the cluster, with all that follows from it.
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

    /// The node answers no more for these slots: who listens to their channels is told, and the
    /// keys that are left are gone (`cluster.c: removeChannelsInSlot`, `delKeysInSlot`).
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

    /// Takes a key out of the only database of a node in a cluster.
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

    /// Who waits for a key that is served elsewhere is sent there
    /// (`cluster.c: clusterRedirectBlockedClientIfNeeded`).
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

/// What `topology/` does to a node of a cluster.
impl Engine {
    /// The node belongs to a cluster from now on, as the member at this place.
    pub(crate) fn join_cluster(&mut self, mut cluster: Cluster, place: usize) {
        let state = self.state_mut();
        cluster.me = place;
        state.cluster = Some(Box::new(cluster));
        state.guards_writes();
    }

    /// Something in the cluster has changed.
    pub(crate) fn learn(&mut self, change: &Change, now: UnixMicros) {
        let state = self.state_mut();
        state.begin(now);
        state.learn(change);
        self.follow_up(now);
    }

    /// The node hears again what it has not heard for a while.
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

    /// Where a slot is on its way to.
    pub(crate) fn migrates_to(&self, slot: u16) -> Option<usize> {
        let cluster = self.state().cluster.as_ref()?;
        cluster.migrating.get(&slot).copied()
    }

    /// The seed of all randomness on this node.
    pub(crate) fn seed(&self) -> u64 {
        self.state().config.seed
    }

    /// A slot is on its way from this node to another, or to it; `None` when it is no more.
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

    /// A message that was published on another node.
    pub(crate) fn hear(&mut self, space: Space, channel: &[u8], message: &[u8], now: UnixMicros) {
        let state = self.state_mut();
        state.begin(now);
        state.deliver(space, channel, message);
        self.follow_up(now);
    }

    pub(crate) fn keys_in_slot(&self, slot: u16) -> Vec<Blob> {
        self.state().keys_in_slot(slot).cloned().collect()
    }

    /// Takes a key out, as MIGRATE does when it has arrived.
    pub(crate) fn take_key(&mut self, key: &[u8], now: UnixMicros) -> Option<KeyTransfer> {
        let state = self.state_mut();
        state.begin(now);
        let parcel = state.take_key(key);
        self.follow_up(now);
        parcel
    }

    /// Puts a key in that was taken out elsewhere.
    pub(crate) fn put_key(&mut self, key: &[u8], parcel: KeyTransfer, now: UnixMicros) {
        let state = self.state_mut();
        state.begin(now);
        let KeyTransfer {
            value,
            form,
            deadline,
        } = parcel;
        state.dbs[0].put(key, value, form, deadline);
        state.touched(0, key);
        self.follow_up(now);
    }
}
