//! P14, lost reply: a connection breaks after a server executed an acquisition and before the client gets the reply.
//! The server stores the token, and its owner does not know. This may delay the client's own retry by two round trips
//! at most, and by one more if the client has to send the script to the server. It may pause before the retry for as long
//! as it says. A lock that mistakes its own token for that of another client waits for the end of the lease.
//!
//! On several nodes the tokens of the process keep the lock from it only where they stand on so many nodes that the others are no
//! majority.
//!
//! A reply that arrives after the request timeout is lost as well, if the server executed the request before the timeout. The delay
//! then counts from the arrival of this reply, and from the end of the fault that delayed it.
//!
//! The checker does not judge a request that is still in flight when its connection breaks, since it may arrive at any
//! time. Nor does it judge a case in which another fault strikes meanwhile.
//!
//! A lock that promises no clean-up may leave the grant of a call that failed. It is judged only if it waits by itself and promises an answer,
//! and only by what becomes of the call whose reply was lost.
//!
//! A client cannot tell a lost reply from a lost request. So no broken connection ends a call that waits by itself, whichever of the
//! two was lost: the call asks again. The checker demands this of a lock or a latch on one server.

use super::{Checker, Finding, Property, Witness, seconds};
use crate::{
    history::{
        Call, Excuse, FaultIntervals, History, Moment, Operation, Outcome, Reading, Refusal,
        Request, TokenSpan, Tokens, What,
    },
    scenario::{Lost, Topology},
};
use std::{collections::BTreeSet, time::Duration};

/// Judges P14.
pub struct LostReply;

impl Checker for LostReply {
    fn property(&self) -> Property {
        Property::LostReply
    }

    fn judge(&self, history: &Reading<'_>) -> Finding {
        if !history.observed {
            return Finding::Unknown("the server was not observed");
        }
        let tidy = history.terms.tidy;
        if !(tidy || history.terms.answers && history.terms.waits) {
            return Finding::Unknown("the lock promises neither a clean-up nor an answer");
        }
        let (tokens, fault_intervals) = (history.tokens(), history.fault_intervals());
        let operations = history.operations();
        let cuts = history.iter().filter_map(|(at, what)| {
            let What::Cut {
                host,
                node,
                lost: Lost::Reply,
            } = *what
            else {
                return None;
            };
            Some((at, host, node, 1, at))
        });
        let late = late_replies(history);
        let late = late.map(|(at, host, node, by)| (at, host, node, 0, by));
        let ghosts = cuts.chain(late).filter_map(|(at, host, node, cuts, by)| {
            let (asker, ghost) = ghost(operations, tokens, host, (at, by))?;
            // If two cuts struck connections to the same node, the second one may have hit the retry.
            let alone = breaks(history, host, node, asker.asked.at, at.at) <= cuts
                || !history.accepts(Excuse::SecondCut);
            alone.then_some((at, asker, ghost))
        });
        let ghosts: Vec<_> = ghosts.collect();
        let failed = ghosts
            .iter()
            .find(|(at, asker, _)| gives_up(history, fault_intervals, asker, *at));
        if let Some((at, asker, _)) = failed {
            return Finding::Violation(Witness {
                at: asker.ended,
                until: None,
                grants: vec![],
                message: format!(
                    "the reply to {} was lost at {}, and at {} the call ended in an error with time left to ask again",
                    asker.actor,
                    seconds(at.at),
                    seconds(asker.ended.at)
                ),
            });
        }
        if let Some(witness) = given_up_early(history, fault_intervals) {
            return Finding::Violation(witness);
        }
        let ghosts = ghosts
            .into_iter()
            .filter(|(.., ghost)| !is_kept(history, ghost));
        let mut delays = ghosts.filter_map(|(at, asker, ghost)| {
            let retries = operations.iter().filter(|it| {
                let later = it.op == asker.op || tidy && it.asked > asker.asked;
                it.actor == asker.actor && it.call.acquires() && later
            });
            let mut delays = retries.filter_map(|retry| {
                delayed(history, fault_intervals, ghost, retry, at).map(|by| (retry, by))
            });
            delays.next().map(|(retry, by)| (at, retry, by))
        });
        let Some((at, retry, by)) = delays.next() else {
            return Finding::Valid;
        };
        Finding::Violation(Witness {
            at: Moment::at(by),
            until: None,
            grants: vec![],
            message: format!(
                "the reply to {} was lost at {}, and at {} the server still stored its token, but the client had not got the lock",
                retry.actor,
                seconds(at.at),
                seconds(by)
            ),
        })
    }
}

/// True if the owner released the token but the lock keeps it for a while, which keeps out the owner's own process as
/// well.
fn is_kept(history: &Reading<'_>, span: &TokenSpan<'_>) -> bool {
    let mut steps = span.expiries.windows(2);
    history.accepts(Excuse::KeptForHold)
        && history.terms.hold > Duration::ZERO
        && steps.any(|step| step[1].2 < step[0].2)
}

/// Replies of a single server that arrived when their process no longer waited for them, or that did not arrive because the process
/// had closed the connection, although the server executed the request in time: when, at which process, from which node, and when
/// the server executed the request.
fn late_replies<'a>(
    history: &'a Reading<'_>,
) -> impl Iterator<Item = (Moment, u8, u8, Moment)> + 'a {
    let alone = matches!(history.topology, Topology::Nodes(0 | 1));
    let requests = history.requests.iter().filter(move |_| alone);
    requests.filter_map(move |it| {
        let (executed, settled) = (it.executed?, history.settled(it)?);
        let given_up = history.given_up(it);
        let session = history.session(it);
        // A client that waits on gets the reply then, if it gets one. The fault that delayed it may last a little longer.
        let intervals = history.fault_intervals();
        let at = Moment {
            at: intervals.reaches_from(session.node, session.host, settled),
            place: usize::MAX,
        };
        let late = executed <= given_up && given_up <= settled && !session.broken;
        let executed = Moment {
            at: executed,
            place: usize::MAX,
        };
        (late && it.error.is_none()).then_some((at, session.host, session.node, executed))
    })
}

/// Returns the acquisition whose reply was lost at `at`, and the token that the server had stored for it by `by`, if both are certain.
fn ghost<'a>(
    operations: &'a [Operation],
    tokens: &'a Tokens<'a>,
    host: u8,
    (at, by): (Moment, Moment),
) -> Option<(&'a Operation, &'a TokenSpan<'a>)> {
    let mut askers = operations
        .iter()
        .filter(|it| it.actor.host == host && it.call.acquires() && it.asked < at && at < it.ended);
    let asker = askers.next().filter(|_| askers.next().is_none())?;
    // The suite observes what a server stores after the step in which the server replies.
    let then = Moment {
        place: usize::MAX,
        ..at
    };
    let by = Moment {
        place: usize::MAX,
        ..by
    };
    let mut ghosts = tokens.put_by(asker, operations, then);
    let ghost = ghosts.find(|it| it.from <= by && it.stood(then))?;
    Some((asker, ghost))
}

/// True if a call ended in an error after its reply was lost, although no other fault struck and the call had time to
/// ask again before its wait ended. It may pause before that, for as long as the lock says.
///
/// The checker demands this only of a lock on one server that promises an answer, and only of a call that the lock lets
/// wait by itself.
fn gives_up(
    history: &Reading<'_>,
    fault_intervals: &FaultIntervals,
    asker: &Operation,
    cut: Moment,
) -> bool {
    let error = matches!(
        asker.outcome,
        Outcome::Unknown | Outcome::Fail(Refusal::Other)
    );
    let after_the_cut = cut.at + Duration::from_nanos(1);
    let well = || fault_intervals.calm(asker.actor.host, after_the_cut, asker.ended.at);
    must_ask_again(history, asker)
        && error
        && time_to_ask_again(history, asker, cut.at).is_some()
        && well()
}

/// True if a call may not end because a connection broke once. A latch always waits by itself.
fn must_ask_again(history: &History, call: &Operation) -> bool {
    let alone = matches!(history.topology, Topology::Nodes(0 | 1));
    let waits = history.terms.waits || matches!(call.call, Call::Await { .. });
    history.terms.answers && waits && alone
}

/// The end of a call's wait, if a client whose connection broke at `cut` asks again before that. It may pause before, for as
/// long as the lock says.
fn time_to_ask_again(history: &Reading<'_>, call: &Operation, cut: Duration) -> Option<Duration> {
    let (Call::Acquire { wait, .. } | Call::Await { wait }) = call.call else {
        return None;
    };
    let until = call.asked.at + wait;
    let pauses = if history.accepts(Excuse::PauseBeforeRetry) {
        history.terms.retry
    } else {
        Duration::ZERO
    };
    let asks = cut.saturating_add(pauses) + trips(history);
    (asks < until).then_some(until)
}

/// A call that ended without the lock, earlier than its last poll, after its only trouble: one broken connection.
fn given_up_early(history: &Reading<'_>, fault_intervals: &FaultIntervals) -> Option<Witness> {
    let spare = history.longest_poll() + trips(history) + history.terms.timing_tolerance();
    let cuts = history.iter().filter_map(|(at, what)| {
        let What::Cut { host, node, .. } = *what else {
            return None;
        };
        Some((at, host, node))
    });
    let mut ended = cuts.flat_map(|(cut, host, node)| {
        let calls = history.operations().iter();
        let calls = calls.filter(move |it| {
            let struck = it.actor.host == host && it.asked < cut && cut < it.ended;
            struck && must_ask_again(history, it)
        });
        calls.filter_map(move |it| Some((cut, node, it, time_to_ask_again(history, it, cut.at)?)))
    });
    let instant = Duration::from_nanos(1);
    let (cut, _, call, until) = ended.find(|&(cut, node, call, until)| {
        let (host, from, to) = (call.actor.host, call.asked.at, call.ended.at);
        let without = matches!(call.outcome, Outcome::Unknown | Outcome::Fail(_))
            && !finds_no_latch(history, call);
        let alone =
            breaks(history, host, node, from, to) <= 1 || !history.accepts(Excuse::SecondCut);
        let well = |from, to| from >= to || fault_intervals.calm(host, from, to);
        without
            && to.saturating_add(spare) < until
            && alone
            && well(from, cut.at.saturating_sub(instant))
            && well(cut.at + instant, to)
    })?;
    let refused = matches!(
        call.outcome,
        Outcome::Fail(Refusal::Contended | Refusal::TimedOut)
    );
    let how = if refused {
        "was refused"
    } else {
        "ended in an error"
    };
    Some(Witness {
        at: call.ended,
        until: None,
        grants: vec![],
        message: format!(
            "a connection of {} broke at {}, and at {} its call {how}, although it was to wait until {}",
            call.actor,
            seconds(cut.at),
            seconds(call.ended.at),
            seconds(until),
        ),
    })
}

/// Returns true if the server answered a call that the latch is not set up, and no client set it up within the last lease.
fn finds_no_latch(history: &Reading<'_>, call: &Operation) -> bool {
    let mut all = history.operations().iter();
    history.accepts(Excuse::LatchNotSetUp)
        && matches!(call.call, Call::Await { .. })
        && call.outcome == Outcome::Fail(Refusal::Lost)
        && !all.any(|it| {
            let lasts = it.ended.at.saturating_add(history.lease) > call.asked.at;
            matches!(it.call, Call::SetUp) && it.asked < call.ended && lasts
        })
}

/// Number of connections between a process and a node that broke in a span.
fn breaks(history: &History, host: u8, node: u8, since: Duration, to: Duration) -> usize {
    let all = history.iter().filter(|(when, what)| {
        let theirs =
            matches!(what, What::Cut { host: of, node: at, .. } if *of == host && *at == node);
        theirs && since <= when.at && when.at <= to
    });
    all.count()
}

/// Time that a retry may take: to connect, to ask, and to ask again with a script that the server does not know yet. On
/// several nodes the lock releases a failed round before the next one.
fn trips(history: &History) -> Duration {
    let rounds = match history.topology {
        Topology::Nodes(2..) => 4,
        Topology::Nodes(_) | Topology::Replicated { .. } => 3,
    };
    history.terms.round_trips(rounds)
}

/// Requests that a process sends before it asks for a lock, or in order to hear of its release.
const PREPARES: [&str; 13] = [
    "AUTH",
    "CLIENT",
    "FUNCTION",
    "HELLO",
    "PING",
    "PSUBSCRIBE",
    "READONLY",
    "SCRIPT",
    "SELECT",
    "SSUBSCRIBE",
    "SUBSCRIBE",
    "UNSUBSCRIBE",
    "PUNSUBSCRIBE",
];

/// Returns the time at which the call asks again after the cut. It may pause before that, for as long as the lock says.
fn asks_again(
    history: &Reading<'_>,
    ghost: &TokenSpan<'_>,
    retry: &Operation,
    from: Moment,
) -> Duration {
    if !history.accepts(Excuse::PauseBeforeRetry) {
        return from.at;
    }
    let asks = history.requests_of(retry.actor.host).filter(|it| {
        from < it.sent_at()
            && history.leads_to(history.session(it), ghost.node)
            && !PREPARES.contains(&&*it.command)
            && is_surely_of(history, retry, it)
    });
    let first = asks.filter_map(|it| it.executed).min();
    let pauses_until = from.at.saturating_add(history.terms.retry);
    first.map_or(pauses_until, |first| first.min(pauses_until))
}

/// True if only this call can have sent the request: no other call of its process was under way, none had ended in such a way that
/// a task may go on with it, and the process held no grant that it renews.
fn is_surely_of(history: &Reading<'_>, call: &Operation, request: &Request) -> bool {
    let (host, sent) = (call.actor.host, request.sent_at());
    let mut others = history
        .operations()
        .iter()
        .filter(|it| it.actor.host == host && it.op != call.op && it.asked <= sent);
    let is_over = |it: &Operation| {
        let told = matches!(it.outcome, Outcome::Ok | Outcome::Fail(Refusal::Contended));
        it.ended < sent && told && !matches!(it.call, Call::Drop { .. })
    };
    let mut beliefs = history.beliefs().iter();
    let renews = history.terms.renews
        && beliefs.any(|it| it.actor.host == host && it.from <= sent && sent <= it.to);
    others.all(is_over) && !renews
}

/// Returns the time by which a retry should have had the lock, if the process's own token kept the lock from it.
fn delayed(
    history: &Reading<'_>,
    fault_intervals: &FaultIntervals,
    ghost: &TokenSpan<'_>,
    retry: &Operation,
    cut: Moment,
) -> Option<Duration> {
    let from = retry.asked.max(cut);
    let by = asks_again(history, ghost, retry, from) + trips(history);
    let after_the_cut = cut.at + Duration::from_nanos(1);
    let host = retry.actor.host;
    // Of a lock with several keys, another client may have one of them.
    let excludes = retry.call.mode().is_some_and(|mode| mode.is_exclusive());
    let anothers = |at: Moment| {
        let mut spans = history.tokens().spans.iter();
        let another = |it: &TokenSpan<'_>| it.owner != ghost.owner && it.node == ghost.node;
        excludes
            && history.accepts(Excuse::KeyOfAnother)
            && spans.any(|it| another(it) && it.stood_within(from, at))
    };
    let stands = |at| ghost.stood(at) && keeps_out(history, ghost, from, at) && !anothers(at);
    let waits = ghost.from.at <= from.at
        && stands(Moment::at(by))
        && by < retry.ended.at
        && fault_intervals.heard_everywhere(host, after_the_cut, by);
    // A call that does not wait is refused at once. If it began late enough, the lock must not refuse it.
    let late = cut.at + trips(history) <= retry.asked.at;
    let refused = matches!(
        retry.outcome,
        Outcome::Fail(Refusal::Contended | Refusal::TimedOut)
    );
    let turned_away = refused && late && stands(retry.asked) && stands(retry.ended);
    let turned_away =
        turned_away && fault_intervals.heard_everywhere(host, after_the_cut, retry.ended.at);
    match (waits, turned_away) {
        (true, _) => Some(by),
        (false, true) => Some(retry.ended.at),
        (false, false) => None,
    }
}

/// True if tokens that the process of `ghost` put there before `from` stand on so many nodes that the others are no majority. The tokens
/// of its grants keep others out rightly.
fn keeps_out(history: &Reading<'_>, ghost: &TokenSpan<'_>, from: Moment, at: Moment) -> bool {
    let Topology::Nodes(nodes @ 2..) = history.topology else {
        return true;
    };
    let tokens = history.tokens();
    let grants = history.beliefs().iter();
    let counts = history.accepts(Excuse::GrantOfProcess);
    let grants = grants.filter(|it| counts && Some(it.actor.host) == ghost.owner);
    let granted: BTreeSet<_> = grants
        .flat_map(|it| tokens.of_grant(it))
        .map(|span| span.token)
        .filter(|token| *token != ghost.token)
        .collect();
    let own = tokens.spans.iter().filter(|it| {
        let theirs = it.owner == ghost.owner && !granted.contains(it.token);
        theirs && it.from.at <= from.at && it.stood(at)
    });
    let taken: BTreeSet<u8> = own.map(|it| it.node).collect();
    let majority = usize::from(nodes) / 2 + 1;
    usize::from(nodes) - taken.len() < majority
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        checker::hand_made::*,
        history::{Actor, Kind},
    };

    fn passes(entries: Vec<(u64, What)>) -> bool {
        let mut history = history(entries);
        // Three round trips take 6 s.
        history.terms.latency = s(1);
        LostReply.check(&history) == Finding::Valid
    }

    fn cut() -> What {
        What::Cut {
            host: 0,
            node: 0,
            lost: Lost::Reply,
        }
    }

    fn unknown(op: u32) -> What {
        What::Info {
            op,
            error: "connection reset".into(),
        }
    }

    #[test]
    fn a_released_token_that_stays_for_a_minimum_hold_is_no_ghost() {
        let kept_out = |hold| {
            let mut history = history(vec![
                (1, waits(1, 0, 30)),
                (2, stores(0, "a", Some(30))),
                (3, cut()),
                (4, granted(1, Some(28))),
                (5, releases(2, 0, 1)),
                (6, stores(0, "a", Some(20))),
                (6, done(2)),
                (7, tries(3, 0)),
                (15, refused(3)),
            ]);
            (history.terms.latency, history.terms.hold) = (s(1), s(hold));
            LostReply.check(&history) == Finding::Valid
        };
        assert!(kept_out(18));
        assert!(!kept_out(0));
    }

    #[test]
    fn a_call_that_finds_its_own_token_is_granted_in_time() {
        let granted_at = |at| {
            passes(vec![
                (1, waits(1, 0, 30)),
                (2, stores(0, "a", Some(12))),
                (3, cut()),
                (at, granted(1, Some(at + 9))),
            ])
        };
        assert!(granted_at(9));
        assert!(!granted_at(10));
    }

    /// The server stores the token at 2, and the process waits until 5. The reply arrives at `replied`.
    #[test]
    fn a_reply_after_the_timeout_is_lost() {
        let executed = |executed, at, replied, closed| {
            let mut history = history(vec![
                (1, waits(1, 0, 30)),
                (2, stores(0, "a", Some(25))),
                (at, granted(1, Some(24))),
            ]);
            (history.terms.latency, history.timeout) = (s(1), Some(s(4)));
            history.dials(0, 0, 0, closed);
            history.sessions[0].broken = false;
            history.asks(0, 1, Some(executed), replied);
            LostReply.check(&history) == Finding::Valid
        };
        let granted_with = |at, replied, closed| executed(2, at, replied, closed);
        assert!(executed(6, 13, Some(6), None), "it was late at the server");
        let before = executed(1, 13, Some(6), None);
        assert!(before, "another request stored the token");
        let granted_at = |at, replied| granted_with(at, Some(replied), None);
        assert!(granted_at(12, 6), "three round trips after the reply");
        assert!(!granted_at(13, 6));
        assert!(granted_at(13, 4), "the reply was in time");
        assert!(
            granted_with(12, None, Some(6)),
            "the process closed the connection"
        );
        assert!(!granted_with(13, None, Some(6)));
    }

    #[test]
    fn a_call_with_time_left_asks_again() {
        let ends_of = |waits_itself, with: What, more: Vec<(u64, What)>| {
            let begin = vec![
                (1, waits(1, 0, 30)),
                (2, stores(0, "a", Some(12))),
                (3, cut()),
            ];
            let entries = begin.into_iter().chain(more).chain([(5, with)]);
            let mut history = history(entries.collect());
            (history.terms.latency, history.terms.answers) = (s(1), true);
            history.terms.waits = waits_itself;
            LostReply.check(&history) == Finding::Valid
        };
        let ends = |with, more| ends_of(true, with, more);
        assert!(ends(granted(1, Some(12)), vec![]));
        assert!(
            ends_of(false, unknown(1), vec![]),
            "the suite repeats the call"
        );
        assert!(!ends(unknown(1), vec![]));
        assert!(ends(unknown(1), vec![(4, cut())]));
        let why = Refusal::Other;
        assert!(!ends(What::Fail { op: 1, why }, vec![]));
        let mut tried = history(vec![
            (1, tries(1, 0)),
            (2, stores(0, "a", Some(12))),
            (3, cut()),
            (5, unknown(1)),
        ]);
        (tried.terms.latency, tried.terms.answers) = (s(1), true);
        tried.terms.waits = true;
        assert_eq!(LostReply.check(&tried), Finding::Valid, "it does not wait");
    }

    /// A waiting client is refused at first, then its connection breaks at 5; the call ends at `ended`, of a wait until 31.
    #[test]
    fn no_broken_connection_ends_a_call_that_waits() {
        let why = |why| What::Fail { op: 1, why };
        let lost = |lost| What::Cut {
            host: 0,
            node: 0,
            lost,
        };
        let ends = |with: What, ended, more: Vec<(u64, What)>, change: fn(&mut History)| {
            let mut entries = vec![(1, waits(1, 0, 30)), (ended, with)];
            entries.extend(more);
            entries.sort_by_key(|&(at, _)| at);
            let mut history = history(entries);
            (history.terms.latency, history.terms.poll) = (s(1), Some(s(2)));
            (history.terms.answers, history.terms.waits) = (true, true);
            change(&mut history);
            LostReply.check(&history) == Finding::Valid
        };
        let same = |_: &mut History| {};
        for kind in [Lost::Request, Lost::Reply] {
            let cut = || vec![(5, lost(kind))];
            for with in [
                unknown(1),
                why(Refusal::Other),
                why(Refusal::TimedOut),
                why(Refusal::Contended),
            ] {
                assert!(!ends(with, 7, cut(), same));
            }
            assert!(ends(granted(1, Some(40)), 7, cut(), same));
        }
        let late = vec![(5, lost(Lost::Late))];
        assert!(ends(unknown(1), 7, late, same), "it may still arrive");
        let cut = |at| (at, lost(Lost::Request));
        let error = || unknown(1);
        // A poll and three round trips before the end of the wait.
        assert!(!ends(error(), 22, vec![cut(5)], same));
        assert!(ends(error(), 23, vec![cut(5)], same));
        assert!(ends(error(), 7, vec![cut(5), cut(6)], same), "twice");
        let other = |host, node, lost| What::Cut { host, node, lost };
        let elsewhere = (6, other(1, 0, Lost::Request));
        assert!(!ends(error(), 7, vec![cut(5), elsewhere], same));
        let begun = (2, What::Pause { host: 0 });
        let over = (3, What::Resume { host: 0 });
        assert!(ends(error(), 7, vec![begun, over, cut(5)], same));
        let unpromised: [fn(&mut History); 3] = [
            |it| it.terms.answers = false,
            |it| it.terms.waits = false,
            |it| it.topology = Topology::Nodes(3),
        ];
        for change in unpromised {
            assert!(ends(error(), 7, vec![cut(5)], change));
        }
        assert!(ends(error(), 4, vec![cut(5)], same), "it had ended before");
    }

    /// A client waits at a latch, and its connection breaks at 5; the call ends at 7 or later, of a wait until 31.
    #[test]
    fn no_broken_connection_ends_the_wait_at_a_latch() {
        let ends = |with, at, answers| {
            let awaits = What::Invoke {
                op: 1,
                actor: Actor::on(0),
                call: Call::Await { wait: s(30) },
            };
            let lost = What::Cut {
                host: 0,
                node: 0,
                lost: Lost::Request,
            };
            let mut history = history(vec![(1, awaits), (5, lost), (at, with)]);
            history.kind = Kind::Latch(2);
            (history.terms.latency, history.terms.poll) = (s(1), Some(s(2)));
            history.terms.answers = answers;
            LostReply.check(&history) == Finding::Valid
        };
        assert!(!ends(unknown(1), 7, true));
        assert!(ends(unknown(1), 7, false), "it promises no answer");
        assert!(ends(unknown(1), 30, true), "no time to ask again is left");
        assert!(ends(done(1), 7, true));
    }

    /// The wait at a latch ends at 7, as it is not set up. Its connection broke at 5.
    #[test]
    fn a_wait_ends_at_a_latch_that_is_not_set_up() {
        let ends = |why, more: Vec<(u64, What)>| {
            let call = |op, call| What::Invoke {
                op,
                actor: Actor::on(op as u8 - 1),
                call,
            };
            let lost = What::Cut {
                host: 0,
                node: 0,
                lost: Lost::Request,
            };
            let mut entries = vec![
                (3, call(1, Call::Await { wait: s(30) })),
                (5, lost),
                (7, What::Fail { op: 1, why }),
            ];
            entries.extend(
                more.into_iter()
                    .flat_map(|(at, done)| [(at, call(2, Call::SetUp)), (at + 1, done)]),
            );
            entries.sort_by_key(|&(at, _)| at);
            let mut history = history(entries);
            history.kind = Kind::Latch(2);
            (history.terms.latency, history.terms.poll) = (s(1), Some(s(2)));
            history.terms.answers = true;
            LostReply.check(&history) == Finding::Valid
        };
        assert!(ends(Refusal::Lost, vec![]));
        assert!(!ends(Refusal::Other, vec![]), "that is no answer");
        assert!(!ends(Refusal::Lost, vec![(1, done(2))]), "it is set up");
        assert!(
            ends(Refusal::Lost, vec![(8, done(2))]),
            "it was set up later"
        );
    }

    /// A lock that promises an answer and no clean-up. The reply to a call is lost at 3, and the token stays until 12.
    #[test]
    fn a_lock_that_promises_no_clean_up_is_judged_by_the_call_itself() {
        let finding = |answers, entries: Vec<(u64, What)>| {
            let begin = vec![
                (1, waits(1, 0, 30)),
                (2, stores(0, "a", Some(12))),
                (3, cut()),
            ];
            let mut history = history(begin.into_iter().chain(entries).collect());
            (history.terms.latency, history.terms.tidy) = (s(1), false);
            (history.terms.answers, history.terms.waits) = (answers, true);
            LostReply.check(&history)
        };
        let wrong = |finding: Finding| matches!(finding, Finding::Violation(_));
        let error = || vec![(5, unknown(1))];
        assert!(wrong(finding(true, error())), "it ends in an error");
        assert!(matches!(finding(false, error()), Finding::Unknown(_)));
        let own = vec![(12, granted(1, Some(21)))];
        assert!(wrong(finding(true, own)), "it waits for its own token");
        let cancelled = What::Info {
            op: 1,
            error: crate::history::CANCELLED.into(),
        };
        let later = vec![(4, cancelled), (9, tries(2, 0)), (10, refused(2))];
        let later = finding(true, later);
        assert_eq!(later, Finding::Valid, "a later call finds the token");
    }

    #[test]
    fn a_call_whose_wait_ends_before_it_could_ask_again_may_end_in_an_error() {
        let passes = |wait, retry| {
            let mut history = history(vec![
                (1, waits(1, 0, wait)),
                (2, stores(0, "a", Some(40))),
                (3, cut()),
                (1 + wait, unknown(1)),
            ]);
            (history.terms.latency, history.terms.retry) = (s(1), s(retry));
            (history.terms.answers, history.terms.waits) = (true, true);
            LostReply.check(&history) == Finding::Valid
        };
        // The reply is lost 10 s before the end of the wait, and three round trips take 6 s.
        assert!(passes(12, 4));
        assert!(!passes(12, 3));
        assert!(passes(8, 0));
        assert!(!passes(9, 0));
    }

    #[test]
    fn the_second_of_two_cuts_has_hit_the_retry() {
        let passes_with_another = |node| {
            let lost = Lost::Request;
            let first = What::Cut {
                host: 0,
                node,
                lost,
            };
            passes(vec![
                (1, waits(1, 0, 30)),
                (2, stores(0, "a", Some(12))),
                (2, first),
                (3, cut()),
                (19, granted(1, Some(28))),
            ])
        };
        assert!(passes_with_another(0));
        assert!(
            !passes_with_another(1),
            "on another node it hit nothing of this"
        );
    }

    #[test]
    fn a_token_that_is_seen_just_after_the_cut_counts_as_a_ghost() {
        let granted_at = |at| {
            passes(vec![
                (1, waits(1, 0, 30)),
                (3, cut()),
                (3, stores(0, "a", Some(12))),
                (at, granted(1, Some(at + 9))),
            ])
        };
        assert!(granted_at(9));
        assert!(!granted_at(10));
    }

    #[test]
    fn on_several_nodes_tokens_on_a_few_exclude_no_client() {
        let next = |nodes: u8| {
            let mut entries = vec![(1, tries(1, 0)), (3, cut()), (3, unknown(1))];
            entries.extend((0..nodes).map(|node| {
                let stored = stores_on(node, 0, "a", Some(30));
                (2, stored)
            }));
            entries.extend([(20, tries(2, 0)), (21, refused(2))]);
            entries.sort_by_key(|&(at, _)| at);
            let mut history = history(entries);
            history.terms.latency = s(1);
            history.topology = Topology::Nodes(5);
            LostReply.check(&history) == Finding::Valid
        };
        assert!(next(2));
        assert!(!next(3));
    }

    #[test]
    fn the_next_call_is_not_kept_out_by_a_ghost() {
        let next = |freed: Vec<(u64, What)>| {
            let begin = vec![
                (1, tries(1, 0)),
                (2, stores(0, "a", Some(12))),
                (3, cut()),
                (3, unknown(1)),
            ];
            let end = vec![(10, tries(2, 0)), (11, refused(2))];
            passes(begin.into_iter().chain(freed).chain(end).collect())
        };
        assert!(!next(vec![]));
        assert!(next(vec![(5, frees(0))]));
        assert!(next(vec![(5, frees(0)), (6, stores(1, "b", Some(16)))]));
    }

    #[test]
    fn a_token_that_another_task_may_have_stored_is_no_ghost() {
        let call = Call::Try {
            mode: crate::history::Mode::Exclusive,
        };
        let actor = Actor { host: 0, task: 1 };
        assert!(passes(vec![
            (1, waits(1, 0, 30)),
            (1, What::Invoke { op: 2, actor, call }),
            (2, stores(0, "a", Some(12))),
            (2, granted(2, Some(11))),
            (3, cut()),
            (20, granted(1, Some(29))),
        ]));
    }

    /// The reply is lost at 3. The lock pauses for at most 10 s, and its call is granted the lock at 14. At 5 the process sends
    /// a request, of this call or of `another`.
    #[test]
    fn a_request_of_another_part_of_the_process_does_not_ask_again() {
        let passes = |another: Vec<(u64, What)>| {
            let mut entries = vec![
                (1, waits(1, 0, 30)),
                (2, stores(0, "a", Some(40))),
                (3, cut()),
                (14, granted(1, Some(22))),
            ];
            entries.extend(another);
            entries.sort_by_key(|&(at, _)| at);
            let mut history = history(entries);
            (history.terms.latency, history.terms.retry) = (s(1), s(10));
            history.dials(0, 0, 0, Some(3));
            history.dials(0, 0, 4, None);
            for at in [5, 13] {
                history.asks(1, at, Some(at), Some(at));
            }
            LostReply.check(&history) == Finding::Valid
        };
        let call = Call::Try {
            mode: crate::history::Mode::Exclusive,
        };
        let actor = Actor { host: 0, task: 1 };
        let tries = || What::Invoke { op: 2, actor, call };
        assert!(!passes(vec![]), "the call itself has asked");
        assert!(passes(vec![(4, tries()), (6, refused(2))]));
        assert!(!passes(vec![(6, tries()), (7, refused(2))]), "later");
        assert!(!passes(vec![(0, tries()), (0, refused(2))]), "earlier");
        assert!(
            passes(vec![(0, tries()), (0, unknown(2))]),
            "a task looks for its request"
        );
    }

    #[test]
    fn a_lost_request_leaves_no_ghost() {
        assert!(passes(vec![
            (0, stores(1, "b", Some(10))),
            (1, waits(1, 0, 30)),
            (3, cut()),
            (9, refused(1)),
        ]));
    }
}
