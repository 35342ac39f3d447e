//! Which nodes reach each other: cut links and splits. Knows no node and no message.

use std::collections::{BTreeMap, BTreeSet};

/// Cut links and splits, by numbers that are never reused.
#[derive(Debug, Default)]
pub(super) struct Connectivity {
    pub(super) last: u64,
    /// Replicas whose links are cut.
    pub(super) cuts: BTreeMap<u64, usize>,
    /// For each split, the nodes on one side; all other nodes are on the other side.
    pub(super) splits: BTreeMap<u64, BTreeSet<usize>>,
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

    pub(super) fn is_cut(&self, replica: usize) -> bool {
        self.cuts.values().any(|cut| *cut == replica)
    }

    /// Removes the cuts of a replica's link.
    pub(super) fn mend(&mut self, replica: usize) {
        self.cuts.retain(|_, cut| *cut != replica);
    }

    /// The groups of nodes that reach each other, in the order of the first node of each.
    pub(super) fn groups(&self, nodes: usize) -> Vec<BTreeSet<usize>> {
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
