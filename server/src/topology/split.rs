//! Cut links and splits of the network: which nodes reach each other.

use super::network::{Network, NetworkState, Task};
use crate::engine::UnixMicros;
use crate::node_handle::LockedNode;
use std::collections::{BTreeMap, BTreeSet};

/// Cut links and splits, by numbers that are never reused.
#[derive(Debug, Default)]
pub(super) struct Connectivity {
    last: u64,
    /// Replicas whose links are cut.
    cuts: BTreeMap<u64, usize>,
    /// For each split, the nodes on one side; all other nodes are on the other side.
    splits: BTreeMap<u64, BTreeSet<usize>>,
}

impl Connectivity {
    /// Removes all cuts and splits.
    pub(super) fn clear(&mut self) {
        self.cuts.clear();
        self.splits.clear();
    }

    /// True if two nodes reach each other.
    pub(super) fn is_reachable(&self, node: usize, other: usize) -> bool {
        let mut splits = self.splits.values();
        splits.all(|side| side.contains(&node) == side.contains(&other))
    }

    /// True if a replica receives from its master.
    pub(super) fn link_works(&self, replica: usize, master: usize) -> bool {
        !self.is_cut(replica) && self.is_reachable(replica, master)
    }

    fn is_cut(&self, replica: usize) -> bool {
        self.cuts.values().any(|cut| *cut == replica)
    }

    /// Removes the cuts of a replica's link.
    pub(super) fn mend(&mut self, replica: usize) {
        self.cuts.retain(|_, cut| *cut != replica);
    }

    /// The groups of nodes that reach each other, in the order of the first node of each.
    fn groups(&self, nodes: usize) -> Vec<BTreeSet<usize>> {
        let mut groups: Vec<BTreeSet<usize>> = Vec::new();
        for node in 0..nodes {
            let is_its = |group: &&mut BTreeSet<usize>| {
                let first = group.first();
                first.is_some_and(|first| self.is_reachable(*first, node))
            };
            match groups.iter_mut().find(is_its) {
                Some(group) => drop(group.insert(node)),
                None => groups.push(BTreeSet::from([node])),
            }
        }
        groups
    }
}

impl NetworkState {
    /// Updates which links work, and tells both ends of changes.
    pub(super) fn update_links(&mut self, locked: &mut [LockedNode<'_>], now: UnixMicros) {
        for index in 0..self.links.len() {
            let link = &mut self.links[index];
            let is_open = self.connectivity.link_works(link.replica, link.master);
            let has_changed = std::mem::replace(&mut link.is_open, is_open) != is_open;
            // A replica that needs a copy learns of the link by the copy.
            if has_changed && !(is_open && link.needs_copy) {
                self.notify_link_change(index, is_open, locked, now);
            }
        }
    }

    /// Updates the links and the cluster's sides after a split began or ended.
    pub(super) fn update_sides(&mut self, locked: &mut [LockedNode<'_>], now: UnixMicros) {
        self.update_links(locked, now);
        let groups = self.connectivity.groups(self.nodes.len());
        let follows = self.regroup(groups, locked, now);
        let strays = self.strays();
        let follows = follows.into_iter().chain(strays);
        self.tasks.extend(follows.map(|(node, master)| {
            let master = Some(master);
            Task::Follow { node, master }
        }));
    }
}

impl Network {
    /// Changes cuts and splits. The change takes effect when time is next looked at.
    fn change_connectivity<T>(&self, change: impl FnOnce(&mut Connectivity) -> T) -> T {
        let mut state = self.lock();
        let splits = state.connectivity.splits.len();
        let changed = change(&mut state.connectivity);
        let is_same = state.connectivity.splits.len() == splits;
        let task = if is_same { Task::Links } else { Task::Sides };
        state.tasks.push_back(task);
        changed
    }

    /// Cuts the link of a replica; returns the number of the cut.
    pub(crate) fn cut(&self, replica: usize) -> u64 {
        self.change_connectivity(|connectivity| {
            connectivity.last += 1;
            connectivity.cuts.insert(connectivity.last, replica);
            connectivity.last
        })
    }

    /// Removes one cut.
    pub(crate) fn end_cut(&self, number: u64) {
        self.change_connectivity(|connectivity| connectivity.cuts.remove(&number));
    }

    /// Removes all cuts of a replica's link.
    pub(crate) fn mend(&self, replica: usize) {
        self.change_connectivity(|connectivity| connectivity.mend(replica));
    }

    /// True if the link of a replica is cut. A split is not a cut.
    pub(crate) fn is_cut(&self, replica: usize) -> bool {
        self.lock().connectivity.is_cut(replica)
    }

    /// Splits these nodes from all others; returns the number of the split.
    pub(crate) fn split(&self, away: BTreeSet<usize>) -> u64 {
        self.change_connectivity(|connectivity| {
            connectivity.last += 1;
            connectivity.splits.insert(connectivity.last, away);
            connectivity.last
        })
    }

    pub(crate) fn splits(&self) -> usize {
        self.lock().connectivity.splits.len()
    }

    pub(crate) fn end_split(&self, number: u64) {
        self.change_connectivity(|connectivity| connectivity.splits.remove(&number));
    }

    /// Removes all cuts and splits.
    pub(crate) fn heal_all(&self) {
        self.change_connectivity(Connectivity::clear);
    }
}
