//! Changes of the cluster map on their way to the nodes, and the failures that the nodes notice.

use super::network::NetworkState;
use crate::engine::{ClusterChange as Change, UnixMicros};
use crate::node_handle::LockedNode;
use std::collections::BTreeSet;

impl NetworkState {
    /// Applies a change to a side's map, and to all its nodes that receive changes.
    fn announce_on(
        &mut self,
        index: usize,
        news: &Change,
        locked: &mut [LockedNode<'_>],
        now: UnixMicros,
    ) {
        let Some(bus) = &mut self.bus else {
            return;
        };
        bus.sides[index].map.learn(news);
        for node in bus.receivers(index) {
            self.change(node, locked, now, |engine, now| engine.learn(news, now));
        }
    }

    /// Applies a change on the side of this node.
    pub(super) fn announce(
        &mut self,
        from: usize,
        news: &Change,
        locked: &mut [LockedNode<'_>],
        now: UnixMicros,
    ) {
        if let Some(bus) = &self.bus {
            self.announce_on(bus.index(from), news, locked, now);
        }
    }

    pub(super) fn next_notice(&self) -> Option<UnixMicros> {
        self.bus.as_ref()?.next_notice()
    }

    /// Updates the health of nodes that crashed, were separated or came back.
    pub(super) fn notice_failures(&mut self, locked: &mut [LockedNode<'_>], now: UnixMicros) {
        let news = self.bus.iter_mut().flat_map(|bus| bus.update_missed(now));
        let news: Vec<(usize, Change)> = news.collect();
        for (index, news) in news {
            self.announce_on(index, &news, locked, now);
        }
    }

    /// Regroups the sides after a split began or ended. Returns the replications that follow from
    /// it.
    pub(super) fn regroup(
        &mut self,
        groups: Vec<BTreeSet<usize>>,
        locked: &mut [LockedNode<'_>],
        now: UnixMicros,
    ) -> Vec<(usize, usize)> {
        let Some(bus) = &mut self.bus else {
            return Vec::new();
        };
        let (merged, follows) = bus.regroup(groups);
        for index in merged {
            if let Some(bus) = &self.bus {
                let map = bus.sides[index].map.clone();
                for node in bus.receivers(index) {
                    self.change(node, locked, now, |engine, now| engine.catch_up(&map, now));
                }
            }
        }
        self.notice_failures(locked, now);
        follows
    }
}
