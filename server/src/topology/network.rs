//! The network between the nodes of a deployment: what is on its way, and the tasks that change it.
//! The files beside this one have a subject each: replication links, the cluster, sentinels, splits.

use super::bus::Bus;
use super::cluster::ClusterTask;
use super::replica::{Lag, ReplicationLink};
use super::sentinel::Watch;
use super::split::Connectivity;
use crate::engine::{Address, ClusterMessage, Engine, UnixMicros};
use crate::node::Outgoing;
use crate::node_handle::{InterNode, LockedNode, NodeHandle};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A task that is carried out as soon as the nodes are locked.
#[derive(Clone, Debug)]
pub(super) enum Task {
    /// Makes a node the replica of another, or a master.
    Follow { node: usize, master: Option<usize> },
    /// A link was cut or restored.
    Links,
    /// A split began or was healed.
    Sides,
    /// Makes a replica the master. Its former master and the other replicas follow it.
    FailOver { to: usize },
    /// A task of the cluster.
    Cluster(ClusterTask),
}

#[derive(Debug, Default)]
pub(super) struct NetworkState {
    pub(super) nodes: Vec<(Weak<NodeHandle>, Address)>,
    /// The lag of each node, whichever master it follows.
    pub(super) lags: Vec<Lag>,
    pub(super) links: Vec<ReplicationLink>,
    pub(super) connectivity: Connectivity,
    pub(super) tasks: VecDeque<Task>,
    /// The cluster map, if the deployment is a cluster.
    pub(super) bus: Option<Bus>,
    /// Masters that run FAILOVER and accept no writes, each with the replica that is to replace it.
    pub(super) handovers: Vec<(usize, usize)>,
    /// What the sentinels watch, if there are any.
    pub(super) watch: Option<Watch>,
}

/// The network between the nodes of a deployment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Network(Arc<Mutex<NetworkState>>);

impl Network {
    pub(super) fn lock(&self) -> MutexGuard<'_, NetworkState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a node; returns its index.
    pub(crate) fn join(&self, handle: &Arc<NodeHandle>, address: Address) -> usize {
        let mut state = self.lock();
        state.nodes.push((Arc::downgrade(handle), address));
        state.lags.push(Lag::default());
        state.nodes.len() - 1
    }

    /// Tells every node the addresses of the others, once all have joined.
    pub(crate) fn announce_addresses(&self) {
        // The nodes are locked before the network, never the other way round.
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

    /// Makes a node the replica of another, or a master, when time is next looked at.
    pub(crate) fn follow(&self, node: usize, master: Option<usize>) {
        self.lock().tasks.push_back(Task::Follow { node, master });
    }

    /// Makes a replica the master. Its former master and the other replicas follow it.
    pub(crate) fn fail_over_to(&self, node: usize) {
        self.lock().tasks.push_back(Task::FailOver { to: node });
    }

    /// Restores the state at the start: no node is a replica, nothing is on its way, no replica
    /// lags.
    pub(crate) fn reset(&self) {
        let mut state = self.lock();
        state.links.clear();
        state.connectivity.clear();
        state.tasks.clear();
        state.handovers.clear();
        state.lags.fill(Lag::default());
        if let Some(bus) = &mut state.bus {
            bus.reset();
        }
        if let Some(watch) = &mut state.watch {
            watch.reset();
        }
    }

    /// Restores a node's role in its cluster, or as a sentinel, after the node was reset.
    pub(crate) fn restore_role(&self, node: usize, engine: &mut Engine) {
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

    /// Sets the lag of a replica, from the next write on.
    pub(crate) fn set_lag(&self, replica: usize, lag: Lag) {
        self.lock().lags[replica] = lag;
    }

    /// The replicas, each with its master.
    pub(crate) fn masters(&self) -> Vec<(usize, usize)> {
        let state = self.lock();
        state
            .links
            .iter()
            .map(|link| (link.replica, link.master))
            .collect()
    }

    /// The lag of a node, whichever master it follows.
    pub(crate) fn lag(&self, replica: usize) -> Lag {
        self.lock().lags[replica]
    }

    /// Number of units on their way to a replica.
    pub(crate) fn in_flight(&self, replica: usize) -> usize {
        let state = self.lock();
        let link = state.links.iter().find(|link| link.replica == replica);
        link.map_or(0, |link| link.in_flight())
    }
}

/// Earlier than any time.
pub(super) const AT_ONCE: UnixMicros = UnixMicros(i64::MIN);

/// True if the node is neither paused nor crashed.
pub(super) fn is_running(target: &LockedNode<'_>) -> bool {
    !target.node.is_paused() && !target.node.is_crashed()
}

impl NetworkState {
    /// The index of a node among the locked nodes.
    pub(super) fn index_of(&self, node: usize, locked: &[LockedNode<'_>]) -> Option<usize> {
        let handle = self.nodes[node].0.upgrade()?;
        let is_it = |target: &LockedNode<'_>| std::ptr::eq(target.shared, &raw const handle.shared);
        locked.iter().position(is_it)
    }

    /// Changes the engine of a node, if the node is locked.
    pub(super) fn change(
        &self,
        node: usize,
        locked: &mut [LockedNode<'_>],
        now: UnixMicros,
        change: impl FnOnce(&mut Engine, UnixMicros),
    ) {
        if let Some(at) = self.index_of(node, locked) {
            let target = &mut locked[at];
            target.node.change(target.shared, now, change);
        }
    }

    /// Takes the messages that the nodes have sent.
    fn collect(&mut self, locked: &mut [LockedNode<'_>], now: UnixMicros) {
        for node in 0..self.nodes.len() {
            let Some(target) = self.index_of(node, locked) else {
                continue;
            };
            for outgoing in locked[target].shared.take_outgoing() {
                match outgoing {
                    Outgoing::Unit(unit) => self.post(node, &unit, now),
                    Outgoing::Follow(master) => {
                        let index = |address| self.nodes.iter().position(|(_, of)| *of == address);
                        let master = master.and_then(index);
                        self.tasks.push_back(Task::Follow { node, master });
                    }
                    Outgoing::Cluster(ClusterMessage(claim)) => {
                        let task = ClusterTask::Claim { from: node, claim };
                        self.tasks.push_back(Task::Cluster(task));
                    }
                    Outgoing::Migrate(migration) => self.migrate(node, &migration, locked, now),
                    Outgoing::FailOver(None) => self.fail_over_by_hand(node, locked),
                    Outgoing::FailOver(Some(to)) => {
                        if let Some(to) = self.nodes.iter().position(|(_, of)| *of == to) {
                            self.handovers.push((node, to));
                        }
                    }
                    Outgoing::Crashed => {
                        if let Some(watch) = &mut self.watch {
                            watch.is_stale = true;
                        }
                        self.on_crash(node, locked, now);
                        self.set_crashed(node, true, locked, now);
                    }
                    Outgoing::Restarted => {
                        let task = ClusterTask::Restarted { node };
                        self.tasks.push_back(Task::Cluster(task));
                    }
                }
            }
        }
    }

    fn run_task(&mut self, task: Task, locked: &mut [LockedNode<'_>], now: UnixMicros) {
        match task {
            Task::FailOver { to } => self.fail_over(to),
            Task::Follow { node, master } => {
                self.leave(node, locked, now);
                self.connectivity.mend(node);
                self.handovers.retain(|(from, _)| *from != node);
                if let Some(master) = master.filter(|master| *master != node) {
                    let is_open = self.connectivity.link_works(node, master);
                    self.links.push(ReplicationLink::new(master, node, is_open));
                } else if let Some(target) = self.index_of(node, locked) {
                    let target = &mut locked[target];
                    target
                        .node
                        .change(target.shared, now, |engine, _| engine.promote());
                }
                self.on_follow(node, master, locked, now);
            }
            Task::Cluster(task) => self.run_cluster_task(task, locked, now),
            Task::Links => self.update_links(locked, now),
            Task::Sides => self.update_sides(locked, now),
        }
    }
}

impl InterNode for Network {
    fn poll_timeout(&self, locked: &[LockedNode<'_>]) -> Option<UnixMicros> {
        let state = self.lock();
        let has_outgoing = |target: &LockedNode<'_>| target.shared.has_outgoing();
        if !state.tasks.is_empty() || state.handovers_due(locked) || locked.iter().any(has_outgoing)
        {
            return Some(AT_ONCE);
        }
        let arrival = state.next_arrival(locked).map(|(due, _)| due);
        let sentinels = state.sentinels_due(locked);
        [arrival, state.next_notice(), sentinels]
            .into_iter()
            .flatten()
            .min()
    }

    fn handle_timeout(&mut self, locked: &mut [LockedNode<'_>], now: UnixMicros) {
        let mut state = self.lock();
        state.collect(locked, now);
        state.hand_over(locked);
        while let Some(task) = state.tasks.pop_front() {
            state.run_task(task, locked, now);
            if let Some(watch) = &mut state.watch {
                watch.is_stale = true;
            }
            state.collect(locked, now);
        }
        if state.next_notice().is_some_and(|due| due <= now) {
            state.notice_failures(locked, now);
        }
        state.run_sentinels(locked, now);
        if let Some((due, index)) = state.next_arrival(locked)
            && due <= now
        {
            state.deliver(index, locked, now);
        }
    }
}
