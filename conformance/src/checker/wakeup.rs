//! P10, no lost wake-up: a lock that is free at the server does not stay free while somebody waits
//! for it who is alive and can be reached, not for longer than the lock promised.
//!
//! Where something was wrong for the waiter during its wait, the message that should have woken it may
//! be lost: then the former holder's remaining TTL is its bound, and time counts from when all is well
//! again and a request that was caught in it has timed out.

use super::{Checker, Finding, Property, Witness, seconds};
use crate::history::{Call, History, Moment, Operation, Tokens, Troubles};
use std::time::Duration;

/// Judges P10.
pub struct WakeUp;

/// A span in which nobody holds the lock at any server.
struct Free {
    from: Duration,
    to: Duration,
    /// When the former holder's lease would have ended.
    lease_end: Duration,
}

impl Checker for WakeUp {
    fn property(&self) -> Property {
        Property::WakeUp
    }

    fn check(&self, history: &History) -> Finding {
        let Some(wake) = history.terms.wake else {
            return Finding::Unknown("no bound on waking up is promised");
        };
        if !history.observed {
            return Finding::Unknown("the server was not observed");
        }
        let bound = wake + history.terms.round_trips(2);
        let (free, troubles) = (free(&history.tokens()), history.troubles());
        let operations = history.operations();
        let slept = operations.iter().find_map(|waiter| {
            let (from, to) = waiting(history, waiter)?;
            let spans = free.iter().filter(|free| free.from < to && from < free.to);
            let mut spans = spans.map(|free| {
                let to = free.to.min(to);
                let from = woken_by(history, &troubles, waiter, free, to).max(from);
                (from, to)
            });
            let span = spans.find(|(from, to)| to.saturating_sub(*from) > bound)?;
            Some((waiter, span))
        });
        let Some((waiter, (from, to))) = slept else {
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

/// From when to when an operation waits, its time to connect and to ask for the first time left out.
fn waiting(history: &History, it: &Operation) -> Option<(Duration, Duration)> {
    let Call::Acquire { wait, .. } = it.call else {
        return None;
    };
    let end = history.entries.last().map_or(Duration::ZERO, |it| it.at);
    let from = it.asked.at + history.terms.round_trips(2);
    Some((from, (it.asked.at + wait).min(it.ended.at).min(end)))
}

/// From when on a waiter can be expected to know that the lock is free.
fn woken_by(
    history: &History,
    troubles: &Troubles,
    waiter: &Operation,
    free: &Free,
    to: Duration,
) -> Duration {
    let last = troubles.last(waiter.actor.host, waiter.asked.at, to);
    last.map_or(free.from, |last| {
        let well = last.saturating_add(history.request_timeout());
        free.from.max(free.lease_end).max(well)
    })
}

/// The spans in which no token stands anywhere.
fn free(tokens: &Tokens<'_>) -> Vec<Free> {
    let mut lives: Vec<_> = tokens.lives.iter().collect();
    lives.sort_by_key(|life| life.from);
    let mut spans = Vec::new();
    let (mut free_from, mut lease_end) = (Moment::at(Duration::ZERO), Duration::ZERO);
    for life in lives {
        if free_from < life.from {
            spans.push(Free {
                from: free_from.at,
                to: life.from.at,
                lease_end,
            });
        }
        if free_from <= life.gone.0 {
            free_from = life.gone.0;
            let last = life.expiries.last().and_then(|&(.., expires)| expires);
            lease_end = last.unwrap_or(life.gone.0.at);
        }
    }
    spans.push(Free {
        from: free_from.at,
        to: Duration::MAX,
        lease_end,
    });
    spans
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{checker::hand_made::*, history::What, scenario::Lost};

    fn passes(entries: Vec<(u64, What)>) -> bool {
        let mut history = history(entries);
        history.lease = s(12);
        history.terms.wake = Some(s(2));
        WakeUp.check(&history) == Finding::Valid
    }

    /// Freed at 5, for a waiter that is there since 1; taken at some time.
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
    fn nobody_waits_nobody_is_late() {
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

    #[test]
    fn a_paused_waiter_takes_nothing() {
        let paused = vec![(4, What::Pause { host: 1 }), (20, What::Resume { host: 1 })];
        let mut entries = taken_at(21, paused);
        entries.sort_by_key(|&(at, _)| at);
        assert!(passes(entries));
    }
}
