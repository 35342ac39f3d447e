//! Keys and tokens: which of them clients have to remove, and which expire by themselves.

use super::{Look, Witness};
use crate::{
    checker::seconds,
    history::{Actor, Cause, Excuse, Fate, Holder, Kind, Mode, Moment, Reading, TokenSpan, What},
    scenario::Topology,
};
use std::{collections::BTreeMap, time::Duration};

/// Counterexample: a client took the lock and left an expired token of another client stored. Such tokens would add up as long as
/// clients use the key. A semaphore may have a place for each of its permits, and leave a token in its place until a client
/// needs it.
pub(super) fn stepped_over(history: &Reading<'_>) -> Option<Witness> {
    let places = places(history);
    let mut before: BTreeMap<u8, &[Holder]> = BTreeMap::new();
    history.iter().find_map(|(at, what)| {
        let What::Server {
            node,
            cause,
            stored,
            ..
        } = what
        else {
            return None;
        };
        let known = before.insert(*node, stored).unwrap_or_default();
        let Cause::Client(host) = *cause else {
            return None;
        };
        let is_over = |it: &&Holder| {
            let over = it.expires.map(|expires| expires.saturating_add(history.terms.timing_tolerance()));
            over.is_some_and(|over| over < at.at && history.fault_intervals().calm(host, over, at.at))
        };
        let mut taken = stored.iter().filter(|it| !is_over(it));
        taken.find(|it| !known.iter().any(|other| other.token == it.token))?;
        let left = stored.iter().find(is_over)?;
        (taken_places(stored) > places).then(|| Witness {
            at,
            until: None,
            grants: vec![],
            message: format!(
                "{} took the lock at {} and left the token {} there, whose time had been over since {}",
                Actor::on(host),
                seconds(at.at),
                left.token.escape_ascii(),
                seconds(left.expires.unwrap_or_default())
            ),
        })
    })
}

/// Number of tokens for which a lock has a place of its own.
fn places(history: &Reading<'_>) -> usize {
    match history.kind {
        Kind::Semaphore(permits) if history.accepts(Excuse::PlaceOfPermit) => {
            usize::try_from(permits).unwrap_or(usize::MAX)
        }
        Kind::Semaphore(_)
        | Kind::Mutex
        | Kind::ReadWrite
        | Kind::Admission(_)
        | Kind::Latch(_) => 1,
    }
}

/// Number of places that tokens take.
fn taken_places(stored: &[Holder]) -> usize {
    let permits = stored.iter();
    let permits = permits.map(|it| it.mode.map_or(1, Mode::permits).max(1) as usize);
    permits.sum()
}

/// True if all that remains is the key of a semaphore, which ends by itself, with tokens whose time is over, each in its place.
pub(super) fn expired_in_their_places(history: &Reading<'_>, look: &Look<'_>) -> bool {
    let places = places(history);
    if places == 1 || look.keys.len() != 1 || !look.endless.is_empty() {
        return false;
    }
    let mut last: BTreeMap<u8, &[Holder]> = BTreeMap::new();
    for (_, what) in history.iter().take_while(|&(at, _)| at < look.at) {
        if let What::Server { node, stored, .. } = what {
            last.insert(*node, stored);
        }
    }
    let is_over = |it: &Holder| it.expires.is_some_and(|expires| expires < look.at.at);
    let mut stored = last
        .into_values()
        .filter(|stored| !stored.is_empty())
        .peekable();
    stored.peek().is_some()
        && stored.all(|stored| stored.iter().all(is_over) && taken_places(stored) <= places)
}

/// True if requests stored all that remains after their connection had ended, or may have been delayed for more than a lease.
pub(super) fn arrived_after_lease(history: &Reading<'_>, look: &Look<'_>) -> bool {
    if !history.accepts(Excuse::LateRequest) {
        return false;
    }
    let all = history.tokens().spans.iter().chain(&history.queued().spans);
    let mut standing = all.filter(|it| it.stood(look.at)).peekable();
    standing.peek().is_some()
        && standing.all(|span| lands_late(history, span) || history.arrived_after_lease(span))
}

/// True if only places in a queue remain, their keys expire, and their clients could not reach the node for a lease: a client tries
/// to leave the queue for no longer than that.
pub(super) fn left_by_the_unreached(history: &Reading<'_>, look: &Look<'_>) -> bool {
    if !history.accepts(Excuse::LeaseWithoutServer) || !look.endless.is_empty() {
        return false;
    }
    let holds = history.tokens().spans.iter().any(|it| it.stood(look.at));
    let queued = history.queued().spans.iter();
    let mut places = queued.filter(|it| it.stood(look.at)).peekable();
    !holds
        && places.peek().is_some()
        && places.all(|place| {
            place
                .owner
                .is_some_and(|host| is_unreached(history, look, place, host))
        })
}

/// True if a process could not reach the node of a place for a lease, or the node answered all of its requests with errors. The lease
/// begins at the end of the last call that made the node execute a request. A call that began later than the place appeared does not
/// know of it, unless it has the place of its owner. In the last moments of the lease there is no time for another request.
fn is_unreached(history: &Reading<'_>, look: &Look<'_>, place: &TokenSpan<'_>, host: u8) -> bool {
    let node = place.node;
    let requests = || {
        let all = history.requests_of(host);
        all.filter(move |request| history.leads_to(history.session(request), node))
    };
    let calls = history.operations().iter();
    let calls = calls.filter(|it| {
        let knows = it.asked < place.from || history.reentrant;
        knows && it.actor.host == host && it.ended <= look.at
    });
    let ends = calls.filter(|it| {
        let mut executed = requests().filter_map(|request| request.executed);
        executed.any(|at| it.asked.at <= at && at <= it.ended.at)
    });
    let Some(ended) = ends.map(|it| it.ended.at).max() else {
        return false;
    };
    let until = look.at.at.min(ended.saturating_add(history.lease));
    let replied = |at: Duration| ended < at && at <= until;
    let answers = || requests().filter(|it| it.replied.is_some_and(replied));
    if answers().any(|it| it.error.is_none()) {
        return false;
    }
    // An error is no answer: the node may not have executed the request.
    let errs = answers().filter_map(|it| it.replied).max();
    let reaches = history.fault_intervals().reaches_from(node, host, ended);
    let reaches = errs.map_or(reaches, |errs| errs.max(reaches));
    reaches.saturating_add(history.recovery()) >= ended.saturating_add(history.lease)
}

/// Returns the time by which the keys have expired that a late request left beside the tokens of holders and waiters, for instance
/// the names of the waiters that a release wakes: a lease after the request landed, or when its waiter no longer counts as alive.
pub(super) fn ended_by_itself(history: &Reading<'_>, look: &Look<'_>) -> Duration {
    let all = history.tokens().spans.iter().chain(&history.queued().spans);
    let in_time = all
        .filter(|it| it.stood(look.at))
        .any(|it| !lands_late(history, it) && !history.arrived_after_lease(it));
    if in_time || !look.endless.is_empty() || !history.accepts(Excuse::LateRequest) {
        return look.at.at;
    }
    let late = history.requests.iter();
    let late = late.filter(|it| history.fate(it) == Fate::Late);
    let landed = late.filter_map(|it| it.executed.filter(|&at| at <= look.at.at));
    let alive = history.longest_poll() + 2 * history.request_timeout();
    let stays = history.lease.max(alive) + history.terms.timing_tolerance();
    let refreshed = refreshed(history, look);
    landed
        .max()
        .map_or(look.at.at, |at| at.max(refreshed).saturating_add(stays))
}

/// When a client last changed a holder while the token of a late request stood. A key that stores all holders then ends a lease
/// later, and no release removes it with the late token in it.
fn refreshed(history: &Reading<'_>, look: &Look<'_>) -> Duration {
    let spans = &history.tokens().spans;
    let late = spans
        .iter()
        .filter(|it| it.from < look.at && lands_late(history, it));
    let changes = late.flat_map(|late| {
        let there = spans.iter().filter(|it| it.node == late.node);
        let changes = there.flat_map(|it| it.expiries.iter().map(|&(at, ..)| at));
        changes.filter(|&at| late.from <= at && is_stored(history, late, at))
    });
    changes.map(|at| at.at).max().unwrap_or_default()
}

/// True if a node stored a token when it was last seen by a time. An expired member of a key that stores all holders is there until
/// a client removes it.
fn is_stored(history: &Reading<'_>, span: &TokenSpan<'_>, by: Moment) -> bool {
    let states = history.iter().take_while(|&(at, _)| at <= by);
    let states = states.filter_map(|(_, what)| {
        let What::Server { node, stored, .. } = what else {
            return None;
        };
        (*node == span.node).then_some(stored)
    });
    states
        .last()
        .is_some_and(|stored| stored.iter().any(|it| it.token == span.token))
}

/// True if a request stored the token, or extended it, after the connection had ended for its process.
fn lands_late(history: &Reading<'_>, span: &TokenSpan<'_>) -> bool {
    let tokens = history.tokens().spans.iter().map(|it| (it, false));
    let places = history.queued().spans.iter().map(|it| (it, true));
    let all = tokens
        .chain(places)
        .filter(|(it, _)| it.token == span.token);
    let mut origins = all.filter(|&(it, is_place)| match history.topology {
        Topology::Nodes(_) => {
            // Another client's release may hand the lock to the place that the request left in the queue.
            let handed_over = is_place && it.from < span.from && span.from.at <= it.gone.0.at;
            let theirs = (it.node, it.owner) == (span.node, span.owner);
            theirs && (it.from == span.from || handed_over)
        }
        // The replicas of a server store copies of what the request stored there.
        Topology::Replicated { .. } => it.from <= span.from,
    });
    origins.any(|(origin, _)| {
        history.requests.iter().any(|it| {
            let session = history.session(it);
            let theirs = origin.owner == Some(session.host) && origin.node == session.node;
            // What stands may have been extended by it, or, under the token of an owner, have got another level.
            let mut changes = origin.expiries.iter().map(|&(at, ..)| at.at);
            let changed = changes.any(|at| it.executed == Some(at));
            theirs && changed && history.fate(it) == Fate::Late
        })
    })
}
