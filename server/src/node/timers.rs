//! The times at which delayed messages of connections are due.

use super::lock;
use crate::engine::UnixMicros;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

/// The times at which connections have to be served. The first time is known without a lock.
#[derive(Debug)]
pub(super) struct Timers {
    first: AtomicI64,
    all: Mutex<TimerSet>,
}

/// Timers by time. Timers of the same time fire in the order in which they were set.
#[derive(Debug, Default)]
struct TimerSet {
    due: BTreeMap<(UnixMicros, u64), u64>,
    count: u64,
}

/// Value of [`Timers::first`] without timers.
const NO_TIMER: i64 = i64::MAX;

impl Default for Timers {
    fn default() -> Self {
        Self {
            first: AtomicI64::new(NO_TIMER),
            all: Mutex::default(),
        }
    }
}

impl Timers {
    pub(super) fn insert(&self, at: UnixMicros, client_id: u64) {
        let mut all = lock(&self.all);
        all.count += 1;
        let number = all.count;
        all.due.insert((at, number), client_id);
        self.note_first(&all);
    }

    #[inline]
    pub(super) fn first(&self) -> Option<UnixMicros> {
        Some(self.first.load(Ordering::Acquire))
            .filter(|first| *first != NO_TIMER)
            .map(UnixMicros)
    }

    pub(super) fn pop_due(&self, now: UnixMicros) -> Option<u64> {
        let mut all = lock(&self.all);
        let first = all.due.first_entry().filter(|first| first.key().0 <= now)?;
        let client_id = first.remove();
        self.note_first(&all);
        Some(client_id)
    }

    fn note_first(&self, all: &TimerSet) {
        let first = all.due.first_key_value();
        self.first.store(
            first.map_or(NO_TIMER, |((at, _), _)| at.0),
            Ordering::Release,
        );
    }
}
