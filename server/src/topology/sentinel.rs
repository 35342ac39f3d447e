//! Sentinels. They agree at once on which nodes are down, and fail over when the master has been
//! down for long enough. Their gossip and votes are not emulated, only what clients see of them.
//! Sentinels act if most of them reach each other; the sentinels outside of that majority keep
//! their old view.

use super::network::{Network, NetworkState, is_running};
use super::task::Task;
use super::watch::Watch;
use crate::engine::{Address, Seen, UnixMicros, Watched};
use crate::node_handle::LockedNode;
use std::time::Duration;

/// Name of the master for clients.
const MASTER_NAME: &str = "mymaster";

impl NetworkState {
    /// A sentinel that reaches most of the sentinels, if there is one.
    fn majority_sentinel(&self, watch: &Watch) -> Option<usize> {
        let reaches = |one: usize| {
            let all = watch.sentinels.iter();
            all.filter(|other| self.connectivity.is_reachable(one, **other))
                .count()
        };
        let mut all = watch.sentinels.iter().copied();
        all.find(|one| reaches(*one) > watch.sentinels.len() / 2)
    }

    fn is_down(&self, node: usize, locked: &[LockedNode<'_>]) -> bool {
        let observer = self
            .watch
            .as_ref()
            .and_then(|watch| self.majority_sentinel(watch));
        let is_away =
            observer.is_some_and(|observer| !self.connectivity.is_reachable(observer, node));
        is_away
            || self
                .index_of(node, locked)
                .is_none_or(|target| !is_running(&locked[target]))
    }

    /// Data nodes that most sentinels reach again and that do not follow the master, each with that
    /// master.
    pub(super) fn strays(&self) -> Vec<(usize, usize)> {
        let Some(watch) = &self.watch else {
            return Vec::new();
        };
        let follows = |node: usize| {
            let mut links = self.links.iter();
            links.any(|link| (link.replica, link.master) == (node, watch.master))
        };
        let observer = self.majority_sentinel(watch);
        let data = watch.data.iter().copied();
        let strays = data.filter(|node| {
            let is_reachable =
                observer.is_some_and(|observer| self.connectivity.is_reachable(observer, *node));
            let was_away = watch.reported_down.contains(node);
            was_away && is_reachable && *node != watch.master && !follows(*node)
        });
        strays.map(|node| (node, watch.master)).collect()
    }

    /// The data nodes that are down.
    fn down(&self, watch: &Watch, locked: &[LockedNode<'_>]) -> Vec<usize> {
        let data = watch.data.iter().copied();
        data.filter(|node| self.is_down(*node, locked)).collect()
    }

    /// The running replica that has received most.
    fn successor(&self, locked: &[LockedNode<'_>]) -> Option<usize> {
        let watch = self.watch.as_ref()?;
        let others = watch.data.iter().filter(|node| **node != watch.master);
        let running = others.filter(|node| !self.is_down(**node, locked));
        // If several have received the same, the first is chosen.
        running.copied().max_by_key(|node| {
            let target = self.index_of(*node, locked);
            let offset = target.map_or(0, |target| locked[target].node.engine.replication_offset());
            (offset, std::cmp::Reverse(*node))
        })
    }

    /// The next time at which the sentinels act.
    pub(super) fn sentinels_due(&self, locked: &[LockedNode<'_>]) -> Option<UnixMicros> {
        let watch = self.watch.as_ref()?;
        self.majority_sentinel(watch)?;
        if watch.is_stale || self.down(watch, locked) != watch.reported_down {
            return Some(UnixMicros(i64::MIN));
        }
        let due = watch.down_since?.plus(watch.down_after);
        self.successor(locked).map(|_| due)
    }

    /// Updates which nodes are down, starts a failover, updates the view of the sentinels.
    pub(super) fn run_sentinels(&mut self, locked: &mut [LockedNode<'_>], now: UnixMicros) {
        let Some(watch) = self
            .watch
            .as_ref()
            .filter(|watch| self.majority_sentinel(watch).is_some())
        else {
            return;
        };
        let (down, successor) = (self.down(watch, locked), self.successor(locked));
        let Some(watch) = &mut self.watch else {
            return;
        };
        watch.is_stale |= down != watch.reported_down;
        watch.down_since = if down.contains(&watch.master) {
            watch.down_since.or(Some(now))
        } else {
            None
        };
        if watch
            .down_since
            .is_some_and(|since| since.plus(watch.down_after) <= now)
            && let Some(to) = successor
        {
            self.tasks.push_back(Task::FailOver { to });
        } else if watch.is_stale {
            watch.is_stale = false;
            watch.reported_down = down;
            self.update_sentinels(locked, now);
        }
    }

    /// Runs SENTINEL FAILOVER, if the sentinel that received it belongs to the majority.
    pub(super) fn fail_over_by_hand(&mut self, by: usize, locked: &[LockedNode<'_>]) {
        let watch = self.watch.as_ref();
        let observer = watch.and_then(|watch| self.majority_sentinel(watch));
        if observer.is_some_and(|observer| self.connectivity.is_reachable(observer, by))
            && let Some(to) = self.successor(locked)
        {
            self.tasks.push_back(Task::FailOver { to });
        }
    }

    fn update_sentinels(&self, locked: &mut [LockedNode<'_>], now: UnixMicros) {
        let Some(watch) = &self.watch else {
            return;
        };
        let address = |node: usize| self.nodes[node].1.clone();
        let id = |node: usize, locked: &[LockedNode<'_>]| {
            let target = self.index_of(node, locked);
            target.map_or_else(String::new, |target| {
                locked[target].node.engine.run_id().to_owned()
            })
        };
        let seen = |node: usize, locked: &[LockedNode<'_>]| Seen {
            address: address(node),
            run_id: id(node, locked),
            is_down: self.is_down(node, locked),
            offset: self
                .index_of(node, locked)
                .map_or(0, |target| locked[target].node.engine.replication_offset()),
        };
        let replicas = watch.data.iter().filter(|node| **node != watch.master);
        let watched = Watched {
            name: MASTER_NAME.to_owned(),
            master: seen(watch.master, locked),
            replicas: replicas.map(|node| seen(*node, locked)).collect(),
            sentinels: watch
                .sentinels
                .iter()
                .map(|node| (address(*node), id(*node, locked)))
                .collect::<Vec<(Address, String)>>(),
            epoch: watch.epoch,
            quorum: watch.sentinels.len() / 2 + 1,
            down_after: watch.down_after,
        };
        let observer = self.majority_sentinel(watch);
        let majority = watch.sentinels.iter().filter(|sentinel| {
            let is_reachable = |observer| self.connectivity.is_reachable(observer, **sentinel);
            observer.is_some_and(is_reachable)
        });
        for sentinel in majority {
            if let Some(at) = self.index_of(*sentinel, locked) {
                let (target, watched) = (&mut locked[at], watched.clone());
                target
                    .node
                    .change(target.shared, now, |engine, now| engine.watch(watched, now));
            }
        }
    }
}

impl Network {
    /// Makes nodes the sentinels of the data nodes. The first data node is the master.
    pub(crate) fn watch(&self, sentinels: Vec<usize>, data: Vec<usize>, down_after: Duration) {
        self.lock().watch = Some(Watch::new(sentinels, data, down_after));
    }
}
