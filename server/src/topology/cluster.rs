//! A cluster: masters that share the slots, replicas, and what goes between them instead of a bus.
//!
//! *Policy*: a node changes its own view and says what it claims for itself; everybody who hears it
//! knows at once (`bus.rs`). Nobody takes over by himself: a failover is ordered, by a test or by CLUSTER
//! FAILOVER. A node whose replica was promoted behind its back hears nothing until it follows.
//! Messages pass by nodes that are paused.

use super::bus::Bus;
use super::replica::{Network, NetworkState, ReplicaTask, listens, seat};
use crate::engine::{
    Claim, Cluster, ClusterChange as Change, Health, Member, Rng, UnixMicros, share_of, slot_of,
};
use crate::node_handle::LockedNode;
use std::time::Duration;

/// What somebody wants done in a cluster.
#[derive(Clone, Debug)]
pub(crate) enum ClusterTask {
    /// A node says something.
    Claim {
        from: usize,
        claim: Claim,
    },
    /// A node has come back after a crash.
    Back {
        node: usize,
    },
    /// A node shall be told nothing more.
    Deafen {
        node: usize,
    },
    /// A slot goes to a master with all its keys.
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

impl NetworkState {
    /// A node follows another, or nobody any more: as a replica that was promoted it takes the slots
    /// of its master along, and the others of the shard follow it.
    pub(super) fn on_follow(
        &mut self,
        node: usize,
        master: Option<usize>,
        seats: &mut [LockedNode<'_>],
        now: UnixMicros,
    ) {
        let Some(bus) = &mut self.bus else {
            return;
        };
        let master = master.filter(|master| *master != node);
        let before = bus.map_of(node).members[node].master;
        match (before, master) {
            (Some(old), None) => self.take_over(node, old, seats, now),
            (_, Some(_)) => {
                let slots = bus.map_of(node).slots_of(node);
                if bus.undeafen(node) {
                    let map = bus.map_of(node).clone();
                    self.change(node, seats, now, |engine, now| engine.catch_up(&map, now));
                }
                self.announce(node, &Change::Master { node, master }, seats, now);
                if !slots.is_empty() {
                    // Whoever follows another serves nothing of his own.
                    let owner = None;
                    self.announce(node, &Change::Owner { slots, owner }, seats, now);
                }
            }
            (None, None) => {}
        }
    }

    fn take_over(
        &mut self,
        node: usize,
        old: usize,
        seats: &mut [LockedNode<'_>],
        now: UnixMicros,
    ) {
        let Some(bus) = &self.bus else {
            return;
        };
        let map = bus.map_of(node);
        let is_told = !bus.is_deaf(old);
        let others = map.replicas(old).filter(|other| *other != node);
        let others = others.chain(is_told.then_some(old));
        let others: Vec<usize> = others.filter(|other| bus.reaches(node, *other)).collect();
        let (slots, epoch) = (map.slots_of(old), map.epoch + 1);
        // Roles come first: those of the shard do not lose their slots.
        let role = |node, master| Change::Master { node, master };
        self.announce(node, &role(node, None), seats, now);
        for other in &others {
            self.announce(node, &role(*other, Some(node)), seats, now);
        }
        let owner = Some(node);
        self.announce(node, &Change::Owner { slots, owner }, seats, now);
        self.announce(node, &Change::Epoch { node, epoch }, seats, now);
        for other in others {
            self.orders.push_back(ReplicaTask::Follow {
                node: other,
                master: Some(node),
            });
        }
    }

    /// A node has crashed, which nobody knows yet, or is back.
    pub(super) fn set_crashed(
        &mut self,
        node: usize,
        is_crashed: bool,
        seats: &mut [LockedNode<'_>],
        now: UnixMicros,
    ) {
        if let Some(bus) = &mut self.bus {
            bus.set_crashed(node, is_crashed);
            self.notice(seats, now);
        }
    }

    pub(super) fn carry_out_in_cluster(
        &mut self,
        order: ClusterTask,
        seats: &mut [LockedNode<'_>],
        now: UnixMicros,
    ) {
        let Some(bus) = &mut self.bus else {
            return;
        };
        match order {
            ClusterTask::Claim { from, claim } => self.on_claim(from, claim, seats, now),
            ClusterTask::Back { node } => self.set_crashed(node, false, seats, now),
            ClusterTask::Deafen { node } => bus.deafen(node),
            ClusterTask::Move { slot, to } => {
                if let Some(from) = bus.map_of(to).owner(slot) {
                    self.move_keys(slot, from, to, seats, now);
                }
                self.settle_slot(slot, to, seats, now);
            }
            ClusterTask::Begin { slot, to } => {
                if let Some(from) = bus.map_of(to).owner(slot) {
                    self.set_migration(slot, from, Some(to), seats, now);
                }
            }
            ClusterTask::Key { key } => {
                if let Some((from, to)) = self.migration(slot_of(&key), seats) {
                    self.move_key(&key, from, to, seats, now);
                }
            }
            ClusterTask::Finish { slot } => {
                if let Some((from, to)) = self.migration(slot, seats) {
                    self.move_keys(slot, from, to, seats, now);
                    self.settle_slot(slot, to, seats, now);
                }
            }
            ClusterTask::Cancel { slot } => {
                if let Some((from, to)) = self.migration(slot, seats) {
                    self.move_keys(slot, to, from, seats, now);
                    self.set_migration(slot, from, None, seats, now);
                }
            }
        }
    }

    fn on_claim(
        &mut self,
        from: usize,
        claim: Claim,
        seats: &mut [LockedNode<'_>],
        now: UnixMicros,
    ) {
        let Some(bus) = &self.bus else {
            return;
        };
        let is_heard = !bus.is_deaf(from);
        match claim {
            Claim::Changed(news) if is_heard => self.announce(from, &news, seats, now),
            Claim::Message {
                space,
                channel,
                message,
            } if is_heard => {
                let map = bus.map_of(from);
                let hears = |node: &usize| {
                    let is_near = !space.is_shard() || map.shard(*node) == map.shard(from);
                    *node != from && is_near
                };
                for node in bus.listeners_to(from).into_iter().filter(hears) {
                    if seat(self, node, seats).is_some_and(|at| listens(&seats[at])) {
                        self.change(node, seats, now, |engine, now| {
                            engine.hear(space, &channel, &message, now);
                        });
                    }
                }
            }
            Claim::TakesOver { asks, .. } if asks && !bus.agrees(from) => {}
            Claim::TakesOver { waits, .. } => {
                if waits {
                    self.deliver_all(from, seats, now);
                }
                let (node, master) = (from, None);
                self.orders.push_back(ReplicaTask::Follow { node, master });
            }
            Claim::Changed(_) | Claim::Message { .. } => {}
        }
    }

    /// Where a slot is on its way from and to, if that way is open.
    fn migration(&self, slot: u16, seats: &[LockedNode<'_>]) -> Option<(usize, usize)> {
        let bus = self.bus.as_ref()?;
        let from = bus.map().owner(slot)?;
        let engine = &seats[seat(self, from, seats)?].node.engine;
        let to = engine.migrates_to(slot)?;
        bus.reaches(from, to).then_some((from, to))
    }

    /// Both ends know that a slot is on its way, or that it is no more.
    fn set_migration(
        &self,
        slot: u16,
        from: usize,
        to: Option<usize>,
        seats: &mut [LockedNode<'_>],
        now: UnixMicros,
    ) {
        let nodes = self.bus.iter().flat_map(|bus| bus.listeners_to(from));
        for node in nodes {
            let (out, into) = (
                to.filter(|_| node == from),
                to.filter(|to| *to == node).map(|_| from),
            );
            self.change(node, seats, now, |engine, _| {
                engine.set_migration(slot, out, into);
            });
        }
    }

    /// A slot has arrived.
    fn settle_slot(&mut self, slot: u16, to: usize, seats: &mut [LockedNode<'_>], now: UnixMicros) {
        self.set_migration(slot, to, None, seats, now);
        let slots = vec![(slot, slot)];
        let owner = Some(to);
        self.announce(to, &Change::Owner { slots, owner }, seats, now);
        if let Some(map) = self.bus.as_ref().map(|bus| bus.map_of(to))
            && map.members[to].epoch != map.epoch
        {
            let (node, epoch) = (to, map.epoch + 1);
            self.announce(to, &Change::Epoch { node, epoch }, seats, now);
        }
    }

    fn move_keys(
        &self,
        slot: u16,
        from: usize,
        to: usize,
        seats: &mut [LockedNode<'_>],
        now: UnixMicros,
    ) {
        let Some(at) = seat(self, from, seats) else {
            return;
        };
        for key in seats[at].node.engine.keys_in_slot(slot) {
            self.move_key(&key, from, to, seats, now);
        }
    }

    fn move_key(
        &self,
        key: &[u8],
        from: usize,
        to: usize,
        seats: &mut [LockedNode<'_>],
        now: UnixMicros,
    ) {
        let (Some(here), Some(there)) = (seat(self, from, seats), seat(self, to, seats)) else {
            return;
        };
        let millis =
            |at: usize, seats: &[LockedNode<'_>]| seats[at].shared.node_time(now).millis().0;
        let ahead = millis(there, seats).saturating_sub(millis(here, seats));
        let mut parcel = None;
        self.change(from, seats, now, |engine, now| {
            parcel = engine.take_key(key, now);
        });
        if let Some(parcel) = parcel {
            let parcel = parcel.for_clock_ahead_by(ahead);
            self.change(to, seats, now, |engine, now| {
                engine.put_key(key, parcel, now);
            });
        }
    }
}

impl Network {
    /// Makes a cluster of all nodes: each of the `masters` owns its share of the slots.
    pub(crate) fn join_into_cluster(&self, masters: &[usize]) {
        // Nodes are never taken while the network is: whoever has them asks for it.
        let nodes = self.lock().nodes.clone();
        let handles: Vec<_> = nodes.iter().map(|(handle, _)| handle.upgrade()).collect();
        let seed = |place: usize| {
            let handle = handles[place].as_ref();
            handle.map_or(0, |handle| handle.shared.node().engine.seed())
        };
        let (first, rest): (Vec<usize>, Vec<usize>) =
            (0..nodes.len()).partition(|place| masters.contains(place));
        let turns: Vec<usize> = first.into_iter().chain(rest).collect();
        let members = nodes.iter().enumerate().map(|(place, (_, address))| {
            let turn = turns.iter().position(|other| *other == place);
            Member {
                id: Rng::for_component(seed(place), "cluster node").hex(20),
                address: address.clone(),
                master: None,
                epoch: turn.map_or(0, |turn| turn as u64 + 1),
                health: Health::Up,
            }
        });
        let mut map = Cluster::new(members.collect());
        for (index, place) in masters.iter().enumerate() {
            let share = share_of(index, masters.len());
            if !share.is_empty() {
                let slots = vec![(share.start, share.end - 1)];
                let owner = Some(*place);
                map.learn(&Change::Owner { slots, owner });
            }
        }
        for (place, handle) in handles.iter().enumerate() {
            if let Some(handle) = handle {
                let engine = &mut handle.shared.node().engine;
                engine.join_cluster(map.clone(), place);
            }
        }
        self.lock().bus = Some(Bus::new(map));
    }

    pub(crate) fn is_cluster(&self) -> bool {
        self.lock().bus.is_some()
    }

    /// In a cluster, keeps the master of this replica from learning that it lost its slots.
    pub(crate) fn deafen_master_of(&self, replica: usize) {
        let mut state = self.lock();
        let bus = state.bus.as_ref();
        if let Some(node) = bus.and_then(|bus| bus.map_of(replica).members[replica].master) {
            let task = ClusterTask::Deafen { node };
            state.orders.push_back(ReplicaTask::Cluster(task));
        }
    }

    /// Queues a task, to be carried out when time is next looked at.
    pub(crate) fn run(&self, task: ClusterTask) {
        self.lock().orders.push_back(ReplicaTask::Cluster(task));
    }

    /// The owner of a slot on the side with most of the masters, or else on the side of the first node.
    pub(crate) fn owner_of(&self, slot: u16) -> Option<usize> {
        self.lock().bus.as_ref()?.map().owner(slot)
    }

    /// The owner of a slot in the map of `node`, and whether that node reaches the owner.
    pub(crate) fn owner_as_known_to(&self, node: usize, slot: u16) -> (Option<usize>, bool) {
        let state = self.lock();
        let Some(bus) = &state.bus else {
            return (None, true);
        };
        let owner = bus.map_of(node).owner(slot);
        let is_reachable = owner.is_none_or(|owner| bus.reaches(owner, node));
        (owner, is_reachable)
    }

    /// True if the node is a replica in its own map of the cluster.
    pub(crate) fn is_replica(&self, node: usize) -> bool {
        let state = self.lock();
        let bus = state.bus.as_ref();
        bus.is_some_and(|bus| bus.map_of(node).members[node].master.is_some())
    }

    /// Sets the time after which nodes of a cluster mark an unreachable node as failed.
    pub(crate) fn set_failure_noticed_after(&self, time: Duration) {
        if let Some(bus) = &mut self.lock().bus {
            bus.noticed_after = time;
        }
    }
}
