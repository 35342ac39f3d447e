//! Grants that the servers store in several places, some of which expire before the others, or with several levels.

use super::Facts;
use crate::{
    history::{Belief, Cause, Cause::Client, Excuse, Holder, Moment, Operation, What},
    scenario::Topology,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

impl Facts<'_> {
    /// Returns true if the servers store the token of the grant in several places, a request of the process removed it from some
    /// of them during the call, and it had expired in the others, or was gone by a fault, before the call ended.
    pub(super) fn removed_what_was_left(&self, belief: &Belief, it: &Operation) -> bool {
        self.0.accepts(Excuse::PartExpired)
            && self.lowered_depth(belief, it)
            && self
                .of_grant(belief)
                .iter()
                .all(|span| span.gone.0 < it.ended && !matches!(span.gone.1, Client(_)))
    }

    /// Returns true if the servers stored the token of the grant in several places, and it expired in some of them, or was gone by a
    /// fault, while it still stood in others: the grant may have been no longer whole.
    pub(super) fn lost_a_part(&self, belief: &Belief, it: &Operation) -> bool {
        // A replica repeats what its master does, also a release of one of several levels.
        let copies = matches!(self.0.topology, Topology::Replicated { .. });
        self.0.accepts(Excuse::PartExpired)
            && (self.is_part_over(belief, it)
                || self.lost_a_part_before(belief)
                || self.is_lessened(belief, |node, at, cause| {
                    let removed = matches!(cause, Client(_)) || copies && node > 0;
                    // Also before the client was told of the grant.
                    !removed && belief.asked < at && at < it.ended
                }))
    }

    /// Returns true if the grant's token expired in one place, or a fault removed it there, before the client received the grant. The
    /// server may never have stored this token in all places at once; the tokens of other grants show that the lock has several places.
    fn lost_a_part_before(&self, belief: &Belief) -> bool {
        self.of_grant(belief).into_iter().any(|span| {
            let (gone, by) = span.gone;
            let meanwhile = belief.asked < gone && gone < belief.from;
            meanwhile && !matches!(by, Client(_)) && self.has_several_places(span.node)
        })
    }

    /// Returns true if the node stored some token in several places at once.
    fn has_several_places(&self, node: u8) -> bool {
        self.0.iter().any(|(_, what)| {
            let What::Server {
                node: of, stored, ..
            } = what
            else {
                return false;
            };
            let mut tokens = BTreeSet::new();
            *of == node && !stored.iter().all(|it| tokens.insert(&*it.token))
        })
    }

    /// Returns true if one of several places of the grant's token reached its expiry and was still stored: a key that stores all
    /// holders keeps it until a client removes it.
    fn is_part_over(&self, belief: &Belief, it: &Operation) -> bool {
        let names = self.names(belief);
        let is_over = |stored: &[Holder], from: Moment, to: Moment| {
            let places = stored.iter().filter(|it| names.contains(&*it.token));
            let (from, to) = (from.max(belief.from).at, to.min(it.ended).at);
            let ends: Vec<_> = places.map(|it| it.expires).collect();
            let over = |ends: &Option<Duration>| ends.is_some_and(|at| from <= at && at <= to);
            ends.len() > 1 && ends.iter().any(over) && !ends.iter().all(over)
        };
        let mut before: BTreeMap<u8, (Moment, &[Holder])> = BTreeMap::new();
        let over = self.0.iter().any(|(at, what)| {
            let What::Server { node, stored, .. } = what else {
                return false;
            };
            let last = before.insert(*node, (at, stored));
            last.is_some_and(|(from, stored)| is_over(stored, from, at))
        });
        over || before
            .values()
            .any(|&(from, stored)| is_over(stored, from, Moment::NEVER))
    }

    /// Returns true if a request of the process lowered the depth of the grant's token during the call, and left it
    /// there.
    pub(super) fn lowered_depth(&self, belief: &Belief, it: &Operation) -> bool {
        let host = it.actor.host;
        self.is_lessened(belief, |_, at, cause| {
            cause == Client(host) && it.asked < at && at < it.ended
        })
    }

    /// Returns true if a step of a server that `such` selects lessened what the server stored of the grant, levels or places, and
    /// left the rest.
    fn is_lessened(&self, belief: &Belief, such: impl Fn(u8, Moment, Cause) -> bool) -> bool {
        let names = self.names(belief);
        let mut before: BTreeMap<u8, u32> = BTreeMap::new();
        self.0.iter().any(|(at, what)| {
            let What::Server {
                node,
                cause,
                stored,
                ..
            } = what
            else {
                return false;
            };
            let held = stored.iter().filter(|it| names.contains(&*it.token));
            let depths = held.map(|held| held.depth.unwrap_or(1));
            let depth = Some(depths.sum::<u32>()).filter(|depth| *depth > 0);
            let was = match depth {
                Some(depth) => before.insert(*node, depth),
                None => before.remove(node),
            };
            such(*node, at, *cause) && depth.is_some() && depth < was
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;

    /// A key stores all holders, each with its deadline. A client has two places in it, the second for a call that had no answer. The
    /// first is over at 6, and the release at 8 removes it.
    #[test]
    fn a_place_that_is_over_is_lost_although_the_key_still_stores_it() {
        let lie = |first: u64| {
            let server = |places: &[u64]| {
                let stored = places.iter().map(|&expires| Holder {
                    token: b"o".to_vec(),
                    expires: Some(s(expires)),
                    ..Holder::default()
                });
                What::Server {
                    node: 0,
                    cause: Client(0),
                    stored: stored.collect(),
                    anonymous: 0,
                }
            };
            let unknown = What::Info {
                op: 2,
                error: "timed out".into(),
            };
            let history = history(vec![
                (0, tries(1, 0)),
                (1, server(&[first])),
                (1, granted(1, Some(5))),
                (2, tries(2, 0)),
                (3, server(&[first, 12])),
                (4, unknown),
                (7, releases(3, 0, 1)),
                (8, server(&[12])),
                (9, lost(3)),
                (10, frees(0)),
            ]);
            Truth.check(&history).witness().map(|it| it.message.clone())
        };
        assert_eq!(lie(6), None);
        let stood = lie(11).unwrap_or_default();
        assert!(stood.contains("it stood all the time"), "{stood}");
    }

    /// An owner enters again and leaves. The replica follows its master.
    #[test]
    fn a_level_that_a_replica_lowers_is_no_part_that_expired() {
        let levels = |depth: u32| {
            let holder = Holder {
                token: b"o".to_vec(),
                expires: Some(s(10)),
                depth: Some(depth),
                ..Holder::default()
            };
            let server = |(node, cause)| What::Server {
                node,
                cause,
                stored: (depth > 0).then(|| holder.clone()).into_iter().collect(),
                anonymous: 0,
            };
            [(0, Client(0)), (1, Cause::Server)].map(server)
        };
        let at = |at, entries: [What; 2]| entries.map(|entry| (at, entry));
        let mut entries = vec![(0, tries(1, 0))];
        entries.extend(at(0, levels(1)));
        entries.extend([(1, granted(1, Some(9))), (2, tries(2, 0))]);
        entries.extend(at(2, levels(2)));
        entries.extend([(3, granted(2, Some(9))), (4, releases(3, 0, 2))]);
        entries.extend(at(4, levels(1)));
        entries.extend([(5, done(3)), (6, releases(4, 0, 1))]);
        entries.extend(at(7, levels(0)));
        entries.push((8, lost(4)));
        let mut history = history(entries);
        history.reentrant = true;
        history.topology = Topology::Replicated { replicas: 1 };
        let finding = Truth.check(&history);
        let message = finding.witness().map(|it| &*it.message).unwrap_or_default();
        assert!(message.contains("own request had removed it"), "{message}");
    }

    /// The server stores the grant in two places.
    #[test]
    fn a_part_of_a_grant_may_expire_before_the_release() {
        let entries = |steps: &[(u64, Cause, &[u64])], told: What| {
            let mut entries = vec![(0, tries(1, 0)), (2, granted(1, Some(10)))];
            entries.extend([(6, releases(2, 0, 1)), (9, told)]);
            let steps = steps.iter();
            entries.extend(steps.map(|&(at, cause, until)| (at, places(cause, until))));
            entries.sort_by_key(|&(at, _)| at);
            lie(entries)
        };
        let both = (1, Client(0), &[8, 11][..]);
        let (own, expired) = (Client(0), Cause::Server);
        // The release removes one, and the other expires.
        let half = [both, (7, own, &[8]), (8, expired, &[])];
        assert_eq!(entries(&half, done(2)), None);
        // One expires, and the release removes the other.
        let rest = [both, (5, expired, &[11]), (7, own, &[])];
        assert_eq!(entries(&rest, done(2)), None);
        assert_eq!(entries(&rest, lost(2)), None);
        // The same, if a clock that jumps ends one of them.
        let half = [both, (7, own, &[8]), (8, Cause::Fault, &[])];
        assert_eq!(entries(&half, done(2)), None);
        let rest = [both, (5, Cause::Fault, &[11]), (7, own, &[])];
        assert_eq!(entries(&rest, lost(2)), None);
        let whole = entries(&[both, (7, own, &[])], lost(2)).unwrap_or_default();
        assert!(whole.contains("own request had removed it"), "{whole}");
        let left = entries(&[both, (7, own, &[11])], done(2)).unwrap_or_default();
        assert!(left.contains("removed nothing"), "{left}");
        let none = [both, (7, expired, &[11]), (8, expired, &[])];
        let none = entries(&none, done(2)).unwrap_or_default();
        assert!(none.contains("removed nothing"), "{none}");
    }

    /// The first of the places expires while the process is suspended; the call stores the others, and is granted the lock.
    #[test]
    fn a_place_may_expire_before_the_others_are_stored() {
        let lie = |ends: u64, others: &[u64]| {
            lie(vec![
                (0, tries(1, 0)),
                (1, places(Client(0), &[ends])),
                (5, empties(0, Cause::Server)),
                (7, places(Client(0), others)),
                (7, granted(1, Some(17))),
                (9, releases(2, 0, 1)),
                (9, frees(0)),
                (9, lost(2)),
            ])
        };
        assert_eq!(lie(5, &[17, 17]), None);
        let one = lie(5, &[17]).unwrap_or_default();
        assert!(one.contains("own request had removed it"), "{one}");
    }

    /// A clock that jumps ends all of the places that the call has stored so far. Then the call stores the last one.
    #[test]
    fn all_places_but_the_last_may_expire_before_that_is_stored() {
        let lie = |first: &[u64]| {
            lie(vec![
                (0, tries(1, 0)),
                (1, places(Client(0), first)),
                (5, empties(0, Cause::Fault)),
                (7, places(Client(0), &[17])),
                (7, granted(1, Some(17))),
                (9, releases(2, 0, 1)),
                (9, frees(0)),
                (9, lost(2)),
            ])
        };
        assert_eq!(lie(&[11, 11]), None);
        let one = lie(&[11]).unwrap_or_default();
        assert!(one.contains("own request had removed it"), "{one}");
    }

    /// One of the places expires when the call has stored both, before the client is told of its grant.
    #[test]
    fn a_place_may_expire_before_the_reply() {
        let lie = |cause| {
            lie(vec![
                (0, tries(1, 0)),
                (2, places(Client(0), &[4, 12])),
                (4, places(cause, &[12])),
                (5, granted(1, Some(9))),
                (6, releases(2, 0, 1)),
                (7, frees(0)),
                (8, lost(2)),
            ])
        };
        assert_eq!(lie(Cause::Server), None);
        let removed = lie(Client(0)).unwrap_or_default();
        assert!(removed.contains("own request had removed it"), "{removed}");
    }
}
