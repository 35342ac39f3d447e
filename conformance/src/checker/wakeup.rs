//! P10, no lost wake-up: a lock that is free at the server does not stay free for longer than the lock promised while a
//! live, reachable client waits for it.
//!
//! A semaphore is free for a waiter if the stored holders leave enough permits for it and for all other calls that ask meanwhile. A lock
//! that a release hands to a waiter is free for this waiter alone.
//!
//! If a fault that struck the waiter ended shortly before its call, the waiter may pause before its first request.
//! If a fault struck the waiter during its wait, its wake-up may be lost. Then the remaining TTL of the former holder
//! is its bound. Time counts from when all faults are over and a request that a fault struck has timed out. If waiters
//! are served in queue order, the bound also grows with each of the other waiters that a fault has struck.
//!
//! Some locks promise more: a release wakes waiters, and waiters know when a lease ends. Without any fault, a client
//! must acquire such a lock within a few round trips after its release or expiry, or after it could subscribe if that is later. The
//! checker judges this for one node only, since of several nodes a majority must be free. If a release leaves the lock taken, for a
//! while or by other holders, the lock need not tell waiters when this ends.

use super::{Checker, Finding, Property, Witness, in_process, room, seconds};
use crate::{
    history::{
        Call, Cause, Excuse, FaultIntervals, Kind, Moment, NEVER, Operation, Reading, TokenSpan,
        Tokens,
    },
    scenario::Topology,
};
use std::{collections::BTreeSet, time::Duration};

/// Round trips from a wake-up to the grant. The first waiter may have to hand the wake-up on, and the next one asks:
/// for each of the two a message, a request and its reply.
const ROUND_TRIPS_WHEN_TOLD: u32 = 4;

/// Round trips until a waiter can get a wake-up: it connects, asks, subscribes and asks again. A lock that became free before that
/// publishes no message for it.
const ROUND_TRIPS_TO_HEAR: u32 = 6;

/// Time over which waiters may spread their requests at the end of a lease.
const SPREAD: Duration = Duration::from_millis(10);

/// Judges P10.
pub struct WakeUp;

/// Span in which a waiter can have the lock: no server stores a holder, or the holders leave it enough permits, or the lock is
/// handed to it.
#[derive(Clone, Copy)]
struct Free {
    from: Duration,
    to: Duration,
    /// End of the former holder's lease, had it not been released.
    lease_end: Duration,
    /// Cause that freed the lock: a request, a fault, or the end of the lease.
    by: Cause,
}

impl Checker for WakeUp {
    fn property(&self) -> Property {
        Property::WakeUp
    }

    fn judge(&self, history: &Reading<'_>) -> Finding {
        if history.terms.wake.is_none() && !history.terms.tells {
            return Finding::Unknown("no bound on waking up is promised");
        }
        if !history.observed {
            return Finding::Unknown("the server was not observed");
        }
        if history.counts_holders() {
            return Finding::Unknown(
                "the server only counts holders, so their leases cannot be seen",
            );
        }
        let (free, fault_intervals) = (free(history.tokens()), history.fault_intervals());
        let operations = history.operations();
        let untold = operations.iter().find_map(|waiter| {
            let given = given(history, waiter);
            let free = free.iter().chain(&given);
            let span = untold(history, fault_intervals, operations, waiter, free)?;
            Some((waiter, span, when_told(history)))
        });
        let slept = || {
            let wake = history.terms.wake?;
            let bound = wake + history.terms.skip + history.terms.round_trips(2);
            operations.iter().find_map(|waiter| {
                let (from, to) = waiting(history, waiter)?;
                let own = [given(history, waiter), with_room(history, waiter)].concat();
                let spans = free.iter().chain(&own);
                let spans = spans.filter(|free| free.from < to && from < free.to);
                let mut spans = spans.filter_map(|free| {
                    let to = free.to.min(to);
                    let from = woken_by(history, fault_intervals, waiter, free, to).max(from);
                    // Few waiters sleep for so long, so the waiters in front are counted for them alone.
                    let slept = to.saturating_sub(from);
                    let bound =
                        (slept > bound).then(|| bound * turns(history, waiter, from, to))?;
                    (slept > bound).then_some(((from, to), bound))
                });
                let (span, bound) = spans.next()?;
                Some((waiter, span, bound))
            })
        };
        let Some((waiter, (from, to), bound)) = untold.or_else(slept) else {
            return Finding::Valid;
        };
        Finding::Violation(Witness {
            at: Moment::at(from + bound),
            until: Some(to),
            grants: vec![],
            message: format!(
                "from {} to {} the lock was free and {} waited for it; {} would have been enough",
                seconds(from),
                seconds(to),
                waiter.actor,
                seconds(bound),
            ),
        })
    }
}

/// Span in which an operation waits, without its time to connect and to ask for the first time.
fn waiting(history: &Reading<'_>, it: &Operation) -> Option<(Duration, Duration)> {
    let Call::Acquire { wait, .. } = it.call else {
        return None;
    };
    let end = history.entries.last().map_or(Duration::ZERO, |it| it.at);
    let from = begins(history, it).saturating_add(history.terms.round_trips(2));
    Some((from, (it.asked.at + wait).min(it.ended.at).min(end)))
}

/// The time from which a waiter can ask the server: a task of its process may be in front of it.
fn begins(history: &Reading<'_>, it: &Operation) -> Duration {
    let kept_out = in_process::kept_out(history, Excuse::TaskInFront, it);
    it.asked.at.max(kept_out)
}

/// Longest time that a waiter may take once it knows that the lock is free.
fn when_told(history: &Reading<'_>) -> Duration {
    history.terms.round_trips(ROUND_TRIPS_WHEN_TOLD) + SPREAD
}

/// Returns a span in which a lock was free although its waiter should have known it.
fn untold<'a>(
    history: &Reading<'_>,
    fault_intervals: &FaultIntervals,
    operations: &[Operation],
    waiter: &Operation,
    free: impl Iterator<Item = &'a Free>,
) -> Option<(Duration, Duration)> {
    if !history.terms.tells || !is_alone(history) {
        return None;
    }
    let bound = when_told(history);
    let (_, to) = waiting(history, waiter)?;
    let asks = history.asks_from(
        Excuse::PauseAfterFault,
        waiter.actor.host,
        begins(history, waiter),
    );
    let hears = asks.saturating_add(history.terms.round_trips(ROUND_TRIPS_TO_HEAR));
    // The first waiter may still recover from an earlier fault.
    let grace = history.request_timeout() + history.recovery();
    let since = waiter.asked.at.saturating_sub(grace);
    let well = |by| {
        let mut hosts = operations.iter().map(|it| it.actor.host);
        hosts.all(|host| fault_intervals.calm(host, since, by))
    };
    // Few free spans are so long, so the costly checks run for them alone.
    let known_from = |free: &Free| free.from.max(hears);
    let long = free.filter(|free| {
        let to = free.to.min(to);
        to.saturating_sub(known_from(free)) > bound
    });
    let known = long.filter(|free| match free.by {
        Cause::Client(_) => true,
        Cause::Server => {
            !shared(history, operations, waiter, free)
                && !hastened(history, operations, waiter, free)
        }
        Cause::Fault => false,
    });
    let mut spans = known.map(|free| (known_from(free), free.to.min(to)));
    spans.find(|&(from, _)| well(from + bound))
}

/// True if a client released its grant while another grant stood. The lock publishes no message then. The waiter, or a
/// waiter in front of it, may know only the end of the grant that is gone.
fn shared(
    history: &Reading<'_>,
    operations: &[Operation],
    waiter: &Operation,
    free: &Free,
) -> bool {
    let spans = &history.tokens().spans;
    let goes_first = |it: &Operation| {
        let writes = it.call.mode().is_some_and(|mode| mode.is_exclusive());
        it.op == waiter.op || history.terms.fair || history.terms.prefers_writers && writes
    };
    let asks = operations.iter().filter(|it| it.call.acquires());
    let in_front: Vec<_> = asks.filter(|it| goes_first(it)).collect();
    let mut given_back = spans.iter().filter(|span| {
        let (gone, by) = span.gone;
        let by_hand = matches!(by, Cause::Client(_)) && gone.at < free.from;
        let mut waiters = in_front.iter();
        by_hand && waiters.any(|it| it.asked < gone && free.from <= it.ended.at)
    });
    given_back.any(|span| {
        let mut others = spans.iter().filter(|it| it.token != span.token);
        others.any(|it| it.stood(span.gone.0))
    })
}

/// True if a holder brought its expiry forward while a client waited, as a release does that keeps the lock for a
/// while. The waiter may know only the later expiry; in a queue, so may a waiter in front of it.
fn hastened(
    history: &Reading<'_>,
    operations: &[Operation],
    waiter: &Operation,
    free: &Free,
) -> bool {
    let in_a_queue = !history.queued().spans.is_empty();
    let waits = |at: Moment| {
        let may_count = |it: &Operation| in_a_queue || it.op == waiter.op;
        let mut others = operations.iter().filter(|it| it.call.acquires());
        others.any(|it| may_count(it) && it.asked < at && at < it.ended)
    };
    let ends = |span: &TokenSpan<'_>| {
        let steps = span.expiries.windows(2);
        let mut sooner = steps.filter(|step| step[1].2 < step[0].2);
        sooner.any(|step| step[1].0.at <= free.from && waits(step[1].0))
    };
    history.tokens().spans.iter().any(ends)
}

/// Returns the time from which a waiter can be expected to know that the lock is free.
fn woken_by(
    history: &Reading<'_>,
    fault_intervals: &FaultIntervals,
    waiter: &Operation,
    free: &Free,
    to: Duration,
) -> Duration {
    let (host, since) = (waiter.actor.host, waiter.asked.at);
    // A waiter in front keeps its place for some time after its death, and for as long as its requests reach the server although it
    // hears no replies.
    let ahead = match is_queued(history) {
        true if history.accepts(Excuse::HeadStopped) => {
            let others = rivals(history, waiter, to);
            let stopped = fault_intervals.stopped_of(&others, since, to);
            stopped.max(unheard_of(history, &others, since, to))
        }
        true | false => None,
    };
    let asks = history.asks_from(Excuse::PauseAfterFault, host, since);
    let from = free.from.max(ahead.unwrap_or(Duration::ZERO)).max(asks);
    let last = fault_intervals.last_without_majority(host, since, to);
    let last = last.filter(|_| history.accepts(Excuse::WakeUpLost));
    // A waiter that had time to subscribe again before the release receives its message.
    let well = last.map(|last| last.saturating_add(history.recovery()));
    let missed = well.filter(|&well| free.from < well);
    missed.map_or(from, |well| from.max(free.lease_end).max(well))
}

/// True if waiters are served in the order of a queue.
fn is_queued(history: &Reading<'_>) -> bool {
    history.terms.fair || !history.queued().spans.is_empty()
}

/// Returns the last time between `from` and `to` at which a server executed a request of one of these processes that did not hear the
/// reply in time.
fn unheard_of(
    history: &Reading<'_>,
    hosts: &BTreeSet<u8>,
    from: Duration,
    to: Duration,
) -> Option<Duration> {
    let unheard = history.requests.iter().filter(|request| {
        let in_time = |replied| replied <= history.given_up(request);
        hosts.contains(&history.session(request).host) && !request.replied.is_some_and(in_time)
    });
    let executed = unheard.filter_map(|request| request.executed);
    executed.filter(|&at| from <= at && at < to).max()
}

/// Returns the number of waiters whose time counts. A waiter that may be in front in the queue, and that a fault
/// struck, keeps its place for as long as a waiter may take. Returns at least 1.
fn turns(history: &Reading<'_>, waiter: &Operation, from: Duration, to: Duration) -> u32 {
    if !is_queued(history) {
        return 1;
    }
    let others = rivals(history, waiter, to);
    let hindered = others
        .into_iter()
        .filter(|host| !history.fault_intervals().heard(*host, from, to));
    u32::try_from(hindered.count()).unwrap_or(u32::MAX).max(1)
}

/// Returns the other processes that ask for the lock while a waiter waits.
fn rivals(history: &Reading<'_>, waiter: &Operation, to: Duration) -> BTreeSet<u8> {
    let others = history.operations().iter().filter(|it| {
        let another = it.actor.host != waiter.actor.host && it.call.acquires();
        another && it.asked.at <= to && waiter.asked.at <= it.ended.at
    });
    others.map(|it| it.actor.host).collect()
}

/// True if one server stores the lock.
fn is_alone(history: &Reading<'_>) -> bool {
    matches!(history.topology, Topology::Nodes(0 | 1))
}

/// Returns the span from the time at which the server stored the token of a waiter, for another client that handed the lock to it, until
/// the waiter was granted the lock.
fn given(history: &Reading<'_>, waiter: &Operation) -> Vec<Free> {
    let beliefs = history.beliefs().iter();
    let mut grants = beliefs.filter(|belief| belief.grant == waiter.op && is_alone(history));
    let given = grants.next().and_then(|belief| {
        let mut stored = (history.tokens()).surely_of_grant(belief, history.operations());
        stored.find_map(|span| {
            let &(from, by, ends) = span.expiries.first()?;
            let another = matches!(by, Cause::Client(host) if host != belief.actor.host);
            another.then(|| Free {
                from: from.at,
                to: belief.from.at,
                lease_end: ends.unwrap_or(from.at),
                by,
            })
        })
    });
    given.into_iter().collect()
}

/// Returns the spans in which the stored holders of a semaphore leave enough permits for a waiter and for all other calls that ask
/// meanwhile.
fn with_room(history: &Reading<'_>, waiter: &Operation) -> Vec<Free> {
    let Kind::Semaphore(permits) = history.kind else {
        return Vec::new();
    };
    if !is_alone(history) {
        return Vec::new();
    }
    let rivals = history.operations().iter().filter(|it| {
        let meanwhile = it.asked < waiter.ended && waiter.asked < it.landed();
        it.call.acquires() && (it.op == waiter.op || meanwhile)
    });
    let wanted = rivals.map(room::permits_of).fold(0, u32::saturating_add);
    let Some(spare) = permits.checked_sub(wanted) else {
        return Vec::new();
    };
    let stored = room::stored_permits(history);
    let spans = &history.tokens().spans;
    let mut changes: Vec<Moment> = spans.iter().flat_map(|it| [it.from, it.gone.0]).collect();
    changes.push(waiter.asked);
    changes.sort_unstable();
    changes.dedup();
    let has_room = |at: Moment| {
        let held = stored.iter().filter(|(span, _)| span.stood(at));
        held.map(|&(_, count)| count).fold(0, u32::saturating_add) <= spare
    };
    let mut free: Vec<Free> = Vec::new();
    let mut open = None;
    for at in changes {
        match (open, has_room(at)) {
            (None, true) => {
                let ended = spans.iter().rfind(|span| span.gone.0 == at);
                let last = ended.and_then(|span| span.expiries.last()?.2);
                open = Some(Free {
                    from: at.at,
                    to: NEVER,
                    lease_end: last.unwrap_or(at.at),
                    by: ended.map_or(Cause::Fault, |span| span.gone.1),
                });
            }
            (Some(span), false) => {
                free.push(Free { to: at.at, ..span });
                open = None;
            }
            (Some(_), true) | (None, false) => {}
        }
    }
    free.extend(open);
    free
}

/// Returns the spans in which no node stores a token.
fn free(tokens: &Tokens<'_>) -> Vec<Free> {
    let mut tokens: Vec<_> = tokens.spans.iter().collect();
    tokens.sort_by_key(|span| span.from);
    let mut spans = Vec::new();
    let (mut free_from, mut lease_end) = (Moment::at(Duration::ZERO), Duration::ZERO);
    let mut by = Cause::Fault;
    for span in tokens {
        if free_from < span.from {
            spans.push(Free {
                from: free_from.at,
                to: span.from.at,
                lease_end,
                by,
            });
        }
        if free_from <= span.gone.0 {
            free_from = span.gone.0;
            by = span.gone.1;
            let last = span.expiries.last().and_then(|&(.., expires)| expires);
            lease_end = last.unwrap_or(span.gone.0.at);
        }
    }
    spans.push(Free {
        from: free_from.at,
        to: NEVER,
        lease_end,
        by,
    });
    spans
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        checker::hand_made::*,
        history::{Actor, Holder, Mode, Token, What},
        scenario::{Direction, Fault, Lost},
    };

    fn passes(entries: Vec<(u64, What)>) -> bool {
        let mut history = history(entries);
        history.lease = s(12);
        history.terms.wake = Some(s(2));
        WakeUp.check(&history) == Finding::Valid
    }

    /// The lock is released at 5, for a waiter that waits since 1, and acquired at `at`.
    fn taken_at(at: u64, between: Vec<(u64, What)>) -> Vec<(u64, What)> {
        let begin = vec![
            (0, stores(0, "a", Some(12))),
            (1, waits_for(1)),
            (5, frees(0)),
        ];
        let end = vec![
            (at, stores(1, "b", Some(at + 12))),
            (at, granted(1, Some(at + 9))),
        ];
        begin.into_iter().chain(between).chain(end).collect()
    }

    fn waits_for(op: u32) -> What {
        waits(op, 1, 50)
    }

    #[test]
    fn a_waiter_takes_what_is_free_in_time() {
        assert!(passes(taken_at(7, vec![])));
        assert!(!passes(taken_at(8, vec![])));
    }

    #[test]
    fn a_lock_that_expired_is_free_as_well() {
        let expired = |at| {
            passes(vec![
                (0, stores(0, "a", Some(12))),
                (1, waits_for(1)),
                (at, stores(1, "b", Some(40))),
                (at, granted(1, Some(39))),
            ])
        };
        assert!(expired(14));
        assert!(!expired(15));
    }

    #[test]
    fn a_silent_minority_delays_no_waiter() {
        let taken_with = |silent: &[u8]| {
            let pause = |&node: &u8| {
                let fault = Fault::NodePause { node };
                (3, What::Strikes { fault })
            };
            let mut entries = taken_at(9, silent.iter().map(pause).collect());
            entries.sort_by_key(|&(at, _)| at);
            let mut history = history(entries);
            (history.lease, history.terms.wake) = (s(12), Some(s(2)));
            history.topology = Topology::Nodes(3);
            WakeUp.check(&history) == Finding::Valid
        };
        assert!(!taken_with(&[]));
        assert!(!taken_with(&[1]));
        assert!(taken_with(&[1, 2]));
    }

    #[test]
    fn without_waiters_no_grant_is_late() {
        assert!(passes(vec![
            (0, stores(0, "a", Some(12))),
            (5, frees(0)),
            (30, tries(1, 1)),
        ]));
        let gave_up = vec![
            (0, stores(0, "a", Some(12))),
            (1, waits(1, 1, 5)),
            (5, frees(0)),
            (7, refused(1)),
            (30, tries(2, 1)),
        ];
        assert!(passes(gave_up));
    }

    #[test]
    fn a_lost_message_costs_the_remaining_ttl_and_no_more() {
        let cut = || {
            let cut = What::Cut {
                host: 1,
                node: 0,
                lost: Lost::Reply,
            };
            vec![(5, cut)]
        };
        assert!(passes(taken_at(14, cut())));
        assert!(!passes(taken_at(15, cut())));
    }

    /// Seed 1983 of `fenced-fair` under `delay`: the connections of two waiters in front were slow.
    #[test]
    fn each_delayed_waiter_in_front_adds_its_time_in_a_fair_lock() {
        let taken = |at: u64, is_fair| {
            let cut = |host| What::Cut {
                host,
                node: 0,
                lost: Lost::Late,
            };
            let others = vec![
                (1, waits(2, 2, 50)),
                (1, waits(3, 3, 50)),
                (5, cut(2)),
                (5, cut(3)),
            ];
            let mut history = history(taken_at(at, others));
            history.lease = s(12);
            (history.terms.wake, history.terms.fair) = (Some(s(2)), is_fair);
            WakeUp.check(&history) == Finding::Valid
        };
        assert!(taken(9, true));
        assert!(!taken(10, true));
        assert!(!taken(9, false));
    }

    /// True if a lock passes that is freed by this event at 12 and acquired at 13. Its releases wake waiters.
    fn told(given_back: What, between: Vec<(u64, What)>) -> bool {
        let mut entries = vec![
            (0, stores(0, "a", Some(12))),
            (1, waits_for(1)),
            (12, given_back),
            (13, stores(1, "b", Some(25))),
            (13, granted(1, Some(22))),
        ];
        entries.extend(between);
        entries.sort_by_key(|&(at, _)| at);
        let mut history = history(entries);
        history.lease = s(12);
        history.terms.wake = Some(s(2));
        history.terms.tells = true;
        WakeUp.check(&history) == Finding::Valid
    }

    #[test]
    fn a_lock_whose_releases_wake_waiters_is_judged_without_another_bound() {
        let freed = |tells| {
            let mut history = history(vec![
                (0, stores(0, "a", Some(12))),
                (1, waits_for(1)),
                (8, frees(0)),
                (9, stores(1, "b", Some(21))),
                (9, granted(1, Some(20))),
            ]);
            history.lease = s(12);
            history.terms.tells = tells;
            WakeUp.check(&history)
        };
        assert!(freed(true).witness().is_some());
        assert!(matches!(freed(false), Finding::Unknown(_)));
    }

    #[test]
    fn a_waiter_learns_of_a_release_at_once() {
        assert!(!told(frees(0), vec![]));
        // Another client acquires the lock in time.
        let taken = vec![(12, stores(2, "c", Some(24)))];
        assert!(told(frees(0), taken));
    }

    /// The connection of the waiter breaks at 4. Its request timeout is 2 s.
    #[test]
    fn a_waiter_has_subscribed_again_a_request_timeout_after_its_connection_broke() {
        let woken = |released: u64| {
            let cut = What::Cut {
                host: 1,
                node: 0,
                lost: Lost::Reply,
            };
            let mut history = history(vec![
                (0, stores(0, "a", Some(24))),
                (1, waits(1, 1, 50)),
                (4, cut),
                (released, frees(0)),
                (25, stores(1, "b", Some(37))),
                (25, granted(1, Some(34))),
            ]);
            (history.lease, history.terms.wake) = (s(12), Some(s(2)));
            WakeUp.check(&history) == Finding::Valid
        };
        assert!(woken(5));
        assert!(!woken(7));
    }

    #[test]
    fn a_waiter_knows_when_the_lease_ends() {
        let taken = |later_ms: u64| {
            let mut history = history(vec![(0, stores(0, "a", Some(12))), (1, waits_for(1))]);
            let at = s(12) + Duration::from_millis(1 + later_ms);
            history.push(at, stores(1, "b", Some(25)));
            history.push(at, granted(1, Some(22)));
            history.lease = s(12);
            (history.terms.wake, history.terms.tells) = (Some(s(2)), true);
            WakeUp.check(&history) == Finding::Valid
        };
        assert!(taken(12));
        assert!(!taken(13));
    }

    #[test]
    fn a_waiter_need_not_know_that_the_lease_was_shortened() {
        let taken_late = |ends: [u64; 2], asked, queued| {
            let mut entries = vec![
                (0, stores(0, "a", Some(ends[0]))),
                (1, waits(2, 2, 50)),
                (4, stores(0, "a", Some(ends[1]))),
                (asked, waits_for(1)),
            ];
            entries.sort_by_key(|&(at, _)| at);
            let mut history = history(entries);
            if queued {
                let what = What::Queue {
                    node: 0,
                    cause: Cause::Client(2),
                    waiting: vec![b"c".to_vec()],
                };
                history.push(s(5), what);
            }
            let at = s(ends[1]) + Duration::from_millis(99);
            history.push(at, stores(1, "b", Some(25)));
            history.push(at, granted(1, Some(22)));
            history.lease = s(12);
            (history.terms.wake, history.terms.tells) = (Some(s(2)), true);
            history.terms.hold = s(1);
            WakeUp.check(&history) != Finding::Valid
        };
        assert!(!taken_late([12, 6], 1, false));
        assert!(taken_late([6, 12], 1, false), "a lease that was extended");
        assert!(taken_late([12, 6], 5, false), "it came later");
        assert!(
            !taken_late([12, 6], 5, true),
            "behind a waiter that came before"
        );
    }

    #[test]
    fn a_release_of_a_share_need_not_say_when_the_others_end() {
        let taken_late_after = |other: Option<What>| {
            let a = stores(0, "a", Some(12));
            let mut entries = vec![(0, a.clone()), (1, waits_for(1))];
            entries.extend(other.map(|both| (5, both)));
            entries.push((8, a));
            let mut history = history(entries);
            let at = s(12) + Duration::from_millis(99);
            history.push(at, stores(1, "b", Some(25)));
            history.push(at, granted(1, Some(22)));
            history.lease = s(12);
            (history.terms.wake, history.terms.tells) = (Some(s(2)), true);
            WakeUp.check(&history) == Finding::Valid
        };
        let stored = |token: &str, until| Holder {
            token: token.into(),
            expires: Some(s(until)),
            ..Holder::default()
        };
        // Seed 598 of `read-write-preferring` under `overwork`: the writer in front knew of the expiry, and the reader
        // came later.
        let behind = |prefers_writers| {
            let both = vec![stored("a", 12), stored("c", 20)];
            let server = |stored| What::Server {
                node: 0,
                cause: Cause::Client(2),
                stored,
                anonymous: 0,
            };
            let reads = What::Invoke {
                op: 1,
                actor: Actor::on(1),
                call: Call::Acquire {
                    mode: Mode::Shared,
                    wait: s(50),
                },
            };
            let mut history = history(vec![
                (0, server(both)),
                (1, waits(2, 3, 50)),
                (5, server(vec![stored("a", 12)])),
                (6, reads),
            ]);
            let at = s(12) + Duration::from_millis(99);
            history.push(at, stores(3, "b", Some(25)));
            history.push(at, granted(2, Some(22)));
            history.lease = s(12);
            (history.terms.wake, history.terms.tells) = (Some(s(2)), true);
            history.terms.prefers_writers = prefers_writers;
            let late = WakeUp.check(&history);
            late.witness().map(|it| it.message.contains("c2 waited"))
        };
        assert_eq!(behind(true), None);
        assert_eq!(behind(false), Some(true));
        let both = What::Server {
            node: 0,
            cause: Cause::Client(2),
            stored: vec![stored("a", 12), stored("c", 20)],
            anonymous: 0,
        };
        assert!(!taken_late_after(None));
        assert!(taken_late_after(Some(both)));
    }

    #[test]
    fn no_wake_up_is_due_for_a_faults_deletion_or_during_a_fault() {
        assert!(told(empties(0, Cause::Fault), vec![]));
        let pause = vec![
            (11, What::Pause { host: 1 }),
            (12, What::Resume { host: 1 }),
        ];
        assert!(told(frees(0), pause));
        let flush = Fault::FlushScripts { node: 0 };
        assert!(told(frees(0), vec![(10, What::Strikes { fault: flush })]));
    }

    #[test]
    fn a_waiter_that_has_just_come_asks_again_when_it_can_hear() {
        let passes = |at, latency_ms| {
            let mut history = history(vec![
                (0, stores(0, "a", Some(12))),
                (11, waits_for(1)),
                (12, frees(0)),
                (at, stores(1, "b", Some(26))),
                (at, granted(1, Some(23))),
            ]);
            history.lease = s(12);
            (history.terms.wake, history.terms.tells) = (Some(s(2)), true);
            history.terms.latency = Duration::from_millis(latency_ms);
            WakeUp.check(&history) == Finding::Valid
        };
        assert!(!passes(13, 1), "a second is enough");
        assert!(passes(13, 100));
        assert!(!passes(14, 100), "it has subscribed by 12.2 s");
    }

    /// The connection of the waiter broke at 1, and its call finds it broken at 11.
    #[test]
    fn a_waiter_that_finds_its_connection_broken_may_pause_before_it_can_hear() {
        let passes = |at, broken: Option<u64>| {
            let mut history = history(vec![
                (0, stores(0, "a", Some(30))),
                (11, waits_for(1)),
                (11, frees(0)),
                (at, stores(1, "b", Some(26))),
                (at, granted(1, Some(23))),
            ]);
            history.lease = s(30);
            (history.terms.wake, history.terms.tells) = (Some(s(9)), true);
            history.terms.retry = s(2);
            history.dials(1, 0, 0, broken);
            history.dials(1, 0, at, None);
            WakeUp.check(&history) == Finding::Valid
        };
        assert!(passes(13, Some(1)));
        assert!(!passes(14, Some(1)), "it pauses for longer than it says");
        assert!(!passes(13, None), "the connection is well");
    }

    #[test]
    fn in_turn_time_counts_from_when_the_last_one_in_front_stopped() {
        let taken = |at, fair| {
            let mut entries =
                taken_at(at, vec![(2, waits(2, 2, 50)), (6, What::Pause { host: 2 })]);
            entries.sort_by_key(|&(at, _)| at);
            let mut history = history(entries);
            history.lease = s(12);
            history.terms.wake = Some(s(2));
            history.terms.fair = fair;
            WakeUp.check(&history) == Finding::Valid
        };
        assert!(taken(8, true));
        assert!(!taken(9, true));
        assert!(!taken(8, false));
    }

    /// Seed 1125 of a read-write lock whose writers announce themselves, and seed 1601 of one that serves phases in turn.
    #[test]
    fn a_waiter_in_front_that_hears_nothing_keeps_its_place_while_its_requests_arrive() {
        let taken = |at, replied: Option<u64>, queued: bool| {
            let fault = Fault::Partition {
                host: 2,
                node: None,
                direction: Some(Direction::Replies),
            };
            let mut others = vec![(2, waits(2, 2, 50)), (4, What::Strikes { fault })];
            let what = What::Queue {
                node: 0,
                cause: Cause::Client(2),
                waiting: vec![b"c".to_vec()],
            };
            others.extend(queued.then_some((2, what)));
            let mut entries = taken_at(at, others);
            entries.sort_by_key(|&(at, _)| at);
            let mut history = history(entries);
            history.lease = s(12);
            history.terms.wake = Some(s(2));
            history.dials(2, 0, 2, None);
            history.asks(0, 6, Some(6), replied);
            WakeUp.check(&history) == Finding::Valid
        };
        assert!(taken(8, None, true));
        assert!(!taken(9, None, true), "its place is gone by then");
        assert!(!taken(8, Some(6), true), "it heard that the lock is free");
        assert!(!taken(8, None, false), "no client waits in front");
    }

    /// A release at 5 stores the token of a waiter, which is granted the lock at `at`.
    #[test]
    fn a_waiter_learns_that_the_lock_was_handed_to_it() {
        let passes = |at, by, tells| {
            let mut history = history(vec![
                (0, stores(0, "a", Some(12))),
                (1, waits_for(1)),
                (5, stores(by, "b", Some(17))),
                (at, granted(1, Some(14))),
            ]);
            if let Some(What::Ok { token, .. }) = history.entries.last_mut().map(|it| &mut it.what)
            {
                *token = Some(Token::of_grant("b"));
            }
            history.lease = s(12);
            (history.terms.wake, history.terms.tells) = (Some(s(2)), tells);
            WakeUp.check(&history) == Finding::Valid
        };
        assert!(passes(7, 0, false));
        assert!(!passes(8, 0, false), "it polls too late");
        assert!(!passes(6, 0, true), "a message would take no second");
        assert!(passes(8, 1, true), "its own request stored the token");
    }

    /// A semaphore of two permits. One is taken until 40, the other one is released at 5, and a waiter takes it at `at`.
    #[test]
    fn a_free_permit_is_enough() {
        let passes = |at: u64, wanted: u32, rival: Option<u32>| {
            let server = |tokens: &[&str]| stores_permits(0, tokens, 40);
            let mut entries = vec![
                (0, server(&["a", "c"])),
                (1, wants(1, 1, wanted, 50)),
                (5, server(&["a"])),
                (at, server(&["a", "b"])),
                (at, granted(1, Some(39))),
            ];
            entries.extend(rival.map(|permits| (2, wants(2, 2, permits, 50))));
            entries.sort_by_key(|&(at, _)| at);
            let mut history = history(entries);
            history.kind = Kind::Semaphore(2);
            history.lease = s(40);
            history.terms.wake = Some(s(2));
            WakeUp.check(&history) == Finding::Valid
        };
        assert!(passes(7, 1, None));
        assert!(!passes(8, 1, None));
        assert!(passes(8, 2, None), "it wants both permits");
        assert!(passes(8, 1, Some(1)), "another client may go first");
    }

    #[test]
    fn a_paused_waiter_takes_nothing() {
        let paused = vec![(4, What::Pause { host: 1 }), (20, What::Resume { host: 1 })];
        let mut entries = taken_at(21, paused);
        entries.sort_by_key(|&(at, _)| at);
        assert!(passes(entries));
    }
}
