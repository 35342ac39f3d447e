//! What remains of a lock at a moment at which no client uses it.

use crate::history::{History, Moment, What};

/// Keys, subscriptions and tasks that remain from a moment on.
pub(super) struct Look<'a> {
    pub(super) at: Moment,
    pub(super) keys: &'a [Vec<u8>],
    /// The keys without an end among them.
    pub(super) endless: &'a [Vec<u8>],
    pub(super) subscriptions: usize,
    pub(super) tasks: usize,
}

pub(super) fn looks(history: &History) -> Vec<Look<'_>> {
    let mut looks = Vec::new();
    // An untidy lock may leave keys for a lease, but none for ever where nothing went wrong.
    let tidy = history.terms.tidy;
    let mut dead = !tidy;
    for (at, what) in history.iter() {
        dead |= matches!(what, What::Crash { .. } | What::Panic { .. });
        if let What::Remains {
            keys,
            endless,
            subscriptions,
            tasks,
        } = what
        {
            looks.push(Look {
                at,
                keys: if dead { endless } else { keys },
                endless,
                subscriptions: if tidy { *subscriptions } else { 0 },
                tasks: if tidy { *tasks } else { 0 },
            });
        }
    }
    looks
}
