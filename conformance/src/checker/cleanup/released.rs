//! What a release that succeeded leaves: each server drops the token of its grant, also if the lock promises no clean-up of calls
//! that failed.

use super::{Witness, seconds};
use crate::{
    history::{Call, Moment, Operation, Outcome, Reading, TokenSpan},
    scenario::Node,
    vocabulary::Scope,
};
use std::time::Duration;

/// Counterexample: a client told its caller that it had released a grant, and a server kept the token of this grant alone. Nothing
/// hindered the client there since it had asked for the grant.
pub(super) fn kept_after_release(history: &Reading<'_>) -> Option<Witness> {
    if history.reentrant || history.terms.longest_hold() > Duration::ZERO {
        return None;
    }
    let operations = history.operations();
    let mut releases = operations.iter().filter(|it| it.outcome == Outcome::Ok);
    releases.find_map(|it| {
        let Call::Release { grant } = it.call else {
            return None;
        };
        let asked = operations.iter().find(|other| other.op == grant)?;
        let tokens = history.tokens();
        let named = tokens.named.get(&grant);
        let token = named.filter(|token| token.scope == Scope::Grant)?;
        let theirs = tokens.spans.iter().filter(|it| it.token == token.bytes);
        let mut kept = theirs.filter(|span| is_kept(history, asked, it, span));
        let span = kept.next()?;
        let at = due(history, it);
        Some(Witness {
            at: it.ended.max(Moment::at(at)),
            until: None,
            grants: vec![grant],
            message: format!(
                "at {} {} still stored the token of the grant that {} had released at {}, though nothing had kept the client \
                 from this server",
                seconds(at),
                Node(span.node),
                it.actor,
                seconds(it.ended.at),
            ),
        })
    })
}

/// Returns the time by which each server has dropped the token: two request timeouts and the pause between them after the release.
fn due(history: &Reading<'_>, release: &Operation) -> Duration {
    let grace = history.request_timeout() + history.recovery();
    let settled = history.terms.latency + history.terms.timing_tolerance();
    release.ended.at.saturating_add(grace + settled)
}

/// True if a server stored a token from before the client could know that it did until after the release had to have removed it.
fn is_kept(
    history: &Reading<'_>,
    asked: &Operation,
    release: &Operation,
    span: &TokenSpan<'_>,
) -> bool {
    let due = due(history, release);
    let told = history.terms.latency + history.terms.timing_tolerance();
    let known = span.from.at.saturating_add(told) <= release.asked.at;
    let stands = due < span.gone.0.at;
    let ended = history.entries.last().is_some_and(|last| due < last.at);
    let calm = |host| {
        let faults = history.fault_intervals();
        faults.calm_by(span.node, host, asked.asked.at, due)
    };
    known && stands && ended && calm(release.actor.host)
}
