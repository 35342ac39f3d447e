//! One database: a slab of entries with stable slots, and a table from key to slot.
//!
//! A slot number never changes while its key lives, so it serves as a SCAN cursor: a key that is
//! there throughout a scan is always returned. Nothing here knows what time it is; whether a
//! deadline has passed is decided in `context.rs`.

use super::expiry::{Deadlines, NOWHERE, Positions};
use super::slab::Slab;
use super::time::UnixMillis;
use super::value::Value;
use crate::resp::Blob;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

const FOUND: &str = "a slot that was found holds an entry";

#[derive(Clone, Debug)]
struct Entry {
    key: Blob,
    value: Value,
    /// [`NEVER`] for a key that stays.
    deadline: UnixMillis,
    /// Where its deadline stands in the heap, or [`NOWHERE`].
    deadline_at: u32,
}

/// No deadline: what no clock will ever pass.
const NEVER: UnixMillis = UnixMillis(i64::MAX);

type Entries = Slab<Entry>;

impl Positions for Entries {
    fn moved(&mut self, slot: u32, to: u32) {
        if let Some(entry) = self.get_mut(slot) {
            entry.deadline_at = to;
        }
    }
}

/// The keys of one database.
#[derive(Clone, Debug)]
pub(crate) struct Db {
    table: HashTable<u32>,
    hasher: FixedState,
    entries: Entries,
    deadlines: Deadlines,
}

impl Db {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            table: HashTable::new(),
            hasher: FixedState::with_seed(seed),
            entries: Entries::default(),
            deadlines: Deadlines::default(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Keys that carry a deadline.
    pub(crate) fn volatile_len(&self) -> usize {
        self.deadlines.len()
    }

    /// The slot of a key, expired or not.
    #[inline]
    pub(crate) fn find(&self, key: &[u8]) -> Option<u32> {
        let is_it = |slot: &u32| {
            self.entries
                .get(*slot)
                .is_some_and(|entry| *entry.key == *key)
        };
        self.table.find(self.hash(key), is_it).copied()
    }

    /// The slot of a key, with its deadline if it has passed at `now`.
    #[inline]
    pub(crate) fn find_live(&self, key: &[u8], now: UnixMillis) -> Option<(u32, bool)> {
        let slot = self.find(key)?;
        Some((slot, now <= self.entry(slot).deadline))
    }

    #[inline]
    pub(crate) fn value(&self, slot: u32) -> &Value {
        &self.entry(slot).value
    }

    #[inline]
    pub(crate) fn value_mut(&mut self, slot: u32) -> &mut Value {
        &mut self.entries.get_mut(slot).expect(FOUND).value
    }

    pub(crate) fn key(&self, slot: u32) -> &Blob {
        &self.entry(slot).key
    }

    #[inline]
    pub(crate) fn deadline(&self, slot: u32) -> Option<UnixMillis> {
        let entry = self.entry(slot);
        (entry.deadline_at != NOWHERE).then_some(entry.deadline)
    }

    pub(crate) fn set_deadline(&mut self, slot: u32, deadline: Option<UnixMillis>) {
        let entry = self.entries.get_mut(slot).expect(FOUND);
        entry.deadline = deadline.unwrap_or(NEVER);
        match (entry.deadline_at, deadline) {
            (NOWHERE, None) => {}
            (NOWHERE, Some(deadline)) => self.deadlines.insert(slot, deadline, &mut self.entries),
            (at, Some(deadline)) => self.deadlines.update(at, deadline, &mut self.entries),
            (at, None) => self.deadlines.remove(at, &mut self.entries),
        }
    }

    /// Adds a key that is not there.
    pub(crate) fn insert(&mut self, key: &[u8], value: Value) -> u32 {
        let slot = self.entries.insert(Entry {
            key: Blob::new(key),
            value,
            deadline: NEVER,
            deadline_at: NOWHERE,
        });
        let (hasher, entries) = (&self.hasher, &self.entries);
        let rehash = |slot: &u32| {
            entries
                .get(*slot)
                .map_or(0, |entry| hasher.hash_one(&*entry.key))
        };
        self.table.insert_unique(hasher.hash_one(key), slot, rehash);
        slot
    }

    pub(crate) fn remove(&mut self, slot: u32) -> Value {
        self.set_deadline(slot, None);
        let entry = self.entries.remove(slot).expect(FOUND);
        let hash = self.hasher.hash_one(&*entry.key);
        if let Ok(found) = self.table.find_entry(hash, |other| *other == slot) {
            found.remove();
        }
        entry.value
    }

    pub(crate) fn clear(&mut self) {
        self.table = HashTable::new();
        self.entries = Entries::default();
        self.deadlines.clear();
    }

    /// The key that expires first.
    pub(crate) fn first_deadline(&self) -> Option<(UnixMillis, u32)> {
        self.deadlines.first()
    }

    /// The first used slot at or after `slot`.
    pub(crate) fn next_used(&self, slot: u32) -> Option<u32> {
        self.entries.next_used(slot)
    }

    #[inline]
    fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash_one(key)
    }

    #[inline]
    fn entry(&self, slot: u32) -> &Entry {
        self.entries.get(slot).expect(FOUND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_holds_a_lock_without_the_heap() {
        assert!(
            size_of::<Option<Entry>>() <= 96,
            "{}",
            size_of::<Option<Entry>>()
        );
    }

    #[test]
    fn slots_stay_while_others_come_and_go() {
        let mut db = Db::new(3);
        let slots: Vec<u32> = (0..1000)
            .map(|i| {
                db.insert(
                    format!("k{i}").as_bytes(),
                    Value::String(Blob::from_integer(i)),
                )
            })
            .collect();
        for (i, slot) in slots.iter().enumerate().filter(|(i, _)| i % 3 != 0) {
            db.set_deadline(*slot, Some(UnixMillis(i as i64)));
            db.remove(*slot);
        }
        assert_eq!((db.len(), db.volatile_len()), (334, 0));
        for i in (0..1000).step_by(3) {
            assert_eq!(db.find(format!("k{i}").as_bytes()), Some(slots[i]));
        }
        let mut scanned = 0;
        let mut at = 0;
        while let Some(slot) = db.next_used(at) {
            (scanned, at) = (scanned + 1, slot + 1);
        }
        assert_eq!(scanned, 334);
    }
}
