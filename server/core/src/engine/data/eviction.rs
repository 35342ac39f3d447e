//! `maxmemory`: what all data takes, whether it is too much, and which keys have to go.
//!
//! *Policy* (`evict.c: performEvictions`): before each command of a client, as long as the data takes
//! more than it may, the key that the policy finds first is removed. If none can be, commands that may
//! need memory are refused (OOM). Requests and replies that clients have waiting count too, those of replicas do not. Nothing of this happens on a replica or while clients are paused. Sizes
//! are those of MEMORY USAGE and count from what an empty server takes. Redis looks at a few keys and takes
//! the best of them; here all are looked at, or of very many a sample that the seed draws.

use super::Excess;
use super::keyspace::Db;
use super::memory::{STARTUP_BYTES, key_bytes, table_bytes};
use crate::engine::config::Config;
use crate::engine::eviction_policy::EvictionPolicy;
use crate::engine::rng::Rng;
use crate::engine::time::UnixMillis;
use crate::resp::Blob;
use std::collections::{BTreeMap, BTreeSet};

/// Parts of each value that are looked at.
const SAMPLES: usize = 5;
/// With more keys than these, a sample of [`SAMPLE_KEYS`] is looked at.
const KEYS_MAX: usize = 1_000;
const SAMPLE_KEYS: usize = 100;

/// Bytes of each key, kept up to date while `maxmemory` is set.
#[derive(Clone, Debug)]
pub(in crate::engine) struct MemoryAccounting {
    sizes: BTreeMap<(usize, Blob), usize>,
    total: usize,
    /// Keys that were touched since they were weighed.
    stale: BTreeSet<(usize, Blob)>,
    /// Everything has to be weighed.
    is_void: bool,
    rng: Rng,
    /// True if the running command started without free memory.
    pub(in crate::engine) is_short: bool,
}

impl MemoryAccounting {
    /// Makes the accounting of a node with a memory limit.
    pub(in crate::engine) fn of(config: &Config) -> Option<Box<Self>> {
        let accounting = Self {
            sizes: BTreeMap::new(),
            total: 0,
            stale: BTreeSet::new(),
            is_void: true,
            rng: Rng::for_component(config.seed, "eviction"),
            is_short: false,
        };
        (config.maxmemory > 0).then(|| Box::new(accounting))
    }

    pub(in crate::engine) fn touched(&mut self, db: usize, key: &[u8]) {
        if !self.is_void {
            self.stale.insert((db, Blob::new(key)));
        }
    }

    /// Handles that whole databases have changed.
    pub(in crate::engine) fn forget(&mut self) {
        self.is_void = true;
        self.stale.clear();
        self.sizes.clear();
        self.total = 0;
    }

    /// Bytes of all data now.
    fn weigh(&mut self, dbs: &[Db], config: &Config) -> usize {
        if std::mem::take(&mut self.is_void) {
            for (number, db) in dbs.iter().enumerate() {
                let mut at = 0;
                while let Some(slot) = db.next_used(at) {
                    at = slot + 1;
                    let bytes = key_bytes(db, slot, SAMPLES, config);
                    self.total += bytes;
                    self.sizes.insert((number, db.key(slot).clone()), bytes);
                }
            }
        }
        for (number, key) in std::mem::take(&mut self.stale) {
            let db = &dbs[number];
            let bytes = db
                .find(&key)
                .map(|slot| key_bytes(db, slot, SAMPLES, config));
            let before = match bytes {
                Some(bytes) => self.sizes.insert((number, key), bytes),
                None => self.sizes.remove(&(number, key)),
            };
            self.total = self.total - before.unwrap_or(0) + bytes.unwrap_or(0);
        }
        let tables: usize = dbs.iter().map(table_bytes).sum();
        STARTUP_BYTES + self.total + tables
    }

    /// Compares the data and `others` bytes with `maxmemory`.
    pub(super) fn excess(
        &mut self,
        dbs: &[Db],
        others: usize,
        config: &Config,
        now: UnixMillis,
    ) -> Excess {
        if (self.weigh(dbs, config) + others) as u64 <= config.maxmemory {
            return Excess::None;
        }
        match self.victim(dbs, config, now) {
            Some((db, slot)) => Excess::Evict { db, slot },
            None => Excess::Stays,
        }
    }

    /// The key that goes next, by its database and slot.
    fn victim(&mut self, dbs: &[Db], config: &Config, now: UnixMillis) -> Option<(usize, u32)> {
        let rng = &mut self.rng;
        let policy = config.maxmemory_policy;
        let is_volatile = policy.is_volatile();
        let dbs = || dbs.iter().enumerate();
        let each = |db: &Db| {
            if is_volatile {
                db.volatile_len()
            } else {
                db.len()
            }
        };
        match policy {
            EvictionPolicy::NoEviction => None,
            EvictionPolicy::VolatileTtl => {
                let firsts = dbs().filter_map(|(number, db)| {
                    let (deadline, slot) = db.first_deadline()?;
                    Some((deadline, number, slot))
                });
                firsts.min().map(|(_, db, slot)| (db, slot))
            }
            EvictionPolicy::AllKeysRandom | EvictionPolicy::VolatileRandom => {
                let all: usize = dbs().map(|(_, db)| each(db)).sum();
                let mut place = (all > 0).then(|| below(rng, all))?;
                let (number, db) = dbs().find(|(_, db)| {
                    let is_here = place < each(db);
                    if !is_here {
                        place -= each(db);
                    }
                    is_here
                })?;
                drawn(db, is_volatile, rng).map(|slot| (number, slot))
            }
            EvictionPolicy::AllKeysLru
            | EvictionPolicy::VolatileLru
            | EvictionPolicy::AllKeysLfu
            | EvictionPolicy::VolatileLfu => {
                let mut best = None;
                for (number, db) in dbs() {
                    for slot in candidates(db, is_volatile, rng) {
                        let idle = if policy.is_lfu() {
                            255 - i64::from(db.frequency(slot, now, config.lfu_decay_time))
                        } else {
                            db.idle_seconds(slot, now)
                        };
                        // Among equals the first place wins.
                        if best.is_none_or(|(most, _)| idle > most) {
                            best = Some((idle, (number, slot)));
                        }
                    }
                }
                best.map(|(_, place)| place)
            }
        }
    }
}

/// A number below `bound`, which is not 0.
fn below(rng: &mut Rng, bound: usize) -> usize {
    (rng.next_u64() % bound as u64) as usize
}

/// The keys of a database that a policy looks at.
fn candidates(db: &Db, is_volatile: bool, rng: &mut Rng) -> Vec<u32> {
    let count = if is_volatile {
        db.volatile_len()
    } else {
        db.len()
    };
    let mut found = Vec::new();
    if count > KEYS_MAX {
        found.extend((0..SAMPLE_KEYS).filter_map(|_| drawn(db, is_volatile, rng)));
        return found;
    }
    if is_volatile {
        found.extend((0..count).filter_map(|at| db.volatile(at)));
        found.sort_unstable();
        return found;
    }
    let mut at = 0;
    while let Some(slot) = db.next_used(at) {
        found.push(slot);
        at = slot + 1;
    }
    found
}

fn drawn(db: &Db, is_volatile: bool, rng: &mut Rng) -> Option<u32> {
    if is_volatile {
        (db.volatile_len() > 0)
            .then(|| below(rng, db.volatile_len()))
            .and_then(|at| db.volatile(at))
    } else {
        db.random(|| rng.next_u64())
    }
}
