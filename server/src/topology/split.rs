//! Cut links and splits of the network: which nodes reach each other.

use super::connectivity::Connectivity;
use super::network::{Network, NetworkState};
use super::task::Task;
use crate::engine::UnixMicros;
use crate::node_handle::LockedNode;
use std::collections::BTreeSet;

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

    /// Splits these nodes from all others; returns the id of the split.
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
