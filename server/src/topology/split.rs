//! What keeps nodes from hearing each other: links that are cut, and splits of the network.

use super::replica::{Network, NetworkState, ReplicaTask};
use crate::engine::UnixMicros;
use crate::node_handle::LockedNode;
use std::collections::{BTreeMap, BTreeSet};

/// All that is broken between nodes, by numbers that are never used again.
#[derive(Debug, Default)]
pub(super) struct Breaks {
    last: u64,
    /// Replicas whose links are cut.
    cuts: BTreeMap<u64, usize>,
    /// The nodes on one side of each split; all others are on the other.
    splits: BTreeMap<u64, BTreeSet<usize>>,
}

impl Breaks {
    /// Everything works.
    pub(super) fn clear(&mut self) {
        self.cuts.clear();
        self.splits.clear();
    }

    /// Whether nodes hear each other.
    pub(super) fn is_open(&self, node: usize, other: usize) -> bool {
        let mut splits = self.splits.values();
        splits.all(|side| side.contains(&node) == side.contains(&other))
    }

    /// Whether a replica hears its master.
    pub(super) fn passes(&self, replica: usize, master: usize) -> bool {
        !self.is_cut(replica) && self.is_open(replica, master)
    }

    fn is_cut(&self, replica: usize) -> bool {
        self.cuts.values().any(|cut| *cut == replica)
    }

    /// The link of a replica is another one now.
    pub(super) fn mend(&mut self, replica: usize) {
        self.cuts.retain(|_, cut| *cut != replica);
    }

    /// The nodes that hear each other, in the order of the first of each.
    fn groups(&self, nodes: usize) -> Vec<BTreeSet<usize>> {
        let mut groups: Vec<BTreeSet<usize>> = Vec::new();
        for node in 0..nodes {
            let is_its = |group: &&mut BTreeSet<usize>| {
                let first = group.first();
                first.is_some_and(|first| self.is_open(*first, node))
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
    /// Links are what they have become, and both ends notice.
    pub(super) fn look_at_links(&mut self, seats: &mut [LockedNode<'_>], now: UnixMicros) {
        for index in 0..self.links.len() {
            let link = &mut self.links[index];
            let is_open = self.breaks.passes(link.replica, link.master);
            let has_changed = std::mem::replace(&mut link.is_open, is_open) != is_open;
            // Who needs a copy first is told by it.
            if has_changed && !(is_open && link.needs_copy) {
                self.tell_of_link(index, is_open, seats, now);
            }
        }
    }

    /// A split has begun or was healed.
    pub(super) fn look_at_sides(&mut self, seats: &mut [LockedNode<'_>], now: UnixMicros) {
        self.look_at_links(seats, now);
        let groups = self.breaks.groups(self.nodes.len());
        let follows = self.regroup(groups, seats, now);
        let strays = self.strays();
        let follows = follows.into_iter().chain(strays);
        self.orders.extend(follows.map(|(node, master)| {
            let master = Some(master);
            ReplicaTask::Follow { node, master }
        }));
    }
}

impl Network {
    /// Changes what is broken, which shows when time is next looked at.
    fn change_breaks<T>(&self, change: impl FnOnce(&mut Breaks) -> T) -> T {
        let mut state = self.lock();
        let splits = state.breaks.splits.len();
        let changed = change(&mut state.breaks);
        let is_same = state.breaks.splits.len() == splits;
        let order = if is_same {
            ReplicaTask::Links
        } else {
            ReplicaTask::Sides
        };
        state.orders.push_back(order);
        changed
    }

    /// Cuts the link of a replica; the number of the cut.
    pub(crate) fn cut(&self, replica: usize) -> u64 {
        self.change_breaks(|breaks| {
            breaks.last += 1;
            breaks.cuts.insert(breaks.last, replica);
            breaks.last
        })
    }

    /// Ends one cut.
    pub(crate) fn end_cut(&self, number: u64) {
        self.change_breaks(|breaks| breaks.cuts.remove(&number));
    }

    /// Ends all cuts of the link of a replica.
    pub(crate) fn mend(&self, replica: usize) {
        self.change_breaks(|breaks| breaks.mend(replica));
    }

    /// Whether the link of a replica is cut, by itself.
    pub(crate) fn is_cut(&self, replica: usize) -> bool {
        self.lock().breaks.is_cut(replica)
    }

    /// Splits these nodes from all others; the number of the split.
    pub(crate) fn split(&self, away: BTreeSet<usize>) -> u64 {
        self.change_breaks(|breaks| {
            breaks.last += 1;
            breaks.splits.insert(breaks.last, away);
            breaks.last
        })
    }

    pub(crate) fn splits(&self) -> usize {
        self.lock().breaks.splits.len()
    }

    pub(crate) fn end_split(&self, number: u64) {
        self.change_breaks(|breaks| breaks.splits.remove(&number));
    }

    /// All nodes hear each other.
    pub(crate) fn heal_all(&self) {
        self.change_breaks(Breaks::clear);
    }
}
