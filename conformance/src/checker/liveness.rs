//! P7, liveness: when all is well again for a waiter and a majority of servers, it is granted the lock
//! within (waiters) x (lease + hand-over), whatever is wrong with others for good.
//!
//! Nor may a call that waits end in an error before its time, if nothing was wrong for it throughout:
//! what a majority of servers can do does not fail because of one. Of a lock that promises an answer no call at all
//! may end in an error where nothing is wrong with anything; nor may the extension of what most servers have lost since: they
//! say so.
//!
//! Each acquisition that is under way at the beginning counts as a waiter that may come first. Later rivals and extensions do
//! not: the time counts in which others had the lock, or may have had it where their call had no answer; so does what one of
//! several servers carries out when the call that asked for it is long over.
//!
//! An error is explained by what happened to the requests of its process that were sent or outstanding during the call: a
//! connection that the call found broken, a reply that was lost, a node that was away, scripts that a server had lost. The
//! next call meets none of that.

use super::{Checker, Finding, Property, Witness, seconds};
use crate::history::{
    Belief, Call, End, Excuse, FaultIntervals, Mode, Moment, OpId, Operation, Outcome, Reading,
    Refusal, TokenSpan, What,
};
use crate::scenario::Topology;
use std::{collections::BTreeSet, time::Duration};

/// Judges P7.
pub struct Liveness;

/// The most round trips of one request: to connect, and to send a script that the server does not know yet.
const ROUND_TRIPS: u32 = 5;

impl Checker for Liveness {
    fn property(&self) -> Property {
        Property::Liveness
    }

    fn judge(&self, history: &Reading<'_>) -> Finding {
        let operations = history.operations();
        let fault_intervals = history.fault_intervals();
        let end = history.entries.last().map_or(Duration::ZERO, |it| it.at);
        let terms = &history.terms;
        let hand_over =
            history.longest_poll() + terms.skip + history.request_timeout() + terms.round_trips(4);
        let mut patient = 0;
        let starved = operations.iter().find_map(|waiter| {
            let Call::Acquire { wait, .. } = waiter.call else {
                return None;
            };
            let (host, asked) = (waiter.actor.host, waiter.asked.at);
            let until = (asked + wait).min(waiter.ended.at).min(end);
            let from = match fault_intervals.last_without_majority(host, asked, until) {
                Some(last) => Moment::at(last.saturating_add(history.recovery())),
                // Who died at the same instant, but before, is no rival.
                None => waiter.asked,
            };
            let span = until.checked_sub(from.at)?;
            let rivals = operations.iter().filter(|it| waits_at(it, from));
            let waiters = u32::try_from(rivals.count()).unwrap_or(u32::MAX).max(1);
            let mut bound = (history.lease + hand_over).saturating_mul(waiters);
            if span > bound {
                // Few wait for so long: who had the lock meanwhile is asked for those alone.
                let (held, turns) = held(&standing(history), waiter, from.at, until);
                bound += held + hand_over.saturating_mul(turns);
            }
            patient += u32::from(waiter.outcome == Outcome::Ok || span > bound);
            (span > bound).then_some((waiter, from.at, bound, waiters))
        });
        if let Some(witness) = unanswered(history) {
            return Finding::Violation(witness);
        }
        let failed = operations
            .iter()
            .find(|it| failed(history, operations, fault_intervals, it) || unsaid(history, it));
        if let Some(it) = failed {
            return Finding::Violation(Witness {
                at: it.ended,
                until: None,
                grants: vec![],
                message: format!(
                    "at {} a call of {} ended in an error, though nothing was wrong for it and most of \
                     the servers",
                    seconds(it.ended.at),
                    it.actor,
                ),
            });
        }
        match starved {
            Some((waiter, from, bound, waiters)) => Finding::Violation(Witness {
                at: Moment::at(from + bound),
                until: None,
                grants: vec![],
                message: format!(
                    "from {} on nothing was wrong for {}, one of {waiters} who wanted the lock, and it \
                     was not granted within {}",
                    seconds(from),
                    waiter.actor,
                    seconds(bound)
                ),
            }),
            None if patient == 0 => Finding::Unknown("nobody waited for long enough"),
            None => Finding::Valid,
        }
    }
}

/// Whether a call gave up with an error although it had time left and nothing was wrong that it depended on.
fn failed(
    history: &Reading<'_>,
    operations: &[Operation],
    fault_intervals: &FaultIntervals,
    it: &Operation,
) -> bool {
    let early = match it.call {
        Call::Acquire { wait, .. } => it.ended.at < it.asked.at + wait,
        Call::Try { .. }
        | Call::Renew { .. }
        | Call::Release { .. }
        | Call::SetUp
        | Call::Admit
        | Call::AdmitAgain { .. }
        | Call::CountDown
        | Call::Await { .. } => true,
        // No server is asked for an answer.
        Call::Drop { .. } | Call::Access { .. } => return false,
    };
    // In a network so slow a request may take too long with nothing wrong.
    let near = history.terms.round_trips(ROUND_TRIPS) < history.request_timeout();
    let answers = history.terms.answers && near;
    let waits = matches!(it.call, Call::Acquire { .. });
    let error = match it.outcome {
        Outcome::Unknown => waits && early || answers,
        Outcome::Fail(Refusal::Other) => answers,
        Outcome::Fail(_) | Outcome::Ok | Outcome::Cancelled | Outcome::Open => false,
    };
    if !error {
        return false;
    }
    let host = it.actor.host;
    let since = history.depends_since(host, it.asked.at);
    // A call that waits needs a majority of the servers, any other call all that have its grant.
    let missed = history.scripts_missed_at(host, since, it.ended.at).len();
    let spare = match history.topology {
        Topology::Nodes(nodes) if waits => usize::from(nodes.saturating_sub(1) / 2),
        Topology::Nodes(_) | Topology::Replicated { .. } => 0,
    };
    let told = missed > spare;
    let found = finds_broken(history, operations, it);
    if told && history.accepts(Excuse::LostScript)
        || found && history.accepts(Excuse::BrokenConnection)
        || history.accepts(Excuse::SplitVotes) && is_undecided(history, it)
    {
        return false;
    }
    // A node that is well again may not have been dialled yet.
    let since = since.saturating_sub(history.recovery());
    fault_intervals.calm(host, since, it.ended.at)
        && (waits && early || fault_intervals.calm_everywhere(host, since, it.ended.at))
        // A grant may stand on a bare majority, of which none must have forgotten it.
        && it.call.of_grant().is_none_or(|grant| {
            let taken = operations.iter().find(|other| other.op == grant);
            let since = taken.map_or(Duration::ZERO, |it| it.asked.at);
            fault_intervals.calm_everywhere(host, since, it.ended.at)
        })
}

/// An error as the answer to each acquisition of a run in which nothing was wrong, whatever the lock promises. An error in
/// one mode says nothing: the lock may not offer it.
fn unanswered(history: &Reading<'_>) -> Option<Witness> {
    let near = history.terms.round_trips(ROUND_TRIPS) < history.request_timeout();
    let broken = history.sessions.iter().any(|session| session.broken);
    if !near || broken || !history.fault_intervals().is_empty() {
        return None;
    }
    let is_asked = |it: &&Operation| {
        let counts = matches!(it.call, Call::Admit | Call::CountDown);
        counts || matches!(it.call.mode(), Some(Mode::Exclusive | Mode::Permits(1)))
    };
    let asked = history.operations().iter().filter(is_asked);
    let ended: Vec<&Operation> = asked
        .filter(|it| !matches!(it.outcome, Outcome::Cancelled | Outcome::Open))
        .collect();
    let errors = ended.iter().all(|it| {
        matches!(
            it.outcome,
            Outcome::Unknown | Outcome::Fail(Refusal::Other | Refusal::NotOffered)
        )
    });
    let last = ended.last().filter(|_| errors && ended.len() > 1)?;
    Some(Witness {
        at: last.ended,
        until: None,
        grants: vec![],
        message: format!(
            "each of {} calls ended in an error, though nothing was wrong in the whole run",
            ended.len()
        ),
    })
}

/// Whether a node that failed would have decided the last round of an acquisition: of the nodes that answered, too few were free for a
/// grant, and too few stored a token for a refusal.
fn is_undecided(history: &Reading<'_>, it: &Operation) -> bool {
    let Topology::Nodes(nodes @ 2..) = history.topology else {
        return false;
    };
    if !it.call.acquires() {
        return false;
    }
    let rounds = history.iter().filter(|&(at, what)| {
        it.asked < at && at < it.ended && *what == What::Attempt { op: it.op }
    });
    let recent = Moment::at(it.ended.at.saturating_sub(2 * history.recovery()));
    let begun = rounds.map(|(at, _)| at).last();
    let round = Operation {
        asked: begun.unwrap_or_else(|| it.asked.max(recent)),
        ..*it
    };
    let host = it.actor.host;
    let beside = history.operations().iter().any(|other| {
        let theirs = other.actor.host == host && other.op != it.op;
        theirs && other.call.acquires() && other.asked < it.ended && it.asked < other.landed()
    });
    // A token of the process may be of this round, or of another call; a lease may end during the round.
    let tokens = |node: u8| {
        let spans = history.tokens().spans.iter();
        spans.filter(move |span| {
            let own = span.owner == Some(host) && round.asked < span.from;
            span.node == node && (beside || !own)
        })
    };
    let surely_free = |node: &&u8| {
        let mut tokens = tokens(**node);
        !tokens.any(|span| span.stood_within(round.asked, round.ended))
    };
    let surely_taken = |node: &&u8| {
        let mut tokens = tokens(**node);
        tokens.any(|span| span.from <= round.asked && round.ended < span.gone.0)
    };
    let (heard, silent): (Vec<u8>, Vec<u8>) =
        (0..nodes).partition(|&node| history.is_heard(host, Some(node), &round));
    let quorum = usize::from(nodes) / 2 + 1;
    let granted = heard.iter().filter(surely_free).count();
    let refused = heard.iter().filter(surely_taken).count();
    !silent.is_empty() && granted < quorum && quorum + refused <= usize::from(nodes)
}

/// Whether a server answered a request of a call with an error: that is what the call reports, and not a broken connection.
fn is_answered(history: &Reading<'_>, it: &Operation) -> bool {
    history.requests_of(it.actor.host).any(|request| {
        let theirs = it.asked.at <= request.sent
            && request
                .replied
                .is_some_and(|replied| replied <= it.ended.at);
        let error = request.error.as_deref();
        theirs && error.is_some_and(|error| error != "NOSCRIPT")
    })
}

/// Whether a call may have found a connection broken: one that broke before the call was over, and for which no other call has
/// ended in an error since, nor has it been dialled anew. A call finds one at most.
fn finds_broken(history: &Reading<'_>, operations: &[Operation], it: &Operation) -> bool {
    let broken = || {
        let theirs = history
            .sessions
            .iter()
            .filter(|session| session.broken && session.host == it.actor.host);
        theirs
            .filter_map(|session| session.closed)
            .filter(|&at| at <= it.ended.at)
    };
    broken().any(|since| {
        let errors = operations.iter().filter(|other| {
            let error = matches!(
                other.outcome,
                Outcome::Unknown | Outcome::Fail(Refusal::Other)
            );
            let theirs = error && other.op != it.op && other.actor.host == it.actor.host;
            let theirs = theirs && !is_answered(history, other);
            theirs && since <= other.ended.at && other.ended <= it.asked
        });
        // A connection that its process closes before this call is over was for another call, and replaced none.
        let dialled = history.sessions.iter().filter(|session| {
            let anew = since < session.dialled && session.dialled < it.asked.at;
            let stays = session.broken
                || session.closed.is_none_or(|at| it.ended.at < at)
                || !history.accepts(Excuse::ConnectionOfOneCall);
            session.host == it.actor.host && anew && stays
        });
        let made_good = errors.count().max(dialled.count());
        made_good < broken().filter(|&at| since <= at).count()
    })
}

/// Whether an extension ended in an error although every server was heard, and so many of them had nothing left of a grant that
/// all of them once had that no majority remained. Those that were missing before are being asked again, so their
/// answers are open; and so it is at any time with who extends in the background.
fn unsaid(history: &Reading<'_>, it: &Operation) -> bool {
    let Call::Renew { grant } = it.call else {
        return false;
    };
    let error = matches!(it.outcome, Outcome::Unknown | Outcome::Fail(Refusal::Other));
    let terms = &history.terms;
    if !(error && terms.answers && history.observed) || terms.renews {
        return false;
    }
    let Some(belief) = history.beliefs().iter().find(|it| it.grant == grant) else {
        return false;
    };
    let servers = match history.topology {
        Topology::Nodes(count) => usize::from(count),
        Topology::Replicated { .. } => 1,
    };
    let tokens = history.tokens();
    // What another task of the process may have put there says nothing of this grant.
    let theirs = tokens.surely_of_grant(belief, history.operations());
    let names: BTreeSet<_> = theirs.map(|span| span.token).collect();
    let nodes = |stood: &dyn Fn(&TokenSpan<'_>) -> bool| {
        let spans = tokens.spans.iter();
        let stood = spans.filter(|span| names.contains(span.token) && stood(span));
        stood.map(|span| span.node).collect::<BTreeSet<u8>>().len()
    };
    let confirmed = history.operations().iter().filter(|other| {
        let confirms = other.op == grant || other.call == it.call;
        confirms && other.outcome == Outcome::Ok && other.ended <= it.asked
    });
    let confirmed = confirmed.map(|other| other.ended).max();
    // What was not answered once may count as there for ever.
    let since = belief.asked.at.saturating_sub(history.recovery());
    confirmed.is_some_and(|at| nodes(&|span| span.stood(at)) == servers)
        && 2 * nodes(&|span| span.stood_within(it.asked, it.ended)) <= servers
        && history
            .fault_intervals()
            .heard_everywhere(it.actor.host, since, it.ended.at)
}

/// Whether an acquisition is under way at a moment.
fn waits_at(it: &Operation, at: Moment) -> bool {
    it.call.acquires() && it.asked <= at && at <= it.ended
}

/// A span in which an operation keeps others from the lock.
struct Standing {
    op: Option<OpId>,
    from: Duration,
    to: Duration,
}

/// When acquisitions kept other clients from the lock: as long as their holders believed in it, however often they extended it,
/// and for the rest of a lease if no release was seen.
fn standing(history: &Reading<'_>) -> Vec<Standing> {
    let lease = history.lease.max(history.terms.longest_hold());
    let operations = history.operations();
    // What is not seen to be given back stands for the rest of its lease, as the servers show.
    let rest = |belief: &Belief| {
        let last = belief.to.at.saturating_add(lease);
        let gone = history.tokens().of_grant(belief).map(|span| span.gone.0.at);
        match history.observed {
            true => gone
                .max()
                .map_or(belief.to.at, |gone| gone.max(belief.to.at).min(last)),
            false => last,
        }
    };
    let beliefs = history.beliefs().iter().map(|belief| {
        let end = operations
            .iter()
            .find(|it| it.call.gives_back() == Some(belief.grant));
        let heard = end.filter(|it| {
            let told = matches!(it.outcome, Outcome::Ok | Outcome::Fail(Refusal::Lost));
            told && matches!(it.call, Call::Release { .. }) && belief.end == End::Released
        });
        let to = match heard {
            Some(it) => it.ended.at + history.terms.longest_hold(),
            None => rest(belief),
        };
        Standing {
            op: Some(belief.grant),
            from: belief.asked.at,
            to,
        }
    });
    // What an acquisition without an answer took may stand, from the last of its requests on.
    let unheard = operations.iter().filter(|it| {
        let unheard = match it.outcome {
            Outcome::Unknown | Outcome::Cancelled | Outcome::Open => true,
            Outcome::Fail(why) => why == Refusal::Other,
            Outcome::Ok => false,
        };
        // What has no end by the end of the history waits.
        it.call.acquires() && unheard && it.ended != Moment::NEVER
    });
    let unheard = unheard.map(|it| Standing {
        op: Some(it.op),
        from: it.asked.at,
        to: it.ended.at.saturating_add(lease),
    });
    let late = late(history).map(|at| Standing {
        op: None,
        from: at,
        to: at.saturating_add(lease),
    });
    beliefs.chain(unheard).chain(late).collect()
}

/// For how long others than a waiter kept it from the lock in a span, and how many did.
fn held(
    standing: &[Standing],
    waiter: &Operation,
    from: Duration,
    to: Duration,
) -> (Duration, u32) {
    let others = standing.iter().filter(|it| it.op != Some(waiter.op));
    let others = others.map(|it| (it.from.max(from), it.to.min(to)));
    let mut others: Vec<_> = others.filter(|(from, to)| from < to).collect();
    others.sort_unstable();
    let (mut held, mut covered) = (Duration::ZERO, from);
    for &(from, to) in &others {
        held += to.saturating_sub(from.max(covered));
        covered = covered.max(to);
    }
    (held, u32::try_from(others.len()).unwrap_or(u32::MAX))
}

/// When one of several servers carried out a request that nobody waited for any more: from then on it stands in the way there.
fn late<'a>(history: &'a Reading<'_>) -> impl Iterator<Item = Duration> + 'a {
    let patience = history.request_timeout();
    let awaited = move |span: &TokenSpan<'_>| {
        history.operations().iter().any(|it| {
            let theirs = it.call.acquires() && Some(it.actor.host) == span.owner;
            let over = it.ended.at.saturating_add(patience);
            theirs && it.asked <= span.from && span.from.at <= over
        })
    };
    let tokens = history.tokens();
    let spans = tokens.spans.iter().filter(|_| tokens.several);
    let late = spans.filter(move |span| span.owner.is_some() && !awaited(span));
    late.map(|span| span.from.at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        checker::hand_made::*,
        history::Cause,
        scenario::{Fault, Topology},
    };

    /// The lease is 12 s, a hand-over takes 4 s and a bit.
    fn check(entries: Vec<(u64, What)>) -> Finding {
        let mut history = history(entries);
        history.lease = s(12);
        history.terms.wake = Some(s(2));
        Liveness.check(&history)
    }

    #[test]
    fn errors_alone_are_no_answers() {
        let error = |op| What::Info {
            op,
            error: "silence".to_owned(),
        };
        let ends = |second: What, fault: Option<Fault>| {
            let strikes = fault.map(|fault| (0, What::Strikes { fault }));
            let calls = [
                (1, tries(1, 0)),
                (2, error(1)),
                (3, tries(2, 0)),
                (4, second),
            ];
            check(strikes.into_iter().chain(calls).collect())
                .witness()
                .is_some()
        };
        assert!(ends(error(2), None));
        assert!(!ends(refused(2), None));
        assert!(!ends(error(2), Some(Fault::NodePause { node: 0 })));
    }

    /// Seed 10021 of `redlock-of-three` under `eviction`: one of the two nodes that the grant stood on forgot it.
    #[test]
    fn a_grant_that_a_node_forgot_need_not_be_extended() {
        let renewed = |fault: Option<Fault>| {
            let strikes = fault.map(|fault| (2, What::Strikes { fault }));
            let told = (
                4,
                What::Fail {
                    op: 2,
                    why: Refusal::Other,
                },
            );
            let begin = [(1, tries(1, 0)), (2, granted(1, Some(11)))];
            let end = [(3, renews(2, 0, 1)), told];
            let mut history = history(begin.into_iter().chain(strikes).chain(end).collect());
            (history.topology, history.terms.answers) = (Topology::Nodes(3), true);
            Liveness.check(&history).witness().is_some()
        };
        assert!(renewed(None));
        assert!(!renewed(Some(Fault::Evict { node: 1 })));
    }

    /// Seeds 1329 and 13397 of `redlock-of-three` under `eviction`: a node that had refused was being asked again; a node had the
    /// token of another task of the process.
    #[test]
    fn what_most_servers_have_lost_is_said_to_be_lost() {
        let renewed = |had: u8, forget: &[u8], more: Option<What>, (answers, in_background)| {
            let stored = (0..had).map(|node| (1, stores_on(node, 0, "a", Some(11))));
            let forget = forget.iter().map(|&node| (3, empties(node, Cause::Fault)));
            let more = more.map(|what| (0, what));
            let error = "no quorum".to_owned();
            let told = (5, What::Info { op: 2, error });
            let struck = (
                3,
                What::Strikes {
                    fault: Fault::Evict { node: 0 },
                },
            );
            let begin = more.into_iter().chain([(1, tries(1, 0))]).chain(stored);
            let begin = begin.chain([(2, granted(1, Some(10))), struck]);
            let end = [(4, renews(2, 0, 1)), told];
            let mut history = history(begin.chain(forget).chain(end).collect());
            history.topology = Topology::Nodes(3);
            (history.terms.answers, history.terms.renews) = (answers, in_background);
            Liveness.check(&history).witness().is_some()
        };
        let promised = (true, false);
        assert!(renewed(3, &[0, 1], None, promised));
        assert!(!renewed(3, &[0], None, promised), "a majority is left");
        assert!(!renewed(3, &[0, 1], None, (false, false)));
        assert!(!renewed(3, &[0, 1], None, (true, true)));
        assert!(!renewed(2, &[0, 1], None, promised), "one is asked again");
        let silent = Some(What::Strikes {
            fault: Fault::NodePause { node: 2 },
        });
        assert!(!renewed(3, &[0, 1], silent, promised));
        let beside = Some(tries(9, 0));
        assert!(!renewed(3, &[0, 1], beside, promised), "of two tasks");
    }

    /// Seed 7161 of `fenced-redlock` under `eviction`: a node forgot its vote before the number was stored there.
    #[test]
    fn a_vote_that_a_node_forgot_may_be_missed() {
        let tried = |fault: Option<Fault>| {
            let strikes = fault.map(|fault| (2, What::Strikes { fault }));
            let why = Refusal::Other;
            let told = (3, What::Fail { op: 1, why });
            let begin = [(1, tries(1, 0))].into_iter().chain(strikes);
            let mut history = history(begin.chain([told]).collect());
            (history.topology, history.terms.answers) = (Topology::Nodes(3), true);
            Liveness.check(&history).witness().is_some()
        };
        assert!(tried(None));
        assert!(!tried(Some(Fault::Evict { node: 1 })));
    }

    #[test]
    fn where_nothing_is_wrong_every_call_has_an_answer_if_that_is_promised() {
        let ends = |answers, end: What, fault: Option<Fault>| {
            let mut history = history(vec![(1, tries(1, 0)), (2, end)]);
            if let Some(fault) = fault {
                history.entries.insert(
                    0,
                    crate::history::Entry {
                        at: s(0),
                        what: What::Strikes { fault },
                    },
                );
            }
            (history.lease, history.terms.answers) = (s(12), answers);
            Liveness.check(&history).witness().is_none()
        };
        let unknown = || What::Info {
            op: 1,
            error: "type error".into(),
        };
        let (op, why) = (1, Refusal::Other);
        assert!(!ends(true, unknown(), None));
        assert!(!ends(true, What::Fail { op, why }, None));
        assert!(ends(true, refused(1), None));
        assert!(ends(false, unknown(), None));
        let error = Fault::NodePause { node: 0 };
        assert!(ends(true, unknown(), Some(error)));
    }

    #[test]
    fn a_lone_waiter_is_granted_within_a_lease_and_a_hand_over() {
        let granted_at = |at| {
            check(vec![
                (0, stores(1, "b", Some(12))),
                (1, waits(1, 0, 60)),
                (at, granted(1, Some(at + 11))),
            ])
        };
        assert_eq!(granted_at(17), Finding::Valid);
        assert!(granted_at(18).witness().is_some());
        let refused = vec![(1, waits(1, 0, 60)), (61, refused(1))];
        assert!(check(refused).witness().is_some());
    }

    #[test]
    fn a_rival_adds_a_turn_and_an_extension_the_time_that_it_is_used() {
        let rivals = |more: Vec<(u64, What)>| {
            let mut entries = vec![(1, waits(1, 0, 60)), (28, granted(1, Some(39)))];
            entries.extend(more);
            entries.sort_by_key(|&(at, _)| at);
            check(entries)
        };
        assert!(rivals(vec![]).witness().is_some());
        assert_eq!(rivals(vec![(0, waits(2, 1, 30))]), Finding::Valid);
        let later = rivals(vec![(4, waits(2, 1, 30))]);
        assert!(later.witness().is_some(), "it came later");
        let extended = vec![(2, stores(1, "b", Some(14))), (6, stores(1, "b", Some(18)))];
        assert!(rivals(extended).witness().is_some(), "nobody relied on it");
        let held = |to| {
            let deadline = Some(s(to));
            vec![
                (0, tries(2, 1)),
                (0, granted(2, Some(11))),
                (5, What::Deadline { grant: 2, deadline }),
                (to, releases(3, 1, 2)),
                (to, done(3)),
            ]
        };
        assert_eq!(rivals(held(9)), Finding::Valid);
        assert!(rivals(held(2)).witness().is_some());
    }

    #[test]
    fn time_counts_from_when_all_is_well() {
        let paused = |host| {
            check(vec![
                (1, waits(1, 0, 60)),
                (2, What::Pause { host }),
                (20, What::Resume { host }),
                (30, granted(1, Some(39))),
            ])
        };
        assert_eq!(paused(0), Finding::Valid);
        assert!(paused(1).witness().is_some());
    }

    #[test]
    fn a_waiter_is_granted_by_the_nodes_that_are_there() {
        let granted_at = |at, struck: &[u8]| {
            let crash = |&node| What::Strikes {
                fault: Fault::NodeCrash { node, keeps: true },
            };
            let dead = struck.iter().map(crash).map(|it| (0, it));
            let told = [(1, waits(1, 0, 60)), (at, granted(1, Some(at + 11)))];
            let mut history = history(dead.chain(told).collect());
            (history.lease, history.topology) = (s(12), Topology::Nodes(3));
            history.terms.wake = Some(s(2));
            Liveness.check(&history).witness().is_none()
        };
        assert!(granted_at(17, &[1]));
        assert!(!granted_at(18, &[1]));
        assert!(granted_at(18, &[1, 2]));
    }

    /// Seed 10951 of `redlock-of-three` and `fenced-redlock` under `node-pause`: a paused node carried out the try of a grant 25 s
    /// later, and the next one to be paused was of the two that were free.
    #[test]
    fn what_a_server_carries_out_when_the_call_is_long_over_adds_a_lease() {
        let stored_at = |at, nodes| {
            let mut entries = vec![
                (0, tries(2, 1)),
                (1, granted(2, Some(12))),
                (1, waits(1, 0, 60)),
                (at, stores_on(2, 1, "b", Some(at + 12))),
                (35, granted(1, Some(46))),
            ];
            entries.sort_by_key(|&(at, _)| at);
            let mut history = history(entries);
            (history.lease, history.topology) = (s(12), Topology::Nodes(nodes));
            history.terms.wake = Some(s(2));
            Liveness.check(&history).witness().is_none()
        };
        assert!(stored_at(9, 3));
        assert!(!stored_at(9, 1), "the only one holds it up for all");
        assert!(!stored_at(1, 3), "it was awaited");
    }

    #[test]
    fn who_gives_up_soon_says_nothing() {
        let soon = vec![(1, waits(1, 0, 5)), (6, refused(1))];
        assert!(matches!(check(soon), Finding::Unknown(_)));
    }

    #[test]
    fn an_error_of_a_few_servers_ends_no_call() {
        let failed = |at, struck: &[u8]| {
            let crash = |&node| What::Strikes {
                fault: Fault::NodeCrash { node, keeps: true },
            };
            let mut entries: Vec<_> = struck.iter().map(crash).map(|it| (1, it)).collect();
            let error = "a node failed".to_owned();
            entries.extend([(2, waits(1, 0, 10)), (at, What::Info { op: 1, error })]);
            let mut history = history(entries);
            history.topology = Topology::Nodes(3);
            Liveness.check(&history).witness().is_some()
        };
        assert!(failed(4, &[]));
        assert!(failed(4, &[1]));
        assert!(!failed(4, &[0, 1]), "too few are left");
        assert!(!failed(12, &[1]), "it had no time left");
    }

    #[test]
    fn a_connection_that_is_found_broken_is_no_ones_fault() {
        let ends_in_an_error = |broke: &[u64], before: &[u64]| {
            let error = || "broken pipe".to_owned();
            let mut entries = Vec::new();
            for (op, &at) in (10..).zip(before) {
                let told = What::Info { op, error: error() };
                entries.extend([(at, tries(op, 0)), (at, told)]);
            }
            let told = What::Info {
                op: 2,
                error: error(),
            };
            entries.extend([(30, waits(2, 0, 10)), (31, told)]);
            let mut history = history(entries);
            for &at in broke {
                let dialled = if at < 30 { 1 } else { 16 };
                history.dials(0, 0, dialled, Some(at));
            }
            Liveness.check(&history).witness().is_some()
        };
        assert!(ends_in_an_error(&[], &[]));
        assert!(!ends_in_an_error(&[15], &[]));
        assert!(!ends_in_an_error(&[15], &[10]), "that was before");
        assert!(ends_in_an_error(&[15], &[20]), "another call has found it");
        assert!(
            !ends_in_an_error(&[15, 15], &[20]),
            "there were two of them"
        );
        assert!(ends_in_an_error(&[15, 15], &[20, 25]));
        assert!(
            ends_in_an_error(&[15, 40], &[]),
            "the second one works until 40"
        );
    }

    #[test]
    fn an_error_that_a_server_answered_found_no_connection_broken() {
        let ends_in_an_error = |answered: Option<u64>| {
            let error = || "an error".to_owned();
            let told = |op| What::Info { op, error: error() };
            let entries = vec![
                (18, tries(9, 0)),
                (20, told(9)),
                (30, waits(2, 0, 10)),
                (31, told(2)),
            ];
            let mut history = history(entries);
            history.dials(0, 0, 1, Some(19));
            history.asks(0, 18, Some(18), answered);
            history.requests[0].error = answered.map(|_| "BUSY".to_owned());
            Liveness.check(&history).witness().is_some()
        };
        assert!(!ends_in_an_error(Some(19)));
        assert!(ends_in_an_error(None));
    }

    #[test]
    fn a_script_that_one_of_three_servers_forgot_is_no_excuse() {
        let ends_in_an_error = |forgot: &[u8]| {
            let flush = |&node| {
                (
                    3,
                    What::Strikes {
                        fault: Fault::FlushScripts { node },
                    },
                )
            };
            let mut entries: Vec<_> = forgot.iter().map(flush).collect();
            let error = "no script".to_owned();
            entries.extend([(30, waits(2, 0, 10)), (31, What::Info { op: 2, error })]);
            let mut history = history(entries);
            history.topology = Topology::Nodes(3);
            for (session, &node) in forgot.iter().enumerate() {
                history.dials(0, node, 1, None);
                history.asks(session, 30, Some(30), Some(31));
                history.requests.last_mut().unwrap().error = Some("NOSCRIPT".to_owned());
            }
            Liveness.check(&history).witness().is_some()
        };
        assert!(ends_in_an_error(&[1]));
        assert!(!ends_in_an_error(&[0, 1]), "too few are left");
    }

    #[test]
    fn a_script_that_the_server_forgot_is_loaded_once() {
        let ends_in_an_error = |told: &[u64]| {
            let fault = Fault::FlushScripts { node: 0 };
            let error = "no script".to_owned();
            let mut history = history(vec![
                (3, What::Strikes { fault }),
                (30, waits(2, 0, 10)),
                (31, What::Info { op: 2, error }),
            ]);
            history.dials(0, 0, 1, None);
            for &at in told {
                history.asks(0, at, Some(at), Some(at));
                history.requests.last_mut().unwrap().error = Some("NOSCRIPT".to_owned());
            }
            Liveness.check(&history).witness().is_some()
        };
        assert!(!ends_in_an_error(&[31]));
        assert!(ends_in_an_error(&[20, 31]), "it knew");
        assert!(ends_in_an_error(&[]));
    }
}
