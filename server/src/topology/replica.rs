//! Asynchronous replication over links that have a lag and can be cut. A promotion loses the writes
//! that have not arrived.
//!
//! *Policy*: a master sends a unit and does not wait for it. The unit arrives at a replica after
//! the lag, in order, and is acknowledged at once. A cut link keeps up to `repl-backlog-size`
//! (`link.rs`) bytes of units. Beyond that, and after a crash on either side, the
//! replica gets a copy of all data instead. A paused node receives nothing.

use super::link::{AT_ONCE, Lag, ReplicationLink};
use super::network::{NetworkState, is_running};
use super::task::Task;
use crate::engine::{Engine, Unit, UnixMicros};
use crate::node_handle::LockedNode;
use std::sync::Arc;

impl NetworkState {
    /// The link with the earliest arrival, and its time.
    pub(super) fn next_arrival(&self, locked: &[LockedNode<'_>]) -> Option<(UnixMicros, usize)> {
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
                self.index_of(link.master, locked)?,
                self.index_of(link.replica, locked)?,
            );
            let is_open =
                is_running(&locked[replica]) && (!link.needs_copy || is_running(&locked[master]));
            is_open.then_some((due, index))
        });
        arrivals.min()
    }

    pub(super) fn post(&mut self, master: usize, unit: &Arc<Unit>, now: UnixMicros) {
        for link in self.links.iter_mut().filter(|link| link.master == master) {
            let due = match self.lags[link.replica] {
                Lag::Time(lag) => now.plus(lag),
                Lag::Units(_) => now,
            };
            link.push(due, unit.clone());
        }
    }

    /// Handles a crash: units from and to the node are lost, and replicas get a copy after the
    /// restart. The master of a replica loses its connection, and forgets the replica until then.
    pub(super) fn on_crash(&mut self, node: usize, locked: &mut [LockedNode<'_>], now: UnixMicros) {
        self.handovers.retain(|(from, _)| *from != node);
        for index in 0..self.links.len() {
            let link = &mut self.links[index];
            if link.master == node || link.replica == node {
                link.queue.clear();
                link.needs_copy = true;
                self.notify_link_change(index, false, locked, now);
            }
            if self.links[index].replica == node {
                self.forget_replica(index, locked, now);
            }
        }
    }

    /// Removes the replica of a link from the list of its master.
    fn forget_replica(&self, index: usize, locked: &mut [LockedNode<'_>], now: UnixMicros) {
        let link = &self.links[index];
        if let Some(at) = self.index_of(link.master, locked) {
            let (target, id) = (&mut locked[at], link.replica as u64);
            target
                .node
                .change(target.shared, now, |engine, _| engine.remove_replica(id));
        }
    }

    /// True if a FAILOVER can be completed: the master and the replica run and reach each other.
    pub(super) fn handovers_due(&self, locked: &[LockedNode<'_>]) -> bool {
        let mut all = self.handovers.iter();
        all.any(|(from, to)| self.can_hand_over(*from, *to, locked))
    }

    fn can_hand_over(&self, from: usize, to: usize, locked: &[LockedNode<'_>]) -> bool {
        let is_reachable = |node: usize| {
            self.index_of(node, locked)
                .is_some_and(|at| is_running(&locked[at]))
        };
        let is_shut = |link: &ReplicationLink| link.replica == to && !link.is_open;
        is_reachable(from) && is_reachable(to) && !self.links.iter().any(is_shut)
    }

    /// Completes each FAILOVER that is ready: the master and the replica swap roles. Other replicas
    /// stay with the former master.
    pub(super) fn hand_over(&mut self, locked: &[LockedNode<'_>]) {
        let (ready, waiting) = std::mem::take(&mut self.handovers)
            .into_iter()
            .partition(|(from, to)| self.can_hand_over(*from, *to, locked));
        self.handovers = waiting;
        let ready: Vec<(usize, usize)> = ready;
        for (from, to) in ready {
            let follow = |node, master| Task::Follow { node, master };
            self.tasks.push_back(follow(to, None));
            self.tasks.push_back(follow(from, Some(to)));
            if let Some(watch) = &mut self.watch {
                watch.switch(to);
            }
        }
    }

    /// Makes a replica the master. The nodes of its group that it reaches follow it.
    pub(super) fn fail_over(&mut self, to: usize) {
        let follow = |node, master| Task::Follow { node, master };
        self.tasks.push_back(follow(to, None));
        let mut changed = vec![to];
        let master = self.links.iter().find(|link| link.replica == to);
        if let Some(master) = master.map(|link| link.master) {
            let links = self.links.iter().filter(|link| link.master == master);
            let others = links.map(|link| link.replica).filter(|node| *node != to);
            let followers = std::iter::once(master).chain(others);
            let followers = followers.filter(|node| self.connectivity.is_reachable(*node, to));
            // A node of a cluster learns of it when it is back.
            let is_away = |node: usize| self.bus.as_ref().is_some_and(|bus| bus.is_crashed(node));
            let followers = followers.filter(|node| !is_away(*node));
            changed.extend(followers);
            let followers = changed[1..].iter();
            self.tasks
                .extend(followers.map(|node| follow(*node, Some(to))));
        }
        if let Some(watch) = &mut self.watch {
            watch.switch(to);
            // Sentinels end all sessions where they change a role (`sentinel.c: sentinelSendSlaveOf`).
            let ends = changed.into_iter().map(|node| Task::EndSessions { node });
            self.tasks.extend(ends);
        }
    }

    /// Tells both ends that a link was cut or restored.
    pub(super) fn notify_link_change(
        &self,
        index: usize,
        is_up: bool,
        locked: &mut [LockedNode<'_>],
        now: UnixMicros,
    ) {
        let link = &self.links[index];
        if let Some(at) = self.index_of(link.replica, locked) {
            let target = &mut locked[at];
            target.node.change(target.shared, now, |engine, now| {
                engine.set_upstream(is_up, now)
            });
        }
        if let Some(at) = self.index_of(link.master, locked) {
            let (target, id) = (&mut locked[at], link.replica as u64);
            let change = |engine: &mut Engine, now| engine.hear_replica(id, is_up, now);
            target.node.change(target.shared, now, change);
        }
    }

    /// Removes the link of a replica from its master.
    pub(super) fn leave(&mut self, replica: usize, locked: &mut [LockedNode<'_>], now: UnixMicros) {
        let Some(index) = self.links.iter().position(|link| link.replica == replica) else {
            return;
        };
        self.forget_replica(index, locked, now);
        self.links.remove(index);
    }

    /// Delivers everything that was sent to a replica, whatever its lag, if its link works.
    pub(super) fn deliver_all(
        &mut self,
        replica: usize,
        locked: &mut [LockedNode<'_>],
        now: UnixMicros,
    ) {
        let mut links = self.links.iter();
        let Some(index) = links.position(|link| link.replica == replica && link.is_open) else {
            return;
        };
        while self.links[index].needs_copy || !self.links[index].queue.is_empty() {
            self.deliver(index, locked, now);
        }
    }

    /// Delivers the next unit of a link, or a copy of all data.
    pub(super) fn deliver(&mut self, index: usize, locked: &mut [LockedNode<'_>], now: UnixMicros) {
        let link = &self.links[index];
        let (master, replica) = (link.master, link.replica);
        let (Some(from), Some(to)) = (
            self.index_of(master, locked),
            self.index_of(replica, locked),
        ) else {
            return;
        };
        let (id, address) = (replica as u64, self.nodes[replica].1.clone());
        if self.links[index].needs_copy {
            let link = &mut self.links[index];
            link.needs_copy = false;
            link.queue.clear();
            let copy = locked[from].node.engine.copy();
            let target = &mut locked[from];
            target.node.change(target.shared, now, |engine, now| {
                engine.add_replica(id, address, now)
            });
            let at = self.nodes[master].1.clone();
            let target = &mut locked[to];
            target.node.change(target.shared, now, |engine, now| {
                engine.follow(at, &copy, now)
            });
            return;
        }
        let Some((_, unit)) = self.links[index].queue.pop_front() else {
            return;
        };
        let target = &mut locked[to];
        target
            .node
            .change(target.shared, now, |engine, now| engine.apply(&unit, now));
        let file = target.node.engine.config().append_only();
        let target = &mut locked[from];
        let offset = unit.offset;
        target.node.change(target.shared, now, |engine, now| {
            engine.acknowledge(id, offset, file, now)
        });
    }
}
