//! Operations of `topology/` on a node of a cluster.

use super::Engine;
use crate::engine::channel::Space;
use crate::engine::peers::cluster::{Change, Cluster, KeyTransfer};
use crate::engine::time::UnixMicros;
use crate::resp::Blob;

/// The calls with which `topology/` changes a cluster node.
impl Engine {
    /// Makes the node a member of a cluster, with this index.
    pub fn join_cluster(&mut self, mut cluster: Cluster, place: usize) {
        let state = self.state_mut();
        cluster.me = place;
        state.peers.cluster = Some(Box::new(cluster));
        state.guards_writes();
    }

    /// Applies a change of the cluster.
    pub fn learn(&mut self, change: &Change, now: UnixMicros) {
        let state = self.state_mut();
        state.unit.begin(now);
        state.learn(change);
        self.follow_up(now);
    }

    /// Replaces the node's map after it has missed changes.
    pub fn catch_up(&mut self, with: &Cluster, now: UnixMicros) {
        let state = self.state_mut();
        state.unit.begin(now);
        if let Some(cluster) = &mut state.peers.cluster {
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

    /// Replaces the node's view after CLUSTER RESET.
    pub fn reset_cluster(&mut self, with: &Cluster, now: UnixMicros) {
        let state = self.state_mut();
        state.unit.begin(now);
        if let Some(cluster) = &mut state.peers.cluster {
            let lost: Vec<u16> = cluster.served().into_iter().collect();
            let (me, endpoint_type) = (cluster.me, cluster.endpoint_type);
            **cluster = with.clone();
            (cluster.me, cluster.endpoint_type) = (me, endpoint_type);
            state.leave_slots(&lost, false);
        }
        state.redirect_waiters();
        self.follow_up(now);
    }

    /// Forgets a member of the cluster.
    pub fn forget_member(&mut self, member: usize) {
        if let Some(cluster) = &mut self.state_mut().peers.cluster {
            cluster.forget(member);
        }
    }

    /// The node that a slot migrates to.
    pub fn migrates_to(&self, slot: u16) -> Option<usize> {
        let cluster = self.state().peers.cluster.as_ref()?;
        cluster.migrating.get(&slot).copied()
    }

    /// Seed of all randomness on this node.
    pub fn seed(&self) -> u64 {
        self.state().config.seed
    }

    /// Starts the migration of a slot to another node or from one; ends it with `None`.
    pub fn set_migration(&mut self, slot: u16, to: Option<usize>, from: Option<usize>) {
        if let Some(cluster) = &mut self.state_mut().peers.cluster {
            for (map, other) in [(&mut cluster.migrating, to), (&mut cluster.importing, from)] {
                match other {
                    Some(other) => map.insert(slot, other),
                    None => map.remove(&slot),
                };
            }
        }
    }

    /// Delivers a message that was published on another node.
    pub fn deliver_message(
        &mut self,
        space: Space,
        channel: &[u8],
        message: &[u8],
        now: UnixMicros,
    ) {
        let state = self.state_mut();
        state.unit.begin(now);
        state.deliver(space, channel, message);
        self.follow_up(now);
    }

    /// The keys of a hash slot.
    pub fn keys_in_slot(&self, slot: u16) -> Vec<Blob> {
        self.state().keys_in_slot(slot).cloned().collect()
    }

    /// Removes a key and returns it, as MIGRATE does after a successful transfer.
    pub fn take_key(&mut self, key: &[u8], now: UnixMicros) -> Option<KeyTransfer> {
        let state = self.state_mut();
        state.unit.begin(now);
        let transfer = state.take_key(key);
        self.follow_up(now);
        transfer
    }

    /// Adds a key that was removed on another node.
    pub fn put_key(&mut self, key: &[u8], transfer: KeyTransfer, now: UnixMicros) {
        let state = self.state_mut();
        state.unit.begin(now);
        let KeyTransfer {
            value,
            form,
            deadline,
        } = transfer;
        state.data.db_mut(0).put(key, value, form, deadline);
        state.touched(0, key);
        self.follow_up(now);
    }
}
