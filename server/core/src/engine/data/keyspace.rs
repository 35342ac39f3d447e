//! One database: a slab of entries with stable slots, and a table from key to slot.
//!
//! A slot number never changes while its key lives, so it serves as a SCAN cursor: a key that is
//! there throughout a scan is always returned. Nothing here knows what time it is; whether a
//! deadline has passed is decided in `context.rs`.

use crate::engine::config::Config;
use crate::engine::data::expiry::{Deadlines, NOWHERE, Positions};
use crate::engine::data::frequency;
use crate::engine::data::slab::Slab;
use crate::engine::time::UnixMillis;
use crate::engine::value::{EncodingHint, Value};
use crate::resp::Blob;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::{BuildHasher, Hasher as _};

/// Random places that are tried before the next used one is taken.
const PROBES_MAX: usize = 64;

const FOUND: &str = "a slot that was found holds an entry";

#[derive(Clone, Debug)]
struct Entry {
    key: Blob,
    value: Value,
    /// [`NEVER`] for a key that stays.
    deadline: UnixMillis,
    /// Position of its deadline in the heap, or [`NOWHERE`].
    deadline_at: u32,
    /// When the key was used last: the low 24 bits of the Unix time in seconds, as Redis keeps them; or
    /// how often, see `frequency.rs`.
    used_at: [u8; 3],
    form: EncodingHint,
}

/// Values that the clock of last uses can show (`LRU_CLOCK_MAX`), and one more.
const CLOCK_SIZE: i64 = 1 << 24;

/// `server.h: getLRUClock`.
#[inline]
fn clock_of(now: UnixMillis) -> [u8; 3] {
    let [low, middle, high, ..] = now.0.div_euclid(1000).rem_euclid(CLOCK_SIZE).to_le_bytes();
    [low, middle, high]
}

/// No deadline: what no clock will ever pass.
const NEVER: UnixMillis = UnixMillis(i64::MAX);

type Entries = Slab<Entry>;

impl Positions for Entries {
    fn deadline(&self, slot: u32) -> UnixMillis {
        self.get(slot).map_or(NEVER, |entry| entry.deadline)
    }

    fn moved(&mut self, slot: u32, to: u32) {
        if let Some(entry) = self.get_mut(slot) {
            entry.deadline_at = to;
        }
    }
}

/// A slot number with the hash of the key there: the table grows, and a key leaves it, without a look at the key.
#[derive(Clone, Copy, Debug)]
struct Place {
    slot: u32,
    hash: u32,
}

impl Place {
    /// The hash as the table takes it, which looks at the lowest bits and at the seven highest.
    #[inline]
    fn spread(hash: u32) -> u64 {
        u64::from(hash) | u64::from(hash) << 32
    }
}

/// The keys of one database.
#[derive(Clone, Debug)]
pub struct Db {
    table: HashTable<Place>,
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

    /// Number of keys, expired ones that were not removed included.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// True if there is no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keys that carry a deadline.
    pub(crate) fn volatile_len(&self) -> usize {
        self.deadlines.len()
    }

    /// Mean time to live of the keys with a deadline, milliseconds; 0 without such keys. Redis estimates it from the
    /// samples of its active expiry cycle.
    pub(crate) fn mean_ttl(&self, now: UnixMillis) -> i64 {
        let count = self.deadlines.len() as i128;
        let slots = (0..self.deadlines.len()).filter_map(|at| self.deadlines.nth(at));
        let left = slots.filter_map(|slot| self.deadline(slot));
        let left = left.map(|deadline| i128::from(deadline.0.saturating_sub(now.0).max(0)));
        left.sum::<i128>().checked_div(count).unwrap_or(0) as i64
    }

    /// The slot of a key, expired or not.
    #[inline]
    pub(crate) fn find(&self, key: &[u8]) -> Option<u32> {
        let hash = self.hash(key);
        let is_it = |place: &Place| place.hash == hash && *self.entry(place.slot).key == *key;
        let place = self.table.find(Place::spread(hash), is_it)?;
        Some(place.slot)
    }

    /// The slot of a key, with its deadline if it has passed at `now`.
    #[inline]
    pub(crate) fn find_live(&self, key: &[u8], now: UnixMillis) -> Option<(u32, bool)> {
        let slot = self.find(key)?;
        let deadline = self.entry(slot).deadline;
        Some((slot, now <= deadline))
    }

    /// The value of a key that is used now.
    #[inline]
    pub(crate) fn use_value(&mut self, slot: u32, now: UnixMillis) -> &mut Value {
        let entry = self.entries.get_mut(slot).expect(FOUND);
        entry.used_at = clock_of(now);
        &mut entry.value
    }

    /// Replaces the value of a key. Returns true if the key has a deadline.
    #[inline]
    pub(crate) fn replace(&mut self, slot: u32, value: Value) -> bool {
        let entry = self.entries.get_mut(slot).expect(FOUND);
        entry.value = value;
        entry.form = EncodingHint::Natural;
        entry.deadline_at != NOWHERE
    }

    #[inline]
    pub(crate) fn value(&self, slot: u32) -> &Value {
        &self.entry(slot).value
    }

    #[inline]
    pub(crate) fn value_mut(&mut self, slot: u32) -> &mut Value {
        &mut self.entries.get_mut(slot).expect(FOUND).value
    }

    /// The key is being used.
    #[inline]
    pub(crate) fn use_now(&mut self, slot: u32, now: UnixMillis) {
        self.entries.get_mut(slot).expect(FOUND).used_at = clock_of(now);
    }

    /// Seconds since the last use; a clock that went back shows as a very long time
    /// (`evict.c: estimateObjectIdleTime`).
    pub(crate) fn idle_seconds(&self, slot: u32, now: UnixMillis) -> i64 {
        let seconds =
            |[low, middle, high]: [u8; 3]| i64::from(u32::from_le_bytes([low, middle, high, 0]));
        let (now, used_at) = (seconds(clock_of(now)), seconds(self.entry(slot).used_at));
        if now >= used_at {
            now - used_at
        } else {
            now + CLOCK_SIZE - 1 - used_at
        }
    }

    /// Counts a use of the key; `draw` gives a number from 0 to 1.
    pub(crate) fn count_use(
        &mut self,
        slot: u32,
        now: UnixMillis,
        config: &Config,
        draw: impl FnOnce() -> f64,
    ) {
        let counter = self.frequency(slot, now, config.lfu_decay_time);
        let counter = frequency::counted(counter, config.lfu_log_factor, draw);
        self.set_frequency(slot, now, counter);
    }

    /// Access frequency of the key, from 0 to 255.
    pub(crate) fn frequency(&self, slot: u32, now: UnixMillis, minutes_per_loss: i64) -> u8 {
        frequency::decayed(self.entry(slot).used_at, now, minutes_per_loss)
    }

    /// The counter and the minute of the last use, under an LFU policy.
    pub(in crate::engine) fn use_bits(&self, slot: u32) -> frequency::Bits {
        self.entry(slot).used_at
    }

    pub(in crate::engine) fn set_use_bits(&mut self, slot: u32, bits: frequency::Bits) {
        self.entries.get_mut(slot).expect(FOUND).used_at = bits;
    }

    pub(crate) fn set_frequency(&mut self, slot: u32, now: UnixMillis, frequency: u8) {
        let bits = frequency::bits(frequency, now);
        self.entries.get_mut(slot).expect(FOUND).used_at = bits;
    }

    pub(crate) fn form(&self, slot: u32) -> EncodingHint {
        self.entry(slot).form
    }

    #[inline]
    pub(crate) fn set_form(&mut self, slot: u32, form: EncodingHint) {
        self.entries.get_mut(slot).expect(FOUND).form = form;
    }

    /// Returns a random key, each with about the same probability; `draw` returns random numbers.
    pub(crate) fn random(&self, mut draw: impl FnMut() -> u64) -> Option<u32> {
        let size = u64::from(self.entries.size());
        if self.is_empty() {
            return None;
        }
        // If few places are used, the next one after a random place is random enough.
        for _ in 0..PROBES_MAX {
            let slot = (draw() % size) as u32;
            if self.entries.get(slot).is_some() {
                return Some(slot);
            }
        }
        let from = (draw() % size) as u32;
        self.next_used(from).or_else(|| self.next_used(0))
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

    /// Adds a missing key.
    pub(crate) fn insert(&mut self, key: &[u8], value: Value) -> u32 {
        let slot = self.entries.insert(Entry {
            key: Blob::new(key),
            value,
            deadline: NEVER,
            deadline_at: NOWHERE,
            used_at: [0; 3],
            form: EncodingHint::Natural,
        });
        let hash = self.hash(key);
        let spread = |place: &Place| Place::spread(place.hash);
        self.table
            .insert_unique(Place::spread(hash), Place { slot, hash }, spread);
        slot
    }

    /// Puts a key in the state that it has on another node.
    pub(crate) fn put(
        &mut self,
        key: &[u8],
        value: Value,
        form: EncodingHint,
        deadline: Option<UnixMillis>,
    ) {
        let slot = match self.find(key) {
            Some(slot) => {
                *self.value_mut(slot) = value;
                slot
            }
            None => self.insert(key, value),
        };
        self.set_form(slot, form);
        self.set_deadline(slot, deadline);
    }

    pub(crate) fn remove(&mut self, slot: u32) -> Value {
        self.set_deadline(slot, None);
        let entry = self.entries.remove(slot).expect(FOUND);
        let hash = Place::spread(self.hash(&entry.key));
        if let Ok(found) = self.table.find_entry(hash, |place| place.slot == slot) {
            found.remove();
        }
        entry.value
    }

    pub(crate) fn clear(&mut self) {
        self.table = HashTable::new();
        self.entries = Entries::default();
        self.deadlines.clear();
    }

    /// Bytes of all keys and values, as replication counts them.
    pub(in crate::engine) fn payload_bytes(&self) -> usize {
        let mut slots = std::iter::successors(self.next_used(0), |slot| self.next_used(slot + 1));
        let size = |slot: u32| self.key(slot).len() + self.value(slot).as_type().payload_bytes();
        slots.by_ref().map(size).sum()
    }

    /// Returns any key with a deadline.
    pub(crate) fn volatile(&self, at: usize) -> Option<u32> {
        self.deadlines.nth(at)
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
    fn hash(&self, key: &[u8]) -> u32 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(key);
        let hash = hasher.finish();
        (hash ^ hash >> 32) as u32
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
    fn the_mean_time_to_live_counts_keys_with_a_deadline() {
        let mut db = Db::new(3);
        assert_eq!(db.mean_ttl(UnixMillis(0)), 0);
        for (key, deadline) in [("a", Some(100)), ("b", Some(300)), ("c", None)] {
            let slot = db.insert(key.as_bytes(), Value::String(Blob::from_integer(1)));
            db.set_deadline(slot, deadline.map(UnixMillis));
        }
        assert_eq!(db.mean_ttl(UnixMillis(0)), 200);
        // An expired key that was not removed yet counts as 0.
        assert_eq!(db.mean_ttl(UnixMillis(200)), 50);
    }

    #[test]
    fn idle_times_are_as_redis_counts_them() {
        let mut db = Db::new(3);
        let slot = db.insert(b"k", Value::String(Blob::from_integer(1)));
        for (used, now, expected) in [
            (0, 0, 0),
            (999, 1000, 1),
            (1000, 1999, 0),
            (5_000, 60_000, 55),
            (60_000, 5_000, CLOCK_SIZE - 1 - 55),
            ((CLOCK_SIZE - 1) * 1000, CLOCK_SIZE * 1000, 0),
            (-1, 0, 0),
        ] {
            db.use_now(slot, UnixMillis(used));
            assert_eq!(
                db.idle_seconds(slot, UnixMillis(now)),
                expected,
                "{used} {now}"
            );
        }
    }

    #[test]
    fn every_key_is_drawn() {
        let mut rng = crate::engine::Rng::new(5);
        let mut db = Db::new(3);
        assert_eq!(db.random(|| rng.next_u64()), None);
        let slots: Vec<u32> = (0..2000)
            .map(|i: i32| db.insert(&i.to_le_bytes(), Value::String(Blob::default())))
            .collect();
        for slot in slots.iter().filter(|slot| *slot % 400 != 7) {
            db.remove(*slot);
        }
        let mut drawn: Vec<_> = (0..500)
            .filter_map(|_| db.random(|| rng.next_u64()))
            .collect();
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn, [7, 407, 807, 1207, 1607]);
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
