//! A cluster: masters that share the slots, their replicas, and what replaces the cluster bus
//! between them.
//!
//! *Policy*: a node changes its own view and claims the change; all nodes of its side learn it at
//! once (`bus.rs`). There are no automatic failovers: a test or CLUSTER FAILOVER starts them. A
//! master whose replica was promoted with `Deployment::promote` learns of it only when it follows
//! another node. Paused nodes receive no pub/sub messages.

use super::bus::Bus;
use super::network::{Network, NetworkState, is_running};
use super::task::{ClusterTask, Task};
use crate::engine::{
    Announced, Claim, Cluster, ClusterChange as Change, Health, Member, Rng, UnixMicros, share_of,
    slot_of,
};
use crate::node_handle::LockedNode;
use std::time::Duration;

impl NetworkState {
    /// Handles that a node follows another one, or becomes a master. A promoted replica takes over
    /// the slots of its master, and the other nodes of the shard follow it.
    pub(super) fn on_follow(
        &mut self,
        node: usize,
        master: Option<usize>,
        locked: &mut [LockedNode<'_>],
        now: UnixMicros,
    ) {
        let Some(bus) = &mut self.bus else {
            return;
        };
        let master = master.filter(|master| *master != node);
        let before = bus.map_of(node).members[node].master;
        match (before, master) {
            (Some(old), None) => self.take_over(node, old, locked, now),
            (_, Some(_)) => {
                let slots = bus.map_of(node).slots_of(node);
                if bus.include(node) {
                    let map = bus.map_of(node).clone();
                    self.change(node, locked, now, |engine, now| engine.catch_up(&map, now));
                }
                self.announce(node, &Change::Master { node, master }, locked, now);
                if !slots.is_empty() {
                    // A replica owns no slots.
                    let owner = None;
                    self.announce(node, &Change::Owner { slots, owner }, locked, now);
                }
            }
            (None, None) => {}
        }
    }

    fn take_over(
        &mut self,
        node: usize,
        old: usize,
        locked: &mut [LockedNode<'_>],
        now: UnixMicros,
    ) {
        let Some(bus) = &mut self.bus else {
            return;
        };
        bus.replace(old, node);
        let map = bus.map_of(node);
        let is_included = !bus.is_excluded(old);
        let others = map.replicas(old).filter(|other| *other != node);
        let others = others.chain(is_included.then_some(old));
        let others: Vec<usize> = others.filter(|other| bus.reaches(node, *other)).collect();
        let (slots, epoch) = (map.slots_of(old), map.epoch + 1);
        // Roles are announced before slots: nodes of the same shard do not lose their keys.
        let role = |node, master| Change::Master { node, master };
        self.announce(node, &role(node, None), locked, now);
        for other in &others {
            self.announce(node, &role(*other, Some(node)), locked, now);
        }
        let owner = Some(node);
        self.announce(node, &Change::Owner { slots, owner }, locked, now);
        self.announce(node, &Change::Epoch { node, epoch }, locked, now);
        for other in others {
            self.tasks.push_back(Task::Follow {
                node: other,
                master: Some(node),
            });
        }
    }

    /// Handles a crash, which other nodes notice later, or a restart.
    pub(super) fn set_crashed(
        &mut self,
        node: usize,
        is_crashed: bool,
        locked: &mut [LockedNode<'_>],
        now: UnixMicros,
    ) {
        if let Some(bus) = &mut self.bus {
            bus.set_crashed(node, is_crashed);
            self.notice_failures(locked, now);
        }
    }

    pub(super) fn run_cluster_task(
        &mut self,
        task: ClusterTask,
        locked: &mut [LockedNode<'_>],
        now: UnixMicros,
    ) {
        let Some(bus) = &mut self.bus else {
            return;
        };
        match task {
            ClusterTask::Claim { from, claim } => self.on_claim(from, claim, locked, now),
            ClusterTask::Restarted { node } => {
                let master = bus.take_heir(node);
                self.set_crashed(node, false, locked, now);
                if master.is_some() {
                    self.tasks.push_back(Task::Follow { node, master });
                }
            }
            ClusterTask::Exclude { node } => bus.exclude(node),
            ClusterTask::Move { slot, to } => {
                if let Some(from) = bus.map_of(to).owner(slot) {
                    self.move_keys(slot, from, to, locked, now);
                }
                self.settle_slot(slot, to, locked, now);
            }
            ClusterTask::Begin { slot, to } => {
                if let Some(from) = bus.map_of(to).owner(slot) {
                    self.set_migration(slot, from, Some(to), locked, now);
                }
            }
            ClusterTask::Key { key } => {
                if let Some((from, to)) = self.migration(slot_of(&key), locked) {
                    self.move_key(&key, from, to, locked, now);
                }
            }
            ClusterTask::Finish { slot } => {
                if let Some((from, to)) = self.migration(slot, locked) {
                    self.move_keys(slot, from, to, locked, now);
                    self.settle_slot(slot, to, locked, now);
                }
            }
            ClusterTask::Cancel { slot } => {
                if let Some((from, to)) = self.migration(slot, locked) {
                    self.move_keys(slot, to, from, locked, now);
                    self.set_migration(slot, from, None, locked, now);
                }
            }
        }
    }

    fn on_claim(
        &mut self,
        from: usize,
        claim: Claim,
        locked: &mut [LockedNode<'_>],
        now: UnixMicros,
    ) {
        let Some(bus) = &self.bus else {
            return;
        };
        let is_included = !bus.is_excluded(from);
        match claim {
            Claim::Changed(news) if is_included => self.announce(from, &news, locked, now),
            Claim::Message {
                space,
                channel,
                message,
            } if is_included => {
                let map = bus.map_of(from);
                let reaches = |node: &usize| {
                    let is_near = !space.is_shard() || map.shard(*node) == map.shard(from);
                    *node != from && is_near
                };
                for node in bus.receivers_of(from).into_iter().filter(reaches) {
                    if self
                        .index_of(node, locked)
                        .is_some_and(|at| is_running(&locked[at]))
                    {
                        self.change(node, locked, now, |engine, now| {
                            engine.deliver_message(space, &channel, &message, now);
                        });
                    }
                }
            }
            Claim::Meets { with } => {
                let with = self.nodes.iter().position(|(_, address)| *address == with);
                let with = with.filter(|with| self.connectivity.is_reachable(from, *with));
                if let Some(with) = with
                    && let Some(bus) = &mut self.bus
                    && bus.introduce(from, with)
                {
                    self.tasks.push_back(Task::Sides);
                }
            }
            Claim::Forgets { member } => {
                if let Some(bus) = &mut self.bus {
                    bus.forget(from, member);
                }
            }
            Claim::Resets { is_hard } => self.reset_node(from, is_hard, locked, now),
            Claim::TakesOver { asks, .. } if asks && !bus.has_majority(from) => {}
            Claim::TakesOver { waits, .. } => {
                if waits {
                    self.deliver_all(from, locked, now);
                }
                let (node, master) = (from, None);
                self.tasks.push_back(Task::Follow { node, master });
            }
            Claim::Changed(_) | Claim::Message { .. } => {}
        }
    }

    /// Handles that a node forgets its slots and all others. A replica becomes a master.
    fn reset_node(
        &mut self,
        node: usize,
        is_hard: bool,
        locked: &mut [LockedNode<'_>],
        now: UnixMicros,
    ) {
        let name = is_hard.then(|| self.new_name(node, locked)).flatten();
        let Some(bus) = &mut self.bus else {
            return;
        };
        let others = bus.receivers_of(node);
        let is_renamed = name.is_some();
        let map = bus.isolate(node, name);
        for other in others
            .into_iter()
            .filter(|other| is_renamed && *other != node)
        {
            self.change(other, locked, now, |engine, _| engine.forget_member(node));
        }
        self.change(node, locked, now, |engine, now| {
            engine.reset_cluster(&map, now);
        });
        let master = None;
        self.tasks.push_back(Task::Follow { node, master });
    }

    /// Another name for a node.
    fn new_name(&self, node: usize, locked: &[LockedNode<'_>]) -> Option<String> {
        let bus = self.bus.as_ref()?;
        let seed = locked[self.index_of(node, locked)?].node.engine.seed();
        let former = &bus.map_of(node).members[node].id;
        Some(Rng::for_component(seed, former).hex(20))
    }

    /// The source and the target of a slot's migration, if they reach each other.
    fn migration(&self, slot: u16, locked: &[LockedNode<'_>]) -> Option<(usize, usize)> {
        let bus = self.bus.as_ref()?;
        let from = bus.map().owner(slot)?;
        let engine = &locked[self.index_of(from, locked)?].node.engine;
        let to = engine.migrates_to(slot)?;
        bus.reaches(from, to).then_some((from, to))
    }

    /// Starts or ends the migration of a slot on both nodes.
    fn set_migration(
        &self,
        slot: u16,
        from: usize,
        to: Option<usize>,
        locked: &mut [LockedNode<'_>],
        now: UnixMicros,
    ) {
        let nodes = self.bus.iter().flat_map(|bus| bus.receivers_of(from));
        for node in nodes {
            let (out, into) = (
                to.filter(|_| node == from),
                to.filter(|to| *to == node).map(|_| from),
            );
            self.change(node, locked, now, |engine, _| {
                engine.set_migration(slot, out, into);
            });
        }
    }

    /// Gives a slot to the target of its migration.
    fn settle_slot(
        &mut self,
        slot: u16,
        to: usize,
        locked: &mut [LockedNode<'_>],
        now: UnixMicros,
    ) {
        self.set_migration(slot, to, None, locked, now);
        let slots = vec![(slot, slot)];
        let owner = Some(to);
        self.announce(to, &Change::Owner { slots, owner }, locked, now);
        if let Some(map) = self.bus.as_ref().map(|bus| bus.map_of(to))
            && map.members[to].epoch != map.epoch
        {
            let (node, epoch) = (to, map.epoch + 1);
            self.announce(to, &Change::Epoch { node, epoch }, locked, now);
        }
    }

    fn move_keys(
        &self,
        slot: u16,
        from: usize,
        to: usize,
        locked: &mut [LockedNode<'_>],
        now: UnixMicros,
    ) {
        let Some(at) = self.index_of(from, locked) else {
            return;
        };
        for key in locked[at].node.engine.keys_in_slot(slot) {
            self.move_key(&key, from, to, locked, now);
        }
    }

    fn move_key(
        &self,
        key: &[u8],
        from: usize,
        to: usize,
        locked: &mut [LockedNode<'_>],
        now: UnixMicros,
    ) {
        let (Some(here), Some(there)) = (self.index_of(from, locked), self.index_of(to, locked))
        else {
            return;
        };
        let millis =
            |at: usize, locked: &[LockedNode<'_>]| locked[at].shared.node_time(now).millis().0;
        let ahead = millis(there, locked).saturating_sub(millis(here, locked));
        let mut dump = None;
        self.change(from, locked, now, |engine, now| {
            dump = engine.take_key(key, now);
        });
        if let Some(dump) = dump {
            let dump = dump.for_clock_ahead_by(ahead);
            self.change(to, locked, now, |engine, now| {
                engine.put_key(key, dump, now);
            });
        }
    }
}

impl Network {
    /// Makes every node a cluster of its own, without slots, which can meet the others.
    pub(crate) fn prepare_for_cluster(&self) {
        let members = self.members(|_| 0);
        let maps = (0..members.len()).map(|node| Cluster::unmet(members.clone(), node));
        self.begin_cluster(Bus::unmet(maps));
    }

    /// Makes a cluster of all nodes: each of the `masters` owns its share of the slots.
    pub(crate) fn join_into_cluster(&self, masters: &[usize]) {
        let all = 0..self.lock().nodes.len();
        let (first, rest): (Vec<usize>, Vec<usize>) =
            all.partition(|index| masters.contains(index));
        let turns: Vec<usize> = first.into_iter().chain(rest).collect();
        let members = self.members(|index| {
            let turn = turns.iter().position(|other| *other == index);
            turn.map_or(0, |turn| turn as u64 + 1)
        });
        let mut map = Cluster::new(members);
        for (number, master) in masters.iter().enumerate() {
            let share = share_of(number, masters.len());
            if !share.is_empty() {
                let slots = vec![(share.start, share.end - 1)];
                let owner = Some(*master);
                map.learn(&Change::Owner { slots, owner });
            }
        }
        self.begin_cluster(Bus::new(map));
    }

    /// The nodes as masters of a cluster, with these epochs.
    fn members(&self, epoch: impl Fn(usize) -> u64) -> Vec<Member> {
        // The nodes are locked before the network, never the other way round.
        let nodes = self.lock().nodes.clone();
        let handles: Vec<_> = nodes.iter().map(|(handle, _)| handle.upgrade()).collect();
        let seed = |index: usize| {
            let handle = handles[index].as_ref();
            handle.map_or(0, |handle| handle.shared.node().engine.seed())
        };
        let members = nodes
            .iter()
            .enumerate()
            .map(|(index, (_, address))| Member {
                id: Rng::for_component(seed(index), "cluster node").hex(20),
                address: address.clone(),
                master: None,
                epoch: epoch(index),
                health: Health::Up,
                announced: Announced::default(),
            });
        members.collect()
    }

    /// Gives each node its map.
    fn begin_cluster(&self, bus: Bus) {
        let nodes = self.lock().nodes.clone();
        for (index, (handle, _)) in nodes.iter().enumerate() {
            if let Some(handle) = handle.upgrade() {
                let engine = &mut handle.shared.node().engine;
                engine.join_cluster(bus.start(index), index);
            }
        }
        self.lock().bus = Some(bus);
    }

    pub(crate) fn is_cluster(&self) -> bool {
        self.lock().bus.is_some()
    }

    /// In a cluster, keeps the master of this replica from learning that it lost its slots.
    pub(crate) fn exclude_master_of(&self, replica: usize) {
        let mut state = self.lock();
        let bus = state.bus.as_ref();
        if let Some(node) = bus.and_then(|bus| bus.map_of(replica).members[replica].master) {
            let task = ClusterTask::Exclude { node };
            state.tasks.push_back(Task::Cluster(task));
        }
    }

    /// Queues a task, to be carried out when time is next looked at.
    pub(crate) fn run(&self, task: ClusterTask) {
        self.lock().tasks.push_back(Task::Cluster(task));
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
