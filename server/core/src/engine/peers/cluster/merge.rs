//! Merges the cluster maps of nodes that reach each other again.
//!
//! *Policy* (`cluster.c: clusterUpdateSlotsConfigWith`): the view of a slot's owner counts. If two
//! nodes claim a slot, the higher epoch wins. A master that has lost its last slot becomes a
//! replica of the node that took it, and so do its replicas. If two masters have the same epoch,
//! the one with the smaller name gets a new epoch (`clusterHandleConfigEpochCollision`).

use super::{Cluster, SLOTS};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Nodes that reached each other all the time, and their map.
#[derive(Debug)]
pub struct Side<'a> {
    /// Indexes of the nodes.
    pub nodes: BTreeSet<usize>,
    /// The map that all of them have.
    pub map: &'a Cluster,
}

impl Side<'_> {
    fn epoch(&self, node: usize) -> u64 {
        self.map.members[node].epoch
    }
}

/// The merged map, and the nodes that become replicas, each with its new master. `None` without
/// sides.
pub fn merge(sides: &[Side<'_>]) -> Option<(Cluster, Vec<(usize, usize)>)> {
    let mut map = sides.first()?.map.clone();
    let side_of = |node: usize| sides.iter().find(|side| side.nodes.contains(&node));
    for (node, member) in map.members.iter_mut().enumerate() {
        // For a node on none of the sides, the side with most nodes decides.
        let knowledge = |side: &&Side<'_>| (side.map.knows(node), side.epoch(node));
        let teller = side_of(node).or_else(|| sides.iter().max_by_key(knowledge));
        if let Some(side) = teller {
            member.clone_from(&side.map.members[node]);
        }
        if side_of(node).is_none() {
            let known = sides.iter().map(|side| side.map.members[node].health);
            member.health = known.max().unwrap_or_default();
        }
    }
    for side in sides {
        map.get_to_know(side.map.known());
    }
    map.epoch = sides.iter().map(|side| side.map.epoch).max()?;
    for slot in 0..SLOTS {
        map.set_owner(slot, claimant(slot, sides));
    }
    part_epochs(&mut map, sides);
    let follows = followers(&map, sides);
    for (node, master) in &follows {
        map.members[*node].master = Some(*master);
    }
    map.settle();
    Some((map, follows))
}

/// The owner of a slot: of the nodes that claim it, the one with the highest epoch; if none claims
/// it, an owner that is on none of these sides.
fn claimant(slot: u16, sides: &[Side<'_>]) -> Option<usize> {
    let claims = sides.iter().filter_map(|side| {
        let owner = side.map.owner(slot);
        let is_here = |node: usize| sides.iter().any(|side| side.nodes.contains(&node));
        let is_own = owner.is_some_and(|owner| side.nodes.contains(&owner));
        let is_hearsay = !is_own && owner.is_some_and(is_here);
        let epoch = owner.map(|owner| side.epoch(owner));
        let name = owner.map(|owner| Reverse(&side.map.members[owner].id));
        (!is_hearsay).then_some(((is_own, epoch, name), owner))
    });
    let first = claims.max_by(|one, other| one.0.cmp(&other.0));
    first.and_then(|(_, owner)| owner)
}

/// Makes sure that no two masters have the same epoch.
fn part_epochs(map: &mut Cluster, sides: &[Side<'_>]) {
    let here = sides.iter().flat_map(|side| side.nodes.iter().copied());
    let masters = here.filter(|node| map.members[*node].master.is_none());
    let mut masters: Vec<usize> = masters.collect();
    masters.sort_by_key(|node| Reverse(map.members[*node].id.clone()));
    let mut taken = BTreeSet::new();
    for node in masters {
        if !taken.insert(map.members[node].epoch) {
            map.epoch += 1;
            map.members[node].epoch = map.epoch;
        }
    }
}

/// The nodes of shards that have lost their last slot, each with the node that owns it now.
fn followers(map: &Cluster, sides: &[Side<'_>]) -> Vec<(usize, usize)> {
    let mut follows = Vec::new();
    for side in sides {
        for node in &side.nodes {
            let head = side.map.shard(*node);
            let had = side.map.slots_of(head);
            if let Some((_, last)) = had.last()
                && map.slots_of(head).is_empty()
                && let Some(master) = map.owner(*last).filter(|master| master != node)
            {
                follows.push((*node, master));
            }
        }
    }
    follows
}

#[cfg(test)]
mod tests {
    use super::super::{Announced, Change, Health, Member};
    use super::*;
    use crate::engine::peers::replication::Address;

    /// Two masters, 0 and 1, with half of the slots each, and a replica of each, 2 and 3.
    fn map() -> Cluster {
        let member = |place: usize| Member {
            id: place.to_string(),
            address: Address {
                host: "127.0.0.1".to_owned(),
                port: place as u16,
            },
            master: place.checked_sub(2),
            epoch: place as u64 + 1,
            health: Health::Up,
            announced: Announced::default(),
        };
        let mut map = Cluster::new((0..4).map(member).collect());
        for (owner, slots) in [(0, (0, 8_191)), (1, (8_192, SLOTS - 1))] {
            map.learn(&own(owner, slots));
        }
        map
    }

    fn own(owner: usize, slots: (u16, u16)) -> Change {
        let (slots, owner) = (vec![slots], Some(owner));
        Change::Owner { slots, owner }
    }

    fn sides<'a>(one: &'a Cluster, other: &'a Cluster, away: &[usize]) -> [Side<'a>; 2] {
        let away: BTreeSet<usize> = away.iter().copied().collect();
        let near = (0..4).filter(|node| !away.contains(node)).collect();
        [(near, one), (away, other)].map(|(nodes, map)| Side { nodes, map })
    }

    /// A failover.
    fn take_over(map: &mut Cluster, node: usize, slots: (u16, u16)) {
        let (epoch, master) = (map.epoch + 1, None);
        map.learn(&Change::Master { node, master });
        map.learn(&own(node, slots));
        map.learn(&Change::Epoch { node, epoch });
    }

    #[test]
    fn nothing_happens_when_nothing_has_happened() {
        let (map, mut other) = (map(), map());
        let (node, health) = (0, Health::Failed);
        other.learn(&Change::Health { node, health });
        let (merged, follows) = merge(&sides(&map, &other, &[1, 3])).expect("two sides");
        assert_eq!(merged.members, map.members);
        assert_eq!((merged.owners, merged.epoch), (map.owners, map.epoch));
        assert_eq!(follows, []);
        assert!(merge(&[]).is_none());
    }

    #[test]
    fn a_node_that_lost_all_slots_follows_their_new_owner() {
        let (mut near, away) = (map(), map());
        take_over(&mut near, 2, (0, 8_191));
        let (merged, follows) = merge(&sides(&near, &away, &[0])).expect("two sides");
        assert_eq!(follows, [(0, 2)]);
        assert_eq!(merged.owner(0), Some(2));
        assert_eq!(merged.members[0].master, Some(2));
        assert_eq!(merged.members[2].master, None);
    }

    #[test]
    fn a_slot_that_went_on_stays_where_it_went() {
        let (near, mut away) = (map(), map());
        away.learn(&own(3, (16_000, 16_383)));
        away.learn(&Change::Epoch { node: 3, epoch: 9 });
        let (merged, follows) = merge(&sides(&near, &away, &[1, 3])).expect("two sides");
        let owners = [15_999, 16_000].map(|slot| merged.owner(slot));
        assert_eq!((owners, follows), ([Some(1), Some(3)], vec![]));
    }

    #[test]
    fn of_one_epoch_the_smaller_name_wins() {
        for (first, second, winner) in [(2, 0, 0), (0, 2, 0)] {
            let (mut near, mut away) = (map(), map());
            take_over(&mut near, first, (0, 8_191));
            take_over(&mut away, second, (0, 8_191));
            let (merged, follows) = merge(&sides(&near, &away, &[second])).expect("two sides");
            assert_eq!(merged.owner(0), Some(winner));
            assert_eq!(follows, [(2, 0)]);
            assert_eq!((merged.members[0].epoch, merged.epoch), (6, 6));
        }
    }
}
