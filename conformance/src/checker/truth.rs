//! P19, truth: a result never claims more than the servers did.
//!
//! * A grant is returned only before its own deadline.
//! * "Extended" only if the grant stood at some instant of the call; "lost" only if it did not stand all the time, or its
//!   own deadline was over.
//! * A lock reports a loss unasked only after a fault, near the deadline, or if the grant did not stand all the time.
//! * "Released" only if this call removed the grant; "lost already" only if it was gone before. If the servers store it in several
//!   places, and it expired in some of them before the call removed it from the others, both are true.
//! * "Contended" only if another grant stood that leaves no room for this one (of readers a writer's, or one of the same
//!   process; of a semaphore too many permits), others were queued, or the lock was reserved, at some instant of the call,
//!   or another task of the process had the lock or asked for it. On one node the caller's own grant is no reason to refuse it a
//!   reentrant mutex. Of several nodes: unless one majority answered all the
//!   time and stored at most what this call put there.
//! * The TTL at a server never exceeds the lease, which is the longest that the suite asks for.

mod extensions;
mod levels;
mod losses;
mod parts;
mod refusals;
mod releases;

use super::{Checker, Finding, Property, Witness, seconds};
use crate::{
    history::{
        Belief, Call, Cause::Client, FaultEffect, Moment, OpId, Operation, Reading, TokenSpan, What,
    },
    scenario::Topology,
};
use std::{collections::BTreeSet, time::Duration};

/// Judges P19.
pub struct Truth;

/// What the history says of a result.
struct Facts<'a>(&'a Reading<'a>);

impl Checker for Truth {
    fn property(&self) -> Property {
        Property::Truth
    }

    fn judge(&self, history: &Reading<'_>) -> Finding {
        if let Some(witness) = dead_on_arrival(history) {
            return Finding::Violation(witness);
        }
        if !history.observed {
            return Finding::Unknown("the server was not observed");
        }
        let facts = Facts(history);
        let lies = facts.0.operations().iter().filter_map(|it| {
            let (grants, message) = facts.lie(it)?;
            Some(Witness {
                at: it.ended,
                until: None,
                grants,
                message,
            })
        });
        let losses = facts
            .0
            .beliefs()
            .iter()
            .filter_map(|it| facts.lost_for_no_reason(it));
        let all = lies.chain(facts.too_long()).chain(losses);
        let first = all.min_by_key(|lie| lie.at);
        first.map_or(Finding::Valid, Finding::Violation)
    }
}

/// A grant whose deadline was over when it was returned.
fn dead_on_arrival(history: &Reading<'_>) -> Option<Witness> {
    let calls = history.calls();
    history.iter().find_map(|(at, what)| {
        let &What::Ok {
            op,
            deadline: Some(deadline),
            ..
        } = what
        else {
            return None;
        };
        let (_, actor, call) = *calls.get(&op)?;
        (call.acquires() && deadline <= at.at).then(|| Witness {
            at,
            until: None,
            grants: vec![op],
            message: format!(
                "{actor} was granted the lock at {}, its deadline being {}",
                seconds(at.at),
                seconds(deadline)
            ),
        })
    })
}

impl Facts<'_> {
    /// Returns the grants and the sentence of a result that claims more than the servers did.
    fn lie(&self, it: &Operation) -> Option<(Vec<OpId>, String)> {
        let belief = |grant| self.0.beliefs().iter().find(|it| it.grant == grant);
        let (grants, says) = match it.call {
            Call::Renew { grant } => (vec![grant], self.lie_of_extension(belief(grant)?, it)?),
            Call::Release { grant } => (vec![grant], self.lie_of_release(belief(grant)?, it)?),
            Call::Try { .. }
            | Call::Acquire { .. }
            | Call::Drop { .. }
            | Call::Access { .. }
            | Call::SetUp
            | Call::Admit
            | Call::AdmitAgain { .. }
            | Call::CountDown
            | Call::Await { .. } => (vec![], self.lie_of_refusal(it)?),
        };
        let ended = seconds(it.ended.at);
        Some((
            grants,
            format!("at {ended} the lock told {} {says}", it.actor),
        ))
    }

    /// The tokens of a grant: the one that the subject named, else its own, or those of the grants that it was taken on
    /// top of.
    fn of_grant(&self, belief: &Belief) -> Vec<&TokenSpan<'_>> {
        if self.0.tokens().named.contains_key(&belief.grant) {
            return self.0.tokens().of_grant(belief).collect();
        }
        let older = self.0.beliefs().iter().filter(|older| {
            self.0.reentrant && older.actor == belief.actor && older.from <= belief.from
        });
        let older = older.flat_map(|older| self.0.tokens().of_grant(older));
        self.0.tokens().of_grant(belief).chain(older).collect()
    }

    /// Their names. If there is more than one, some may be those of other tasks of the process.
    fn names(&self, belief: &Belief) -> BTreeSet<&[u8]> {
        let spans = self.of_grant(belief).into_iter();
        spans.map(|span| span.token).collect()
    }

    /// Returns true if the one token of the grant stood on as many nodes as it takes, all the time.
    fn stood_throughout(&self, belief: &Belief, since: Moment, until: Moment) -> bool {
        let names = self.names(belief);
        let everywhere = self.0.tokens().spans.iter().filter(|span| {
            let throughout = span.from <= since && until < span.gone.0;
            names.contains(span.token) && throughout
        });
        let needed = match self.0.topology {
            Topology::Nodes(_) => self.quorum(),
            Topology::Replicated { replicas } => 1 + usize::from(replicas),
        };
        names.len() == 1 && everywhere.count() >= needed
    }

    /// How many nodes it takes to hold the lock.
    fn quorum(&self) -> usize {
        match self.0.topology {
            Topology::Nodes(count) => usize::from(count) / 2 + 1,
            Topology::Replicated { .. } => 1,
        }
    }

    /// A token that lasts longer than any lease that was asked for.
    fn too_long(&self) -> Option<Witness> {
        // A clock that was bent and is straight again rounds to other milliseconds.
        let longest = self.0.lease + self.0.terms.timing_tolerance();
        self.0.tokens().spans.iter().find_map(|span| {
            let mut theirs = span.expiries.iter().filter_map(|&(at, cause, expires)| {
                let (Client(host), true) = (cause, self.exact(span.node, at.at)) else {
                    return None;
                };
                let ttl = expires.map(|expires| expires.saturating_sub(at.at));
                // The token may have got its expiry before, under another key.
                let begun = at.at.saturating_sub(longest);
                let set_back = self.0.fault_intervals().set_back(span.node, begun, at.at);
                ttl.is_none_or(|ttl| ttl > longest + set_back)
                    .then_some((at, host, ttl))
            });
            let (at, host, ttl) = theirs.next()?;
            let ttl = ttl.map_or_else(|| "no end".to_owned(), seconds);
            let (client, lease) = (crate::history::Actor::on(host), seconds(self.0.lease));
            Some(Witness {
                at,
                until: None,
                grants: vec![],
                message: format!(
                    "at {} the lock of {client} was given {ttl}, the lease being {lease}",
                    seconds(at.at)
                ),
            })
        })
    }

    /// Returns true if the clock of a server showed true time.
    fn exact(&self, node: u8, at: Duration) -> bool {
        !self
            .0
            .fault_intervals()
            .at_node(FaultEffect::ServerClock, node, at)
    }
}

#[cfg(test)]
mod tests {
    pub(super) use crate::{
        checker::{Checker, Finding, hand_made::*, truth::Truth},
        history::{
            Actor, CANCELLED, Call, Cause, Cause::Client, History, Holder, OpId, Refusal, Token,
            What,
        },
        scenario::Topology,
    };

    pub(super) fn lie(entries: Vec<(u64, What)>) -> Option<String> {
        let finding = Truth.check(&history(entries));
        finding.witness().map(|witness| witness.message.clone())
    }

    pub(super) fn held_by_c1(more: Vec<(u64, What)>) -> Vec<(u64, What)> {
        let held = vec![
            (0, tries(1, 0)),
            (0, stores(0, "a", Some(10))),
            (1, granted(1, Some(9))),
        ];
        held.into_iter().chain(more).collect()
    }

    /// The server stores the grant of c1 in several places, until these times.
    pub(super) fn places(cause: Cause, until: &[u64]) -> What {
        let stored = until.iter().map(|&expires| Holder {
            token: b"a".to_vec(),
            expires: Some(s(expires)),
            ..Holder::default()
        });
        What::Server {
            node: 0,
            cause,
            stored: stored.collect(),
            anonymous: 0,
        }
    }

    pub(super) fn lost(op: OpId) -> What {
        let why = Refusal::Lost;
        What::Fail { op, why }
    }

    #[test]
    fn a_grant_must_not_be_dead_on_arrival() {
        let granted_at = |at| lie(vec![(0, tries(1, 0)), (at, granted(1, Some(9)))]);
        assert_eq!(granted_at(8), None);
        assert!(
            granted_at(9)
                .unwrap()
                .contains("its deadline being 9.000 s")
        );
    }

    #[test]
    fn no_ttl_is_longer_than_the_lease() {
        assert_eq!(lie(vec![(1, stores(0, "a", Some(11)))]), None);
        assert!(lie(vec![(1, stores(0, "a", Some(12)))]).is_some());
        assert!(lie(vec![(1, stores(0, "a", None))]).is_some());
    }

    /// A client sets its own key with an expiry, and renames the key.
    #[test]
    fn a_clock_that_is_set_back_lengthens_what_has_an_expiry() {
        let lies = |node, by_ms, at| {
            let fault = crate::scenario::Fault::NodeClock { node, by_ms };
            let mut entries = vec![
                (20, stores(0, "a", Some(33))),
                (at, What::Strikes { fault }),
            ];
            entries.sort_by_key(|&(at, _)| at);
            let mut history = history(entries);
            history.topology = Topology::Nodes(3);
            Truth.check(&history).witness().is_some()
        };
        assert!(!lies(0, -3_000, 19));
        assert!(lies(0, -2_000, 19), "by less than that");
        assert!(lies(0, 3_000, 19), "set forward");
        assert!(lies(0, -3_000, 8), "before the lease began");
        assert!(lies(1, -3_000, 19), "the clock of another node");
    }
}
