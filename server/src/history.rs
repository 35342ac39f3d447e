//! What was asked and answered, for tests: off until asked for, bounded, printable.

use crate::engine::UnixMicros;
use crate::resp::{OwnedRequest, Reply};
use std::collections::VecDeque;
use std::fmt;

/// Entries kept unless the builder says otherwise; older ones are counted and forgotten.
pub const HISTORY_MAX: usize = 10_000;

/// One command.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The node's clock when it was executed.
    pub at: UnixMicros,
    /// The client's id.
    pub client_id: u64,
    /// The request.
    pub request: OwnedRequest,
    /// What the engine answered, whatever became of the answer; `None` while it is parked.
    pub reply: Option<Reply>,
}

/// The latest commands of a server, oldest first. `Display` writes one line each.
#[derive(Clone, Debug, Default)]
pub struct History {
    entries: VecDeque<Entry>,
    capacity: usize,
    lost: u64,
}

impl History {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self {
            capacity,
            ..Self::default()
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.capacity > 0
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        if self.entries.len() == self.capacity {
            self.entries.pop_front();
            self.lost += 1;
        }
        self.entries.push_back(entry);
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.lost = 0;
    }

    /// A request that was parked has its answer.
    pub(crate) fn answered(&mut self, client_id: u64, reply: &Reply) {
        let mut entries = self.entries.iter_mut().rev();
        let parked = entries.find(|entry| entry.client_id == client_id);
        if let Some(entry) = parked.filter(|entry| entry.reply.is_none()) {
            entry.reply = Some(reply.clone());
        }
    }

    /// The entries, oldest first.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Entries that were forgotten because there were too many.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_on() {
            return f.write_str("no history: ask for one with ServerBuilder::history");
        }
        if self.lost > 0 {
            writeln!(f, "({} earlier commands forgotten)", self.lost)?;
        }
        for entry in &self.entries {
            write!(
                f,
                "{:>13}.{:03} #{} {}",
                entry.at.0.div_euclid(1000),
                entry.at.0.rem_euclid(1000),
                entry.client_id,
                entry.request
            )?;
            match &entry.reply {
                Some(reply) => writeln!(f, " -> {reply:?}")?,
                None => writeln!(f, " (waits)")?,
            }
        }
        Ok(())
    }
}
