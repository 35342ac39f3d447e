//! What remains of a lock at a moment at which no client uses it.

use crate::history::{History, Moment, What};
use std::collections::BTreeSet;

/// Keys, subscriptions and tasks that remain from a moment on.
pub(super) struct Look<'a> {
    pub(super) at: Moment,
    pub(super) keys: &'a [Vec<u8>],
    /// The keys without an end among them.
    pub(super) endless: &'a [Vec<u8>],
    pub(super) subscriptions: usize,
    pub(super) tasks: usize,
}

/// Number of client processes that have called the lock in the run.
fn processes(history: &History) -> usize {
    let callers = history.iter().filter_map(|(_, what)| {
        if let What::Invoke { actor, .. } = what {
            Some(actor.host)
        } else {
            None
        }
    });
    callers.collect::<BTreeSet<u8>>().len()
}

pub(super) fn looks(history: &History) -> Vec<Look<'_>> {
    let mut looks = Vec::new();
    // An untidy lock may leave keys for a lease, but none for ever where nothing went wrong.
    let tidy = history.terms.tidy;
    let mut dead = !tidy;
    // A process may have opened its subscription, and begun its tasks, as soon as it has the lock object.
    let processes = processes(history);
    let kept = match history.terms.stays_subscribed {
        true => processes,
        false => 0,
    };
    let kept_tasks = processes * usize::try_from(history.terms.kept_tasks).unwrap_or(usize::MAX);
    for (at, what) in history.iter() {
        dead |= matches!(what, What::Crash { .. } | What::Panic { .. });
        if let What::Remains {
            keys,
            endless,
            subscriptions,
            tasks,
        } = what
        {
            // The task behind a subscription goes on when its connection breaks, to subscribe again.
            let tasks_stay = kept.saturating_add(kept_tasks);
            looks.push(Look {
                at,
                keys: if dead { endless } else { keys },
                endless,
                subscriptions: if tidy {
                    subscriptions.saturating_sub(kept)
                } else {
                    0
                },
                tasks: if tidy {
                    tasks.saturating_sub(tasks_stay)
                } else {
                    0
                },
            });
        }
    }
    looks
}
