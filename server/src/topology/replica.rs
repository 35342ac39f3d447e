//! Asynchronous replication: links with a lag that can be cut, and promotion that loses the tail.
//!
//! *Policy*: a master hands out a unit and does not look after it. A unit arrives at a replica when
//! its lag is over, in order, and is acknowledged at once. A link that is cut keeps what it was given
//! up to `repl-backlog-size` ([`BACKLOG_BYTES_MAX`]); beyond that, and after a crash on either side,
//! the replica gets a copy of everything instead. A node that is paused takes nothing in.

use super::bus::Bus;
use super::cluster;
use super::sentinel::Watch;
use super::split::Breaks;
use crate::engine::{Address, Engine, News, Unit, UnixMicros};
use crate::node::Outgoing;
use crate::node_handle::{InterNode, LockedNode, NodeHandle};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// `repl-backlog-size`: what a link that is cut keeps, bytes.
const BACKLOG_BYTES_MAX: u64 = 1024 * 1024;

/// What waits for a replica at most, however it lags (`client-output-buffer-limit replica`).
const QUEUE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// How far a replica is behind its master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lag {
    /// What was written arrives after this time (of true time).
    Time(Duration),
    /// The latest so many writes have not arrived; a transaction or a script counts as one.
    Units(usize),
}

impl Default for Lag {
    fn default() -> Self {
        Self::Time(Duration::ZERO)
    }
}

/// A replica's way to its master.
#[derive(Debug)]
pub(super) struct ReplicationLink {
    pub(super) master: usize,
    pub(super) replica: usize,
    /// As [`Breaks`] were when somebody looked last.
    pub(super) is_open: bool,
    /// The replica needs a copy before any unit.
    pub(super) needs_copy: bool,
    /// Units on their way, and when (in true time) they arrive.
    queue: VecDeque<(UnixMicros, Arc<Unit>)>,
}

/// What somebody wants done as soon as the nodes are at hand.
#[derive(Clone, Debug)]
pub(super) enum ReplicaTask {
    /// A node shall follow another, or nobody.
    Follow { node: usize, master: Option<usize> },
    /// A link was cut, or works again.
    Links,
    /// A split has begun, or was healed.
    Sides,
    /// A node shall be the master of its master, and of all others that follow that one.
    FailOver { to: usize },
    /// Something about the cluster.
    Cluster(cluster::ClusterTask),
}

#[derive(Debug, Default)]
pub(super) struct NetworkState {
    pub(super) nodes: Vec<(Weak<NodeHandle>, Address)>,
    /// By node: how far it will be behind, whomever it follows.
    lags: Vec<Lag>,
    pub(super) links: Vec<ReplicationLink>,
    pub(super) breaks: Breaks,
    pub(super) orders: VecDeque<ReplicaTask>,
    /// What makes a cluster of them, if they are one.
    pub(super) bus: Option<Bus>,
    /// Masters that have stopped taking writes, and the replicas that are to take their places.
    hand_overs: Vec<(usize, usize)>,
    /// What sentinels watch, if there are any.
    pub(super) watch: Option<Watch>,
}

/// The links between the nodes of a deployment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Network(Arc<Mutex<NetworkState>>);

impl Network {
    pub(super) fn lock(&self) -> MutexGuard<'_, NetworkState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A node joins; its number.
    pub(crate) fn join(&self, handle: &Arc<NodeHandle>, address: Address) -> usize {
        let mut state = self.lock();
        state.nodes.push((Arc::downgrade(handle), address));
        state.lags.push(Lag::default());
        state.nodes.len() - 1
    }

    /// Tells every node where the others are, once all have joined.
    pub(crate) fn introduce(&self) {
        // Nodes are never taken while the network is: whoever has them asks for it.
        let nodes = self.lock().nodes.clone();
        for (index, (handle, _)) in nodes.iter().enumerate() {
            let others = nodes.iter().enumerate();
            let others = others.filter(|(other, _)| *other != index);
            let peers = others.map(|(_, (_, address))| address.clone()).collect();
            if let Some(handle) = handle.upgrade() {
                handle.shared.join_network();
                handle.shared.node().engine.set_peers(peers);
            }
        }
    }

    /// A node shall follow another, or nobody; done when time is next looked at.
    pub(crate) fn follow(&self, node: usize, master: Option<usize>) {
        self.lock()
            .orders
            .push_back(ReplicaTask::Follow { node, master });
    }

    /// A node shall be the master of its master, and of all others that follow that one.
    pub(crate) fn fail_over_to(&self, node: usize) {
        self.lock()
            .orders
            .push_back(ReplicaTask::FailOver { to: node });
    }

    /// Everything between the nodes is as when they were made: nobody follows anybody, nothing is
    /// under way, no replica lags.
    pub(crate) fn reset(&self) {
        let mut state = self.lock();
        state.links.clear();
        state.breaks.clear();
        state.orders.clear();
        state.hand_overs.clear();
        state.lags.fill(Lag::default());
        if let Some(bus) = &mut state.bus {
            bus.reset();
        }
        if let Some(watch) = &mut state.watch {
            watch.reset();
        }
    }

    /// Tells a node that has forgotten everything what it is in its cluster, or that it is a sentinel.
    pub(crate) fn remind(&self, node: usize, engine: &mut Engine) {
        let state = self.lock();
        if let Some(bus) = &state.bus {
            engine.join_cluster(bus.start(), node);
        }
        if state
            .watch
            .as_ref()
            .is_some_and(|watch| watch.is_sentinel(node))
        {
            engine.become_sentinel();
        }
    }

    /// From the next write on.
    pub(crate) fn set_lag(&self, replica: usize, lag: Lag) {
        self.lock().lags[replica] = lag;
    }

    /// The nodes that have replicas or are one: each with its master.
    pub(crate) fn masters(&self) -> Vec<(usize, usize)> {
        let state = self.lock();
        state
            .links
            .iter()
            .map(|link| (link.replica, link.master))
            .collect()
    }

    /// How far a node is behind, whomever it follows.
    pub(crate) fn lag(&self, replica: usize) -> Lag {
        self.lock().lags[replica]
    }

    /// Units on their way to a replica.
    pub(crate) fn in_flight(&self, replica: usize) -> usize {
        let state = self.lock();
        let link = state.links.iter().find(|link| link.replica == replica);
        link.map_or(0, |link| link.queue.len())
    }
}

impl ReplicationLink {
    /// When the first unit arrives, if nothing keeps it.
    fn due(&self, lag: Lag) -> Option<UnixMicros> {
        let (due, _) = self.queue.front()?;
        match lag {
            Lag::Time(_) => Some(*due),
            Lag::Units(behind) => (self.queue.len() > behind).then_some(AT_ONCE),
        }
    }

    /// Adds a unit; too many, which are fewer on a link that is cut, are given up for a copy.
    fn push(&mut self, due: UnixMicros, unit: Arc<Unit>) {
        let due = self.queue.back().map_or(due, |(last, _)| due.max(*last));
        self.queue.push_back((due, unit));
        let (Some((_, first)), Some((_, last))) = (self.queue.front(), self.queue.back()) else {
            return;
        };
        let bound = if self.is_open {
            QUEUE_BYTES_MAX
        } else {
            BACKLOG_BYTES_MAX
        };
        if last.offset.saturating_sub(first.offset) > bound {
            self.needs_copy = true;
        }
        if self.needs_copy {
            self.queue.clear();
        }
    }
}

/// Earlier than any time.
const AT_ONCE: UnixMicros = UnixMicros(i64::MIN);

/// The place of a node among those that somebody has.
pub(super) fn seat(state: &NetworkState, node: usize, seats: &[LockedNode<'_>]) -> Option<usize> {
    let handle = state.nodes[node].0.upgrade()?;
    let is_it = |seat: &LockedNode<'_>| std::ptr::eq(seat.shared, &raw const handle.shared);
    seats.iter().position(is_it)
}

/// Whether a node takes anything in now.
pub(super) fn listens(seat: &LockedNode<'_>) -> bool {
    !seat.node.is_paused() && !seat.node.is_crashed()
}

impl NetworkState {
    /// Does something to a node, if it is at hand.
    pub(super) fn change(
        &self,
        node: usize,
        seats: &mut [LockedNode<'_>],
        now: UnixMicros,
        change: impl FnOnce(&mut Engine, UnixMicros),
    ) {
        if let Some(at) = seat(self, node, seats) {
            let seat = &mut seats[at];
            seat.node.change(seat.shared, now, change);
        }
    }

    /// A link over which something arrives, and when.
    fn next_arrival(&self, seats: &[LockedNode<'_>]) -> Option<(UnixMicros, usize)> {
        let arrivals = self.links.iter().enumerate().filter_map(|(index, link)| {
            if !link.is_open {
                return None;
            }
            let due = if link.needs_copy {
                AT_ONCE
            } else {
                link.due(self.lags[link.replica])?
            };
            let (master, replica) = (
                seat(self, link.master, seats)?,
                seat(self, link.replica, seats)?,
            );
            let is_open = listens(&seats[replica]) && (!link.needs_copy || listens(&seats[master]));
            is_open.then_some((due, index))
        });
        arrivals.min()
    }

    /// Puts what the nodes have said onto the links.
    fn collect(&mut self, seats: &mut [LockedNode<'_>], now: UnixMicros) {
        for node in 0..self.nodes.len() {
            let Some(seat) = seat(self, node, seats) else {
                continue;
            };
            for outgoing in seats[seat].shared.take_outgoing() {
                match outgoing {
                    Outgoing::Unit(unit) => self.post(node, &unit, now),
                    Outgoing::Follow(master) => {
                        let place = |address| self.nodes.iter().position(|(_, of)| *of == address);
                        let master = master.and_then(place);
                        self.orders.push_back(ReplicaTask::Follow { node, master });
                    }
                    Outgoing::Cluster(News(claim)) => {
                        let order = cluster::ClusterTask::Claim { from: node, claim };
                        self.orders.push_back(ReplicaTask::Cluster(order));
                    }
                    Outgoing::Migrate(migration) => self.migrate(node, &migration, seats, now),
                    Outgoing::FailOver(None) => self.fail_over_by_hand(node, seats),
                    Outgoing::FailOver(Some(to)) => {
                        if let Some(to) = self.nodes.iter().position(|(_, of)| *of == to) {
                            self.hand_overs.push((node, to));
                        }
                    }
                    Outgoing::Crashed => {
                        if let Some(watch) = &mut self.watch {
                            watch.is_stale = true;
                        }
                        self.on_crash(node, seats, now);
                        self.set_crashed(node, true, seats, now);
                    }
                    Outgoing::Restarted => {
                        let order = cluster::ClusterTask::Back { node };
                        self.orders.push_back(ReplicaTask::Cluster(order));
                    }
                }
            }
        }
    }

    fn post(&mut self, master: usize, unit: &Arc<Unit>, now: UnixMicros) {
        for link in self.links.iter_mut().filter(|link| link.master == master) {
            let due = match self.lags[link.replica] {
                Lag::Time(lag) => now.plus(lag),
                Lag::Units(_) => now,
            };
            link.push(due, unit.clone());
        }
    }

    /// What was on its way from or to a node that crashed is lost; replicas get a copy when it is back.
    fn on_crash(&mut self, node: usize, seats: &mut [LockedNode<'_>], now: UnixMicros) {
        self.hand_overs.retain(|(from, _)| *from != node);
        for index in 0..self.links.len() {
            let link = &mut self.links[index];
            if link.master == node || link.replica == node {
                link.queue.clear();
                link.needs_copy = true;
                self.tell_of_link(index, false, seats, now);
            }
        }
    }

    /// Masters that hand over to a replica that can be reached.
    fn hand_overs_due(&self, seats: &[LockedNode<'_>]) -> bool {
        let mut all = self.hand_overs.iter();
        all.any(|(from, to)| self.may_hand_over(*from, *to, seats))
    }

    fn may_hand_over(&self, from: usize, to: usize, seats: &[LockedNode<'_>]) -> bool {
        let is_there = |node: usize| seat(self, node, seats).is_some_and(|at| listens(&seats[at]));
        let is_shut = |link: &ReplicationLink| link.replica == to && !link.is_open;
        is_there(from) && is_there(to) && !self.links.iter().any(is_shut)
    }

    /// They and their replicas change places; other replicas stay with whom they followed.
    fn hand_over(&mut self, seats: &[LockedNode<'_>]) {
        let (ready, waiting) = std::mem::take(&mut self.hand_overs)
            .into_iter()
            .partition(|(from, to)| self.may_hand_over(*from, *to, seats));
        self.hand_overs = waiting;
        let ready: Vec<(usize, usize)> = ready;
        for (from, to) in ready {
            let follow = |node, master| ReplicaTask::Follow { node, master };
            self.orders.push_back(follow(to, None));
            self.orders.push_back(follow(from, Some(to)));
            if let Some(watch) = &mut self.watch {
                watch.switch(to);
            }
        }
    }

    /// Those that the new master reaches follow it.
    fn fail_over(&mut self, to: usize) {
        let follow = |node, master| ReplicaTask::Follow { node, master };
        self.orders.push_back(follow(to, None));
        let master = self.links.iter().find(|link| link.replica == to);
        if let Some(master) = master.map(|link| link.master) {
            let links = self.links.iter().filter(|link| link.master == master);
            let others = links.map(|link| link.replica).filter(|node| *node != to);
            let told = std::iter::once(master).chain(others);
            let told = told.filter(|node| self.breaks.is_open(*node, to));
            self.orders.extend(told.map(|node| follow(node, Some(to))));
        }
        if let Some(watch) = &mut self.watch {
            watch.switch(to);
        }
    }

    fn carry_out(&mut self, order: ReplicaTask, seats: &mut [LockedNode<'_>], now: UnixMicros) {
        match order {
            ReplicaTask::FailOver { to } => self.fail_over(to),
            ReplicaTask::Follow { node, master } => {
                self.leave(node, seats, now);
                self.breaks.mend(node);
                self.hand_overs.retain(|(from, _)| *from != node);
                if let Some(master) = master.filter(|master| *master != node) {
                    self.links.push(ReplicationLink {
                        master,
                        replica: node,
                        is_open: self.breaks.passes(node, master),
                        needs_copy: true,
                        queue: VecDeque::new(),
                    });
                } else if let Some(seat) = seat(self, node, seats) {
                    let seat = &mut seats[seat];
                    seat.node
                        .change(seat.shared, now, |engine, _| engine.promote());
                }
                self.on_follow(node, master, seats, now);
            }
            ReplicaTask::Cluster(order) => self.carry_out_in_cluster(order, seats, now),
            ReplicaTask::Links => self.look_at_links(seats, now),
            ReplicaTask::Sides => self.look_at_sides(seats, now),
        }
    }

    /// Both ends notice that a link was cut, or works again.
    pub(super) fn tell_of_link(
        &self,
        index: usize,
        is_up: bool,
        seats: &mut [LockedNode<'_>],
        now: UnixMicros,
    ) {
        let link = &self.links[index];
        if let Some(at) = seat(self, link.replica, seats) {
            let seat = &mut seats[at];
            seat.node.change(seat.shared, now, |engine, now| {
                engine.set_upstream(is_up, now)
            });
        }
        if let Some(at) = seat(self, link.master, seats) {
            let (seat, id) = (&mut seats[at], link.replica as u64);
            let change = |engine: &mut Engine, now| engine.hear_replica(id, is_up, now);
            seat.node.change(seat.shared, now, change);
        }
    }

    /// A replica leaves its master.
    fn leave(&mut self, replica: usize, seats: &mut [LockedNode<'_>], now: UnixMicros) {
        let Some(index) = self.links.iter().position(|link| link.replica == replica) else {
            return;
        };
        let link = self.links.remove(index);
        if let Some(at) = seat(self, link.master, seats) {
            let seat = &mut seats[at];
            let id = replica as u64;
            seat.node
                .change(seat.shared, now, |engine, _| engine.remove_replica(id));
        }
    }

    /// All that a replica has been sent arrives, whatever its lag, if its link works.
    pub(super) fn deliver_all(
        &mut self,
        replica: usize,
        seats: &mut [LockedNode<'_>],
        now: UnixMicros,
    ) {
        let mut links = self.links.iter();
        let Some(index) = links.position(|link| link.replica == replica && link.is_open) else {
            return;
        };
        while self.links[index].needs_copy || !self.links[index].queue.is_empty() {
            self.deliver(index, seats, now);
        }
    }

    /// What is due on a link arrives.
    fn deliver(&mut self, index: usize, seats: &mut [LockedNode<'_>], now: UnixMicros) {
        let link = &self.links[index];
        let (master, replica) = (link.master, link.replica);
        let (Some(from), Some(to)) = (seat(self, master, seats), seat(self, replica, seats)) else {
            return;
        };
        let (id, address) = (replica as u64, self.nodes[replica].1.clone());
        if self.links[index].needs_copy {
            let link = &mut self.links[index];
            link.needs_copy = false;
            link.queue.clear();
            let copy = seats[from].node.engine.copy();
            let seat = &mut seats[from];
            seat.node.change(seat.shared, now, |engine, now| {
                engine.add_replica(id, address, now)
            });
            let at = self.nodes[master].1.clone();
            let seat = &mut seats[to];
            seat.node.change(seat.shared, now, |engine, now| {
                engine.follow(at, &copy, now)
            });
            return;
        }
        let Some((_, unit)) = self.links[index].queue.pop_front() else {
            return;
        };
        let seat = &mut seats[to];
        seat.node
            .change(seat.shared, now, |engine, now| engine.apply(&unit, now));
        let seat = &mut seats[from];
        let offset = unit.offset;
        seat.node.change(seat.shared, now, |engine, now| {
            engine.acknowledge(id, offset, now)
        });
    }
}

impl InterNode for Network {
    fn poll_timeout(&self, seats: &[LockedNode<'_>]) -> Option<UnixMicros> {
        let state = self.lock();
        let says_something = |seat: &LockedNode<'_>| seat.shared.has_outgoing();
        if !state.orders.is_empty()
            || state.hand_overs_due(seats)
            || seats.iter().any(says_something)
        {
            return Some(AT_ONCE);
        }
        let arrival = state.next_arrival(seats).map(|(due, _)| due);
        let sentinels = state.sentinels_due(seats);
        [arrival, state.next_notice(), sentinels]
            .into_iter()
            .flatten()
            .min()
    }

    fn handle_timeout(&mut self, seats: &mut [LockedNode<'_>], now: UnixMicros) {
        let mut state = self.lock();
        state.collect(seats, now);
        state.hand_over(seats);
        while let Some(order) = state.orders.pop_front() {
            state.carry_out(order, seats, now);
            if let Some(watch) = &mut state.watch {
                watch.is_stale = true;
            }
            state.collect(seats, now);
        }
        if state.next_notice().is_some_and(|due| due <= now) {
            state.notice(seats, now);
        }
        state.look_after(seats, now);
        if let Some((due, index)) = state.next_arrival(seats)
            && due <= now
        {
            state.deliver(index, seats, now);
        }
    }
}
