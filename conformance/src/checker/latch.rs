//! P23, latch: the count never rises and never passes 0. Waiters return exactly when it is 0.
//!
//! A count-down with an unknown outcome may take effect at any time after its start. The checker demands that a waiter
//! returns at 0 only if no fault struck before the end of the wait, and if the waiter had enough time to learn of it. A
//! latch that wakes its waiters promises that they return within a few round trips, one that lets them look from time to time
//! that they do within the declared part of a lease.

use super::{Checker, Finding, Property, Witness, seconds};
use crate::history::{Actor, Call, History, Kind, Moment, Reading, Refusal, What};
use std::time::Duration;

/// Judges P23.
pub struct Latch;

/// Divisor of the lease: without faults a waiter learns of the last count within this part of a lease.
const HEARS: u32 = 3;

/// Round trips within which a latch that wakes its waiters tells them of the last count. A waiter may have to connect
/// and to subscribe first.
const HEARS_IN: u32 = 8;

impl Checker for Latch {
    fn property(&self) -> Property {
        Property::Latch
    }

    fn judge(&self, history: &Reading<'_>) -> Finding {
        let Kind::Latch(counts) = history.kind else {
            return Finding::Unknown("it is no latch");
        };
        let told = Told::of(history, usize::try_from(counts).unwrap_or(usize::MAX));
        let witnesses = [
            told.passed(),
            told.early(),
            told.rose(),
            told.stuck(history),
            told.late(history),
        ];
        let first = witnesses.into_iter().flatten().min_by_key(|it| it.at);
        first.map_or(Finding::Valid, Finding::Violation)
    }
}

/// An operation: its caller, its start and its end.
type Span = (Actor, Moment, Moment);

/// Answers that the clients got.
struct Told {
    counts: usize,
    /// Start of each count-down that happened or may have happened.
    possible: Vec<Moment>,
    /// Count-downs that happened, in the order of their ends.
    certain: Vec<Span>,
    /// Calls that saw the count at 0, in the order of their ends.
    at_zero: Vec<Span>,
    /// Waits that timed out before the count was 0.
    gave_up: Vec<Span>,
}

impl Told {
    fn of(history: &History, counts: usize) -> Self {
        let mut told = Self {
            counts,
            possible: Vec::new(),
            certain: Vec::new(),
            at_zero: Vec::new(),
            gave_up: Vec::new(),
        };
        let ends = history.ends();
        for (op, (from, actor, call)) in history.calls() {
            let end = ends.get(&op);
            let span = (actor, from, end.map_or(Moment::NEVER, |&(at, _)| at));
            let waits = matches!(call, Call::Await { .. });
            if !waits && call != Call::CountDown {
                continue;
            }
            match end {
                Some((_, What::Ok { .. })) if waits => told.at_zero.push(span),
                Some((_, What::Ok { .. })) => {
                    told.possible.push(from);
                    told.certain.push(span);
                }
                Some((_, What::Fail { why, .. })) => match why {
                    Refusal::Contended if !waits => told.at_zero.push(span),
                    Refusal::TimedOut if waits => told.gave_up.push(span),
                    Refusal::Contended
                    | Refusal::TimedOut
                    | Refusal::Lost
                    | Refusal::Fenced
                    | Refusal::NotOffered
                    | Refusal::Other => {}
                },
                _ if waits => {}
                _ => told.possible.push(from),
            }
        }
        told.certain.sort_by_key(|&(.., to)| to);
        told.at_zero.sort_by_key(|&(.., to)| to);
        told
    }

    fn passed(&self) -> Option<Witness> {
        let &(actor, _, at) = self.certain.get(self.counts)?;
        let counts = self.counts;
        let message = format!("{actor} counted a latch of {counts} down for once too often");
        Some(witness(at, message))
    }

    fn early(&self) -> Option<Witness> {
        self.at_zero.iter().find_map(|&(actor, _, at)| {
            let counted = self.possible.iter().filter(|&&from| from < at).count();
            let message = || {
                let counts = self.counts;
                format!(
                    "the latch told {actor} that it is at 0, after {counted} of {counts} counts"
                )
            };
            (counted < self.counts).then(|| witness(at, message()))
        })
    }

    fn rose(&self) -> Option<Witness> {
        let &(first, _, zero) = self.at_zero.first()?;
        let &(actor, _, at) = self.certain.iter().find(|&&(_, from, _)| zero < from)?;
        let since = seconds(zero.at);
        let message = format!("{actor} counted down what had been at 0 for {first} at {since}");
        Some(witness(at, message))
    }

    /// End of the last count-down; `None` if not all of them have happened.
    fn zero(&self) -> Option<Moment> {
        let last = self.counts.checked_sub(1);
        last.map_or(Some(ZERO), |last| self.certain.get(last).map(|it| it.2))
    }

    fn late(&self, history: &History) -> Option<Witness> {
        let terms = &history.terms;
        let looks = (!terms.tells).then_some(terms.wake);
        let bound = looks.unwrap_or(Some(Duration::ZERO))? + terms.round_trips(HEARS_IN);
        let zero = self.zero()?;
        let calm_until = calm_until(history);
        let late = self.at_zero.iter().find(|&&(_, from, to)| {
            to < calm_until && to.at > zero.max(from).at.saturating_add(bound)
        });
        let &(actor, _, at) = late?;
        let message = format!(
            "the latch told {actor} at {} that it is at 0, where it had been since {}",
            seconds(at.at),
            seconds(zero.at)
        );
        Some(witness(at, message))
    }

    fn stuck(&self, history: &History) -> Option<Witness> {
        let zero = self.zero()?;
        let calm_until = calm_until(history);
        let patience = history.lease / HEARS;
        let stuck = self.gave_up.iter().find(|&&(_, from, to)| {
            to < calm_until && to.at >= zero.max(from).at.saturating_add(patience)
        });
        let &(actor, _, at) = stuck?;
        let message = format!(
            "{actor} gave up at {}, the latch having been at 0 since {}",
            seconds(at.at),
            seconds(zero.at)
        );
        Some(witness(at, message))
    }
}

const ZERO: Moment = Moment::at(Duration::ZERO);

/// Time of the first fault.
fn calm_until(history: &History) -> Moment {
    let first = history.iter().find(|(_, what)| disturbs(what));
    first.map_or(Moment::NEVER, |(at, _)| at)
}

fn witness(at: Moment, message: String) -> Witness {
    Witness {
        at,
        until: None,
        grants: vec![],
        message,
    }
}

/// True if the event may keep a waiter from learning that the count is 0.
const fn disturbs(what: &What) -> bool {
    match what {
        What::Pause { .. }
        | What::Crash { .. }
        | What::Panic { .. }
        | What::Cut { .. }
        | What::Strikes { .. }
        | What::Promoted { .. } => true,
        What::Invoke { .. }
        | What::Attempt { .. }
        | What::Ok { .. }
        | What::Fail { .. }
        | What::Info { .. }
        | What::Deadline { .. }
        | What::Lost { .. }
        | What::Resume { .. }
        | What::Restart { .. }
        | What::Heals { .. }
        | What::Server { .. }
        | What::Resource { .. }
        | What::Queue { .. }
        | What::Reserved { .. }
        | What::Remains { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{checker::hand_made::*, history::OpId};

    fn counts(op: OpId) -> What {
        What::Invoke {
            op,
            actor: Actor::on(u8::try_from(op).unwrap()),
            call: Call::CountDown,
        }
    }

    fn waits(op: OpId) -> What {
        What::Invoke {
            op,
            actor: Actor::on(u8::try_from(op).unwrap()),
            call: Call::Await { wait: s(10) },
        }
    }

    fn times_out(op: OpId) -> What {
        let why = Refusal::TimedOut;
        What::Fail { op, why }
    }

    fn unsure(op: OpId) -> What {
        What::Info {
            op,
            error: "timed out".into(),
        }
    }

    /// A latch of two.
    fn broken(entries: Vec<(u64, What)>) -> Option<String> {
        let history = History {
            kind: Kind::Latch(2),
            ..history(entries)
        };
        let finding = Latch.check(&history);
        finding.witness().map(|witness| witness.message.clone())
    }

    #[test]
    fn a_waiter_that_gets_messages_learns_of_the_last_count_at_once() {
        let told = |tells, fault: Vec<(u64, What)>| {
            let mut entries = fault;
            entries.extend(opened(vec![]));
            entries.sort_by_key(|&(at, _)| at);
            let mut history = History {
                kind: Kind::Latch(2),
                ..history(entries)
            };
            history.terms.tells = tells;
            let late = Latch.check(&history).witness().is_some();
            history.terms.latency = s(1);
            assert_eq!(Latch.check(&history), Finding::Valid, "the way is long");
            late
        };
        // The last count-down ended at 2, and the waiter learned of it at 3.
        assert!(told(true, vec![]));
        assert!(!told(false, vec![]));
        assert!(!told(true, vec![(1, What::Pause { host: 3 })]));
    }

    #[test]
    fn a_waiter_that_looks_learns_of_the_last_count_within_the_declared_time() {
        let told = |looks: Option<Duration>, at| {
            let mut entries = opened(vec![]);
            entries.retain(|(_, what)| !matches!(what, What::Ok { op: 9, .. }));
            entries.push((at, done(9)));
            let mut history = History {
                kind: Kind::Latch(2),
                ..history(entries)
            };
            history.terms.wake = looks;
            Latch.check(&history).witness().is_some()
        };
        // The last count-down ended at 2.
        assert!(!told(Some(s(2)), 4));
        assert!(told(Some(s(2)), 5));
        assert!(!told(None, 5), "it declares nothing");
    }

    fn opened(more: Vec<(u64, What)>) -> Vec<(u64, What)> {
        let begin = vec![
            (0, waits(9)),
            (1, counts(1)),
            (1, done(1)),
            (2, counts(2)),
            (2, done(2)),
            (3, done(9)),
        ];
        begin.into_iter().chain(more).collect()
    }

    #[test]
    fn a_latch_that_opens_in_time_passes() {
        let late = vec![(4, counts(3)), (4, refused(3)), (5, waits(4)), (5, done(4))];
        assert_eq!(broken(opened(late)), None);
        assert_eq!(broken(vec![(0, waits(9)), (10, times_out(9))]), None);
    }

    #[test]
    fn a_count_past_zero_and_one_after_zero_are_caught() {
        let message = broken(opened(vec![(4, counts(3)), (4, done(3))])).unwrap();
        assert_eq!(message, "c4 counted a latch of 2 down for once too often");
        let unsure_first = vec![
            (0, counts(1)),
            (0, unsure(1)),
            (1, counts(2)),
            (1, done(2)),
            (2, waits(9)),
            (2, done(9)),
            (3, counts(3)),
            (3, done(3)),
        ];
        let message = broken(unsure_first).unwrap();
        assert_eq!(
            message,
            "c4 counted down what had been at 0 for c10 at 2.000 s"
        );
    }

    #[test]
    fn a_waiter_that_returns_before_zero_is_a_witness() {
        let early = |first: What, end: What| {
            broken(vec![
                (0, counts(1)),
                (0, done(1)),
                (1, first),
                (2, end),
                (3, counts(3)),
                (3, done(3)),
            ])
        };
        let message = early(waits(2), done(2)).unwrap();
        assert_eq!(
            message,
            "the latch told c3 that it is at 0, after 1 of 2 counts"
        );
        assert!(early(counts(2), refused(2)).is_some());
        assert_eq!(
            early(counts(2), done(2)),
            Some("c4 counted a latch of 2 down for once too often".into())
        );
        let may_have = vec![
            (0, counts(1)),
            (0, unsure(1)),
            (1, counts(2)),
            (1, done(2)),
            (1, waits(3)),
            (1, done(3)),
        ];
        assert_eq!(broken(may_have), None);
    }

    #[test]
    fn a_waiter_that_stays_behind_is_caught_where_nothing_is_in_its_way() {
        let stays = |from, to, fault: Option<What>| {
            let mut entries = opened(vec![]);
            entries.extend(fault.map(|fault| (3, fault)));
            entries.extend([(from, waits(5)), (to, times_out(5))]);
            broken(entries)
        };
        let message = stays(3, 13, None).unwrap();
        assert_eq!(
            message,
            "c6 gave up at 13.000 s, the latch having been at 0 since 2.000 s"
        );
        assert_eq!(stays(3, 4, None), None, "hardly asked");
        assert_eq!(stays(3, 13, Some(What::Pause { host: 5 })), None);
    }
}
