//! Claims of a lock on several nodes while some of them fail: everything, while few enough fail. The numbers
//! of nodes that granted a lock, and that dropped it early, come from what the servers stored, not from the
//! scenario.

use super::{Cost, cost};
use crate::{
    checker::{Property, Witness},
    history::{Belief, Call, Cause, History, Holder, Moment, What},
    scenario::{Topology, nemesis::DRIFT_PPM_MAX},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Returns true if few enough nodes failed for the claim to stand.
///
/// Of N = 2f + 1 nodes a majority remembers a grant, so no other client can acquire the lock, while `forgot
/// <= granted - f - 1`. If all nodes granted it, f of them may drop it; if a bare majority did, none may. A
/// node whose lease ended at its due time does not count: it was not asked to extend the lease, or could not
/// be reached. Leases that end late on up to f nodes do no harm.
pub(super) fn stands(history: &History, property: Property, witness: &Witness) -> bool {
    let Topology::Nodes(nodes) = history.topology else {
        return false;
    };
    let quorum = usize::from(nodes / 2 + 1);
    if property == Property::Progress {
        return late(history) + quorum <= usize::from(nodes);
    }
    let beliefs = history.beliefs();
    let concerned = beliefs
        .iter()
        .filter(|belief| witness.grants.contains(&belief.grant));
    history.observed
        && !witness.grants.is_empty()
        && concerned.into_iter().all(|belief| {
            let votes = Votes::of(history, belief, witness.at);
            votes.forgot == 0 || votes.forgot + quorum <= votes.granted
        })
}

/// Returns the number of nodes with a fault that makes leases end late.
fn late(history: &History) -> usize {
    let struck = history.entries.iter().filter_map(|entry| {
        let What::Strikes { fault } = entry.what else {
            return None;
        };
        let late = cost(fault.nemesis()) == Cost::Patience;
        late.then(|| fault.node()).flatten()
    });
    struck.collect::<BTreeSet<u8>>().len()
}

/// Number of nodes that granted a lock, and number of those that dropped it while its lease ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Votes {
    granted: usize,
    forgot: usize,
}

/// Vote of one node.
struct Vote {
    node: u8,
    stored: Option<Holder>,
    /// Earliest time at which its lease may end.
    due: Duration,
    /// Time at which the node dropped the grant early, if it did.
    forgot: Option<Duration>,
    /// True if its lease has ended at its due time.
    ended: bool,
}

impl Votes {
    /// Counts the votes for a grant until a moment.
    fn of(history: &History, belief: &Belief, until: Moment) -> Self {
        let tokens = tokens(history, belief);
        let votes = tokens
            .iter()
            .map(|token| count(history, belief, token, until));
        // In doubt, count the token that is best for the lock.
        votes
            .max_by_key(|votes| (votes.granted, votes.forgot))
            .unwrap_or_default()
    }
}

/// Returns the token that the subject named for a grant. Without one, returns the tokens that requests of the
/// holder's process stored during the acquisition; if some of them were still stored at its end, only those.
fn tokens<'a>(history: &'a History, belief: &Belief) -> BTreeSet<&'a [u8]> {
    if let Some(token) = history.named().get(&belief.grant) {
        return BTreeSet::from([&*token.bytes]);
    }
    let mut put = BTreeSet::new();
    let mut latest: BTreeMap<u8, &[Holder]> = BTreeMap::new();
    for (at, what) in history.iter().take_while(|&(at, _)| at < belief.from) {
        if let What::Server {
            node,
            cause,
            stored,
            ..
        } = what
        {
            latest.insert(*node, stored);
            if belief.asked < at && *cause == Cause::Client(belief.actor.host) {
                put.extend(stored.iter().map(|stored| &*stored.token));
            }
        }
    }
    let standing = latest.values().copied().flatten();
    let standing: BTreeSet<&[u8]> = standing.map(|stored| &*stored.token).collect();
    let both: BTreeSet<&[u8]> = put.intersection(&standing).copied().collect();
    if both.is_empty() { put } else { both }
}

fn count(history: &History, belief: &Belief, token: &[u8], until: Moment) -> Votes {
    let lasts = history.shortest_lease()
        - history
            .shortest_lease()
            .mul_f64(2e-6 * DRIFT_PPM_MAX as f64);
    let mut votes: Vec<Vote> = Vec::new();
    for (at, what) in history.iter().take_while(|&(at, _)| at <= until) {
        let What::Server {
            node,
            cause,
            stored,
            ..
        } = what
        else {
            continue;
        };
        let stands = stored.iter().find(|stored| stored.token == token);
        let known = votes.iter_mut().find(|vote| vote.node == *node);
        let theirs = *cause == Cause::Client(belief.actor.host);
        match (known, stands) {
            // The owner of a reentrant lock has given an earlier grant back under the same token, or the call has undone an earlier
            // round. If the node had dropped the token before, it was no request of the process that removed it.
            (
                Some(Vote {
                    stored: Some(_), ..
                }),
                None,
            ) if theirs && at < belief.from => votes.retain(|vote| vote.node != *node),
            (Some(vote), stands) => {
                vote.becomes(stands, *cause, theirs.then_some(at.at + lasts), at.at)
            }
            (None, Some(stored)) if theirs => votes.push(Vote {
                node: *node,
                stored: Some(stored.clone()),
                due: at.at + lasts,
                forgot: None,
                ended: false,
            }),
            (None, _) => {}
        }
    }
    for vote in &mut votes {
        vote.look(until.at);
    }
    // A node that had dropped the grant before the extension did not extend it, so it has no vote.
    let extended = extended(history, belief, until);
    votes.retain(|vote| {
        vote.forgot
            .is_none_or(|at| extended.is_none_or(|since| since <= at))
    });
    Votes {
        granted: votes.iter().filter(|vote| !vote.ended).count(),
        forgot: votes.iter().filter(|vote| vote.forgot.is_some()).count(),
    }
}

/// Returns the earliest time at which the nodes can have been asked for the latest extension of a grant.
fn extended(history: &History, belief: &Belief, until: Moment) -> Option<Duration> {
    let calls = history.calls();
    let asked = history
        .iter()
        .take_while(|&(at, _)| at <= until)
        .filter_map(|(_, what)| {
            if let What::Ok { op, .. } = *what {
                let &(asked, _, call) = calls.get(&op)?;
                let theirs = matches!(call, Call::Renew { grant } if grant == belief.grant);
                theirs.then_some(asked.at)
            } else if let What::Deadline { grant, deadline } = *what {
                let deadline = deadline.filter(|_| grant == belief.grant)?;
                deadline.checked_sub(history.lease)
            } else {
                None
            }
        });
    asked.max()
}

impl Vote {
    /// Updates the vote with the node's state for the grant. `due` is set if the holder has set the lease.
    fn becomes(
        &mut self,
        stands: Option<&Holder>,
        cause: Cause,
        due: Option<Duration>,
        now: Duration,
    ) {
        self.look(now);
        if let (Some(_), Some(due)) = (stands, due) {
            (self.due, self.forgot, self.ended) = (due, None, false);
        } else if stands.is_none() && self.stored.is_some() && cause == Cause::Fault {
            self.forgot = Some(now);
        } else if stands.is_none() && self.has_run_out(now) {
            self.ends(now);
        }
        self.stored = stands.cloned();
    }

    /// Checks whether its lease has expired, and whether that was too early.
    fn look(&mut self, now: Duration) {
        let gone = self.stored.as_ref().and_then(Holder::gone_at);
        if let Some(gone) = gone.filter(|gone| *gone <= now) {
            self.stored = None;
            self.ends(gone);
        }
    }

    /// True if the node's clock shows the deadline or more: a lock that compares deadlines itself may take the grant as
    /// over a millisecond before a key with this deadline is gone.
    fn has_run_out(&self, now: Duration) -> bool {
        let expires = self.stored.as_ref().and_then(|stored| stored.expires);
        expires.is_some_and(|expires| expires <= now)
    }

    fn ends(&mut self, at: Duration) {
        if at < self.due {
            self.forgot = self.forgot.or(Some(at));
        } else {
            self.ended = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{checker::hand_made::*, scenario::Fault};

    /// A grant on the first nodes of five, followed by other events.
    fn five(granted_by: u8, more: Vec<(u64, What)>) -> History {
        let mut entries = vec![(0, tries(1, 0))];
        entries.extend((0..granted_by).map(|node| (0, stores_on(node, 0, "a", Some(10)))));
        entries.push((1, granted(1, Some(9))));
        entries.extend(more);
        History {
            topology: Topology::Nodes(5),
            ..history(entries)
        }
    }

    fn at_eight(history: &History, property: Property) -> bool {
        let witness = Witness {
            at: Moment::at(s(8)),
            until: None,
            grants: vec![1],
            message: String::new(),
        };
        stands(history, property, &witness)
    }

    fn forget(nodes: std::ops::Range<u8>) -> Vec<(u64, What)> {
        nodes.map(|node| (3, empties(node, Cause::Fault))).collect()
    }

    fn exclusion(granted_by: u8, forgotten: u8) -> bool {
        at_eight(&five(granted_by, forget(0..forgotten)), Property::Exclusion)
    }

    #[test]
    fn a_majority_must_remember() {
        assert!(exclusion(5, 2));
        assert!(!exclusion(5, 3));
        assert!(exclusion(4, 1));
        assert!(!exclusion(4, 2));
        assert!(exclusion(3, 0));
        assert!(!exclusion(3, 1));
    }

    #[test]
    fn a_lease_that_ends_early_counts_as_dropped_and_a_removed_one_does_not() {
        let earlier = |until| {
            let moved = |node| What::Server {
                node,
                cause: Cause::Fault,
                stored: vec![Holder {
                    token: "a".into(),
                    expires: Some(s(until)),
                    ..Holder::default()
                }],
                anonymous: 0,
            };
            at_eight(&five(3, vec![(2, moved(0))]), Property::Exclusion)
        };
        assert!(!earlier(5));
        assert!(earlier(10));
        let removed = vec![(3, empties(0, Cause::Client(1)))];
        assert!(at_eight(&five(3, removed), Property::Exclusion));
    }

    /// Each of two nodes of three has a fast clock. On one of them the next client replaces the value in its last
    /// millisecond: a lock that stores deadlines in its values compares them itself.
    #[test]
    fn a_deadline_that_another_client_found_run_out_counts_as_dropped() {
        let stands = |until: u64, taken_at: u64| {
            let holder = |token: &str, until| Holder {
                token: token.into(),
                expires: Some(Duration::from_millis(until)),
                ..Holder::default()
            };
            let server = |node, cause, stored| What::Server {
                node,
                cause,
                stored: vec![stored],
                anonymous: 0,
            };
            let mut more: Vec<(u64, What)> = (0..2)
                .map(|node| (2, server(node, Cause::Fault, holder("a", until))))
                .collect();
            more.push((taken_at, server(0, Cause::Client(1), holder("b", 20_000))));
            at_eight(&five(4, more), Property::Exclusion)
        };
        assert!(!stands(6_000, 6), "the deadline has passed");
        assert!(stands(7_900, 6), "it has not: that is the lock's own doing");
    }

    #[test]
    fn an_extension_restores_a_vote() {
        let mut again = forget(0..1);
        again.push((4, stores_on(0, 0, "a", Some(14))));
        assert!(at_eight(&five(3, again), Property::Exclusion));
    }

    /// Three of five nodes granted the lock and one of them dropped it; only two can have extended it.
    #[test]
    fn a_node_that_dropped_the_grant_extends_nothing() {
        let extended = |more: Vec<(u64, What)>| {
            at_eight(
                &five(3, [forget(0..1), more].concat()),
                Property::GroundedBelief,
            )
        };
        let counts_it = vec![(4, renews(2, 0, 1)), (5, done(2))];
        let deadline = Some(s(15));
        let in_background = vec![(5, What::Deadline { grant: 1, deadline })];
        assert!(!extended(vec![]));
        assert!(extended(counts_it));
        assert!(extended(in_background));
        assert!(
            !extended(vec![(4, renews(2, 0, 1))]),
            "the holder does not learn of it"
        );
    }

    /// The owner of a reentrant lock gives a grant back, and is then granted the lock by fewer nodes under the same token.
    #[test]
    fn a_grant_that_was_given_back_leaves_no_votes() {
        let stands = |given_back: u8| {
            let mut entries = vec![(0, tries(1, 0))];
            entries.extend((0..5).map(|node| (0, stores_on(node, 0, "a", Some(10)))));
            entries.extend([(0, granted(1, Some(9))), (1, releases(2, 0, 1))]);
            entries.extend((0..given_back).map(|node| (1, empties(node, Cause::Client(0)))));
            entries.extend([(1, done(2)), (2, tries(3, 0))]);
            entries.extend((2..5).map(|node| (2, stores_on(node, 0, "a", Some(12)))));
            entries.extend([(2, granted(3, Some(11))), (3, empties(2, Cause::Fault))]);
            let mut history = history(entries);
            (history.topology, history.reentrant) = (Topology::Nodes(5), true);
            let witness = Witness {
                at: Moment::at(s(8)),
                until: None,
                grants: vec![3],
                message: String::new(),
            };
            stands(&history, Property::GroundedBelief, &witness)
        };
        assert!(!stands(5), "three nodes granted it");
        assert!(stands(0), "five nodes stored it");
    }

    /// Seed 17 of a lock with one token for all rounds of a call. The call undid its first round. In the second round another node
    /// granted the lock in place of the one of the first round.
    #[test]
    fn a_round_that_the_call_has_undone_leaves_no_votes() {
        let stands = |undone: bool| {
            let mut entries = vec![(0, tries(1, 0)), (0, stores_on(4, 0, "a", Some(10)))];
            entries.extend(undone.then(|| (1, empties(4, Cause::Client(0)))));
            entries.extend((0..3).map(|node| (2, stores_on(node, 0, "a", Some(12)))));
            entries.extend([(2, granted(1, Some(11))), (3, empties(2, Cause::Fault))]);
            let mut history = history(entries);
            history.topology = Topology::Nodes(5);
            at_eight(&history, Property::GroundedBelief)
        };
        assert!(!stands(true), "three nodes granted it");
        assert!(stands(false), "four nodes did");
    }

    /// Seed 5086 of `redlock-watchdog`: one of three nodes drops the token, and stores that of another task of the process, before
    /// the call is granted the lock.
    #[test]
    fn a_node_that_drops_a_token_before_the_grant_has_forgotten_it() {
        let stands = |cause| {
            let mut entries = vec![(0, tries(1, 0))];
            entries.extend((0..3).map(|node| (0, stores_on(node, 0, "a", Some(12)))));
            entries.extend([(1, empties(0, cause)), (1, stores_on(0, 0, "b", Some(13)))]);
            entries.push((2, granted(1, Some(11))));
            let mut history = history(entries);
            history.topology = Topology::Nodes(5);
            at_eight(&history, Property::GroundedBelief)
        };
        assert!(!stands(Cause::Fault), "two nodes remember");
        assert!(stands(Cause::Client(0)), "the call gave one back");
    }

    #[test]
    fn leases_may_end_late_on_few_nodes() {
        let late = |nodes: u8| {
            let fault = |node| What::Strikes {
                fault: Fault::NodeFreeze { node },
            };
            let strikes = (0..nodes).map(|node| (2, fault(node)));
            at_eight(&five(5, strikes.collect()), Property::Progress)
        };
        assert!(late(2));
        assert!(!late(3));
    }
}
