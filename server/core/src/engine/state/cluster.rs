//! Consequences for data and clients when the node's view of its cluster changes.

use super::State;
use crate::engine::channel::Space;
use crate::engine::effect::Effect;
use crate::engine::peers::cluster::{
    Announced, Change, Claim, ClusterMessage, EndpointType, KeyTransfer, Refusal, slot_of,
};
use crate::resp::{Blob, ErrorReply, Reply};

impl State {
    /// Passes the announced address to the cluster, if its parameters have changed.
    pub(in crate::engine) fn announce(&mut self) {
        let Some(cluster) = &mut self.peers.cluster else {
            return;
        };
        cluster.endpoint_type = EndpointType::of(&self.config);
        let announced = Announced::of(&self.config);
        if announced != cluster.own().announced {
            let node = cluster.me;
            let change = Change::Announced { node, announced };
            cluster.learn(&change);
            let message = ClusterMessage(Claim::Changed(change));
            self.unit.outbox.push(Effect::Cluster(message));
        }
    }

    /// The keys of a slot, including expired ones.
    pub(in crate::engine) fn keys_in_slot(&self, slot: u16) -> impl Iterator<Item = &Blob> {
        let db = self.data.db(0);
        let next = move |at: &mut u32| {
            let found = db.next_used(*at)?;
            *at = found + 1;
            Some(db.key(found))
        };
        let mut at = 0;
        std::iter::from_fn(move || next(&mut at)).filter(move |key| slot_of(key) == slot)
    }

    /// Changes this node's view of the cluster, and applies the consequences.
    pub(in crate::engine) fn learn(&mut self, change: &Change) {
        let Some(cluster) = &mut self.peers.cluster else {
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
        // A master keeps the keys of a slot that no other node has taken.
        let is_taken = !matches!(change, Change::Owner { owner: None, .. });
        let deletes_keys = shard == cluster.me && is_taken;
        cluster.learn(change);
        // A shard without slots joins the one that took its last slot (`cluster.c: clusterUpdateSlotsConfigWith`).
        if let Change::Owner {
            owner: Some(heir), ..
        } = change
            && !lost.is_empty()
            && cluster.slots_of(shard).is_empty()
            && self.config.is_on("cluster-allow-replica-migration")
        {
            let master = Some(cluster.members[*heir].address.clone());
            self.unit.outbox.push(Effect::Follow { master });
        }
        if !lost.is_empty() {
            self.leave_slots(&lost, deletes_keys);
        }
        self.redirect_waiters();
    }

    /// Gives up slots: their channels' subscribers are unsubscribed, and their keys deleted if another node
    /// has the slot now (`cluster.c: removeChannelsInSlot`, `delKeysInSlot`).
    pub(in crate::engine) fn leave_slots(&mut self, slots: &[u16], deletes_keys: bool) {
        for channel in self.clients.pubsub.channels(Space::Shard, None) {
            if slots.contains(&slot_of(&channel)) {
                for conn in self.clients.pubsub.listeners_of(Space::Shard, &channel) {
                    self.clients
                        .pubsub
                        .unsubscribe(conn, Space::Shard, &channel);
                    let counts = self.clients.pubsub.counts(conn);
                    if let Some(session) = self.clients.sessions.get_mut(conn) {
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
        if !deletes_keys {
            return;
        }
        for slot in slots {
            let keys: Vec<Blob> = self.keys_in_slot(*slot).cloned().collect();
            keys.iter().for_each(|key| drop(self.take_key(key)));
        }
    }

    /// Removes a key from database 0, the only one of a cluster node, and returns it.
    pub(in crate::engine) fn take_key(&mut self, key: &[u8]) -> Option<KeyTransfer> {
        let slot = self.data.db(0).find(key)?;
        let (form, deadline) = (self.data.db(0).form(slot), self.data.db(0).deadline(slot));
        let value = self.data.db_mut(0).remove(slot);
        self.touched(0, key);
        Some(KeyTransfer {
            value,
            form,
            deadline,
        })
    }

    /// Redirects clients that are blocked on a key which another node serves now (`cluster.c:
    /// clusterRedirectBlockedClientIfNeeded`).
    pub(in crate::engine) fn redirect_waiters(&mut self) {
        let Some(cluster) = &self.peers.cluster else {
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
        let waiting = self
            .clients
            .waiters
            .list(&self.clients.sessions)
            .into_iter();
        let sent: Vec<_> = waiting
            .filter_map(|one| Some((one.conn, cluster.text(&refusal(one.keys.first()?)?))))
            .collect();
        for (conn, text) in sent {
            self.clients.waiters.remove(conn);
            let error = ErrorReply::new(text);
            self.introspection.stats.count_error(&error);
            self.answer(conn, error.into());
        }
    }
}
