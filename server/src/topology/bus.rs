//! What the nodes of a cluster know, island by island: a split makes several of them, each with a map
//! of its own; when it is healed, they know one map again.
//!
//! *Policy*: on an island everybody knows everything at once, but for nodes that have crashed or are
//! elsewhere: those are missed after a time that a test chooses. They have failed if most
//! masters are on the island, else they are only suspected.

use super::replica::NetworkState;
use crate::engine::{Cluster, ClusterChange as Change, Health, Side, UnixMicros, merge};
use crate::node_handle::LockedNode;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Nodes that hear each other.
#[derive(Clone, Debug)]
pub(super) struct PartitionSide {
    nodes: BTreeSet<usize>,
    pub(super) map: Cluster,
    /// Nodes that are not heard here, and when (in true time) that is noticed.
    missed: BTreeMap<usize, UnixMicros>,
}

/// What makes a cluster of nodes.
#[derive(Debug)]
pub(super) struct Bus {
    /// The map when nobody followed anybody.
    start: Cluster,
    /// Every node is on one of them.
    islands: Vec<PartitionSide>,
    /// Nodes that are told nothing.
    deaf: BTreeSet<usize>,
    crashed: BTreeSet<usize>,
    pub(super) noticed_after: Duration,
}

impl PartitionSide {
    /// Whether most masters are here and run.
    fn agrees(&self, crashed: &BTreeSet<usize>) -> bool {
        let is_there = |node| self.nodes.contains(&node) && !crashed.contains(&node);
        self.map.is_majority(is_there)
    }

    /// What is known of a node from now on.
    fn health(&self, node: usize, agrees: bool, now: UnixMicros) -> Health {
        let known = self.map.members[node].health;
        match self.missed.get(&node) {
            None => Health::Up,
            Some(due) if *due > now => known,
            Some(_) if agrees => Health::Failed,
            Some(_) => known.max(Health::Suspected),
        }
    }
}

impl Bus {
    pub(super) fn new(map: Cluster) -> Self {
        let all = PartitionSide {
            nodes: (0..map.members.len()).collect(),
            map: map.clone(),
            missed: BTreeMap::new(),
        };
        Self {
            start: map,
            islands: vec![all],
            deaf: BTreeSet::new(),
            crashed: BTreeSet::new(),
            noticed_after: Duration::ZERO,
        }
    }

    /// As at the start: every slot where it was, everybody hears and is up.
    pub(super) fn reset(&mut self) {
        *self = Self::new(self.start.clone());
    }

    pub(super) fn start(&self) -> Cluster {
        self.start.clone()
    }

    fn place(&self, node: usize) -> usize {
        let mut islands = self.islands.iter();
        let place = islands.position(|island| island.nodes.contains(&node));
        place.unwrap_or_default()
    }

    /// What is known where this node is.
    pub(super) fn map_of(&self, node: usize) -> &Cluster {
        &self.islands[self.place(node)].map
    }

    /// What is known where most masters are, or else where the first node is.
    pub(super) fn map(&self) -> &Cluster {
        let mut islands = self.islands.iter();
        let most = islands.find(|island| island.agrees(&self.crashed));
        &most.unwrap_or(&self.islands[0]).map
    }

    pub(super) fn is_deaf(&self, node: usize) -> bool {
        self.deaf.contains(&node)
    }

    pub(super) fn deafen(&mut self, node: usize) {
        self.deaf.insert(node);
    }

    /// The node hears again; whether it did not.
    pub(super) fn undeafen(&mut self, node: usize) -> bool {
        self.deaf.remove(&node)
    }

    /// Whether nodes are on one island.
    pub(super) fn reaches(&self, node: usize, other: usize) -> bool {
        self.place(node) == self.place(other)
    }

    /// Whether most masters are where this node is.
    pub(super) fn agrees(&self, node: usize) -> bool {
        self.islands[self.place(node)].agrees(&self.crashed)
    }

    /// Who is told what is known on an island.
    fn listeners(&self, place: usize) -> Vec<usize> {
        let nodes = self.islands[place].nodes.difference(&self.deaf);
        nodes.copied().collect()
    }

    /// Those that a node's news reaches, and itself.
    pub(super) fn listeners_to(&self, node: usize) -> Vec<usize> {
        self.listeners(self.place(node))
    }

    pub(super) fn set_crashed(&mut self, node: usize, is_crashed: bool) {
        if is_crashed {
            self.crashed.insert(node);
        } else {
            self.crashed.remove(&node);
        }
    }

    /// Islands part and become one; which ones did, and who follows whom because of it.
    fn regroup(&mut self, groups: Vec<BTreeSet<usize>>) -> (Vec<usize>, Vec<(usize, usize)>) {
        let old = std::mem::take(&mut self.islands);
        let (mut merged, mut follows) = (Vec::new(), Vec::new());
        for nodes in groups {
            let parts = old
                .iter()
                .filter(|island| !island.nodes.is_disjoint(&nodes));
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
                merged.push(self.islands.len());
            }
            self.islands.push(PartitionSide { nodes, map, missed });
        }
        (merged, follows)
    }

    /// Notes who is missed, and who is no more; what every island learns by it.
    fn look_around(&mut self, now: UnixMicros) -> Vec<(usize, Change)> {
        let due = now.plus(self.noticed_after);
        let mut news = Vec::new();
        for (place, island) in self.islands.iter_mut().enumerate() {
            let all = 0..island.map.members.len();
            for node in all.clone() {
                if island.nodes.contains(&node) && !self.crashed.contains(&node) {
                    island.missed.remove(&node);
                } else {
                    island.missed.entry(node).or_insert(due);
                }
            }
            let agrees = island.agrees(&self.crashed);
            for node in all {
                let health = island.health(node, agrees, now);
                if health != island.map.members[node].health {
                    news.push((place, Change::Health { node, health }));
                }
            }
        }
        news
    }

    /// When somebody is missed whom nobody takes for failed yet.
    fn next_notice(&self) -> Option<UnixMicros> {
        let all = self.islands.iter().flat_map(|island| {
            let missed = island.missed.iter();
            missed.filter(|(node, _)| island.map.members[**node].health == Health::Up)
        });
        all.map(|(_, due)| *due).min()
    }
}

impl NetworkState {
    /// Everybody on an island learns of a change.
    fn announce_on(
        &mut self,
        place: usize,
        news: &Change,
        seats: &mut [LockedNode<'_>],
        now: UnixMicros,
    ) {
        let Some(bus) = &mut self.bus else {
            return;
        };
        bus.islands[place].map.learn(news);
        for node in bus.listeners(place) {
            self.change(node, seats, now, |engine, now| engine.learn(news, now));
        }
    }

    /// Everybody who hears this node learns of a change.
    pub(super) fn announce(
        &mut self,
        from: usize,
        news: &Change,
        seats: &mut [LockedNode<'_>],
        now: UnixMicros,
    ) {
        if let Some(bus) = &self.bus {
            self.announce_on(bus.place(from), news, seats, now);
        }
    }

    pub(super) fn next_notice(&self) -> Option<UnixMicros> {
        self.bus.as_ref()?.next_notice()
    }

    /// What is to be noticed of nodes that are down, away or back is known.
    pub(super) fn notice(&mut self, seats: &mut [LockedNode<'_>], now: UnixMicros) {
        let news = self.bus.iter_mut().flat_map(|bus| bus.look_around(now));
        let news: Vec<(usize, Change)> = news.collect();
        for (place, news) in news {
            self.announce_on(place, &news, seats, now);
        }
    }

    /// Islands are what the splits that stand make of them; who follows whom because of it.
    pub(super) fn regroup(
        &mut self,
        groups: Vec<BTreeSet<usize>>,
        seats: &mut [LockedNode<'_>],
        now: UnixMicros,
    ) -> Vec<(usize, usize)> {
        let Some(bus) = &mut self.bus else {
            return Vec::new();
        };
        let (merged, follows) = bus.regroup(groups);
        for place in merged {
            if let Some(bus) = &self.bus {
                let map = bus.islands[place].map.clone();
                for node in bus.listeners(place) {
                    self.change(node, seats, now, |engine, now| engine.catch_up(&map, now));
                }
            }
        }
        self.notice(seats, now);
        follows
    }
}
