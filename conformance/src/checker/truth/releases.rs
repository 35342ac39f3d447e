//! "Released" and "lost already", the results of a release.

use super::{Facts, losses::LATE_SHARE};
use crate::{
    history::{
        Belief, Call, Cause::Client, End, Excuse, FaultEffect, Moment, Operation, Outcome, Refusal,
        TokenSpan, What,
    },
    scenario::Topology,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// On how many nodes.
fn nodes<'a>(spans: impl Iterator<Item = &'a TokenSpan<'a>>) -> usize {
    let nodes: BTreeSet<u8> = spans.map(|span| span.node).collect();
    nodes.len()
}

/// Returns true if it was removed before its time was over.
fn cut_short(span: &&TokenSpan<'_>) -> bool {
    let (gone, _) = span.gone;
    span.expiry(gone).is_none_or(|ends| gone.at < ends)
}

impl Facts<'_> {
    /// Returns the sentence of a release that claims more than the servers did.
    pub(super) fn lie_of_release(&self, belief: &Belief, it: &Operation) -> Option<&'static str> {
        // An inner release removes nothing; but nor does it find the lock lost.
        let inner = self.is_shared(belief, it);
        // The client knows that its deadline has passed. The token may stand a little longer, and that of an owner for another grant.
        let ended = |end| belief.end == end && belief.to <= it.asked;
        let ends = || self.0.accepts(Excuse::DeadlinePassed) && self.ends_soon(belief, it);
        let over =
            ended(End::Deadline) && (inner || ends()) || self.has_reported_loss(belief, it.asked);
        match it.outcome {
            Outcome::Ok if self.0.terms.releases_silently => None,
            Outcome::Ok
                if !inner
                    && nodes(self.removed(belief, it)) == 0
                    && !self.counted_down(it)
                    && !self.removed_what_was_left(belief, it)
                    && !self.ends_later(belief, it) =>
            {
                Some("that it released the lock, but its request removed nothing that still stood")
            }
            Outcome::Ok if !inner && self.holds_anew(belief, it) => Some(
                "that it released the lock, but its request keeps other clients out for longer than the minimum hold",
            ),
            Outcome::Ok if !inner && self.refuted(belief, it) => Some(
                "that it released the lock, but a majority of the nodes answered that the lock was gone",
            ),
            Outcome::Fail(Refusal::Lost)
                if !over
                    && self.stood_throughout(belief, it.asked, it.ended)
                    && !self.lost_a_part(belief, it) =>
            {
                Some("that the lock was lost already, but it stood all the time")
            }
            Outcome::Fail(Refusal::Lost)
                if !inner
                    && self.names(belief).len() == 1
                    && !self.lost_a_part(belief, it)
                    && nodes(
                        self.removed(belief, it)
                            .filter(cut_short)
                            .filter(|span| !self.is_given_back_by_another(span, it)),
                    ) >= self.quorum() =>
            {
                Some("that the lock was lost already, but its own request had removed it")
            }
            Outcome::Ok
            | Outcome::Fail(_)
            | Outcome::Unknown
            | Outcome::Cancelled
            | Outcome::Open => None,
        }
    }

    /// Returns true if the servers stored the grant for a small part of a lease only when the call began, as far as the client could
    /// know at its deadline: without an extension that landed later and without what the owner's other calls added under the
    /// same token. While a server's clock is wrong, the client cannot know the end.
    fn ends_soon(&self, belief: &Belief, it: &Operation) -> bool {
        let bent = [FaultEffect::ServerClock];
        let (host, intervals) = (belief.actor.host, self.0.fault_intervals());
        if self.0.accepts(Excuse::WrongServerClock)
            && intervals.any(&bent, host, belief.asked.at, it.ended.at)
        {
            return true;
        }
        let counts = self.0.accepts(Excuse::LengthenedLater);
        let soon = it.asked.at + self.0.lease / LATE_SHARE;
        let by_another_call = |at: Moment| {
            let mut calls = self.0.operations().iter();
            self.0.reentrant
                && calls.any(|call| {
                    let is_others = call.actor == belief.actor && call.op != belief.grant;
                    is_others && call.call.acquires() && call.asked < at && at < call.landed()
                })
        };
        let ends = |span: &TokenSpan<'_>| {
            let known = span.expiries.iter().rev();
            let mut known = known.filter(|&&(at, ..)| {
                let in_time = at <= belief.to && !by_another_call(at);
                at <= it.asked && (in_time || !counts)
            });
            let ends = known.next().map(|&(.., ends)| ends);
            ends.is_none_or(|ends| ends.is_some_and(|ends| ends <= soon))
        };
        let stored = self.of_grant(belief).into_iter();
        let mut stored = stored.filter(|span| span.stood_within(it.asked, it.ended));
        stored.all(ends)
    }

    /// What a request of the process removed of the grant during the call.
    fn removed(&self, belief: &Belief, it: &Operation) -> impl Iterator<Item = &TokenSpan<'_>> {
        let (host, from, to) = (it.actor.host, it.asked, it.ended);
        // Also where it was put later: a grant may grow.
        let names = self.names(belief);
        let theirs = self.0.tokens().spans.iter();
        theirs.filter(move |span| {
            let (gone, by) = span.gone;
            names.contains(span.token) && by == Client(host) && from < gone && gone < to
        })
    }

    /// Returns true if another task of the process, with a grant of the same token, gave the token back meanwhile and was not told
    /// that it was lost.
    fn is_given_back_by_another(&self, span: &TokenSpan<'_>, it: &Operation) -> bool {
        let (gone, _) = span.gone;
        let gives_it_back = |other: &&Operation| {
            let Call::Release { grant } = other.call else {
                return false;
            };
            let mut beliefs = self.0.beliefs().iter();
            other.op != it.op
                && other.actor.host == it.actor.host
                && other.asked < gone
                && gone < other.landed()
                && !matches!(other.outcome, Outcome::Fail(_))
                && beliefs
                    .find(|belief| belief.grant == grant)
                    .is_some_and(|belief| self.names(belief).contains(span.token))
        };
        self.0.accepts(Excuse::GivenBackByAnother)
            && self
                .0
                .operations()
                .iter()
                .any(|other| gives_it_back(&other))
    }

    /// Returns true if so many of several nodes answered a request of the call and stored no token of the grant at any instant
    /// of it that the others are no majority. A token that a request of the process removed before the call does not count as gone.
    fn refuted(&self, belief: &Belief, it: &Operation) -> bool {
        let Topology::Nodes(nodes @ 2..) = self.0.topology else {
            return false;
        };
        let (host, names) = (it.actor.host, self.names(belief));
        let denies = |node: &u8| {
            let mut requests = self.0.requests_of(host);
            let answered = requests.any(|request| {
                self.0.session(request).node == *node
                    && it.asked <= request.sent_at()
                    && request.error.is_none()
                    && request.replied.is_some_and(|at| at <= it.ended.at)
            });
            let mut theirs = self.0.tokens().spans.iter();
            let stored = theirs.any(|span| {
                let removed = span.gone.1 == Client(host) && belief.from < span.gone.0;
                let there = span.stood_within(it.asked, it.ended) || removed;
                span.node == *node && names.contains(span.token) && there
            });
            answered && !stored
        };
        !names.is_empty() && (0..nodes).filter(denies).count() >= self.quorum()
    }

    /// Returns true if a request of the process lowered the count of holders during the call.
    fn counted_down(&self, it: &Operation) -> bool {
        let mut before: BTreeMap<u8, u32> = BTreeMap::new();
        self.0.iter().any(|(at, what)| {
            let &What::Server {
                node,
                cause,
                anonymous,
                ..
            } = what
            else {
                return false;
            };
            let was = before.insert(node, anonymous).unwrap_or(0);
            let theirs = cause == Client(it.actor.host) && it.asked < at && at < it.ended;
            theirs && anonymous < was
        })
    }

    /// Returns true if a request of the process gave the grant another end during the call, as the release of one does
    /// that keeps others out for some time at least; or need not, as it ends soon enough.
    fn ends_later(&self, belief: &Belief, it: &Operation) -> bool {
        let host = it.actor.host;
        let spans = self.of_grant(belief);
        // A process that does not run sends its request so much later.
        let stood = (self.0.fault_intervals()).stopped_for(host, it.asked.at, it.ended.at);
        let soon = it.asked.at + stood + self.0.terms.longest_hold();
        let ends_soon = spans.iter().any(|span| {
            let ends = span.expiry(it.asked);
            span.stood_within(it.asked, it.ended) && ends.is_some_and(|ends| ends <= soon)
        });
        if self.0.terms.hold == Duration::ZERO {
            return self.expired_by_request(&spans, it);
        }
        // The expiries of a server are not observed while its clock is wrong.
        let bent = [FaultEffect::ServerClock];
        let bent = (self.0.fault_intervals()).any(&bent, host, belief.asked.at, it.ended.at);
        let mut changes = spans.into_iter().flat_map(|it| &it.expiries);
        let changed = bent
            || changes.any(|&(at, by, _)| by == Client(host) && it.asked < at && at < it.ended);
        changed || ends_soon
    }

    /// Returns true if a request that was sent during the call gave the grant an end after its minimum hold. The hold begins when the
    /// client has the grant, at the latest. The request may be late; what is left of the hold was known when the call began.
    fn holds_anew(&self, belief: &Belief, it: &Operation) -> bool {
        let terms = &self.0.terms;
        let host = it.actor.host;
        let intervals = self.0.fault_intervals();
        let bent = [FaultEffect::ServerClock];
        // The owner of a reentrant lock may have acquired it again. The lock may store the end of the hold by the server's clock.
        if terms.hold == Duration::ZERO
            || self.0.reentrant
            || intervals.any(&bent, host, belief.asked.at, it.ended.at)
        {
            return false;
        }
        // A clock that is slow, or that stands, misses a part of this time.
        let missed = intervals.clock_stood_for(host, belief.asked.at, it.ended.at)
            + intervals.clock_was_off_for(host, belief.from.at, it.asked.at);
        let until = belief.from.at + terms.longest_hold() + missed;
        let left = until.saturating_sub(it.asked.at) + terms.timing_tolerance();
        let sent_by_it = |node: u8, at: Moment| {
            let requests = self.0.requests_of(host);
            let mut those = requests
                .filter(|request| {
                    self.0.session(request).node == node && request.executed == Some(at.at)
                })
                .peekable();
            those.peek().is_some() && those.all(|request| it.asked <= request.sent_at())
        };
        // The server may execute an extension during the release. It keeps no client out if a later request of the release removes
        // the token.
        let mut stays = self.of_grant(belief).into_iter().filter(|span| {
            let (gone, by) = span.gone;
            !(by == Client(host) && gone < it.ended)
        });
        stays.any(|span| {
            span.expiries.iter().any(|&(at, by, end)| {
                let theirs = by == Client(host) && it.asked < at && at < it.ended;
                let longer = end.is_none_or(|end| end > at.at + left);
                theirs && longer && self.exact(span.node, at.at) && sent_by_it(span.node, at)
            })
        })
    }

    /// Returns true if a server executed a request of the process during the call, and the grant's token, if it still
    /// stood, then had a TTL of at most the timing tolerance. Such a release expires the token instead of deleting it.
    /// The TTL is not observed while the clock of the server is wrong.
    fn expired_by_request(&self, spans: &[&TokenSpan<'_>], it: &Operation) -> bool {
        let tolerance = self.0.terms.timing_tolerance();
        self.0.requests_of(it.actor.host).any(|request| {
            let Some(at) = (request.executed).filter(|&at| it.asked.at <= at && at <= it.ended.at)
            else {
                return false;
            };
            let node = self.0.session(request).node;
            let after = Moment {
                at,
                place: usize::MAX,
            };
            let theirs = spans.iter().filter(|span| span.node == node);
            theirs
                .filter(|span| span.stood_within(Moment::at(at), after))
                .any(|span| {
                    let expires = span.expiry(after);
                    !self.exact(node, at) || expires.is_some_and(|end| end <= at + tolerance)
                })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use crate::scenario::Fault;

    #[test]
    fn released_means_that_this_call_removed_it() {
        let release = |entries: Vec<(u64, What)>| {
            let begin = vec![(3, releases(2, 0, 1))];
            lie(held_by_c1(begin.into_iter().chain(entries).collect()))
        };
        assert_eq!(release(vec![(3, frees(0)), (4, done(2))]), None);
        assert!(release(vec![(4, done(2))]).is_some());
        assert!(
            release(vec![(3, frees(1)), (4, done(2))]).is_some(),
            "another removed it"
        );
        assert!(
            release(vec![(12, frees(0)), (12, done(2))]).is_some(),
            "it had expired"
        );
    }

    #[test]
    fn a_release_that_returns_nothing_claims_nothing() {
        let told = |silently| {
            let release = vec![(3, releases(2, 0, 1)), (4, done(2))];
            let mut history = history(held_by_c1(release));
            history.terms.releases_silently = silently;
            Truth.check(&history).witness().is_some()
        };
        assert!(told(false));
        assert!(!told(true));
    }

    #[test]
    fn a_release_gives_a_token_with_a_minimum_hold_an_expiry() {
        let release = |hold, kept: Option<(u64, What)>| {
            let told = [(3, releases(2, 0, 1))].into_iter().chain(kept);
            let mut history = history(held_by_c1(told.chain([(7, done(2))]).collect()));
            history.terms.hold = s(hold);
            Truth.check(&history) == Finding::Valid
        };
        let kept = |host| Some((4, stores(host, "a", Some(6))));
        assert!(release(6, kept(0)));
        assert!(!release(0, kept(0)));
        assert!(!release(6, kept(1)));
        assert!(!release(6, None));
        // Seed 810 of `semaphore-holding` under `suspend`: it ends then anyway.
        assert!(release(7, None));
    }

    /// The client's deadline is 5. Its owner enters again at 3, which extends the token, and leaves. The release at 8 says that the lock
    /// was lost.
    #[test]
    fn what_another_call_of_the_owner_adds_to_a_token_does_not_count() {
        let lies = |reentrant| {
            let mut history = history(vec![
                (0, tries(1, 0)),
                (0, stores(0, "a", Some(10))),
                (1, granted(1, Some(5))),
                (3, tries(3, 0)),
                (4, stores(0, "a", Some(14))),
                (4, granted(3, Some(13))),
                (5, releases(4, 0, 3)),
                (6, done(4)),
                (8, releases(2, 0, 1)),
                (8, lost(2)),
                (19, tries(7, 1)),
            ]);
            history.reentrant = reentrant;
            Truth.check(&history).witness().is_some()
        };
        assert!(!lies(true));
        assert!(lies(false));
    }

    /// The client has the grant from 1 on. Its release at 5, which the server executes at 6, leaves the token until `end`.
    #[test]
    fn a_release_does_not_begin_a_minimum_hold_anew() {
        let lies_with = |is_slow: bool, hold, end, sent| {
            let fault = Fault::Drift {
                host: 0,
                ppm: -500_000,
            };
            let slow = [(2, What::Strikes { fault }), (4, What::Heals { fault })];
            let told = [
                (5, releases(2, 0, 1)),
                (6, stores(0, "a", Some(end))),
                (7, done(2)),
            ];
            let slow = slow.into_iter().filter(|_| is_slow);
            let mut history = history(held_by_c1(slow.chain(told).collect()));
            history.terms.hold = s(hold);
            history.dials(0, 0, 0, None);
            history.asks(0, sent, Some(6), Some(6));
            let finding = Truth.check(&history);
            finding
                .witness()
                .is_some_and(|it| it.message.contains("longer than the minimum hold"))
        };
        let lies = |hold, end, sent| lies_with(false, hold, end, sent);
        assert!(!lies(6, 8, 5), "two seconds are left at 5");
        assert!(lies(6, 12, 5), "a new hold");
        assert!(lies(2, 8, 5), "the hold is over");
        assert!(!lies(6, 12, 4), "a request to extend the grant");
        assert!(
            !lies_with(true, 6, 10, 5),
            "the clock was slow for two seconds"
        );
        assert!(lies_with(true, 6, 11, 5));
    }

    /// The release at 5 begins the hold anew. The clock of the server is wrong from 3 to 4, or after the release.
    #[test]
    fn a_hold_counts_by_the_clock_of_the_server() {
        let lies = |from, to| {
            let fault = Fault::NodeClock {
                node: 0,
                by_ms: -3_000,
            };
            let told = [
                (5, releases(2, 0, 1)),
                (6, stores(0, "a", Some(12))),
                (7, done(2)),
            ];
            let mut history = history(held_by_c1(told.to_vec()));
            history.terms.hold = s(6);
            history.dials(0, 0, 0, None);
            history.asks(0, 5, Some(6), Some(6));
            history.push(s(from), What::Strikes { fault });
            history.push(s(to), What::Heals { fault });
            history.entries.sort_by_key(|entry| entry.at);
            let finding = Truth.check(&history);
            finding
                .witness()
                .is_some_and(|it| it.message.contains("longer than the minimum hold"))
        };
        assert!(!lies(3, 4));
        assert!(lies(8, 9), "it was set after the release");
    }

    /// Seed 13 of a lock on three nodes with a minimum hold: a request of its extension landed during the release, which removed it.
    #[test]
    fn an_extension_that_lands_during_the_release_and_is_removed_keeps_nobody_out() {
        let lies = |removed: Option<What>| {
            let mut told = vec![(5, releases(2, 0, 1)), (6, stores(0, "a", Some(16)))];
            told.extend(removed.map(|it| (6, it)));
            told.push((7, done(2)));
            let mut history = history(held_by_c1(told));
            history.terms.hold = s(6);
            history.dials(0, 0, 0, None);
            history.asks(0, 5, Some(6), Some(6));
            Truth.check(&history) != Finding::Valid
        };
        assert!(!lies(Some(frees(0))));
        assert!(lies(None));
        assert!(lies(Some(frees(1))), "another removed it");
    }

    /// Seed 189 of the same lock: the clock of one of the nodes was slow.
    #[test]
    fn the_clock_of_one_of_three_nodes_may_make_a_hold_longer() {
        let lies = |node| {
            let fault = Fault::NodeDrift { node, ppm: -76_000 };
            let mut history = history(vec![
                (0, What::Strikes { fault }),
                (0, tries(1, 0)),
                (0, stores_on(0, 0, "a", Some(10))),
                (0, stores_on(1, 0, "a", Some(10))),
                (1, granted(1, Some(9))),
                (2, releases(2, 0, 1)),
                (3, stores_on(0, 0, "a", Some(6))),
                (3, stores_on(1, 0, "a", Some(9))),
                (4, done(2)),
                (20, What::Heals { fault }),
            ]);
            history.topology = Topology::Nodes(3);
            history.terms.hold = s(5);
            history.dials(0, 1, 0, None);
            history.asks(0, 2, Some(3), Some(3));
            Truth.check(&history) != Finding::Valid
        };
        assert!(!lies(1));
        assert!(lies(0), "the clock of the other node is right");
    }

    /// Seed 104 of a lock that stays taken for its whole lease: the clock of the server jumped back before the release at 5.
    #[test]
    fn a_release_need_not_shorten_a_hold_that_a_clock_made_longer() {
        let lies = |jumps: Option<u64>| {
            let fault = Fault::NodeClock {
                node: 0,
                by_ms: -3_000,
            };
            let mut told = vec![(5, releases(2, 0, 1)), (6, done(2))];
            if let Some(at) = jumps {
                told.extend([(at, What::Strikes { fault }), (at, What::Heals { fault })]);
                told.push((at, stores(0, "a", Some(13))));
            }
            told.sort_by_key(|&(at, _)| at);
            let mut history = history(held_by_c1(told));
            history.terms.hold = s(4);
            Truth.check(&history) != Finding::Valid
        };
        assert!(!lies(Some(2)));
        assert!(lies(None));
        assert!(lies(Some(7)), "it jumped after the release");
    }

    /// A release that sets an expiry of a millisecond: the client sees no deletion.
    #[test]
    fn a_release_may_let_the_token_expire_at_once() {
        let release = |expires, executed, host| {
            let told = [
                (3, releases(2, 0, 1)),
                (4, stores(0, "a", Some(expires))),
                (7, done(2)),
            ];
            let mut history = history(held_by_c1(told.to_vec()));
            history.dials(host, 0, 0, None);
            history.asks(0, 4, executed, executed);
            Truth.check(&history) == Finding::Valid
        };
        assert!(release(4, Some(4), 0));
        assert!(!release(6, Some(4), 0), "two seconds are left");
        assert!(!release(4, Some(2), 0), "a request before the call");
        assert!(!release(4, None, 0), "no request was executed");
        assert!(!release(4, Some(4), 1), "a request of another process");
    }

    #[test]
    fn a_paused_process_sets_the_expiry_later() {
        // Seed 13407 of `fenced-fair` under `suspend`: when it runs again its lease ends as soon as what it promised.
        let release = |runs_again| {
            let pause = [
                (3, What::Pause { host: 0 }),
                (runs_again, What::Resume { host: 0 }),
            ];
            let told = [(3, releases(2, 0, 1))].into_iter().chain(pause);
            let mut history = history(held_by_c1(told.chain([(8, done(2))]).collect()));
            history.terms.hold = s(4);
            Truth.check(&history) == Finding::Valid
        };
        assert!(release(6));
        assert!(!release(4));
    }

    /// The servers count the levels of an owner under one token. A call of the owner had no answer, and its level stands.
    #[test]
    fn a_grant_that_is_over_is_lost_although_another_level_stands() {
        let lie = |deadline: u64| {
            let server = |depth: u32, expires: u64| What::Server {
                node: 0,
                cause: Client(0),
                stored: vec![Holder {
                    token: b"o".to_vec(),
                    expires: Some(s(expires)),
                    depth: Some(depth),
                    ..Holder::default()
                }],
                anonymous: 0,
            };
            let unknown = What::Info {
                op: 2,
                error: "timed out".into(),
            };
            let mut history = history(vec![
                (0, tries(1, 0)),
                (1, server(1, 10)),
                (1, granted(1, Some(deadline))),
                (2, tries(2, 0)),
                (3, server(2, 12)),
                (4, unknown),
                (7, releases(3, 0, 1)),
                (8, server(1, 12)),
                (9, lost(3)),
                (10, frees(0)),
            ]);
            history.reentrant = true;
            Truth.check(&history).witness().map(|it| it.message.clone())
        };
        assert_eq!(lie(5), None);
        let stood = lie(9).unwrap_or_default();
        assert!(stood.contains("it stood all the time"), "{stood}");
    }

    /// Seed 33 of a lock whose release only compares its own deadline with the time.
    #[test]
    fn a_grant_whose_deadline_has_passed_may_be_called_lost_if_its_token_ends_soon() {
        let lies = |deadline, until| {
            let told = vec![
                (0, tries(1, 0)),
                (0, stores(0, "a", Some(until))),
                (1, granted(1, Some(deadline))),
                (8, releases(2, 0, 1)),
                (9, lost(2)),
                (11, tries(3, 1)),
            ];
            Truth.check(&history(told)) != Finding::Valid
        };
        assert!(!lies(7, 10));
        assert!(lies(9, 10), "its deadline has not passed");
        assert!(lies(7, 12), "its token stays for long");
    }

    #[test]
    fn lost_already_means_that_it_was_gone() {
        let release = |at, entries: Vec<(u64, What)>| {
            let begin = vec![(at, releases(2, 0, 1))];
            lie(held_by_c1(begin.into_iter().chain(entries).collect()))
        };
        assert_eq!(release(12, vec![(13, lost(2))]), None);
        assert_eq!(release(9, vec![(12, lost(2))]), None, "it went meanwhile");
        assert!(release(3, vec![(4, lost(2))]).is_some());
        let own = release(3, vec![(4, frees(0)), (5, lost(2))]);
        assert!(own.unwrap().contains("its own request had removed it"));
        // Seed 10603 of `read-write` under `node-drift`: what it clears away had just ended.
        assert_eq!(release(9, vec![(10, frees(0)), (11, lost(2))]), None);
        // Seed 15477 of `semaphore` under `overwork`: two tasks of a process ask at once, and one of them releases.
        let both = |token: &str| stores(0, token, Some(10));
        let beside = lie(vec![
            (0, tries(1, 0)),
            (0, tries(2, 0)),
            (0, both("a")),
            (1, both("b")),
            (1, granted(1, Some(9))),
            (1, granted(2, Some(9))),
            (3, releases(3, 0, 1)),
            (4, frees(0)),
            (5, lost(3)),
        ]);
        assert_eq!(beside, None);
    }
}
