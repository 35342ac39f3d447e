//! P15, clean-up: as soon as all calls have returned and all messages have arrived, no keys, subscriptions or tasks remain. Clients
//! remove them; they do not wait for a lease to end. Counters of fencing tokens may stay.
//!
//! After a fault, a client has two request timeouts to clean up, from when it could notice the fault. The lease removes the keys of
//! a dead process if they expire. It also removes the keys of a request that lands after its connection has ended, or more than a
//! lease after it was sent. A task that leaves nothing behind may go on for a request timeout, or look for such a request for a
//! lease by the clock of its process: from when the process learned that the request stays unanswered, or from the release of
//! the grant for which it was sent. The next client that takes the lock, if no fault hinders it, removes expired tokens.
//!
//! A client that fails to remove a key repeats its request after a pause of at most an eighth of the lease, or the longest one that
//! the lock promises (`Promises::longest_retry`), and has a request timeout for it.
//!
//! A subscription may outlive the last waiter for as long as the lock promises (`Promises::lingering`).
//!
//! A release that succeeded has removed its grant from each server that its client could reach, also if the lock promises no
//! clean-up.
//!
//! A fair lock removes a waiter from its queue when it grants it the lock. The next client that asks removes a waiter that died
//! more than a lease ago and no longer counts as alive (`Promises::skipping_after`).

mod keys;
mod look;
mod queue;
mod released;
mod tasks;
#[cfg(test)]
mod tests;

use super::{Checker, Finding, Property, Witness, seconds};
use crate::history::{Call, Excuse, FaultEffect, History, Moment, Outcome, Reading, Terms, What};
use keys::{
    arrived_after_lease, ended_by_itself, expired_in_their_places, left_by_the_unreached,
    stepped_over,
};
use look::{Look, looks};
use queue::in_the_queue;
use released::kept_after_release;
use std::{collections::BTreeSet, time::Duration};
use tasks::{looked_for, repeated, swept};

/// What a client's clock may make of the time for which a subscription lingers or a task cleans up, as a part of it.
const DRIFT: u32 = 50;

/// Judges P15.
pub struct CleanUp;

impl Checker for CleanUp {
    fn property(&self) -> Property {
        Property::CleanUp
    }

    fn judge(&self, history: &Reading<'_>) -> Finding {
        if let Some(witness) = kept_after_release(history) {
            return Finding::Violation(witness);
        }
        let left = || stepped_over(history).or_else(|| in_the_queue(history));
        if history.terms.tidy
            && let Some(witness) = left()
        {
            return Finding::Violation(witness);
        }
        if !history.terms.tidy && !is_orderly(history) {
            return Finding::Unknown("the lock promises no clean-up, and something went wrong");
        }
        let looks = looks(history);
        if looks.is_empty() {
            return Finding::Unknown("the lock was in use at every moment");
        }
        let left = looks.iter().find_map(|look| {
            let until = lasts(history, look.at);
            let due = overdue(history, look, until)?;
            Some((look, due, until))
        });
        let Some((look, due, until)) = left else {
            return Finding::Valid;
        };
        let keys = look.keys.iter().map(|key| key.escape_ascii().to_string());
        let keys: Vec<String> = keys.collect();
        Finding::Violation(Witness {
            at: look.at.max(Moment::at(due)),
            until: Some(until),
            grants: vec![],
            message: format!(
                "at {} no client uses the lock and no message is in flight, but these remain{}: keys [{}], \
                 {} subscriptions, {} tasks{}",
                seconds(due),
                beside(history.terms),
                keys.join(", "),
                look.subscriptions,
                look.tasks,
                if look.tasks > 0 {
                    " (a task that cleans up may do so for a lease at most)"
                } else {
                    ""
                },
            ),
        })
    }
}

/// What may remain besides.
fn beside(terms: Terms) -> String {
    let subscribed = match terms.stays_subscribed {
        true => ", beside one subscription of each process with its task",
        false => "",
    };
    match terms.kept_tasks {
        0 => subscribed.to_owned(),
        count => format!("{subscribed}, beside {count} tasks of each process"),
    }
}

/// Time by which something that was left until `until` had to be gone: keys, subscriptions or tasks, each judged by its own
/// bound. `None` if nothing was left for longer.
fn overdue(history: &Reading<'_>, look: &Look<'_>, until: Duration) -> Option<Duration> {
    let at = look.at.at;
    let due = due(history, at);
    let keys = !look.keys.is_empty()
        && !arrived_after_lease(history, look)
        && !left_by_the_unreached(history, look)
        && !expired_in_their_places(history, look);
    let removes = || repeated(history, look, due);
    let keys_due = keys.then(|| key_due(history, at, removes())).flatten();
    let keys_due = keys_due.map(|due| due.max(ended_by_itself(history, look)));
    let subscriptions_due = (look.subscriptions > 0).then(|| subscription_due(history, at, due));
    let tasks_due = (look.tasks > 0).then(|| {
        // A task that leaves nothing behind but keys that may stay may end a little later, or look for a request that may land yet.
        let alone = keys_due.is_none() && look.subscriptions == 0;
        let due = if alone {
            let ends = at.saturating_add(history.recovery());
            let looks = looked_for(history, at).max(swept(history, at));
            due.max(ends).max(looks)
        } else {
            due
        };
        subscription_due(history, at, due).max(keys_due.unwrap_or_default())
    });
    let dues = [keys_due, subscriptions_due, tasks_due].into_iter();
    dues.flatten().filter(|&due| due == at || due < until).min()
}

/// Time by which a subscription has to be gone that has to be gone at `due` unless it lingers.
fn subscription_due(history: &Reading<'_>, at: Duration, due: Duration) -> Duration {
    if history.terms.linger == Duration::ZERO {
        return due;
    }
    // The client counts the time by its own clock. Then a request ends the subscription.
    let linger = history.terms.linger + history.terms.linger / DRIFT;
    let due = due.saturating_add(linger + history.terms.round_trips(1));
    match history.accepts(Excuse::SubscriptionStruck) {
        true => after_faults(history, at, due),
        false => due,
    }
}

/// Time by which a key has to be gone that has to be gone at `due` unless it keeps other clients out for a minimum time: it stays
/// for that time, and then until its lease ends. `None` if a server's clock or a server that does not answer lets nothing expire
/// in time.
fn key_due(history: &Reading<'_>, at: Duration, due: Duration) -> Option<Duration> {
    let hold = history.terms.longest_hold();
    if hold == Duration::ZERO {
        return Some(due);
    }
    let stays = history.lease.max(hold);
    let due = due.saturating_add(stays + history.terms.timing_tolerance());
    // The clock may have been set back since the lease began.
    let begun = at.saturating_sub(stays);
    let wrong = |what, from| history.fault_intervals().any(&[what], 0, from, due);
    let late = wrong(FaultEffect::ServerClock, begun) || wrong(FaultEffect::Messages, at);
    (!late).then_some(due)
}

/// True if no fault struck, each call returned, and each grant was given back or is held.
fn is_orderly(history: &Reading<'_>) -> bool {
    let mut operations = history.operations().iter();
    let returned = operations.all(|it| {
        let told = matches!(it.outcome, Outcome::Ok | Outcome::Fail(_));
        told && !matches!(it.call, Call::Drop { .. })
    });
    // The run ends with the end of each process.
    let end = history.entries.last().map_or(Duration::ZERO, |it| it.at);
    let struck = |(at, what): (Moment, &What)| {
        let is_fault = matches!(
            what,
            What::Strikes { .. }
                | What::Cut { .. }
                | What::Pause { .. }
                | What::Restart { .. }
                | What::Panic { .. }
        );
        is_fault || matches!(what, What::Crash { .. }) && at.at < end
    };
    returned && !history.iter().any(struck)
}

/// Returns the time by which a client has to have removed what was seen at a time. Each fault before that time extends it.
fn due(history: &Reading<'_>, at: Duration) -> Duration {
    let grace = history.request_timeout() + history.recovery();
    after_faults(history, at.saturating_sub(grace), at)
}

/// Returns the time by which clients finish a clean-up. Without the faults that strike from `from` on it ends at `due`.
fn after_faults(history: &Reading<'_>, from: Duration, due: Duration) -> Duration {
    let fault_intervals = history.fault_intervals();
    let grace = history.request_timeout() + history.recovery();
    let calls = history.calls();
    let hosts: BTreeSet<u8> = calls.values().map(|(_, actor, _)| actor.host).collect();
    let mut due = due;
    loop {
        let hosts = hosts.iter().copied();
        let last = hosts.filter_map(|host| fault_intervals.last(host, from, due));
        let later = last.map(|last| last.saturating_add(grace)).max();
        match later {
            Some(later) if later > due => due = later,
            Some(_) | None => return due,
        }
    }
}

/// Returns the time of the next entry that shows other remains.
fn lasts(history: &History, from: Moment) -> Duration {
    let next = history.iter().find(|&(at, what)| {
        let other = matches!(
            what,
            What::Remains { .. } | What::Crash { .. } | What::Panic { .. }
        );
        other && at > from
    });
    let end = history.entries.last().map_or(from.at, |it| it.at);
    next.map_or(end, |(at, _)| at.at)
}
