//! The cluster map of the nodes. During a split each side has a map of its own; when the split is
//! healed, the maps are merged.
//!
//! *Policy*: every change is known at once to all nodes of a side. Nodes that crashed, or that are
//! on another side, are noticed after a time that the test chooses. They are marked as failed on
//! the side with most of the masters, and as suspected (PFAIL) elsewhere.

use crate::engine::{Cluster, ClusterChange as Change, Health, Side, UnixMicros, merge};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Nodes that reach each other, and their map of the cluster.
#[derive(Clone, Debug)]
pub(super) struct PartitionSide {
    nodes: BTreeSet<usize>,
    pub(super) map: Cluster,
    /// Nodes that this side does not reach, each with the time (true time) at which it notices.
    missed: BTreeMap<usize, UnixMicros>,
}

/// The state of a cluster that its nodes share.
#[derive(Debug)]
pub(super) struct Bus {
    /// The sides at the start, before any node followed or met another.
    start: Vec<PartitionSide>,
    /// Nodes that have met, directly or through others. Every node is in exactly one group.
    acquainted: Vec<BTreeSet<usize>>,
    /// For each node that others have forgotten, those that have.
    forgotten: BTreeMap<usize, BTreeSet<usize>>,
    /// The sides of the current splits. Every node is on exactly one.
    pub(super) sides: Vec<PartitionSide>,
    /// Nodes that receive no changes.
    excluded: BTreeSet<usize>,
    crashed: BTreeSet<usize>,
    /// For each master that was down when a replica took its slots over, that replica.
    heirs: BTreeMap<usize, usize>,
    pub(super) noticed_after: Duration,
}

impl PartitionSide {
    fn new(nodes: BTreeSet<usize>, map: Cluster) -> Self {
        Self {
            nodes,
            map,
            missed: BTreeMap::new(),
        }
    }

    /// True if most of the masters are on this side and run.
    fn has_majority(&self, crashed: &BTreeSet<usize>) -> bool {
        let is_reachable = |node| self.nodes.contains(&node) && !crashed.contains(&node);
        self.map.is_majority(is_reachable)
    }

    /// The health of a node in this side's map from now on.
    fn health(&self, node: usize, has_majority: bool, now: UnixMicros) -> Health {
        let known = self.map.members[node].health;
        match self.missed.get(&node) {
            None => Health::Up,
            Some(due) if *due > now => known,
            Some(_) if has_majority => Health::Failed,
            Some(_) => known.max(Health::Suspected),
        }
    }
}

impl Bus {
    /// A cluster whose nodes know each other.
    pub(super) fn new(map: Cluster) -> Self {
        let nodes = (0..map.members.len()).collect();
        Self::of(vec![PartitionSide::new(nodes, map)])
    }

    /// Nodes that have not met, each with its map.
    pub(super) fn unmet(maps: impl Iterator<Item = Cluster>) -> Self {
        let alone = |map: Cluster| PartitionSide::new(BTreeSet::from([map.me]), map);
        Self::of(maps.map(alone).collect())
    }

    fn of(start: Vec<PartitionSide>) -> Self {
        Self {
            acquainted: start.iter().map(|side| side.nodes.clone()).collect(),
            forgotten: BTreeMap::new(),
            sides: start.clone(),
            start,
            excluded: BTreeSet::new(),
            crashed: BTreeSet::new(),
            heirs: BTreeMap::new(),
            noticed_after: Duration::ZERO,
        }
    }

    /// Restores the state at the start: the original slots and sides, and all nodes up.
    pub(super) fn reset(&mut self) {
        *self = Self::of(std::mem::take(&mut self.start));
    }

    /// The map of a node at the start.
    pub(super) fn start(&self, node: usize) -> Cluster {
        let mut sides = self.start.iter();
        let side = sides.find(|side| side.nodes.contains(&node));
        side.unwrap_or(&self.start[0]).map.clone()
    }

    /// The nodes that this one has met, directly or through others.
    fn group_of(&self, node: usize) -> Option<&BTreeSet<usize>> {
        self.acquainted.iter().find(|group| group.contains(&node))
    }

    /// Lets two nodes meet, and all that either has met. Returns true if they had not.
    pub(super) fn introduce(&mut self, node: usize, other: usize) -> bool {
        self.forgotten.clear();
        let is_met = self
            .group_of(node)
            .is_some_and(|group| group.contains(&other));
        if !is_met {
            let is_theirs =
                |group: &BTreeSet<usize>| group.contains(&node) || group.contains(&other);
            let (both, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.acquainted)
                .into_iter()
                .partition(is_theirs);
            self.acquainted = others;
            self.acquainted.push(both.into_iter().flatten().collect());
        }
        !is_met
    }

    /// Notes that a node has forgotten another one. A side whose nodes have all forgotten it drops it from its map.
    pub(super) fn forget(&mut self, node: usize, member: usize) {
        self.forgotten.entry(member).or_default().insert(node);
        let index = self.index(node);
        let (side, forgotten) = (&mut self.sides[index], &self.forgotten[&member]);
        let mut others = side.nodes.iter().filter(|other| **other != member);
        if others.all(|other| forgotten.contains(other)) {
            side.map.forget(member);
        }
    }

    /// Separates a node that has forgotten all others; with a new name these do not know it either. Returns its map.
    pub(super) fn isolate(&mut self, node: usize, name: Option<String>) -> Cluster {
        let is_renamed = name.is_some();
        let index = self.index(node);
        let side = &mut self.sides[index];
        let map = side.map.reset(node, name);
        side.nodes.remove(&node);
        if is_renamed {
            side.map.forget(node);
        }
        if side.nodes.is_empty() {
            self.sides.remove(index);
        }
        let alone = BTreeSet::from([node]);
        self.sides
            .push(PartitionSide::new(alone.clone(), map.clone()));
        for group in &mut self.acquainted {
            group.remove(&node);
        }
        self.acquainted.retain(|group| !group.is_empty());
        self.acquainted.push(alone);
        map
    }

    /// The parts of these groups whose nodes have met.
    fn parts_that_met(&self, groups: Vec<BTreeSet<usize>>) -> Vec<BTreeSet<usize>> {
        let parts = groups.iter().flat_map(|group| {
            let met = self.acquainted.iter();
            met.map(move |met| {
                met.intersection(group)
                    .copied()
                    .collect::<BTreeSet<usize>>()
            })
        });
        parts.filter(|part| !part.is_empty()).collect()
    }

    pub(super) fn index(&self, node: usize) -> usize {
        let mut sides = self.sides.iter();
        let index = sides.position(|side| side.nodes.contains(&node));
        index.unwrap_or_default()
    }

    /// The map on the side of this node.
    pub(super) fn map_of(&self, node: usize) -> &Cluster {
        &self.sides[self.index(node)].map
    }

    /// The map on the side with most of the masters, or else on the side of the first node.
    pub(super) fn map(&self) -> &Cluster {
        let mut sides = self.sides.iter();
        let most = sides.find(|side| side.has_majority(&self.crashed));
        &most.unwrap_or(&self.sides[0]).map
    }

    pub(super) fn is_excluded(&self, node: usize) -> bool {
        self.excluded.contains(&node)
    }

    pub(super) fn exclude(&mut self, node: usize) {
        self.excluded.insert(node);
    }

    /// Lets the node receive changes again. Returns true if it did not.
    pub(super) fn include(&mut self, node: usize) -> bool {
        self.excluded.remove(&node)
    }

    /// True if both nodes are on the same side.
    pub(super) fn reaches(&self, node: usize, other: usize) -> bool {
        self.index(node) == self.index(other)
    }

    /// True if this node is on the side with most of the masters.
    pub(super) fn has_majority(&self, node: usize) -> bool {
        self.sides[self.index(node)].has_majority(&self.crashed)
    }

    /// The nodes of a side that receive changes.
    pub(super) fn receivers(&self, index: usize) -> Vec<usize> {
        let nodes = self.sides[index].nodes.difference(&self.excluded);
        nodes.copied().collect()
    }

    /// The nodes that receive the changes of this node, including itself.
    pub(super) fn receivers_of(&self, node: usize) -> Vec<usize> {
        self.receivers(self.index(node))
    }

    pub(super) fn set_crashed(&mut self, node: usize, is_crashed: bool) {
        if is_crashed {
            self.crashed.insert(node);
        } else {
            self.crashed.remove(&node);
        }
    }

    pub(super) fn is_crashed(&self, node: usize) -> bool {
        self.crashed.contains(&node)
    }

    /// Notes that the replica `by` has taken over from the master `old`. If `old` is down, it becomes a replica only when it runs
    /// again; until then the other nodes show it as a master without slots.
    pub(super) fn replace(&mut self, old: usize, by: usize) {
        if self.is_crashed(old) {
            self.exclude(old);
            self.heirs.insert(old, by);
        }
    }

    /// Returns the node that took over the slots of a master while that was down. If that node was replaced in the same way, returns the
    /// last node of the chain.
    pub(super) fn take_heir(&mut self, node: usize) -> Option<usize> {
        let mut heir = self.heirs.remove(&node)?;
        let mut seen = BTreeSet::from([node]);
        while let Some(next) = self.heirs.get(&heir).filter(|_| seen.insert(heir)) {
            heir = *next;
        }
        Some(heir).filter(|heir| *heir != node)
    }

    /// Regroups the sides. Returns the sides that were merged from several, and the replications
    /// that follow from it: each replica with its master.
    pub(super) fn regroup(
        &mut self,
        groups: Vec<BTreeSet<usize>>,
    ) -> (Vec<usize>, Vec<(usize, usize)>) {
        let groups = self.parts_that_met(groups);
        let old = std::mem::take(&mut self.sides);
        let (mut merged, mut follows) = (Vec::new(), Vec::new());
        for nodes in groups {
            let parts = old.iter().filter(|side| !side.nodes.is_disjoint(&nodes));
            let parts: Vec<&PartitionSide> = parts.collect();
            let sides: Vec<Side<'_>> = parts
                .iter()
                .map(|part| Side {
                    nodes: part.nodes.intersection(&nodes).copied().collect(),
                    map: &part.map,
                })
                .collect();
            let Some((mut map, new)) = merge(&sides) else {
                continue;
            };
            for node in self.crashed.intersection(&nodes) {
                let known = parts.iter().map(|part| part.map.members[*node].health);
                map.members[*node].health = known.max().unwrap_or_default();
            }
            let mut missed = BTreeMap::new();
            for (node, due) in parts.iter().flat_map(|part| &part.missed) {
                let first = missed.entry(*node).or_insert(*due);
                *first = (*first).min(*due);
            }
            follows.extend(new);
            if parts.len() > 1 {
                merged.push(self.sides.len());
            }
            self.sides.push(PartitionSide { nodes, map, missed });
        }
        (merged, follows)
    }

    /// Updates which nodes each side misses. Returns the changes of health, each with its side.
    pub(super) fn update_missed(&mut self, now: UnixMicros) -> Vec<(usize, Change)> {
        let due = now.plus(self.noticed_after);
        let mut news = Vec::new();
        for (index, side) in self.sides.iter_mut().enumerate() {
            // A side does not miss nodes that it has not met.
            let mut groups = self.acquainted.iter();
            let met = groups.find(|group| !group.is_disjoint(&side.nodes));
            let all: Vec<usize> = met.into_iter().flatten().copied().collect();
            for node in all.iter().copied() {
                if side.nodes.contains(&node) && !self.crashed.contains(&node) {
                    side.missed.remove(&node);
                } else {
                    side.missed.entry(node).or_insert(due);
                }
            }
            let has_majority = side.has_majority(&self.crashed);
            for node in all {
                let health = side.health(node, has_majority, now);
                if health != side.map.members[node].health {
                    news.push((index, Change::Health { node, health }));
                }
            }
        }
        news
    }

    /// The next time at which a side notices a missing node.
    pub(super) fn next_notice(&self) -> Option<UnixMicros> {
        let all = self.sides.iter().flat_map(|side| {
            let missed = side.missed.iter();
            missed.filter(|(node, _)| side.map.members[**node].health == Health::Up)
        });
        all.map(|(_, due)| *due).min()
    }
}
