//! The queue of a fair lock: places of the dead, and of a client that has been granted the lock.

use super::Witness;
use crate::{
    checker::seconds,
    history::{Actor, FaultEffect, Moment, Reading, What},
};

/// Counterexample: a dead client or the holder is still queued.
pub(super) fn in_the_queue(history: &Reading<'_>) -> Option<Witness> {
    if !history.terms.fair {
        return None;
    }
    let dead = || {
        let (at, host) = dead_in_the_queue(history)?;
        let says = "was still in the queue when another got a place, dead for more than a lease";
        Some((at, host, says))
    };
    let holder = || {
        let (at, host) = holder_in_the_queue(history)?;
        Some((at, host, "was granted the lock and stayed in the queue"))
    };
    let (at, host, says) = dead().or_else(holder)?;
    Some(Witness {
        at,
        until: None,
        grants: vec![],
        message: format!("at {} {} {says}", seconds(at.at), Actor::on(host)),
    })
}

/// Returns when a client joined a queue that still held a client that had died long before, and that dead client.
fn dead_in_the_queue(history: &Reading<'_>) -> Option<(Moment, u8)> {
    let (queued, fault_intervals) = (history.queued(), history.fault_intervals());
    // What had been sent when its process died has arrived. A waiter that stopped asking counts as alive for some time.
    let late = history.lease.max(history.terms.skip) + history.terms.round_trips(1);
    let died = |host: u8, from: Moment| {
        let crashed = history.iter().filter(move |&(at, what)| {
            matches!(what, What::Crash { host: of } if *of == host) && from < at
        });
        crashed.map(|(at, _)| at.at).next()
    };
    let wrong = [FaultEffect::Messages, FaultEffect::ServerClock];
    queued.spans.iter().find_map(|dead| {
        let host = dead.owner?;
        let by = died(host, dead.from)?.saturating_add(late);
        let newcomer = queued.spans.iter().find(|it| {
            let comes = it.owner.is_some_and(|of| of != host) && by < it.from.at;
            let meets = it.node == dead.node && it.from < dead.gone.0;
            comes && meets && !fault_intervals.any(&wrong, host, dead.from.at, it.from.at)
        })?;
        Some((newcomer.from, host))
    })
}

/// Returns when a client learned of its grant while it was still queued, and that client.
fn holder_in_the_queue(history: &Reading<'_>) -> Option<(Moment, u8)> {
    let (tokens, queued) = (history.tokens(), history.queued());
    history.beliefs().iter().find_map(|belief| {
        // Another task of the process may wait, or have left a request that comes late.
        let mut theirs = tokens.surely_of_grant(belief, history.operations());
        let waits = theirs.any(|held| {
            let mut places = queued.spans.iter();
            places.any(|place| {
                let same = place.token == held.token && place.node == held.node;
                same && place.from < belief.from && belief.from < place.gone.0
            })
        });
        waits.then_some((belief.from, belief.actor.host))
    })
}
