//! Changes of units of work, for replicas and for the disk.
//!
//! *Policy*: a unit (a command, a transaction, a script) is passed on as a whole, at its end, by its
//! effect: the state in which it left each key it touched, deadlines as points in time. A reader of
//! the journal that has applied a unit holds what the writer held after it; what happened in the
//! middle of a unit is not passed on. A value is cloned, which shares its chunks: the next write to the value
//! copies one chunk.

use crate::engine::channel::Space;
use crate::engine::data::keyspace::Db;
use crate::engine::libraries::Library;
use crate::engine::notify::Class;
use crate::engine::time::UnixMillis;
use crate::engine::value::{EncodingHint, Value};
use crate::resp::Blob;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Bytes that the protocol of replication spends on a change, beside the key and the value.
const CHANGE_BYTES: u64 = 32;

/// A change of a unit.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// The key holds this now.
    Put {
        db: usize,
        key: Blob,
        value: Value,
        form: EncodingHint,
        deadline: Option<UnixMillis>,
    },
    Remove {
        db: usize,
        key: Blob,
    },
    Flush {
        db: usize,
    },
    Swap {
        first: usize,
        second: usize,
    },
    /// Everything was put in the place of everything.
    Replace(Vec<Db>),
    /// Libraries of functions were removed, then others were added.
    Libraries {
        removed: Vec<Blob>,
        added: Vec<Arc<Library>>,
    },
    /// A keyspace event, for subscribers of a replica.
    Event {
        db: usize,
        class: Class,
        event: String,
        key: Blob,
    },
    /// A message to a channel.
    Publish {
        space: Space,
        channel: Blob,
        message: Blob,
    },
}

impl Change {
    fn size_bytes(&self) -> u64 {
        let text = match self {
            Self::Put { key, value, .. } => key.len() + value.as_type().payload_bytes(),
            Self::Remove { key, .. } => key.len(),
            // The command that caused it reaches the replica by itself.
            Self::Event { .. } => return 0,
            Self::Publish {
                channel, message, ..
            } => channel.len() + message.len(),
            Self::Libraries { removed, added } => texts_of(removed, added),
            Self::Flush { .. } | Self::Swap { .. } | Self::Replace(_) => 0,
        };
        CHANGE_BYTES + text as u64
    }

    /// Estimated size in memory, for the limits of queues.
    fn memory_bytes(&self) -> usize {
        let texts = match self {
            Self::Put { key, value, .. } => key.len() + value.as_type().payload_bytes(),
            Self::Remove { key, .. } => key.len(),
            Self::Event { event, key, .. } => event.len() + key.len(),
            Self::Publish {
                channel, message, ..
            } => channel.len() + message.len(),
            Self::Libraries { removed, added } => texts_of(removed, added),
            Self::Replace(dbs) => dbs.iter().map(Db::payload_bytes).sum(),
            Self::Flush { .. } | Self::Swap { .. } => 0,
        };
        size_of::<Self>() + texts
    }
}

/// Bytes of the texts of a change of libraries.
fn texts_of(removed: &[Blob], added: &[Arc<Library>]) -> usize {
    let names = removed.iter().map(|name| name.len());
    let added = added.iter().map(|library| library.size_bytes());
    names.chain(added).sum()
}

/// Changes of one unit.
#[derive(Clone, Debug)]
pub struct Unit {
    pub(crate) changes: Vec<Change>,
    /// The writer's replication offset behind it, bytes.
    pub offset: u64,
}

impl Unit {
    /// Estimated size in memory, for the limits of queues.
    pub fn memory_bytes(&self) -> usize {
        self.changes.iter().map(Change::memory_bytes).sum()
    }
}

/// Bytes that one unit may record (`client-output-buffer-limit replica`).
const UNIT_BYTES_MAX: usize = 256 * 1024 * 1024;

/// The changes of the unit that runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    changes: Vec<Change>,
    /// Bytes of the changes.
    bytes: usize,
    /// The unit has recorded too much: its readers get a copy of all data, and no events or messages, as a replica does
    /// that was disconnected for falling behind.
    is_overflown: bool,
    /// Keys that the unit has touched; their state is recorded at its end.
    touched: BTreeSet<(usize, Blob)>,
}

impl Journal {
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.touched.is_empty() && !self.is_overflown
    }

    pub(crate) fn touched(&mut self, db: usize, key: &[u8]) {
        if !self.is_overflown {
            self.touched.insert((db, Blob::new(key)));
        }
    }

    /// Adds a change that concerns no key; the touched keys so far are written first.
    pub(crate) fn push(&mut self, dbs: &[Db], change: Change) {
        self.settle(dbs);
        self.record(change);
        self.bound();
    }

    /// A keyspace event or a message: it comes with the change it tells of.
    pub(crate) fn tell(&mut self, change: Change) {
        self.record(change);
        self.bound();
    }

    fn record(&mut self, change: Change) {
        self.bytes += change.memory_bytes();
        self.changes.push(change);
    }

    fn bound(&mut self) {
        self.is_overflown |= self.bytes > UNIT_BYTES_MAX;
        if self.is_overflown {
            // The copy has no libraries.
            self.changes
                .retain(|change| matches!(change, Change::Libraries { .. }));
            self.touched.clear();
            self.bytes = 0;
        }
    }

    /// Writes down the state of the keys that were touched.
    fn settle(&mut self, dbs: &[Db]) {
        if self.touched.is_empty() {
            return;
        }
        // Events follow the state they tell of.
        let is_told =
            |change: &Change| matches!(change, Change::Event { .. } | Change::Publish { .. });
        let tail = self
            .changes
            .iter()
            .rev()
            .take_while(|one| is_told(one))
            .count();
        let told = self.changes.split_off(self.changes.len() - tail);
        for (db, key) in std::mem::take(&mut self.touched) {
            let change = match dbs[db].find(&key) {
                Some(slot) => Change::Put {
                    value: dbs[db].value(slot).clone(),
                    form: dbs[db].form(slot),
                    deadline: dbs[db].deadline(slot),
                    db,
                    key,
                },
                None => Change::Remove { db, key },
            };
            self.record(change);
        }
        self.changes.extend(told);
    }

    /// The unit that has ended, with the offset behind it.
    pub(crate) fn take(&mut self, dbs: &[Db], offset: u64) -> Unit {
        self.settle(dbs);
        self.bytes = 0;
        let mut changes = std::mem::take(&mut self.changes);
        if std::mem::take(&mut self.is_overflown) {
            changes.insert(0, Change::Replace(dbs.to_vec()));
        }
        let size: u64 = changes.iter().map(Change::size_bytes).sum();
        Unit {
            changes,
            offset: offset + size,
        }
    }

    /// Forgets what a unit did that will never have happened.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &Blob) -> Change {
        Change::Publish {
            space: Space::Channel,
            channel: Blob::from("news"),
            message: text.clone(),
        }
    }

    #[test]
    fn a_unit_that_records_too_much_is_passed_on_as_a_copy_of_all_data() {
        let mut db = Db::new(3);
        db.insert(b"k", Value::String(Blob::from("v")));
        let dbs = [db];
        let text = Blob::new(&vec![b'x'; 1024 * 1024]);
        let mut journal = Journal::default();
        for _ in 0..300 {
            journal.touched(0, b"k");
            journal.tell(message(&text));
            assert!(journal.bytes <= UNIT_BYTES_MAX);
        }
        let unit = journal.take(&dbs, 0);
        assert!(matches!(&unit.changes[..], [Change::Replace(all)] if all[0].len() == 1));
        assert!(journal.is_empty());
        journal.tell(message(&text));
        let unit = journal.take(&dbs, 0);
        assert!(matches!(&unit.changes[..], [Change::Publish { .. }]));
    }
}
