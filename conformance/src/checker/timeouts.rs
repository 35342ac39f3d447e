//! P13, timeouts are kept: a call that was to wait for so long ends after that, plus one request
//! timeout. Calls that do not wait have the one request timeout.
//!
//! A release of a lock with a minimum hold may wait for the end of the hold.
//!
//! A call may end late only because of a request: one that is outstanding when its wait is over, and those that follow from
//! it without a pause, or a request that failed shortly before and is perhaps tried again. A call that has nothing under way and ends later than that has slept too long.
//!
//! Time in which the caller itself did not run does not count, nor does time of a minimum hold in which the clock of its holder
//! stood. Where this clock ran at another rate nothing is said. The first call of a process may spend another request timeout on its connection.

use super::{Checker, Finding, Property, Witness, seconds};
use crate::history::{
    Call, Excuse, FaultEffect, History, Operation, Outcome, Reading, Refusal, What,
};
use std::time::Duration;

/// Judges P13.
pub struct Timeouts;

impl Checker for Timeouts {
    fn property(&self) -> Property {
        Property::Timeouts
    }

    fn judge(&self, history: &Reading<'_>) -> Finding {
        if !history.terms.waits {
            return Finding::Unknown("the lock does not wait by itself");
        }
        let fault_intervals = history.fault_intervals();
        let operations = history.operations();
        let ended = history.entries.last().map_or(Duration::ZERO, |it| it.at);
        let late = operations.iter().find_map(|it| {
            let wait = it.call.longest_wait()? + hold_left(history, it);
            let (host, from, to) = (it.actor.host, it.asked.at, it.ended.at.min(ended));
            // A minimum hold is measured from the grant on.
            let measured = hold(history, it).map_or(from, |hold| hold.from);
            if fault_intervals.any(&[FaultEffect::ClientClock], host, measured, to) {
                return None;
            }
            let took = (to - from).saturating_sub(fault_intervals.stopped_for(host, from, to));
            let allowed = wait + history.request_timeout() + history.terms.round_trips(0);
            // Few take so long: whether they had to connect is asked of those alone.
            let over = took > allowed
                && (took > allowed + history.request_timeout()
                    || !history.accepts(Excuse::FirstConnection)
                    || connected(history, operations, it))
                && !keeps_asking(history, it, to);
            over.then_some((it, took, wait, Late::PastTimeout))
        });
        let late = late.or_else(|| {
            let slept = |it| {
                let (took, wait) = (slept(history, it, ended)?, it.call.longest_wait()?);
                Some((it, took, wait, Late::Idle))
            };
            operations.iter().find_map(slept)
        });
        let Some((operation, took, wait, how)) = late else {
            let early = operations.iter().find_map(|it| early(history, it));
            return early.map_or(Finding::Valid, Finding::Violation);
        };
        let whole = operation
            .ended
            .at
            .min(ended)
            .saturating_sub(operation.asked.at);
        let stopped = match whole.saturating_sub(took) {
            Duration::ZERO => String::new(),
            stopped => format!(
                ", and its process was stopped for {} of them",
                seconds(stopped)
            ),
        };
        let how = match how {
            Late::PastTimeout => {
                let timeout = seconds(history.request_timeout());
                format!(", a request timeout being {timeout}")
            }
            Late::Idle => ", although none of its requests was outstanding any more".to_owned(),
        };
        Finding::Violation(Witness {
            at: operation
                .ended
                .min(history.moment(history.entries.len() - 1)),
            until: None,
            grants: vec![],
            message: format!(
                "a call of {} that was to wait for {} took {}{stopped}{how}",
                operation.actor,
                seconds(wait),
                seconds(whole),
            ),
        })
    }
}

/// How a call ended late.
enum Late {
    /// More than one request timeout after its wait.
    PastTimeout,
    /// None of its requests explains it.
    Idle,
}

/// A call that was refused before its wait was over: earlier than its last poll, or than the round trips that it needs to
/// withdraw. None of the requests that it depended on may have been harmed.
fn early(history: &Reading<'_>, it: &Operation) -> Option<Witness> {
    let (Call::Acquire { wait, .. } | Call::Await { wait }) = it.call else {
        return None;
    };
    let refused = matches!(
        it.outcome,
        Outcome::Fail(Refusal::TimedOut | Refusal::Contended)
    );
    let took = it.ended.at.saturating_sub(it.asked.at);
    let spare =
        history.longest_poll().max(history.terms.round_trips(2)) + history.terms.timing_tolerance();
    if !refused || history.terms.refuses_early || took.saturating_add(spare) >= wait {
        return None;
    }
    let host = it.actor.host;
    let harmed = [FaultEffect::ClientClock, FaultEffect::Stopped];
    let harmed = history
        .fault_intervals()
        .any(&harmed, host, it.asked.at, it.ended.at)
        || !history.is_heard(host, None, it);
    let excused = harmed && history.accepts(Excuse::OwnRequestHarmed);
    (!excused).then(|| Witness {
        at: it.ended,
        until: None,
        grants: vec![],
        message: format!(
            "a call of {} that was to wait for {} gave up after {}, although none of its requests was harmed",
            it.actor,
            seconds(wait),
            seconds(took),
        ),
    })
}

/// The most dials and requests, one after the other, that may follow a request that was outstanding at the end of the wait, if the
/// call takes longer than one request timeout more.
const STEPS: u32 = 16;

/// Rest of the minimum hold when a release is asked for. The release may wait for it.
fn hold_left(history: &Reading<'_>, it: &Operation) -> Duration {
    hold(history, it).map_or(Duration::ZERO, |hold| {
        let stood =
            history
                .fault_intervals()
                .clock_stood_for(it.actor.host, hold.from, it.asked.at);
        (hold.from + hold.lasts + stood).saturating_sub(it.asked.at)
    })
}

/// Minimum hold of a grant, by the clock of its holder.
struct Hold {
    from: Duration,
    lasts: Duration,
}

/// Minimum hold of the grant that a release gives back; `None` if none is promised.
fn hold(history: &Reading<'_>, it: &Operation) -> Option<Hold> {
    let lasts = history.terms.longest_hold();
    let Call::Release { grant } = it.call else {
        return None;
    };
    let mut beliefs = history.beliefs().iter();
    let held = beliefs.find(|belief| belief.grant == grant && lasts > Duration::ZERO)?;
    let from = held.from.at;
    Some(Hold { from, lasts })
}

/// Returns true if a call took so long because one request followed the other, each in its time.
fn keeps_asking(history: &Reading<'_>, it: &Operation, ended: Duration) -> bool {
    let wait = it.call.longest_wait().unwrap_or_default() + hold_left(history, it);
    let host = it.actor.host;
    let over = history.fault_intervals().wait_over(host, it.asked.at, wait);
    let busy = busy_until(history, host, over, STEPS);
    ended <= busy.saturating_add(history.terms.round_trips(1))
}

/// Time until which requests explain that a call goes on after the end of its wait: those that are outstanding then, and those
/// that follow without a pause. A process that is stopped between two requests sends the next one when it runs again.
fn busy_until(history: &Reading<'_>, host: u8, over: Duration, steps: u32) -> Duration {
    let timeout = history.request_timeout();
    let steps = match history.accepts(Excuse::RequestOutstanding) {
        true => steps,
        false => 0,
    };
    let mut busy = history.busy_until(host, None, over, timeout, steps);
    if !history.accepts(Excuse::StoppedBetweenRequests) {
        return busy;
    }
    for _ in 0..STEPS {
        let at = busy.saturating_add(history.terms.timing_tolerance());
        let resumed = history.fault_intervals().runs_from(host, at);
        if resumed == at {
            break;
        }
        busy = history.busy_until(host, None, resumed, timeout, steps);
    }
    busy
}

/// How long a call took that went on after its wait although none of its requests was under way.
fn slept(history: &Reading<'_>, it: &Operation, ended: Duration) -> Option<Duration> {
    let Call::Acquire { wait, .. } = it.call else {
        return None;
    };
    if history.requests.is_empty() {
        return None; // it is not known what it did
    }
    let (host, from, to) = (it.actor.host, it.asked.at, it.ended.at.min(ended));
    let fault_intervals = history.fault_intervals();
    let over = fault_intervals.wait_over(host, from, wait);
    let bent = || fault_intervals.any(&[FaultEffect::ClientClock], host, from, to);
    if to <= over + history.terms.round_trips(1) || bent() {
        return None;
    }
    // What failed is perhaps tried again.
    let failed = history.requests_of(host).any(|request| {
        let given_up = history.given_up(request);
        let settled = history.settled(request);
        let settled = settled.unwrap_or_else(|| given_up.min(to));
        // A server that is asked to block for longer than that has not failed.
        let due = request.blocks.is_zero() || given_up <= to;
        request.sent <= to && due && over <= settled + history.recovery() && history.failed(request)
    });
    if failed {
        return None;
    }
    // A call may undo its requests on many connections, as long as that takes no more than one request timeout.
    let in_time = over + history.request_timeout() + history.terms.timing_tolerance();
    let steps = if to <= in_time { u32::MAX } else { STEPS };
    let busy = busy_until(history, host, over, steps);
    let stopped = |since| fault_intervals.stopped_for(host, since, to);
    let allowed = busy
        .saturating_add(history.terms.round_trips(1))
        .saturating_add(stopped(busy));
    (allowed < to).then(|| (to - from).saturating_sub(stopped(from)))
}

/// Returns true if the process of an operation was connected before: an earlier one of it got somewhere.
fn connected(history: &History, operations: &[Operation], late: &Operation) -> bool {
    let restarts = history.iter().take_while(|&(at, _)| at < late.asked);
    let theirs = restarts
        .filter(|(_, what)| matches!(what, What::Restart { host } if *host == late.actor.host));
    let born = theirs.last().map(|(at, _)| at);
    operations.iter().any(|it| {
        let got_on = matches!(
            it.outcome,
            Outcome::Ok | Outcome::Unknown | Outcome::Fail(_)
        );
        it.actor.host == late.actor.host
            && it.ended < late.asked
            && born.is_none_or(|born| born < it.asked)
            && got_on
            && !matches!(
                it.outcome,
                Outcome::Fail(Refusal::Other | Refusal::NotOffered)
            )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{checker::hand_made::*, scenario::Fault};

    fn passes(entries: Vec<(u64, What)>) -> bool {
        let mut history = history(entries);
        // A request timeout of 2 s.
        history.lease = s(12);
        history.terms.waits = true;
        Timeouts.check(&history) == Finding::Valid
    }

    fn after_a_first_call(entries: Vec<(u64, What)>) -> Vec<(u64, What)> {
        let first = vec![(0, tries(9, 0)), (0, refused(9))];
        first.into_iter().chain(entries).collect()
    }

    #[test]
    fn a_wait_may_take_a_request_timeout_more() {
        let took = |end| {
            passes(after_a_first_call(vec![
                (1, waits(1, 0, 5)),
                (end, refused(1)),
            ]))
        };
        assert!(took(8));
        assert!(!took(9));
        let first = |end| passes(vec![(1, waits(1, 0, 5)), (end, refused(1))]);
        assert!(first(10), "it has to connect");
        assert!(!first(11));
    }

    #[test]
    fn a_lock_may_declare_that_it_refuses_early_but_not_late() {
        let judged = |refuses_early, end| {
            let calls = vec![(1, waits(1, 0, 8)), (end, refused(1))];
            let mut history = history(after_a_first_call(calls));
            (history.lease, history.terms.waits) = (s(12), true);
            history.terms.refuses_early = refuses_early;
            Timeouts.check(&history) == Finding::Valid
        };
        assert!(judged(true, 2));
        assert!(!judged(false, 2));
        assert!(!judged(true, 12));
    }

    /// The wait is over at 6. From then on one request follows the other, each of 1 s, but for a pause at `pause`. A request may take 30 s.
    #[test]
    fn any_number_of_requests_may_follow_within_one_request_timeout() {
        let passes = |requests: u64, pause| {
            let end = 6 + requests;
            let mut history = history(vec![(1, waits(1, 0, 5)), (end, refused(1))]);
            (history.lease, history.terms.waits) = (s(120), true);
            history.timeout = Some(s(30));
            history.dials(0, 0, 0, None);
            for sent in (6..end).filter(|&sent| sent != pause) {
                history.asks(0, sent, Some(sent), Some(sent + 1));
            }
            Timeouts.check(&history) == Finding::Valid
        };
        assert!(passes(28, 0), "as in seed 2995 of `mutex-watchdog`");
        assert!(!passes(28, 20), "it pauses for a second");
        assert!(!passes(70, 0), "longer than a request timeout");
    }

    #[test]
    fn a_wait_ends_no_earlier_than_asked() {
        let gives_up = |end, cut: Option<u64>| {
            let cut = cut.map(|at| {
                let (node, lost) = (0, crate::scenario::Lost::Reply);
                (
                    at,
                    What::Cut {
                        host: 0,
                        node,
                        lost,
                    },
                )
            });
            let calls = [(2, waits(1, 0, 10)), (end, refused(1))];
            let mut entries: Vec<_> = cut.into_iter().chain(calls).collect();
            entries.sort_by_key(|&(at, _)| at);
            passes(after_a_first_call(entries))
        };
        // A poll is an eighth of the lease of 12 s.
        assert!(gives_up(11, None));
        assert!(!gives_up(10, None));
        assert!(gives_up(10, Some(5)), "its request may have been lost");
    }

    #[test]
    fn a_call_that_never_ends_is_caught() {
        let never = vec![(1, waits(1, 0, 5)), (20, What::Crash { host: 0 })];
        assert!(!passes(never));
        assert!(passes(vec![
            (1, waits(1, 0, 5)),
            (3, What::Crash { host: 0 })
        ]));
    }

    #[test]
    fn the_callers_own_pause_does_not_count() {
        let paused = |host| {
            passes(vec![
                (1, waits(1, 0, 5)),
                (2, What::Pause { host }),
                (18, What::Resume { host }),
                (19, refused(1)),
            ])
        };
        assert!(paused(0));
        assert!(!paused(1));
    }

    #[test]
    fn a_call_ends_late_only_because_of_a_request() {
        let passes = |end, asked: &[(u64, u64)]| {
            let mut history = history(after_a_first_call(vec![
                (1, waits(1, 0, 5)),
                (end, refused(1)),
            ]));
            (history.lease, history.terms.waits) = (s(18), true);
            history.dials(0, 0, 0, None);
            for &(sent, replied) in asked {
                history.asks(0, sent, Some(sent), Some(replied));
            }
            Timeouts.check(&history) == Finding::Valid
        };
        assert!(passes(8, &[(5, 7), (7, 8)]));
        assert!(!passes(8, &[(5, 6)]), "it slept for a while");
        assert!(!passes(8, &[(2, 3), (7, 8)]), "it asked after a sleep");
        assert!(
            passes(12, &[(5, 7), (7, 9), (9, 12)]),
            "each one in its time"
        );
        assert!(!passes(12, &[(5, 12)]));
        assert!(passes(6, &[(2, 3)]));
        assert!(passes(8, &[(1, 6), (7, 8)]), "the first one failed");
    }

    /// True if a call that waits for 5 s from 1 on may be refused at `end`, after stops of its process and these requests, each with
    /// the time of its reply.
    fn ends_in_time(stops: Vec<(u64, What)>, end: u64, asked: &[(u64, u64)]) -> bool {
        let begin = vec![(1, waits(1, 0, 5))];
        let entries = begin.into_iter().chain(stops).chain([(end, refused(1))]);
        let mut history = history(after_a_first_call(entries.collect()));
        (history.lease, history.terms.waits) = (s(18), true);
        history.dials(0, 0, 0, None);
        for &(sent, replied) in asked {
            history.asks(0, sent, Some(sent), Some(replied));
        }
        Timeouts.check(&history) == Finding::Valid
    }

    /// Seed 5 of `mutex` with a watchdog, on a loaded machine: the request timeout counted from the call.
    #[test]
    fn a_request_may_have_failed_a_little_before_its_timeout() {
        let passes = |sent_ms: u64| {
            let calls = [(1, waits(1, 0, 8)), (11, refused(1))];
            let mut history = history(after_a_first_call(calls.to_vec()));
            (history.lease, history.terms.waits) = (s(18), true); // a request timeout of 3 s
            history.dials(0, 0, 0, None);
            history.asks(0, 9, None, None);
            history.requests[0].sent = Duration::from_millis(sent_ms);
            Timeouts.check(&history) == Finding::Valid
        };
        assert!(passes(9_020));
        assert!(!passes(1_000), "it failed long before");
    }

    /// A lock that waits in BLPOP for the rest of its wait; its server is paused meanwhile.
    #[test]
    fn a_request_that_blocks_may_fail_a_request_timeout_after_its_wait() {
        let passes = |end, sent, blocks| {
            let calls = [(1, waits(1, 0, 9)), (end, refused(1))];
            let mut history = history(after_a_first_call(calls.to_vec()));
            (history.lease, history.terms.waits) = (s(18), true); // a request timeout of 3 s
            history.dials(0, 0, 0, None);
            history.asks(0, sent, Some(sent), None);
            history.requests[0].blocks = s(blocks);
            Timeouts.check(&history) == Finding::Valid
        };
        assert!(passes(13, 2, 8));
        assert!(!passes(14, 2, 8), "later than the timeout");
        assert!(
            !passes(13, 2, 0),
            "a request that does not block failed before"
        );
        assert!(
            !passes(20, 2, 30),
            "it blocks for longer than the call waits"
        );
    }

    #[test]
    fn a_wait_ends_by_the_clock_of_its_process() {
        // The wait of 5 s ends at 9; then the call takes back what it began.
        let passes = |end, asked: &[(u64, u64)]| {
            let fault = Fault::Suspend { host: 0 };
            let stops = vec![
                (3, What::Strikes { fault }),
                (3, What::Pause { host: 0 }),
                (6, What::Heals { fault }),
                (6, What::Resume { host: 0 }),
            ];
            ends_in_time(stops, end, asked)
        };
        assert!(passes(9, &[(2, 3)]));
        assert!(!passes(10, &[(2, 3)]));
        assert!(passes(11, &[(2, 3), (9, 11)]));
        assert!(!passes(12, &[(2, 3), (9, 11)]));
    }

    /// Seed 13946 of `fenced-redlock` under mixed faults.
    #[test]
    fn a_process_that_stops_at_the_end_of_its_wait_asks_when_it_runs_again() {
        // The wait of 5 s ends at 6; the process does not run from then until 9.
        let passes = |end, asked: &[(u64, u64)]| {
            let stops = vec![(6, What::Pause { host: 0 }), (9, What::Resume { host: 0 })];
            ends_in_time(stops, end, asked)
        };
        assert!(passes(9, &[(2, 3)]));
        assert!(!passes(10, &[(2, 3)]));
        assert!(passes(11, &[(2, 3), (9, 10), (10, 11)]));
        assert!(!passes(11, &[(2, 3), (10, 11)]), "it slept first");
    }

    /// The process stops between two requests that follow each other without a pause.
    #[test]
    fn a_process_that_stops_between_two_requests_goes_on_when_it_runs_again() {
        let passes = |end, second| {
            let calls = vec![
                (1, tries(1, 0)),
                (4, What::Pause { host: 0 }),
                (6, What::Resume { host: 0 }),
                (end, done(1)),
            ];
            let mut history = history(after_a_first_call(calls));
            (history.lease, history.terms.waits) = (s(18), true); // a request timeout of 3 s
            history.dials(0, 0, 0, None);
            history.asks(0, 1, None, None);
            history.asks(0, second, Some(second), Some(second + 3));
            Timeouts.check(&history) == Finding::Valid
        };
        assert!(passes(9, 6));
        assert!(passes(6, 6));
        assert!(!passes(10, 7), "it slept first");
    }

    #[test]
    fn a_hold_takes_longer_while_the_clock_of_its_holder_stands() {
        // A request timeout of 2 s and a hold of 5 s; the process stops from 2 to 5.
        let releases = |end, suspended: bool| {
            let fault = Fault::Suspend { host: 0 };
            let mut entries = vec![
                (1, tries(1, 0)),
                (1, granted(1, Some(12))),
                (2, What::Pause { host: 0 }),
                (5, What::Resume { host: 0 }),
                (6, releases(2, 0, 1)),
                (end, done(2)),
            ];
            if suspended {
                entries.insert(2, (2, What::Strikes { fault }));
                entries.insert(5, (5, What::Heals { fault }));
            }
            let mut history = history(after_a_first_call(entries));
            (history.lease, history.terms.waits) = (s(12), true);
            history.terms.hold = s(5);
            Timeouts.check(&history) == Finding::Valid
        };
        assert!(releases(8, false));
        assert!(!releases(9, false), "the hold was over");
        assert!(releases(11, true));
        assert!(!releases(12, true));
    }

    #[test]
    fn a_release_may_wait_for_the_end_of_the_hold() {
        // A request timeout of 2 s.
        let releases = |asked, end, hold| {
            let mut history = history(after_a_first_call(vec![
                (1, tries(1, 0)),
                (1, granted(1, Some(12))),
                (asked, releases(2, 0, 1)),
                (end, done(2)),
            ]));
            (history.lease, history.terms.waits) = (s(12), true);
            history.terms.hold = s(hold);
            Timeouts.check(&history) == Finding::Valid
        };
        assert!(releases(2, 8, 5));
        assert!(!releases(2, 9, 5));
        assert!(!releases(2, 8, 0), "nothing is promised");
        assert!(releases(5, 8, 5));
        assert!(!releases(5, 9, 5), "the hold counts from the grant");
        assert!(!releases(7, 10, 5), "the hold was over");
    }

    #[test]
    fn calls_that_do_not_wait_have_one_request_timeout() {
        let renewal = |end| {
            passes(after_a_first_call(vec![
                (1, tries(1, 0)),
                (1, granted(1, Some(9))),
                (2, renews(2, 0, 1)),
                (end, refused(2)),
            ]))
        };
        assert!(renewal(4));
        assert!(!renewal(5));
    }
}
