//! What units of work have changed, for replicas and for the disk.
//!
//! *Policy*: a unit (a command, a transaction, a script) is passed on as a whole, at its end, by its
//! effect: the state in which it left each key it touched, deadlines as points in time. A reader of
//! the journal that has applied a unit holds what the writer held after it; what happened in the
//! middle of a unit is not passed on. A value is cloned, which shares its chunks: the next write to the value
//! copies one chunk.

use crate::engine::channel::Space;
use crate::engine::data::keyspace::Db;
use crate::engine::notify::Class;
use crate::engine::time::UnixMillis;
use crate::engine::value::{EncodingHint, Value};
use crate::resp::Blob;
use std::collections::BTreeSet;

/// Bytes that the protocol of replication spends on a change, beside the key and the value.
const CHANGE_BYTES: u64 = 32;

/// One thing that a unit has done.
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
    /// A keyspace event, for whoever listens at a replica.
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
            // What a replica is told by the command that caused it.
            Self::Event { .. } => return 0,
            Self::Publish {
                channel, message, ..
            } => channel.len() + message.len(),
            Self::Flush { .. } | Self::Swap { .. } | Self::Replace(_) => 0,
        };
        CHANGE_BYTES + text as u64
    }
}

/// What one unit has changed.
#[derive(Clone, Debug)]
pub struct Unit {
    pub(crate) changes: Vec<Change>,
    /// The writer's replication offset behind it, bytes.
    pub(crate) offset: u64,
}

/// The changes of the unit that runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    changes: Vec<Change>,
    /// Keys whose state is asked for at the end.
    touched: BTreeSet<(usize, Blob)>,
}

impl Journal {
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.touched.is_empty()
    }

    pub(crate) fn touched(&mut self, db: usize, key: &[u8]) {
        self.touched.insert((db, Blob::new(key)));
    }

    /// Something that is no key's; what was touched before it is written first.
    pub(crate) fn push(&mut self, dbs: &[Db], change: Change) {
        self.settle(dbs);
        self.changes.push(change);
    }

    /// A keyspace event or a message: it comes with the change it tells of.
    pub(crate) fn tell(&mut self, change: Change) {
        self.changes.push(change);
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
            self.changes.push(change);
        }
        self.changes.extend(told);
    }

    /// The unit that has ended, with the offset behind it.
    pub(crate) fn take(&mut self, dbs: &[Db], offset: u64) -> Unit {
        self.settle(dbs);
        let changes = std::mem::take(&mut self.changes);
        let size: u64 = changes.iter().map(Change::size_bytes).sum();
        Unit {
            changes,
            offset: offset + size,
        }
    }

    /// Forgets what a unit did that will never have happened.
    pub(crate) fn forget(&mut self) {
        self.changes.clear();
        self.touched.clear();
    }
}
