//! One turn of the network: takes what the nodes have sent, runs the tasks, and delivers what has arrived.

use super::link::{AT_ONCE, ReplicationLink};
use super::network::{Network, NetworkState};
use super::task::{ClusterTask, Task};
use crate::engine::{ClusterMessage, UnixMicros};
use crate::node::Outgoing;
use crate::node_handle::{InterNode, LockedNode};

impl NetworkState {
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
                    Outgoing::FailOver(None) => self.fail_over_by_hand(node, locked, now),
                    Outgoing::FailOver(Some(to)) => {
                        if let Some(to) = self.nodes.iter().position(|(_, of)| *of == to) {
                            self.handovers.push((node, to));
                        }
                    }
                    Outgoing::Crashed => {
                        if let Some(watch) = &mut self.watch {
                            watch.is_stale = true;
                            watch.absent.insert(node);
                        }
                        self.on_crash(node, locked, now);
                        self.set_crashed(node, true, locked, now);
                    }
                    // It only starts this turn, in which the sentinels check their nodes.
                    Outgoing::FellAsleep => {}
                    Outgoing::Restarted => {
                        if let Some(watch) = &mut self.watch {
                            watch.is_stale = true;
                            watch.absent.remove(&node);
                        }
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
            Task::EndSessions { node } => {
                if let Some(target) = self.index_of(node, locked) {
                    let target = &mut locked[target];
                    target
                        .node
                        .change(target.shared, now, |engine, now| engine.end_sessions(now));
                }
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
