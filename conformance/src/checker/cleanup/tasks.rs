//! Tasks that clean up: for how long they may look for a request that may land yet, and send one request after the other.

use super::{DRIFT, Look};
use crate::{
    history::{Excuse, Operation, Outcome, Reading, Request},
    vocabulary::CLEAN_UPS_PER_LEASE,
};
use std::{collections::BTreeSet, time::Duration};

/// Returns the time until which a process may look for its unanswered requests: a lease after it learned that they stay
/// unanswered, or after it gave back the grant for which it had sent them. A call that found its connection broken cannot tell
/// whether it sent its request, and the reply to a request may be an error although the server executed a part of it, as a script.
pub(super) fn looked_for(history: &Reading<'_>, at: Duration) -> Duration {
    if !history.accepts(Excuse::Search) {
        return at;
    }
    let requests = history.requests.iter();
    let in_doubt = requests.filter(|it| it.sent <= at && is_in_doubt(history, it));
    let known = in_doubt.map(|it| {
        let given_up = history.given_up(it);
        let settled = history.settled(it);
        let known = settled.map_or(given_up, |settled| settled.min(given_up));
        (history.session(it).host, known)
    });
    let ended = |it: &Operation| (it.actor.host, it.ended.at);
    let unsent = operations_of(history, at).filter(|it| sent_nothing(history, it));
    let given_up = operations_of(history, at).filter(|it| left_a_request(history, it));
    let released = operations_of(history, at).filter(|it| gives_back_in_doubt(history, it));
    let known = known.chain(unsent.chain(given_up).chain(released).map(ended));
    let found = history.sessions.iter().enumerate();
    let found =
        found.filter_map(|(nth, session)| Some((session.host, found_broken(history, nth)?)));
    let known = known.chain(found.filter(|&(_, noticed)| noticed <= at));
    let until = known.map(|(host, known)| a_lease_later(history, host, known));
    let timeout = history.request_timeout();
    let until = until.max().map(|until| until.saturating_add(2 * timeout));
    until.map_or(at, |until| until.max(at))
}

/// Returns the time at which a process notices that a lease is over, which begins at a time. It counts the lease by its own clock,
/// which may be slow, and which stands still while its machine is suspended.
fn a_lease_later(history: &Reading<'_>, host: u8, from: Duration) -> Duration {
    let lease = history.lease + history.lease / DRIFT;
    wakes_at(history, host, from, lease)
}

/// Returns the time at which a process has waited for some time by its own clock, and runs.
fn wakes_at(history: &Reading<'_>, host: u8, from: Duration, wait: Duration) -> Duration {
    let intervals = history.fault_intervals();
    intervals.runs_from(host, intervals.wait_over(host, from, wait))
}

/// True if the process cannot tell whether a server executed the request. A server that does not know a script has not executed it,
/// as the process learns from the reply.
fn is_in_doubt(history: &Reading<'_>, request: &Request) -> bool {
    let told = (request.replied).is_some_and(|at| at <= history.given_up(request));
    let unknown_script = told && request.error.as_deref() == Some("NOSCRIPT");
    history.failed(request) && !unknown_script
}

/// True if the call gave back a grant while the process could not tell whether a server had executed a request that it had sent
/// since it asked for this grant: such a request may land later and store the token again.
fn gives_back_in_doubt(history: &Reading<'_>, it: &Operation) -> bool {
    let grant = it.call.gives_back();
    let asked = grant.and_then(|grant| {
        let mut operations = history.operations().iter();
        operations.find(|other| other.op == grant)
    });
    asked.is_some_and(|grant| {
        history.requests_of(it.actor.host).any(|request| {
            let since = grant.asked.at <= request.sent && request.sent <= it.ended.at;
            since && is_in_doubt(history, request)
        })
    })
}

/// The calls that had ended at a time.
fn operations_of<'a>(
    history: &'a Reading<'_>,
    at: Duration,
) -> impl Iterator<Item = &'a Operation> {
    let operations = history.operations().iter();
    operations.filter(move |it| it.ended.at <= at)
}

/// True if a client cancelled a call before a reply to its process arrived: the call cannot read this reply any more.
fn left_a_request(history: &Reading<'_>, it: &Operation) -> bool {
    let mut requests = history.requests_of(it.actor.host);
    it.outcome == Outcome::Cancelled
        && requests.any(|request| {
            let during = it.asked <= request.sent_at() && request.sent_at() < it.ended;
            during && request.replied.is_none_or(|replied| it.ended.at <= replied)
        })
}

/// Returns when a process noticed that a connection had broken, if a call of it was under way and had no request on this
/// connection: it cannot tell whether the connection took its request.
fn found_broken(history: &Reading<'_>, session: usize) -> Option<Duration> {
    let it = history.sessions.get(session).filter(|it| it.broken)?;
    let noticed = it.noticed?;
    let mut calls = history.operations().iter().filter(|call| {
        call.actor.host == it.host && call.asked.at <= noticed && noticed <= call.ended.at
    });
    let found = calls.any(|call| {
        let mut requests = history.requests.iter();
        !requests.any(|request| request.session == session && call.asked.at <= request.sent)
    });
    found.then_some(noticed)
}

/// True if the last attempt of a call ended in an error and sent no request, because the connection was broken.
fn sent_nothing(history: &Reading<'_>, it: &Operation) -> bool {
    if it.outcome != Outcome::Unknown {
        return false;
    }
    let (host, ended) = (it.actor.host, it.ended.at);
    let sessions = history.sessions.iter();
    let mut theirs = sessions.filter(|session| session.broken && session.host == host);
    if !theirs.any(|session| session.closed.is_some_and(|closed| closed <= ended)) {
        return false;
    }
    let begun = history.last_attempt(it).unwrap_or(it.asked);
    let mut sent = history.requests_of(host).map(Request::sent_at);
    !sent.any(|sent| begun <= sent && sent < it.ended)
}

/// Returns the time until which a task may clean up that sends one request after the other, each at most a pause after the reply
/// to the one before: a lease at most.
pub(super) fn swept(history: &Reading<'_>, at: Duration) -> Duration {
    if !history.accepts(Excuse::Sweep) {
        return at;
    }
    let pause = longest_pause(history);
    let hosts: BTreeSet<u8> = history.sessions.iter().map(|it| it.host).collect();
    let busy = hosts.into_iter().map(|host| {
        let longest = a_lease_later(history, host, at);
        let answered = |request: &Request| answered(history, request);
        let of_task = |request: &&Request| {
            let sent = request.sent_at();
            let mut calls = history.operations().iter();
            let during = |it: &Operation| it.asked <= sent && sent <= it.ended;
            !calls.any(|it| it.actor.host == host && during(it))
        };
        let before = history.requests_of(host).filter(|it| it.sent < at);
        let latest = before.filter(of_task).map(answered).max();
        // The task may be in the pause after its latest request.
        let mut pauses = latest.is_some_and(|latest| at <= latest.saturating_add(pause));
        let mut busy = at;
        for request in history.requests_of(host).filter(|it| at <= it.sent) {
            let stopped = history
                .fault_intervals()
                .stopped_for(host, busy, request.sent);
            if request.sent > busy.saturating_add(pause + stopped) {
                break;
            }
            pauses = true;
            busy = busy.max(answered(request));
        }
        let pause = if pauses { pause } else { Duration::ZERO };
        wakes_at(history, host, busy, pause).min(longest)
    });
    let busy = busy.max().unwrap_or(at);
    busy.saturating_add(history.recovery())
}

/// Returns the time by which the clients have removed what they had to remove by `due`. A client whose request failed before that
/// time sends it again after a pause. It does so for a lease at most.
pub(super) fn repeated(history: &Reading<'_>, look: &Look<'_>, due: Duration) -> Duration {
    if !history.accepts(Excuse::CleanUpFailed) {
        return due;
    }
    let at = look.at.at;
    let owners = owners(history, look);
    let removes = |host: &u8| owners.as_ref().is_none_or(|owners| owners.contains(host));
    let pause = longest_pause(history);
    let mut failed: Vec<_> = history
        .requests
        .iter()
        .filter(|it| removes(&history.session(it).host) && is_in_doubt(history, it))
        .map(|it| (answered(history, it), history.session(it).host))
        .collect();
    failed.sort_unstable();
    failed.into_iter().fold(due, |due, (failed, host)| {
        if failed > due {
            return due;
        }
        let longest = a_lease_later(history, host, at);
        let repeats = wakes_at(history, host, failed, pause + history.request_timeout());
        due.max(repeats.min(longest))
    })
}

/// The processes whose tokens or places in a queue remain. `None` if no token remains, or if it is not known whose one is.
fn owners(history: &Reading<'_>, look: &Look<'_>) -> Option<BTreeSet<u8>> {
    let all = history.tokens().spans.iter().chain(&history.queued().spans);
    let standing = all.filter(|it| it.stood(look.at));
    let owners: Option<BTreeSet<u8>> = standing.map(|it| it.owner).collect();
    owners.filter(|owners| !owners.is_empty())
}

/// Longest pause of a task between two requests.
fn longest_pause(history: &Reading<'_>) -> Duration {
    history.terms.retry.max(history.lease / CLEAN_UPS_PER_LEASE) + history.terms.timing_tolerance()
}

/// Returns the time at which a process has the reply to a request, or knows that there will be none.
fn answered(history: &Reading<'_>, request: &Request) -> Duration {
    let given_up = history.given_up(request);
    let settled = history.settled(request).unwrap_or(given_up);
    settled.min(given_up)
}
