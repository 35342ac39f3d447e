//! Facts about a key beside its value: encoding, references, idle time, one at random;
//! and how it reaches into another database.

use super::Ctx;
use crate::engine::notify::Class;
use crate::engine::profile::feature;
use crate::engine::value::{EncodingHint, Value};

/// The value at which the clock of last uses wraps (`LRU_CLOCK_MAX`).
const CLOCK_MAX: i64 = (1 << 24) - 1;

/// Order of the invalidation of client caches and the keyspace events of a removal. Commands of Redis differ
/// in it, and a client that receives both sees the difference.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TouchOrder {
    /// Before all events.
    First,
    /// Before the event of the removal.
    BeforeDel,
    /// After all events.
    Last,
}

impl Ctx<'_> {
    /// Does something in another database, which exists.
    pub(crate) fn in_db<T>(&mut self, db: usize, act: impl FnOnce(&mut Self) -> T) -> T {
        let own = std::mem::replace(&mut self.session.db, db);
        let result = act(self);
        self.session.db = own;
        result
    }

    /// Ends a removal from a collection, which `event` announces. The key of an empty value goes.
    pub(crate) fn removed_from(
        &mut self,
        key: &[u8],
        is_empty: bool,
        (class, event): (Class, &str),
        order: TouchOrder,
    ) {
        if is_empty && let Some(slot) = self.find_quietly(key) {
            self.remove(slot);
        }
        if order == TouchOrder::First {
            self.touched(key);
        }
        self.notify(class, event, key);
        if order == TouchOrder::BeforeDel {
            self.touched(key);
        }
        if is_empty {
            self.notify(Class::Generic, "del", key);
        }
        if order == TouchOrder::Last {
            self.touched(key);
        }
    }

    /// Notes that the list at a key has grown or shrunk, where its encoding depends on that.
    pub(crate) fn resized_list(&mut self, key: &[u8], has_shrunk: bool) {
        if self
            .state
            .config
            .profile
            .has(feature::PACKED_SETS_AND_LISTS)
            && let Some(slot) = self.find_quietly(key)
        {
            self.resized(slot, has_shrunk);
        }
    }

    fn resized(&mut self, slot: u32, has_shrunk: bool) {
        if let Value::List(list) = self.db().value(slot) {
            let hint = list.hint_after(self.form(slot), has_shrunk, &self.state.config);
            self.db_mut().set_form(slot, hint);
        }
    }

    /// Traces that the history of the value at a slot has left.
    pub(crate) fn form(&self, slot: u32) -> EncodingHint {
        self.db().form(slot)
    }

    /// Records how the value at a key was made.
    pub(crate) fn set_form(&mut self, key: &[u8], form: EncodingHint) {
        if let Some(slot) = self.find_quietly(key) {
            self.db_mut().set_form(slot, form);
        }
    }

    /// The encoding that Redis would have for the value at a slot.
    pub(crate) fn encoding(&self, slot: u32) -> &'static str {
        let value = self.db().value(slot).as_type();
        value.encoding(self.db().form(slot), &self.state.config)
    }

    /// How many references Redis would count. Values that note their use are not shared (`server.c`:
    /// `MAXMEMORY_FLAG_NO_SHARED_INTEGERS`).
    pub(crate) fn references(&self, slot: u32) -> i64 {
        let config = &self.state.config;
        let policy = config.maxmemory_policy;
        if config.maxmemory > 0 && (policy.is_lru() || policy.is_lfu()) {
            return 1;
        }
        let value = self.db().value(slot).as_type();
        value.references(self.db().form(slot))
    }

    /// Seconds since the key was used.
    pub(crate) fn idle_seconds(&self, slot: u32) -> i64 {
        self.db().idle_seconds(slot, self.now_millis())
    }

    /// Returns the access frequency of a key, under a policy that counts accesses.
    pub(crate) fn frequency(&self, slot: u32) -> u8 {
        let (db, now, state) = (self.session.db, self.now_millis(), &self.state);
        state.data.frequency(db, slot, now, &state.config)
    }

    /// Sets the access frequency of a key.
    pub(crate) fn set_frequency(&mut self, key: &[u8], frequency: u8) {
        let now = self.now_millis();
        if let Some(slot) = self.find_quietly(key) {
            let (place, state) = ((self.session.db, slot), &mut *self.state);
            state
                .data
                .set_frequency(place, now, frequency, &state.config);
        }
    }

    /// Lets a key look as if it had not been used for so many seconds. Times that do not fit into the clock
    /// wrap, as in Redis (`object.c: objectSetLRUOrLFU`).
    pub(crate) fn set_idle(&mut self, key: &[u8], seconds: i64) {
        let clock = self.now_millis().0.div_euclid(1000) & CLOCK_MAX;
        let seconds = seconds.wrapping_mul(1000) / 1000;
        let used_at = match clock.wrapping_sub(seconds) {
            before if before < 0 => before.wrapping_add(CLOCK_MAX),
            used_at => used_at,
        };
        let used_at = used_at & CLOCK_MAX;
        if let Some(slot) = self.find_quietly(key) {
            let used_at = crate::engine::time::UnixMillis(used_at * 1000);
            self.db_mut().use_now(slot, used_at);
        }
    }

    /// A live key, drawn by the node's generator. Expired ones that are met are removed.
    pub(crate) fn random_key(&mut self) -> Option<u32> {
        loop {
            let (db, draws) = self.state.data.db_and_draws(self.session.db);
            let slot = db.random(|| draws.next_u64())?;
            if !self.is_expired(slot) {
                return Some(slot);
            }
            // While clients are paused nothing is removed, not even what has run out.
            if self.state.clients.pause.is_on() {
                return None;
            }
            self.state.expire(self.session.db, slot);
        }
    }
}
