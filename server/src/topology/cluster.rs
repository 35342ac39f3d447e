//! A cluster: masters that share the slots, replicas, and what goes between them instead of a bus.
//!
//! *Policy*: a node changes its own view and says what it claims for itself; everybody who hears it
//! knows at once (`bus.rs`). Nobody takes over by himself: a failover is ordered, by a test or by CLUSTER
//! FAILOVER. A node whose replica was promoted behind its back hears nothing until it follows.
//! Messages pass by nodes that are paused.

use super::bus::Bus;
use super::deployment::{Deployment, DeploymentBuilder};
use super::replica::{NetworkState, ReplicaTask, listens, seat};
use crate::engine::{
    Claim, Cluster, ClusterChange as Change, Health, Member, Rng, SLOTS, UnixMicros, share_of,
    slot_of,
};
use crate::net::LockedNode;
use std::io;
use std::time::Duration;

/// What somebody wants done in a cluster.
#[derive(Clone, Debug)]
pub(super) enum ClusterTask {
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

impl DeploymentBuilder {
    /// Starts a cluster of masters that share the slots as `redis-cli --cluster create` deals them
    /// out, each with so many replicas: [`Deployment::cluster`].
    ///
    /// # Errors
    /// When a port cannot be bound.
    ///
    /// # Panics
    /// Outside of a tokio runtime, or without masters.
    pub async fn cluster(mut self, masters: usize, replicas: usize) -> io::Result<Deployment> {
        assert!(masters > 0, "a cluster needs a master");
        let mut names = Vec::new();
        let mut places = Vec::new();
        let mut follows = Vec::new();
        for master in 1..=masters {
            let place = names.len();
            places.push(place);
            names.push(format!("master-{master}"));
            for replica in 1..=replicas {
                follows.push((names.len(), place));
                names.push(format!("replica-{master}-{replica}"));
            }
        }
        self.server = self.server.configure(|config| {
            config.cluster_enabled = true;
        });
        let deployment = self.start(names).await?;
        deployment.join_into_cluster(&places);
        for (replica, master) in follows {
            deployment.network.follow(replica, Some(master));
        }
        deployment.settle();
        // Clients are sent to all of them, so all have to be there.
        for server in deployment.nodes().filter(|server| server.has_port()) {
            server.serve()?;
        }
        deployment.controlled()
    }
}

/// Clusters.
impl Deployment {
    /// [`DeploymentBuilder::cluster`] with default settings: so many masters with so many replicas
    /// each, on ports of their own, which cluster clients find from any of them. Nodes know at once
    /// what they would tell each other over the cluster bus, which there is none of. With
    /// [`Clock::Tokio`](crate::Clock::Tokio) the ports are only names: clients come in process.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use redis::AsyncTypedCommands;
    /// use redouble::Deployment;
    ///
    /// let cluster = Deployment::cluster(3, 1).await?;
    /// let slot = Deployment::slot_of("lock");
    /// let owner = cluster.owner_of(slot).expect("every slot has one");
    /// let mut redis = cluster[owner].connection().await?;
    /// redis.set("lock", "mine").await?;
    ///
    /// // The slot goes elsewhere, key by key; who asks here for what has gone is sent after it.
    /// cluster.begin_migration(slot, "master-1");
    /// assert!(cluster.migrate_key("lock"));
    /// assert_eq!(redis.get("lock").await.unwrap_err().code(), Some("ASK"));
    /// cluster.finish_migration(slot);
    /// assert_eq!(redis.get("lock").await.unwrap_err().code(), Some("MOVED"));
    ///
    /// // And everything of that master to its replica.
    /// cluster.fail_over_to("replica-1-1");
    /// assert_eq!(cluster.owner_of(slot), Some("replica-1-1"));
    /// cluster["replica-1-1"].assert_get("lock", "mine");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// When a port cannot be bound.
    pub async fn cluster(masters: usize, replicas: usize) -> io::Result<Self> {
        Self::builder().cluster(masters, replicas).await
    }

    /// The slot of a key or of a sharded channel.
    pub fn slot_of(key: impl AsRef<[u8]>) -> u16 {
        slot_of(key.as_ref())
    }

    fn join_into_cluster(&self, masters: &[usize]) {
        // Nodes are never taken while the network is: whoever has them asks for it.
        let nodes = self.network.lock().nodes.clone();
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
        self.network.lock().bus = Some(Bus::new(map));
    }

    pub(super) fn is_cluster(&self) -> bool {
        self.network.lock().bus.is_some()
    }

    /// In a cluster, the master of this replica will not hear that it is none any more.
    pub(super) fn deafen_master_of(&self, replica: usize) {
        let mut state = self.network.lock();
        let bus = state.bus.as_ref();
        if let Some(node) = bus.and_then(|bus| bus.map_of(replica).members[replica].master) {
            let order = ClusterTask::Deafen { node };
            state.orders.push_back(ReplicaTask::Cluster(order));
        }
    }

    /// Reads what all nodes know.
    fn with_bus<T>(&self, read: impl FnOnce(&mut Bus) -> T) -> T {
        let mut state = self.network.lock();
        let Some(bus) = &mut state.bus else {
            panic!("this deployment is no cluster");
        };
        read(bus)
    }

    fn order(&self, order: ClusterTask) {
        let order = ReplicaTask::Cluster(order);
        self.network.lock().orders.push_back(order);
        self.settle();
    }

    /// The name of the node that answers for a slot; `None` when there is none. While the network is
    /// [split](Self::split), as the side knows it that has most of the masters, or else the side of the first
    /// node.
    ///
    /// # Panics
    /// When this is no cluster, or there is no such slot.
    pub fn owner_of(&self, slot: u16) -> Option<&str> {
        check(slot);
        let owner = self.with_bus(|bus| bus.map().owner(slot))?;
        self.names().nth(owner)
    }

    /// The place of a node that slots may go to.
    fn master(&self, name: &str) -> usize {
        let place = self.place(name);
        let is_replica = self.with_bus(|bus| bus.map_of(place).members[place].master.is_some());
        assert!(!is_replica, "{name} is a replica");
        place
    }

    /// The owner of a slot as the node knows it that the slot is to go to.
    fn reachable_owner(&self, slot: u16, to: usize) -> Option<usize> {
        let (owner, is_open) = self.with_bus(|bus| {
            let owner = bus.map_of(to).owner(slot);
            (owner, owner.is_none_or(|owner| bus.reaches(owner, to)))
        });
        assert!(is_open, "a split keeps slot {slot} from going there");
        owner
    }

    /// Gives a slot to another master, with all its keys, at one instant. Clients hear of it by MOVED.
    ///
    /// # Panics
    /// When this is no cluster, when there is no such slot or no such master, or when a
    /// [split](Self::split) lies between the masters.
    pub fn move_slot(&self, slot: u16, to: &str) {
        check(slot);
        let to = self.master(to);
        self.reachable_owner(slot, to);
        self.order(ClusterTask::Move { slot, to });
    }

    /// Begins to move a slot, as CLUSTER SETSLOT does on both ends: its owner answers ASK for keys
    /// that are not there, and TRYAGAIN where only some are.
    ///
    /// # Panics
    /// When this is no cluster, when there is no such slot or no such master, when the slot is there
    /// already, or when a [split](Self::split) lies between the masters.
    pub fn begin_migration(&self, slot: u16, to: &str) {
        check(slot);
        let place = self.master(to);
        let owner = self.reachable_owner(slot, place);
        assert_ne!(owner, Some(place), "slot {slot} is there already");
        self.order(ClusterTask::Begin { slot, to: place });
    }

    /// Moves one key of a slot that is on its way, as MIGRATE does; false if it was not there, or if a
    /// split lies between.
    ///
    /// # Panics
    /// When this is no cluster.
    pub fn migrate_key(&self, key: impl AsRef<[u8]>) -> bool {
        let key = key.as_ref();
        let owner = self.owner_of(slot_of(key));
        let is_there = owner.is_some_and(|owner| self.node(owner).exists(key));
        self.order(ClusterTask::Key { key: key.to_vec() });
        is_there && !owner.is_some_and(|owner| self.node(owner).exists(key))
    }

    /// Ends the moving of a slot: what is left of its keys goes too, and all nodes know where it is.
    /// Does nothing for one that is not on its way, or while a split lies between.
    ///
    /// # Panics
    /// When this is no cluster, or there is no such slot.
    pub fn finish_migration(&self, slot: u16) {
        check(slot);
        self.with_bus(|_| ());
        self.order(ClusterTask::Finish { slot });
    }

    /// Gives up the moving of a slot: what had gone comes back. Does nothing while a split lies between.
    ///
    /// # Panics
    /// When this is no cluster, or there is no such slot.
    pub fn cancel_migration(&self, slot: u16) {
        check(slot);
        self.with_bus(|_| ());
        self.order(ClusterTask::Cancel { slot });
    }

    /// How long after a crash, or a [split](Self::split), the other nodes of a cluster know of it (of
    /// true time): at once unless set. From then on they answer CLUSTERDOWN if it has slots and all slots are required
    /// (`cluster-require-full-coverage`), until it is back or was [failed
    /// over](Self::fail_over_to), which nobody does by himself.
    ///
    /// # Panics
    /// When this is no cluster.
    pub fn set_failure_noticed_after(&self, time: Duration) {
        self.with_bus(|bus| bus.noticed_after = time);
    }
}

fn check(slot: u16) {
    assert!(
        slot < SLOTS,
        "there are {SLOTS} slots, none of number {slot}"
    );
}
