//! The data of a node: databases, which keys expire, and what memory the data takes.
//!
//! *Invariants.* Every key lives in exactly one database at one slot, and the slot stays while the key lives. Every
//! deadline stands in the heap of its database. The accounting exists exactly while `maxmemory` bounds the data;
//! it learns of every change through [`Data::note_touched`] and [`Data::forget_sizes`].
//!
//! Clients, replicas and subscribers are unknown here: `state/change.rs` tells them.

#[cfg(feature = "script")]
mod digest;
pub(super) mod eviction;
mod expiry;
pub(super) mod frequency;
pub(super) mod keyspace;
pub(super) mod memory;
pub(super) mod rdb_file;
mod slab;

use super::config::Config;
use super::profile::feature;
use super::rng::Rng;
use super::time::UnixMillis;
use super::value::{Value, shared_integer as shared_integer_of};
use crate::resp::Blob;
use eviction::MemoryAccounting;
use keyspace::Db;
use std::collections::{BTreeMap, BTreeSet};

/// All databases of a node.
#[derive(Debug)]
pub(super) struct Data {
    dbs: Vec<Db>,
    /// Sizes of all keys; absent without `maxmemory`.
    accounting: Option<Box<MemoryAccounting>>,
    /// Keys of hashes whose fields have deadlines; absent in versions without such hashes.
    timed_fields: Option<TimedFields>,
    /// Uses of the integers that keys share, under an LFU policy: Redis counts them at the value. A key notes them too
    /// when it is used, for the value that replaces the integer.
    shared_uses: BTreeMap<u16, frequency::Bits>,
    /// Decides whether a use of a key counts (LFU).
    uses: Rng,
    /// Draws the answers of commands such as RANDOMKEY.
    draws: Rng,
    /// DEBUG SET-ACTIVE-EXPIRE.
    is_active_expire_on: bool,
    /// Number of guards that switch the active expiry cycle off.
    lazy_guards: usize,
}

/// Keys of hashes, by the earliest deadline of their fields. A key may stand here more than once, and may have
/// changed since.
type TimedFields = BTreeSet<(UnixMillis, usize, Blob)>;

/// The integer at a slot if keys share it. With `maxmemory` and a policy that notes uses, no key shares its value
/// (`server.c: MAXMEMORY_FLAG_NO_SHARED_INTEGERS`).
fn shared_integer(db: &Db, slot: u32, config: &Config) -> Option<u16> {
    if config.maxmemory > 0 {
        return None;
    }
    let Value::String(text) = db.value(slot) else {
        return None;
    };
    shared_integer_of(text, db.form(slot))
}

impl Data {
    /// True if sizes or deadlines of fields follow the changes of keys.
    #[inline]
    pub(super) fn hears_of_changes(&self) -> bool {
        self.is_accounted() || self.timed_fields.is_some()
    }

    /// Notes the earliest deadline of the fields at a key that was changed.
    pub(super) fn note_fields(&mut self, db: usize, key: &[u8]) {
        if let Some(timed) = &mut self.timed_fields
            && let Some(slot) = self.dbs[db].find(key)
            && let Value::Hash(hash) = self.dbs[db].value(slot)
            && let Some(deadline) = hash.first_deadline()
        {
            timed.insert((deadline, db, Blob::new(key)));
        }
    }

    /// Records the deadlines of all fields again, after whole databases were swapped or replaced.
    fn note_all_fields(&mut self) {
        let Some(timed) = &mut self.timed_fields else {
            return;
        };
        timed.clear();
        for (index, db) in self.dbs.iter().enumerate() {
            let mut at = 0;
            while let Some(slot) = db.next_used(at) {
                at = slot + 1;
                if let Value::Hash(hash) = db.value(slot)
                    && let Some(deadline) = hash.first_deadline()
                {
                    timed.insert((deadline, index, db.key(slot).clone()));
                }
            }
        }
    }

    /// The next deadline of a field.
    pub(super) fn next_field_to_expire(&self) -> Option<UnixMillis> {
        let first = self.timed_fields.as_ref()?.first()?;
        Some(first.0)
    }

    /// Removes the expired fields of the hash that is noted first; its database, its key, and the names of the fields.
    pub(super) fn expire_fields(&mut self, now: UnixMillis) -> Option<(usize, Blob, Vec<Vec<u8>>)> {
        let (_, db, key) = self.timed_fields.as_mut()?.pop_first()?;
        let slot = self.dbs[db].find(&key)?;
        let Value::Hash(hash) = self.dbs[db].value_mut(slot) else {
            return None;
        };
        let names = hash.remove_expired(now);
        self.note_fields(db, &key);
        Some((db, key, names))
    }
    pub(super) fn new(config: &Config) -> Self {
        let seed = config.seed;
        let hash_seed = Rng::for_component(seed, "keyspace").next_u64();
        let count = config.databases.max(1);
        Self {
            dbs: (0..count).map(|_| Db::new(hash_seed)).collect(),
            accounting: MemoryAccounting::of(config),
            timed_fields: config
                .profile
                .has(feature::HASH_FIELD_EXPIRY)
                .then(TimedFields::default),
            shared_uses: BTreeMap::new(),
            uses: Rng::for_component(seed, "uses"),
            draws: Rng::for_component(seed, "commands"),
            is_active_expire_on: true,
            lazy_guards: 0,
        }
    }

    #[inline]
    pub(super) fn db(&self, index: usize) -> &Db {
        &self.dbs[index]
    }

    #[inline]
    pub(super) fn db_mut(&mut self, index: usize) -> &mut Db {
        &mut self.dbs[index]
    }

    /// A database and the generator for commands whose answer is drawn.
    #[inline]
    pub(super) fn db_and_draws(&mut self, index: usize) -> (&mut Db, &mut Rng) {
        (&mut self.dbs[index], &mut self.draws)
    }

    pub(super) fn databases(&self) -> &[Db] {
        &self.dbs
    }

    /// Replaces the first databases; the others stay.
    pub(super) fn load(&mut self, databases: impl IntoIterator<Item = Db>) {
        for (db, data) in self.dbs.iter_mut().zip(databases) {
            *db = data;
        }
        self.forget_sizes();
        self.note_all_fields();
    }

    /// Exchanges two databases.
    pub(super) fn swap(&mut self, first: usize, second: usize) {
        self.dbs.swap(first, second);
        self.forget_sizes();
        self.note_all_fields();
    }

    /// Notes a use of the key at a slot: that it happened, under an LFU policy, else when.
    pub(super) fn use_key(&mut self, db: usize, slot: u32, now: UnixMillis, config: &Config) {
        if config.maxmemory_policy.is_lfu() {
            if shared_integer(&self.dbs[db], slot, config).is_some() {
                let counter = self.frequency(db, slot, now, config);
                let draw = || self.uses.unit();
                let counter = frequency::counted(counter, config.lfu_log_factor, draw);
                self.set_frequency((db, slot), now, counter, config);
                return;
            }
            let uses = &mut self.uses;
            self.dbs[db].count_use(slot, now, config, || uses.unit());
        } else {
            self.dbs[db].use_now(slot, now);
        }
    }

    /// Access frequency of the key at a slot, or of the integer that it shares, from 0 to 255.
    pub(super) fn frequency(&self, db: usize, slot: u32, now: UnixMillis, config: &Config) -> u8 {
        let db = &self.dbs[db];
        match shared_integer(db, slot, config) {
            Some(integer) => {
                frequency::decayed(self.shared_bits(integer), now, config.lfu_decay_time)
            }
            None => db.frequency(slot, now, config.lfu_decay_time),
        }
    }

    /// Sets the access frequency of the key at a slot, and of the integer that it shares.
    pub(super) fn set_frequency(
        &mut self,
        (db, slot): (usize, u32),
        now: UnixMillis,
        frequency: u8,
        config: &Config,
    ) {
        self.dbs[db].set_frequency(slot, now, frequency);
        self.pass_uses_on(db, slot, config);
    }

    /// Begins to count the uses of a new key. An integer that keys share keeps its uses.
    pub(super) fn begin_uses(
        &mut self,
        (db, slot): (usize, u32),
        now: UnixMillis,
        config: &Config,
    ) {
        match shared_integer(&self.dbs[db], slot, config) {
            Some(integer) => {
                let bits = self.shared_bits(integer);
                self.dbs[db].set_use_bits(slot, bits);
            }
            None => self.dbs[db].set_frequency(slot, now, frequency::INITIAL),
        }
    }

    /// The integer at a slot, if keys share it, takes over the uses that the key has noted.
    pub(super) fn pass_uses_on(&mut self, db: usize, slot: u32, config: &Config) {
        let db = &self.dbs[db];
        if let Some(integer) = shared_integer(db, slot, config) {
            self.shared_uses.insert(integer, db.use_bits(slot));
        }
    }

    /// Redis creates these integers under no policy, so their counters begin at a minute in the past.
    fn shared_bits(&self, integer: u16) -> frequency::Bits {
        self.shared_uses.get(&integer).copied().unwrap_or_default()
    }

    /// Switches the active expiry cycle on or off.
    pub(super) fn set_active_expire(&mut self, is_on: bool) {
        self.is_active_expire_on = is_on;
    }

    /// Adds or removes one guard that switches the active expiry cycle off.
    pub(super) fn expire_lazily(&mut self, is_wanted: bool) {
        self.lazy_guards = if is_wanted {
            self.lazy_guards + 1
        } else {
            self.lazy_guards.saturating_sub(1)
        };
    }

    /// The key that the active expiry cycle removes next: its deadline, database and slot.
    pub(super) fn next_to_expire(&self) -> Option<(UnixMillis, usize, u32)> {
        if !self.is_active_expire_on || self.lazy_guards > 0 {
            return None;
        }
        let firsts = self.dbs.iter().enumerate();
        firsts
            .filter_map(|(db, keys)| {
                keys.first_deadline()
                    .map(|(deadline, slot)| (deadline, db, slot))
            })
            .min()
    }

    /// Estimated size of all data in Redis, bytes.
    pub(super) fn size_bytes(&self, config: &Config) -> usize {
        self.dbs.iter().map(|db| memory::db_bytes(db, config)).sum()
    }

    /// True if `maxmemory` bounds the data.
    #[inline]
    pub(super) fn is_accounted(&self) -> bool {
        self.accounting.is_some()
    }

    /// The size of a key may have changed.
    pub(super) fn note_touched(&mut self, db: usize, key: &[u8]) {
        if let Some(accounting) = &mut self.accounting {
            accounting.touched(db, key);
        }
    }

    /// Handles that whole databases have changed.
    pub(super) fn forget_sizes(&mut self) {
        if let Some(accounting) = &mut self.accounting {
            accounting.forget();
        }
    }

    /// `maxmemory` or the policy has changed.
    pub(super) fn bound(&mut self, config: &Config) {
        if self.accounting.is_none() || config.maxmemory == 0 {
            self.accounting = MemoryAccounting::of(config);
        }
        self.forget_sizes();
    }

    /// Returns the key to evict, by database and slot, while the data and `others` bytes take more than
    /// `maxmemory`.
    pub(super) fn excess(&mut self, others: usize, config: &Config, now: UnixMillis) -> Excess {
        match &mut self.accounting {
            Some(accounting) => accounting.excess(&self.dbs, others, config, now),
            None => Excess::None,
        }
    }

    /// Notes whether the command that runs now began without memory left.
    pub(super) fn set_short(&mut self, is_short: bool) {
        if let Some(accounting) = &mut self.accounting {
            accounting.is_short = is_short;
        }
    }

    /// True if the command that runs now began without memory left.
    pub(super) fn is_short(&self) -> bool {
        let accounting = self.accounting.as_ref();
        accounting.is_some_and(|accounting| accounting.is_short)
    }
}

/// Bytes of the data beyond `maxmemory`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Excess {
    None,
    /// The key at this slot of this database goes next.
    Evict {
        db: usize,
        slot: u32,
    },
    /// The policy allows no key to go.
    Stays,
}
