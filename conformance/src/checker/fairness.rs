//! P9, fairness: waiters that are in the queue of a server are granted the lock in queue order. If the lock prefers
//! writers: no reader that asks after a writer is granted the lock before it.
//!
//! The checker judges queue order only for locks that promise it, by the queue that the server was seen to store. A
//! waiter loses its turn if it gave up, or if its messages did not get through all the time since it got its place.
//! Calls that can both be granted are not judged against each other: readers, and calls for which the free permits suffice.
//!
//! Without faults, a waiter has a place after some round trips, whatever the queue shows. A client that calls only then
//! must be granted the lock later. If a fault that struck the waiter ended shortly before its call, the waiter may pause
//! before it asks.

use super::{
    Checker, Finding, Property, Witness,
    room::{permits_of, stored_permits},
    seconds,
};
use crate::history::{
    Call, Excuse, Kind, Moment, OpId, Operation, Outcome, Reading, Request, Scope, TokenSpan, What,
};
use crate::scenario::{Fault, Topology};
use std::time::Duration;

/// Round trips until a waiter has a place: to connect, to send a script that the server does not know yet, and to ask.
const ROUND_TRIPS_TO_A_PLACE: u32 = 5;

/// Judges P9.
pub struct Fairness;

/// A waiter that got a place in a queue, and the time at which it got it.
struct Placed<'a> {
    since: Moment,
    it: &'a Operation,
}

impl Checker for Fairness {
    fn property(&self) -> Property {
        Property::Fairness
    }

    fn judge(&self, history: &Reading<'_>) -> Finding {
        if history.terms.prefers_writers {
            return passed_by(history).map_or(Finding::Valid, Finding::Violation);
        }
        if !history.terms.fair {
            return Finding::Unknown("no order is promised");
        }
        if !history.observed {
            return Finding::Unknown("the server was not observed");
        }
        if let Some(witness) = passed_by(history) {
            return Finding::Violation(witness);
        }
        let placed = placed(history, history.operations());
        let fault_intervals = history.fault_intervals();
        if placed.is_empty() {
            return Finding::Unknown("no client was queued");
        }
        let overtaken = placed.iter().find_map(|first| {
            let later = placed.iter().filter(|other| first.since < other.since);
            let mut later = later.filter(|other| other.it.outcome == Outcome::Ok);
            let winner = later.find(|winner| {
                // Grants must be in order, but their replies may overtake each other.
                let known = winner.it.ended.at + history.terms.round_trips(1);
                let (host, since) = (first.it.actor.host, first.it.asked.at);
                known < first.it.ended.at
                    && excludes(history, winner.it, first.it)
                    && fault_intervals.heard(host, since, known)
            })?;
            Some((first, winner))
        });
        let Some((first, winner)) = overtaken else {
            return Finding::Valid;
        };
        Finding::Violation(Witness {
            at: winner.it.ended,
            until: None,
            grants: vec![winner.it.op],
            message: format!(
                "{} was in the queue from {} on and {} from {} on, but the latter was granted the \
                 lock at {}",
                first.it.actor,
                seconds(first.since.at),
                winner.it.actor,
                seconds(winner.since.at),
                seconds(winner.it.ended.at)
            ),
        })
    }
}

/// True if a call that was granted kept another one out: one of them is exclusive, or they want more permits than there are, or than the
/// server had left when it stored the winner, while the other one alone could have been granted.
fn excludes(history: &Reading<'_>, winner: &Operation, other: &Operation) -> bool {
    let Kind::Semaphore(count) = history.kind else {
        return is_exclusive(winner) || is_exclusive(other);
    };
    let (alone, both) = (
        permits_of(other),
        permits_of(other).saturating_add(permits_of(winner)),
    );
    if both > count {
        return true;
    }
    let beliefs = history.beliefs().iter();
    let mut grants = beliefs.filter(|belief| belief.grant == winner.op);
    let is_alone = matches!(history.topology, Topology::Nodes(0 | 1));
    grants.any(|belief| {
        let mut stored = (history.tokens()).surely_of_grant(belief, history.operations());
        let Some(own) = stored.next().filter(|_| is_alone) else {
            return false;
        };
        let others = stored_permits(history).into_iter();
        let others = others.filter(|(span, _)| span.token != own.token && span.stood(own.from));
        let taken = others.map(|(_, count)| count).fold(0, u32::saturating_add);
        let fits = |wanted: u32| taken.saturating_add(wanted) <= count;
        fits(alone) && !fits(both)
    })
}

fn is_exclusive(it: &Operation) -> bool {
    it.call.mode().is_some_and(|mode| mode.is_exclusive())
}

/// Counterexample: a client called when a waiter must already have had its place, and was granted the lock before this
/// waiter. If the lock prefers writers, the waiter is a writer and the other client a reader.
fn passed_by(history: &Reading<'_>) -> Option<Witness> {
    let takes_place = history.terms.round_trips(ROUND_TRIPS_TO_A_PLACE);
    let is_semaphore = matches!(history.kind, Kind::Semaphore(_));
    let waits = |it: &&Operation| {
        matches!(it.call, Call::Acquire { .. }) && (is_semaphore || is_exclusive(it))
    };
    let operations = history.operations().iter();
    let (first, winner) = operations.clone().filter(waits).find_map(|first| {
        let (host, since) = (first.actor.host, first.asked.at);
        let asks = history.asks_from(Excuse::PauseBeforePlace, host, since);
        let winner = operations.clone().find(|it| {
            let won = it.call.acquires() && it.outcome == Outcome::Ok && it.actor != first.actor;
            let known = it.ended.at.saturating_add(history.terms.round_trips(1));
            let makes_way = match history.terms.prefers_writers {
                true => !is_exclusive(it) && is_in_front(history, first, known),
                false if is_semaphore => known < first.ended.at && excludes(history, it, first),
                false => is_exclusive(it),
            };
            won && makes_way
                && asks.saturating_add(takes_place) < it.asked.at
                && known < first.ended.at
                && history.fault_intervals().calm(host, since, known)
        })?;
        Some((first, winner))
    })?;
    Some(Witness {
        at: winner.ended,
        until: None,
        grants: vec![winner.op],
        message: format!(
            "{} had been waiting since {} when {} asked at {}, but the latter was granted the lock at {}",
            first.actor,
            seconds(first.asked.at),
            winner.actor,
            seconds(winner.asked.at),
            seconds(winner.ended.at)
        ),
    })
}

/// True if readers certainly have to make way for a writer until `until`: no acquisition of another writer ended meanwhile, which
/// may have had the only place for a writer, and none of the writer's own process is in progress, which might be served first.
fn is_in_front(history: &Reading<'_>, writer: &Operation, until: Duration) -> bool {
    let intervals = history.fault_intervals();
    let acquisitions = history.operations().iter();
    let mut others = acquisitions.filter(|it| it.call.acquires() && it.op != writer.op);
    !others.any(|it| {
        let in_progress = it.asked.at <= until && writer.asked.at <= it.landed().at;
        // A writer that goes on waiting keeps readers out as well, unless a fault strikes it.
        let waits = || until < it.ended.at && intervals.calm(it.actor.host, it.asked.at, until);
        let own = it.actor.host == writer.actor.host;
        in_progress && (own || is_exclusive(it) && !waits())
    })
}

/// Waiters that got a place. Only places that one acquisition of a process alone can have got count.
fn placed<'a>(history: &Reading<'_>, operations: &'a [Operation]) -> Vec<Placed<'a>> {
    let queued = history.queued();
    let mut placed: Vec<Placed<'a>> = Vec::new();
    for span in &queued.spans {
        let mut askers = operations.iter().filter(|it| {
            it.call.acquires()
                && Some(it.actor.host) == span.owner
                && it.asked < span.from
                && span.from < it.landed()
        });
        let only = askers.next().filter(|_| askers.next().is_none());
        // If a call was granted the lock under this token, the place is its own, and not that of another task of the process.
        let only = match granted_under(history, span) {
            Some(grant) => operations.iter().find(|it| it.op == grant),
            None => only.filter(|it| !is_of_an_earlier_call(history, span, it)),
        };
        let only = only.filter(|it| it.asked < span.from && span.from < it.ended);
        // The first place of a waiter counts: the waiter may have had to ask again.
        let Some(it) = only else { continue };
        let since = span.from;
        match placed.iter_mut().find(|other| other.it.op == it.op) {
            Some(before) if runs_slow(history, it.actor.host, before.since.at, since.at) => {
                before.since = since;
            }
            Some(_) => {}
            None => placed.push(Placed { since, it }),
        }
    }
    placed
}

/// The grant whose token has the place, if the subject names the tokens of grants.
fn granted_under(history: &Reading<'_>, place: &TokenSpan<'_>) -> Option<OpId> {
    let mut named = history.tokens().named.iter();
    let grant = named.find(|(_, token)| token.scope == Scope::Grant && token.bytes == place.token);
    grant.map(|(&grant, _)| grant)
}

/// True if requests put the token there that were all sent before the call began.
fn is_of_an_earlier_call(history: &Reading<'_>, span: &TokenSpan<'_>, it: &Operation) -> bool {
    let theirs = history.requests_of(it.actor.host).filter(|request| {
        let node = history.session(request).node;
        node == span.node && request.executed == Some(span.from.at)
    });
    let mut sent = theirs.map(Request::sent_at).peekable();
    sent.peek().is_some() && sent.all(|sent| sent < it.asked)
}

/// True if the clock of a process ran slower than the lock tolerates at some time from `from` to `to`, so its place may have
/// become stale.
fn runs_slow(history: &Reading<'_>, host: u8, from: Duration, to: Duration) -> bool {
    if !history.accepts(Excuse::SlowClock) {
        return false;
    }
    let tolerated = i64::from(history.terms.drift_ppm);
    let mut since = None;
    let mut slow = history.entries.iter().map(|entry| {
        let is_slow = |fault: &Fault| {
            matches!(fault, Fault::Drift { host: of, ppm } if *of == host && *ppm < -tolerated)
        };
        let mut ended = since;
        if let What::Strikes { fault } = &entry.what
            && is_slow(fault)
        {
            since = since.or(Some(entry.at));
            ended = since;
        }
        if let What::Heals { fault } = &entry.what
            && is_slow(fault)
        {
            since = None;
        }
        ended.is_some_and(|begun| begun <= to && from <= entry.at)
    });
    slow.any(|it| it)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        checker::hand_made::*,
        history::{Actor, Cause, Mode, Token, What},
        scenario::Lost,
    };

    fn queue(host: u8, waiting: &[&str]) -> What {
        What::Queue {
            node: 0,
            cause: Cause::Client(host),
            waiting: waiting
                .iter()
                .map(|token| token.as_bytes().to_vec())
                .collect(),
        }
    }

    fn check(entries: Vec<(u64, What)>) -> Finding {
        let mut history = history(entries);
        history.terms.fair = true;
        // Five round trips take 10 s.
        history.terms.latency = s(1);
        Fairness.check(&history)
    }

    /// c1 asks first, c2 is queued first.
    fn both_wait(more: Vec<(u64, What)>) -> Finding {
        let begin = vec![
            (1, waits(1, 0, 60)),
            (2, waits(2, 1, 60)),
            (3, queue(1, &["b"])),
            (4, queue(0, &["b", "a"])),
        ];
        check(begin.into_iter().chain(more).collect())
    }

    #[test]
    fn places_in_the_queue_count_and_not_calls() {
        let (one, two) = (granted(1, Some(30)), granted(2, Some(20)));
        let in_turn = vec![(9, two.clone()), (19, one.clone())];
        assert_eq!(both_wait(in_turn), Finding::Valid);
        let out_of_turn = vec![(9, one), (19, two)];
        let finding = both_wait(out_of_turn);
        assert_eq!(finding.witness().unwrap().grants, [1]);
    }

    /// Two tasks of c1 wait, and get places at 3 and 4; c2 gets one at 8. A late request of the first task's call puts its token there
    /// again when that call has ended.
    #[test]
    fn a_place_is_that_of_the_call_that_is_granted_the_lock_under_its_token() {
        let finding = |scope, first, second| {
            let token = |token: &str| {
                let bytes = token.as_bytes().to_vec();
                Some(Token { bytes, scope })
            };
            let granted = |op, named| What::Ok {
                op,
                deadline: Some(s(90)),
                fence: None,
                number: None,
                token: token(named),
            };
            let task = Actor { host: 0, task: 1 };
            let second_waits = What::Invoke {
                op: 2,
                actor: task,
                call: Call::Acquire {
                    mode: Mode::Exclusive,
                    wait: s(60),
                },
            };
            check(vec![
                (1, waits(1, 0, 60)),
                (2, second_waits),
                (3, queue(0, &["a"])),
                (4, queue(0, &["a", "b"])),
                (5, waits(3, 1, 60)),
                (8, queue(1, &["a", "b", "c"])),
                (10, queue(0, &["b", "c"])),
                (11, granted(1, "a")),
                (13, releases(4, 0, 1)),
                (14, done(4)),
                (20, queue(0, &["b", "c", "a"])),
                (first, granted(2, "b")),
                (second, granted(3, "c")),
            ])
        };
        assert_eq!(finding(Scope::Grant, 22, 40), Finding::Valid);
        let out_of_turn = finding(Scope::Grant, 40, 22);
        assert_eq!(out_of_turn.witness().map(|it| &*it.grants), Some(&[3][..]));
        let unknown = finding(Scope::Owner, 22, 40);
        assert!(unknown.witness().is_some(), "its token names no grant");
    }

    #[test]
    fn waiters_for_more_permits_than_there_are_are_granted_in_turn() {
        let overtakes = |permits, count, queued: bool| {
            let mut entries = vec![(1, wants(1, 0, permits, 60))];
            if queued {
                let places = [(2, queue(0, &["a"])), (3, wants(2, 1, permits, 60))];
                entries.extend(places);
                entries.push((4, queue(1, &["a", "b"])));
            } else {
                entries.push((20, wants(2, 1, permits, 60)));
            }
            entries.extend([(21, granted(2, Some(30))), (50, granted(1, Some(60)))]);
            let mut history = history(entries);
            (history.terms.fair, history.terms.latency) = (true, s(1));
            history.kind = Kind::Semaphore(count);
            Fairness.check(&history).witness().is_some()
        };
        for queued in [true, false] {
            assert!(overtakes(1, 1, queued));
            assert!(overtakes(2, 3, queued));
            assert!(!overtakes(1, 2, queued), "both can be granted");
        }
    }

    /// A semaphore of two permits: `taken` of them are stored when a client that came second is granted one at 21.
    #[test]
    fn the_only_free_permit_goes_to_the_first_waiter() {
        let overtakes = |taken: &[&str], first| {
            let server = |host, tokens: &[&str]| stores_permits(host, tokens, 90);
            let mut history = history(vec![
                (0, server(3, &["c", "d"])),
                (1, wants(1, 0, first, 60)),
                (2, queue(0, &["a"])),
                (3, wants(2, 1, 1, 60)),
                (4, queue(1, &["a", "b"])),
                (20, server(3, taken)),
                (21, server(1, &[taken, &["b"]].concat())),
                (21, granted(2, Some(30))),
                (50, granted(1, Some(60))),
            ]);
            (history.terms.fair, history.terms.latency) = (true, s(1));
            history.kind = Kind::Semaphore(2);
            Fairness.check(&history).witness().is_some()
        };
        assert!(overtakes(&["c"], 1));
        assert!(!overtakes(&[], 1), "there is a permit for each");
        assert!(overtakes(&[], 2), "together they want too many");
    }

    #[test]
    fn a_waiter_that_gave_up_or_slept_has_lost_its_turn() {
        let one = || (9, granted(1, Some(30)));
        assert_eq!(both_wait(vec![(8, refused(2)), one()]), Finding::Valid);
        let slept = vec![
            (5, What::Pause { host: 1 }),
            one(),
            (10, What::Resume { host: 1 }),
            (19, granted(2, Some(30))),
        ];
        assert_eq!(both_wait(slept), Finding::Valid);
    }

    #[test]
    fn a_place_may_be_that_of_a_request_that_was_not_heard_out() {
        let unknown = What::Info {
            op: 1,
            error: "timed out".into(),
        };
        let waits_in_another_task = What::Invoke {
            op: 3,
            actor: Actor { host: 0, task: 1 },
            call: Call::Acquire {
                mode: Mode::Exclusive,
                wait: s(60),
            },
        };
        let entries = |first| {
            vec![
                (1, waits_in_another_task.clone()),
                (1, waits(2, 1, 60)),
                (2, first),
                (3, queue(1, &["b"])),
                (4, queue(0, &["b", "a"])),
                (9, granted(3, Some(30))),
                (19, granted(2, Some(30))),
            ]
        };
        assert!(check(entries(waits(9, 5, 60))).witness().is_some());
        let mut late = entries(unknown);
        late.insert(0, (1, tries(1, 0)));
        assert_eq!(check(late), Finding::Valid);
    }

    /// Seed of `fenced-fair` under `delay`: a request of an earlier call of the process lands during the next call.
    #[test]
    fn a_place_of_a_request_that_was_sent_before_the_call_is_not_its_own() {
        let overtaken = |sent| {
            let mut history = history(vec![
                (0, tries(9, 0)),
                (1, refused(9)),
                (3, waits(1, 0, 60)),
                (4, waits(2, 1, 60)),
                (6, queue(1, &["b"])),
                (8, queue(0, &["b", "a"])),
                (9, granted(1, Some(20))),
                (19, granted(2, Some(30))),
            ]);
            history.terms.fair = true;
            history.terms.latency = s(1);
            history.dials(0, 0, 0, None);
            history.asks(0, sent, Some(8), Some(8));
            Fairness.check(&history).witness().is_some()
        };
        assert!(overtaken(7));
        assert!(!overtaken(0));
    }

    fn reads(op: u32, host: u8) -> What {
        What::Invoke {
            op,
            actor: Actor { host, task: 0 },
            call: Call::Acquire {
                mode: Mode::Shared,
                wait: s(60),
            },
        }
    }

    fn preferring(entries: Vec<(u64, What)>) -> Finding {
        let mut history = history(entries);
        history.terms.prefers_writers = true;
        Fairness.check(&history)
    }

    #[test]
    fn readers_make_way_for_a_writer_that_waits() {
        let begin = || {
            vec![
                (1, reads(1, 0)),
                (2, granted(1, Some(30))),
                (3, waits(2, 1, 60)),
            ]
        };
        let with = |more: Vec<(u64, What)>| preferring(begin().into_iter().chain(more).collect());
        let (later, writes) = (
            |at| (at, granted(3, Some(40))),
            |at| (at, granted(2, Some(40))),
        );
        let finding = with(vec![(5, reads(3, 2)), later(7), writes(9)]);
        assert_eq!(finding.witness().unwrap().grants, [3]);
        let in_turn = with(vec![(5, reads(3, 2)), writes(7), later(9)]);
        assert_eq!(in_turn, Finding::Valid);
        let gave_up = with(vec![(5, reads(3, 2)), (6, refused(2)), later(7)]);
        assert_eq!(gave_up, Finding::Valid);
        let asked_first = preferring(vec![
            (1, reads(3, 2)),
            (3, waits(2, 1, 60)),
            later(7),
            writes(9),
        ]);
        assert_eq!(asked_first, Finding::Valid);
    }

    #[test]
    fn a_writer_that_may_not_have_the_place_in_front_is_not_preferred() {
        let all = |more: (u64, What)| {
            let mut entries = vec![
                (3, waits(2, 1, 60)),
                (5, reads(3, 2)),
                (7, granted(3, Some(40))),
                (9, granted(2, Some(50))),
            ];
            let at = entries.partition_point(|(at, _)| *at <= more.0);
            entries.insert(at, more);
            preferring(entries)
        };
        assert!(all((1, reads(9, 2))).witness().is_some());
        let wait_beside = |ended: u64, faults: Vec<(u64, What)>| {
            let mut entries = vec![
                (3, waits(2, 1, 60)),
                (4, waits(9, 3, 60)),
                (5, reads(3, 2)),
                (7, granted(3, Some(40))),
                (9, granted(2, Some(50))),
                (ended, refused(9)),
            ];
            entries.extend(faults);
            let mut history = history(entries);
            history.terms.prefers_writers = true;
            history.entries.sort_by_key(|entry| entry.at);
            Fairness.check(&history)
        };
        let wait = |ended| wait_beside(ended, vec![]);
        assert_eq!(wait(6), Finding::Valid, "another writer gave up");
        assert!(wait(20).witness().is_some(), "two writers wait");
        let paused = |host| {
            let pause = vec![(6, What::Pause { host }), (8, What::Resume { host })];
            wait_beside(20, pause)
        };
        assert_eq!(paused(3), Finding::Valid, "the other writer is paused");
        assert!(paused(2).witness().is_some(), "the reader is paused");
        assert_eq!(all((4, reads(9, 1))), Finding::Valid);
        assert_eq!(all((6, What::Pause { host: 1 })), Finding::Valid);
    }

    #[test]
    fn the_longest_waiter_comes_first_whatever_the_queue_shows() {
        let passed_by = |asked, more: Vec<(u64, What)>| {
            let begin = vec![(1, waits(1, 0, 60)), (asked, waits(2, 1, 60))];
            let end = vec![(13, granted(2, Some(22))), (29, granted(1, Some(39)))];
            check(begin.into_iter().chain(more).chain(end).collect())
                .witness()
                .is_some()
        };
        assert!(passed_by(12, vec![]));
        assert!(!passed_by(11, vec![]));
        let slept = vec![(5, What::Pause { host: 0 }), (6, What::Resume { host: 0 })];
        assert!(!passed_by(12, slept));
    }

    /// Seed 4390 of `fenced-fair` under `cut`: a request of an earlier call, executed late, took a place.
    #[test]
    fn a_place_of_an_earlier_call_is_not_that_of_the_next() {
        let left_by = |lost| {
            let cut = What::Cut {
                host: 1,
                node: 0,
                lost,
            };
            check(vec![
                (0, tries(9, 1)),
                (0, cut),
                (0, stores(1, "b", Some(10))),
                (1, granted(9, Some(9))),
                (2, waits(2, 1, 60)),
                (2, waits(8, 1, 60)),
                (3, queue(1, &["c"])),
                (4, waits(1, 0, 60)),
                (4, queue(0, &["c", "a"])),
                (5, refused(8)),
                (6, queue(1, &["c", "a", "b"])),
                (9, granted(2, Some(20))),
                (19, granted(1, Some(30))),
            ])
        };
        assert_eq!(left_by(Lost::Late), Finding::Valid);
        assert!(left_by(Lost::Reply).witness().is_some());
    }

    #[test]
    fn an_order_that_was_not_promised_is_not_judged() {
        let finding = Fairness.check(&history(vec![(1, waits(1, 0, 60))]));
        assert!(matches!(finding, Finding::Unknown(_)));
    }

    /// Seed 219 of a foreign lock: the connection of the first waiter broke long before it called.
    #[test]
    fn a_waiter_that_finds_its_connection_broken_pauses_before_it_asks() {
        let passed_by = |closed: Option<u64>, again: Option<u64>, asked| {
            let mut history = history(vec![
                (30, waits(1, 0, 60)),
                (asked, tries(2, 1)),
                (asked, granted(2, Some(90))),
                (80, granted(1, Some(90))),
            ]);
            (history.terms.fair, history.terms.retry) = (true, s(2));
            history.dials(0, 0, 1, closed);
            if let Some(again) = again {
                history.dials(0, 0, again, None);
            }
            passed_by(&Reading::of(&history)).is_some()
        };
        assert!(!passed_by(Some(5), None, 31));
        assert!(passed_by(Some(5), None, 33), "the pause is over");
        assert!(
            passed_by(Some(5), Some(6), 31),
            "it has replaced the connection"
        );
        assert!(passed_by(None, None, 31), "nothing is broken");
    }
}
