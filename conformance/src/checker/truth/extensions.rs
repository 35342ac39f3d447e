//! "Extended" and "lost", the results of an extension.

use super::Facts;
use crate::{
    history::{Belief, End, FaultEffect, Operation, Outcome, Refusal},
    scenario::Topology,
};
use std::collections::BTreeSet;

impl Facts<'_> {
    /// Returns the sentence of an extension that claims more than the servers did.
    pub(super) fn lie_of_extension(&self, belief: &Belief, it: &Operation) -> Option<&'static str> {
        match it.outcome {
            Outcome::Ok => {
                let says = "that its lease was extended, but the lock was gone";
                self.was_gone(belief, it).then_some(says)
            }
            Outcome::Fail(Refusal::Lost) => {
                let says = "that the lock was lost, but it stood all the time";
                self.had_not_lost(belief, it).then_some(says)
            }
            Outcome::Fail(_) | Outcome::Unknown | Outcome::Cancelled | Outcome::Open => None,
        }
    }

    /// Returns true if a client asked the servers for an extension, and the grant stood all the time.
    fn had_not_lost(&self, belief: &Belief, it: &Operation) -> bool {
        let host = it.actor.host;
        // A client that sees its deadline pass asks no server.
        let told = self.has_reported_loss(belief, it.asked);
        let passed = belief.end == End::Deadline && belief.to <= it.ended;
        // By a deadline that it moves to the present the lock only says that the grant is over. It may say so after a request that
        // failed.
        let over = || self.called_over(belief).is_some() && self.0.is_heard(host, None, it);
        let asked = !told && (!passed || over());
        // By a clock of its own that was bent it may have passed.
        let bent = [FaultEffect::ClientClock];
        let (from, to) = (belief.asked.at, it.ended.at);
        let asked = asked && !self.0.fault_intervals().any(&bent, host, from, to);
        // Of several nodes, one that granted it later than the others cannot vouch for the time before.
        let since = match self.0.topology {
            Topology::Nodes(2..) => belief.from,
            Topology::Nodes(_) | Topology::Replicated { .. } => it.asked,
        };
        asked && self.stood_throughout(belief, since, it.ended) && !self.lost_a_part(belief, it)
    }

    /// Returns true if no token of the grant stood on as many nodes as it takes, at any instant of the call.
    fn was_gone(&self, belief: &Belief, it: &Operation) -> bool {
        let names = self.names(belief);
        let theirs = self.0.tokens().spans.iter();
        let stood = theirs
            .filter(|span| names.contains(span.token) && span.stood_within(it.asked, it.ended));
        let nodes: BTreeSet<u8> = stood.map(|span| span.node).collect();
        !names.is_empty() && nodes.len() < self.quorum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;

    #[test]
    fn a_lost_grant_cannot_be_extended() {
        let extended_after = |gone| {
            lie(vec![
                (0, tries(1, 0)),
                (1, stores(0, "a", Some(11))),
                (2, granted(1, Some(9))),
                (gone, empties(0, Cause::Fault)),
                (5, renews(2, 0, 1)),
                (6, granted(2, Some(14))),
            ])
        };
        assert_eq!(extended_after(6), None);
        assert_eq!(
            extended_after(4).as_deref(),
            Some("at 6.000 s the lock told c1 that its lease was extended, but the lock was gone")
        );
    }

    #[test]
    fn a_clock_that_stands_still_says_nothing_of_its_own_server_only() {
        let stopped = |node| {
            let fault = crate::scenario::Fault::NodeFreeze { node };
            let frozen = History {
                topology: Topology::Nodes(3),
                ..history(vec![
                    (0, What::Strikes { fault }),
                    (1, stores(0, "a", None)),
                ])
            };
            Truth.check(&frozen).witness().is_some()
        };
        assert!(!stopped(0));
        assert!(stopped(1), "another server's");
    }

    #[test]
    fn a_grant_that_stands_is_not_lost_when_it_is_extended() {
        let renewed = |at, more: Vec<(u64, What)>| {
            let renewal = [(at, renews(2, 0, 1)), (at, lost(2))];
            lie(held_by_c1(more.into_iter().chain(renewal).collect()))
        };
        assert_eq!(
            renewed(5, vec![]).as_deref(),
            Some("at 5.000 s the lock told c1 that the lock was lost, but it stood all the time")
        );
        assert_eq!(renewed(9, vec![]), None, "its own deadline was over");
        // Seed 99 of `seed-A1` under `drift-beyond`.
        let fault = crate::scenario::Fault::Drift {
            host: 0,
            ppm: 200_000,
        };
        assert_eq!(renewed(5, vec![(2, What::Strikes { fault })]), None);
        let cut = What::Cut {
            host: 0,
            node: 0,
            lost: crate::scenario::Lost::Request,
        };
        let told = vec![(2, cut), (3, What::Lost { grant: 1 })];
        assert_eq!(
            lie(held_by_c1(
                told.into_iter()
                    .chain([(5, renews(2, 0, 1)), (5, lost(2))])
                    .collect()
            )),
            None
        );
        let gone = [
            (5, renews(2, 0, 1)),
            (6, empties(0, Cause::Fault)),
            (7, lost(2)),
        ];
        assert_eq!(lie(held_by_c1(gone.into())), None);
    }

    /// The deadline is 9 at first; at 5 the lock moves it to `moved`, and says that the grant is lost.
    #[test]
    fn a_deadline_that_is_moved_to_the_present_has_not_passed() {
        let renewed_after = |more: Vec<(u64, What)>, moved, ended| {
            let moves = What::Deadline {
                grant: 1,
                deadline: Some(s(moved)),
            };
            let renewal = [(5, renews(2, 0, 1)), (5, moves), (ended, lost(2))];
            lie(held_by_c1(more.into_iter().chain(renewal).collect()))
        };
        let renewed = |moved, ended| renewed_after(vec![], moved, ended);
        assert!(renewed(5, 5).is_some());
        assert!(renewed(5, 7).is_some());
        assert_eq!(renewed(6, 7), None, "it has passed since");
        assert_eq!(renewed(9, 9), None);
        let cut = |host| What::Cut {
            host,
            node: 0,
            lost: crate::scenario::Lost::Request,
        };
        assert_eq!(
            renewed_after(vec![(5, cut(0))], 5, 5),
            None,
            "it was not answered"
        );
        assert!(renewed_after(vec![(5, cut(1))], 5, 5).is_some());
    }

    /// Seed 248 of a lock that extends by itself: at 3 its request failed, and it moved the deadline to `moved`.
    #[test]
    fn a_loss_that_the_lock_has_reported_may_be_repeated() {
        let renewed = |moved| {
            let cut = What::Cut {
                host: 0,
                node: 0,
                lost: crate::scenario::Lost::Request,
            };
            let moves = What::Deadline {
                grant: 1,
                deadline: Some(s(moved)),
            };
            let told = [(3, cut), (3, moves), (5, renews(2, 0, 1)), (5, lost(2))];
            lie(held_by_c1(told.into()))
        };
        assert_eq!(renewed(3), None);
        assert!(renewed(8).is_some(), "it did not say that it is over");
    }

    /// Seed 746 of a lock with a key on each of three shards.
    #[test]
    fn a_grant_that_has_lost_a_part_may_be_called_lost() {
        let renewed = |first: u64, left: &[u64]| {
            lie(vec![
                (0, tries(1, 0)),
                (1, places(Client(0), &[first, 11])),
                (2, granted(1, Some(10))),
                (4, places(Cause::Server, left)),
                (5, renews(2, 0, 1)),
                (6, lost(2)),
            ])
        };
        assert_eq!(renewed(4, &[11]), None);
        assert!(renewed(11, &[11, 11]).is_some());
    }

    /// Seed 634 of the same lock: a clock jumped when the first of the keys was written.
    #[test]
    fn a_grant_that_lost_a_part_before_it_was_whole_may_be_called_lost() {
        let renewed = |by| {
            lie(vec![
                (0, tries(1, 0)),
                (1, places(Client(0), &[11])),
                (1, empties(0, by)),
                (1, places(Client(0), &[11, 11])),
                (2, granted(1, Some(10))),
                (5, renews(2, 0, 1)),
                (6, lost(2)),
            ])
        };
        assert_eq!(renewed(Cause::Fault), None);
        assert_eq!(renewed(Cause::Server), None);
        assert!(renewed(Client(0)).is_some(), "the process removed it");
    }

    /// Seed 182 of a lock with two keys: the process was suspended after its first request, and the first key expired before the
    /// second one was stored.
    #[test]
    fn a_grant_that_was_never_whole_has_lost_a_part_if_other_grants_had_several() {
        let renewed = |other: &[(&str, u64)]| {
            lie(vec![
                (0, stored_by(Client(1), other)),
                (0, empties(0, Client(1))),
                (0, tries(1, 0)),
                (1, places(Client(0), &[2])),
                (2, empties(0, Cause::Server)),
                (3, places(Client(0), &[11])),
                (3, granted(1, Some(10))),
                (5, renews(2, 0, 1)),
                (6, lost(2)),
            ])
        };
        assert_eq!(renewed(&[("b", 9), ("b", 9)]), None);
        assert!(renewed(&[("b", 9)]).is_some(), "such a lock has one key");
    }

    /// Seed 632 of `redlock-handed-on` under `node-amnesia`, with a lock that does not wait for slower nodes.
    #[test]
    fn a_node_that_granted_it_later_vouches_for_nothing() {
        let lost_with = |late| {
            let mut entries = vec![
                (0, tries(1, 0)),
                (0, stores_on(0, 0, "a", Some(10))),
                (0, stores_on(1, 0, "a", Some(10))),
                (late, stores_on(2, 0, "a", Some(10))),
                (1, granted(1, Some(9))),
                (3, empties(1, Cause::Fault)),
                (4, renews(2, 0, 1)),
                (5, lost(2)),
            ];
            entries.sort_by_key(|&(at, _)| at);
            let mut history = history(entries);
            history.topology = Topology::Nodes(3);
            Truth.check(&history).witness().is_some()
        };
        assert!(lost_with(0));
        assert!(!lost_with(2));
    }
}
