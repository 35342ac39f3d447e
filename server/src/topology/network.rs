//! The network between the nodes of a deployment: its nodes, and what is on its way between them.
//!
//! Files with types alone: `connectivity.rs`, `link.rs`, `bus.rs`, `watch.rs`, `task.rs`. What they are for when
//! nodes are locked has a file per subject: `replica.rs`, `split.rs`, `cluster.rs`, `announce.rs`,
//! `sentinel.rs`, `migration.rs`; `turn.rs` calls these.

use super::bus::Bus;
use super::connectivity::Connectivity;
use super::link::{Lag, ReplicationLink};
use super::task::Task;
use super::watch::Watch;
use crate::engine::{Address, Engine, UnixMicros};
use crate::node_handle::{LockedNode, NodeHandle};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

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
    /// Watches of the sentinels, if there are any.
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

    /// Sends every node the addresses of the others, after all have joined.
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
            engine.join_cluster(bus.start(node), node);
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

/// True if the node serves its clients: it is neither paused nor asleep, crashed or shut down.
pub(super) fn is_running(target: &LockedNode<'_>) -> bool {
    !target.node.is_stalled() && !target.node.is_crashed() && !target.shared.is_down()
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
}
