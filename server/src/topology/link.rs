//! A replication link: the units on their way from a master to a replica, and the lag of the replica.
//! Knows no node.

use crate::engine::{Unit, UnixMicros};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Earlier than any time.
pub(super) const AT_ONCE: UnixMicros = UnixMicros(i64::MIN);

/// `repl-backlog-size`: limit of bytes that a cut link keeps.
const BACKLOG_BYTES_MAX: u64 = 1024 * 1024;

/// Limit of bytes that wait for a replica, however large its lag (`client-output-buffer-limit
/// replica`).
const QUEUE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// How far a replica is behind its master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lag {
    /// A write arrives after this time (true time).
    Time(Duration),
    /// The latest writes have not arrived, this many. A transaction or a script counts as one.
    Units(usize),
}

impl Default for Lag {
    fn default() -> Self {
        Self::Time(Duration::ZERO)
    }
}

/// The replication link from a master to a replica.
#[derive(Debug)]
pub(super) struct ReplicationLink {
    pub(super) master: usize,
    pub(super) replica: usize,
    /// True if the link worked when it was last updated.
    pub(super) is_open: bool,
    /// The replica needs a copy of all data before any unit.
    pub(super) needs_copy: bool,
    /// Units on their way, each with its time of arrival (true time).
    pub(super) queue: VecDeque<(UnixMicros, Arc<Unit>)>,
}

impl ReplicationLink {
    /// A new link: the replica gets a copy of all data first.
    pub(super) fn new(master: usize, replica: usize, is_open: bool) -> Self {
        Self {
            master,
            replica,
            is_open,
            needs_copy: true,
            queue: VecDeque::new(),
        }
    }

    /// Number of units on their way.
    pub(super) fn in_flight(&self) -> usize {
        self.queue.len()
    }

    /// Time at which the first unit arrives, if the link works.
    pub(super) fn due(&self, lag: Lag) -> Option<UnixMicros> {
        let (due, _) = self.queue.front()?;
        match lag {
            Lag::Time(_) => Some(*due),
            Lag::Units(behind) => (self.queue.len() > behind).then_some(AT_ONCE),
        }
    }

    /// Adds a unit. If too many bytes wait, which is fewer on a cut link, the replica gets a copy
    /// instead.
    pub(super) fn push(&mut self, due: UnixMicros, unit: Arc<Unit>) {
        let due = self.queue.back().map_or(due, |(last, _)| due.max(*last));
        self.queue.push_back((due, unit));
        let (Some((_, first)), Some((_, last))) = (self.queue.front(), self.queue.back()) else {
            return;
        };
        let bound = if self.is_open {
            QUEUE_BYTES_MAX
        } else {
            BACKLOG_BYTES_MAX
        };
        if last.offset.saturating_sub(first.offset) > bound {
            self.needs_copy = true;
        }
        if self.needs_copy {
            self.queue.clear();
        }
    }
}
