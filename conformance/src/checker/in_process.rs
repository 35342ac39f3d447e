//! Locks that exclude the tasks of a process in the process: only the task that has this inner lock asks a server.

use super::exclusion::get_along;
use crate::history::{Excuse, Moment, Operation, Outcome, Reading, What};
use std::time::Duration;

/// Returns the acquisitions by other tasks of the process whose mode excludes that of `it`, each with the moment from
/// which it no longer occupies the process.
pub(super) fn rivals<'a>(
    history: &'a Reading<'_>,
    it: &'a Operation,
) -> impl Iterator<Item = (&'a Operation, Moment)> {
    let beside = history.operations().iter().filter(|other| {
        let modes = other.call.mode().zip(it.call.mode());
        let excludes = modes.is_some_and(|(theirs, own)| !get_along(theirs, own));
        excludes && other.actor.host == it.actor.host && other.actor != it.actor
    });
    beside.map(|other| (other, let_go(history, other)))
}

/// Returns the time until which tasks of the process that asked before the waiter may keep it from asking the servers:
/// they have not released their grants, or their calls are under way. Zero if the judge does not accept this excuse.
pub(super) fn kept_out(history: &Reading<'_>, excuse: Excuse, waiter: &Operation) -> Duration {
    if !history.accepts(excuse) {
        return Duration::ZERO;
    }
    let rivals = rivals(history, waiter);
    let before = rivals.filter(|(other, _)| other.asked < waiter.asked);
    before
        .map(|(_, let_go)| let_go.at)
        .max()
        .unwrap_or_default()
}

/// Returns the moment from which an acquisition no longer occupies its process: the end of the call if it had no grant,
/// else the end of the call that released the grant, or of the process.
fn let_go(history: &Reading<'_>, acquisition: &Operation) -> Moment {
    if acquisition.outcome != Outcome::Ok {
        return acquisition.ended;
    }
    let mut operations = history.operations().iter();
    let released = operations.find(|it| it.call.gives_back() == Some(acquisition.op));
    if let Some(released) = released {
        return released.ended;
    }
    let host = acquisition.actor.host;
    let ends = |what: &What| matches!(what, What::Crash { host: of } | What::Panic { host: of, .. } if *of == host);
    let mut later = history.iter().filter(|&(at, _)| acquisition.ended < at);
    let crash = later.find(|(_, what)| ends(what));
    crash.map_or(Moment::NEVER, |(at, _)| at)
}
