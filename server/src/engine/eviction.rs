//! `maxmemory`: what all data takes, whether it is too much, and which keys have to go.
//!
//! *Policy* (`evict.c: performEvictions`): before each command of a client, as long as the data takes
//! more than it may, the key that the policy finds first is removed. If none can be, commands that may
//! need memory are refused (OOM). Nothing of this happens on a replica or while clients are paused. Sizes
//! are those of MEMORY USAGE and count from what an empty server takes. Redis looks at a few keys and takes
//! the best of them; here all are looked at, or of very many a sample that the seed draws.

use super::CommandError;
use super::memory::{STARTUP_BYTES, key_bytes, table_bytes};
use super::rng::Rng;
use super::session::Session;
use super::table::{CommandSpec, CommandTable, Flags};
use super::time::UnixMillis;
use super::{Config, Db, State};
use crate::resp::{Blob, Request};
use std::collections::{BTreeMap, BTreeSet};

/// Parts of each value that are looked at.
const SAMPLES: usize = 5;
/// With more keys than these, a sample of [`SAMPLE_KEYS`] is looked at.
const KEYS_MAX: usize = 1_000;
const SAMPLE_KEYS: usize = 100;

/// `maxmemory-policy`: which keys go when memory runs short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EvictionPolicy {
    /// None: writes are refused.
    #[default]
    NoEviction,
    /// Of all keys, that which was not used for longest.
    AllKeysLru,
    /// Of all keys, that which is used least often.
    AllKeysLfu,
    /// Any key.
    AllKeysRandom,
    /// Of the keys with a deadline, that which was not used for longest.
    VolatileLru,
    /// Of the keys with a deadline, that which is used least often.
    VolatileLfu,
    /// Any key with a deadline.
    VolatileRandom,
    /// The key that would expire first.
    VolatileTtl,
}

impl EvictionPolicy {
    const NAMES: [(Self, &'static str); 8] = [
        (Self::VolatileLru, "volatile-lru"),
        (Self::VolatileLfu, "volatile-lfu"),
        (Self::VolatileRandom, "volatile-random"),
        (Self::VolatileTtl, "volatile-ttl"),
        (Self::AllKeysLru, "allkeys-lru"),
        (Self::AllKeysLfu, "allkeys-lfu"),
        (Self::AllKeysRandom, "allkeys-random"),
        (Self::NoEviction, "noeviction"),
    ];

    /// Its name, as CONFIG GET prints it.
    pub fn name(self) -> &'static str {
        let mut names = Self::NAMES.iter();
        let found = names.find(|(policy, _)| *policy == self);
        found.map_or("noeviction", |(_, name)| name)
    }

    pub(crate) fn by_name(name: &[u8]) -> Option<Self> {
        let mut names = Self::NAMES.iter();
        let found = names.find(|(_, other)| name.eq_ignore_ascii_case(other.as_bytes()));
        found.map(|(policy, _)| *policy)
    }

    /// Whether it counts how often keys are used, instead of noting when.
    #[inline]
    pub(crate) fn is_lfu(self) -> bool {
        matches!(self, Self::AllKeysLfu | Self::VolatileLfu)
    }

    fn is_volatile(self) -> bool {
        matches!(
            self,
            Self::VolatileLru | Self::VolatileLfu | Self::VolatileRandom | Self::VolatileTtl
        )
    }
}

/// What each key takes, kept up while there is a bound.
#[derive(Clone, Debug)]
pub(super) struct MemoryAccounting {
    sizes: BTreeMap<(usize, Blob), usize>,
    total: usize,
    /// Keys that were touched since they were weighed.
    stale: BTreeSet<(usize, Blob)>,
    /// Everything has to be weighed.
    is_void: bool,
    rng: Rng,
    /// Whether the command that runs began without memory left.
    pub(super) is_short: bool,
}

impl MemoryAccounting {
    /// One for a node that has a bound.
    pub(super) fn of(config: &Config) -> Option<Box<Self>> {
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

    pub(super) fn touched(&mut self, db: usize, key: &[u8]) {
        if !self.is_void {
            self.stale.insert((db, Blob::new(key)));
        }
    }

    /// Whole databases have changed.
    pub(super) fn forget(&mut self) {
        self.is_void = true;
        self.stale.clear();
        self.sizes.clear();
        self.total = 0;
    }

    /// What all data takes now.
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

impl State {
    /// Whole databases have changed.
    pub(super) fn data_replaced(&mut self) {
        if let Some(accounting) = &mut self.accounting {
            accounting.forget();
        }
    }

    /// The bound, or what counts, is another one.
    pub(super) fn bound_memory(&mut self) {
        if self.accounting.is_none() || self.config.maxmemory == 0 {
            self.accounting = MemoryAccounting::of(&self.config);
        }
        self.data_replaced();
        // Nobody is refused anything here.
        let _is_enough = self.make_room();
    }

    /// The key that goes next, by its database and slot.
    fn victim(&mut self, now: UnixMillis) -> Option<(usize, u32)> {
        let accounting = self.accounting.as_mut()?;
        let (config, rng) = (&self.config, &mut accounting.rng);
        let policy = config.maxmemory_policy;
        let is_volatile = policy.is_volatile();
        let dbs = || self.dbs.iter().enumerate();
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
                        // Of several the one whose place comes first.
                        if best.is_none_or(|(most, _)| idle > most) {
                            best = Some((idle, (number, slot)));
                        }
                    }
                }
                best.map(|(_, place)| place)
            }
        }
    }

    /// Removes keys until the rest fits; false if it does not (`evict.c: performEvictions`).
    pub(crate) fn make_room(&mut self) -> bool {
        if self.pause.is_on()
            || self.replication.is_replica() && self.config.replica_ignore_maxmemory
        {
            return true;
        }
        loop {
            let Some(accounting) = &mut self.accounting else {
                return true;
            };
            let bytes = accounting.weigh(&self.dbs, &self.config);
            if bytes as u64 <= self.config.maxmemory {
                return true;
            }
            let Some((db, slot)) = self.victim(self.now.millis()) else {
                return false;
            };
            let key = self.dbs[db].key(slot).clone();
            self.evict(db, &key);
        }
    }

    /// In front of each command of a client while there is a bound.
    #[cold]
    pub(super) fn memory_gate(
        &mut self,
        table: &CommandTable,
        session: &Session,
        spec: &CommandSpec,
        request: Request<'_>,
    ) -> Result<(), CommandError> {
        let is_short = !self.make_room();
        if let Some(accounting) = &mut self.accounting {
            accounting.is_short = is_short;
        }
        if !is_short {
            return Ok(());
        }
        let denies = match &session.queue {
            Some(queue) if spec.name == "exec" => {
                let mut entries = (0..queue.len()).filter_map(|at| queue.get(at));
                entries.any(|(request, (number, _))| {
                    self.needs_memory(table.entry(number).spec, request)
                })
            }
            // What is queued takes memory, too.
            Some(_) => !["discard", "multi", "quit", "reset"].contains(&spec.name),
            None => self.needs_memory(spec, request),
        };
        if denies {
            Err(CommandError::OutOfMemory)
        } else {
            Ok(())
        }
    }

    /// Whether a request may need memory; a script that says how it may be run, unless it says that it
    /// does not (`eval.c: evalGetCommandFlags`).
    fn needs_memory(&self, spec: &CommandSpec, request: Request<'_>) -> bool {
        #[cfg(feature = "script")]
        if ["eval", "evalsha", "eval_ro", "evalsha_ro"].contains(&spec.name)
            && let Some(body_or_sha) = request.arg(1)
        {
            let is_sha = spec.name.starts_with("evalsha");
            return self.scripts.needs_memory(body_or_sha, is_sha);
        }
        #[cfg(not(feature = "script"))]
        let _unused = request;
        spec.flags.has(Flags::DENYOOM)
    }

    /// Whether a script may not call this for want of memory: unless it has written before
    /// (`script.c: scriptVerifyOOM`).
    pub(super) fn script_is_short(&self, spec: &CommandSpec) -> bool {
        let is_short = self
            .accounting
            .as_ref()
            .is_some_and(|accounting| accounting.is_short);
        is_short && spec.flags.has(Flags::DENYOOM) && !self.script_wrote && !self.script_allows_oom
    }
}
