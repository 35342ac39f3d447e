//! Access of handlers to keys and values. `touched` is the only way to report a change.
//!
//! *Policy of expiry* (`expire.c`, `db.c: expireIfNeeded`): a key is gone once `now > deadline`,
//! in milliseconds. A command that meets such a key removes it, so a handler never sees one; the active
//! cycle removes the others in the order of their deadlines. `now` is one instant for the whole
//! unit (a command or a script), so nothing expires in its middle.
//!
//! *Policy of uses* (`db.c: lookupKey`): each time that Redis's command looks a live key up, whatever its type, the key
//! is used once. So a handler calls `find`, `read`, `write` or `set` as often as Redis's command calls `lookupKeyRead`,
//! `lookupKeyWrite` or `setKey`, which shows in OBJECT FREQ. Further accesses to the same key use nothing: `read_again`,
//! `write_again`, `find_quietly`, and everything that ends a command (`set_found`, `set_deadline`, `delete`, ...).

use super::{Ctx, Ttl};
use crate::engine::CommandError;
use crate::engine::data::keyspace::Db;
use crate::engine::notify::Class;
use crate::engine::origin::Origin;
use crate::engine::rng::Rng;
use crate::engine::time::UnixMillis;
use crate::engine::value::{Kind, Typed, Value};

/// A value that takes more steps is freed in another thread (`LAZYFREE_THRESHOLD`).
const LAZY_EFFORT_MIN: usize = 64;

/// Parts of the node that a handler may borrow at the same time; see [`Ctx::parts`].
pub(crate) struct Parts<'a> {
    pub(crate) db: &'a mut Db,
    /// The generator for commands whose answer is drawn.
    pub(crate) draws: &'a mut Rng,
}

impl Ctx<'_> {
    /// The caller's database.
    #[inline]
    pub(crate) fn db(&self) -> &Db {
        self.state.data.db(self.session.db)
    }

    /// All databases.
    pub(crate) fn databases(&self) -> &[Db] {
        self.state.data.databases()
    }

    /// The caller's database and the generator, borrowed side by side.
    #[inline]
    pub(crate) fn parts(&mut self) -> Parts<'_> {
        let (db, draws) = self.state.data.db_and_draws(self.session.db);
        Parts { db, draws }
    }

    #[inline]
    pub(super) fn db_mut(&mut self) -> &mut Db {
        self.state.data.db_mut(self.session.db)
    }

    /// Finds a live key, counts this as a use of the key, and returns its slot. Removes an expired key.
    #[inline(always)]
    pub(crate) fn find(&mut self, key: &[u8]) -> Option<u32> {
        let slot = self.find_quietly(key)?;
        if self.notes_times_of_use() {
            let now = self.now_millis();
            self.db_mut().use_now(slot, now);
        } else {
            self.count_use(slot);
        }
        Some(slot)
    }

    /// True if a key that this connection uses notes when that was, and nothing else.
    #[inline(always)]
    fn notes_times_of_use(&self) -> bool {
        !(self.state.config.maxmemory_policy.is_lfu() || self.session.leaves_no_traces)
    }

    /// Notes a use of a key, unless the connection leaves no traces (`db.c: lookupKey`).
    #[cold]
    fn count_use(&mut self, slot: u32) {
        if self.session.leaves_no_traces {
            return;
        }
        let (now, db, state) = (self.now_millis(), self.session.db, &mut *self.state);
        state.data.use_key(db, slot, now, &state.config);
    }

    /// The same without counting as a use of the key.
    #[inline(always)]
    pub(crate) fn find_quietly(&mut self, key: &[u8]) -> Option<u32> {
        let (slot, is_live) = self.db().find_live(key, self.now_millis())?;
        if !is_live {
            self.forget_expired(slot);
            return None;
        }
        Some(slot)
    }

    /// Removes an expired key. While clients are paused, and on a replica, the key stays, but no command
    /// sees it.
    #[cold]
    fn forget_expired(&mut self, slot: u32) {
        if !(self.state.clients.pause.is_on() || self.state.peers.replication.is_replica()) {
            self.state.expire(self.session.db, slot);
        }
    }

    /// True if a key is past its deadline; for commands that look at many keys and remove none.
    pub(crate) fn is_expired(&self, slot: u32) -> bool {
        self.db()
            .deadline(slot)
            .is_some_and(|deadline| self.now_millis() > deadline)
    }

    /// The same for a command that counts as a read (`keyspace_hits`, `keyspace_misses`).
    #[inline]
    pub(crate) fn find_for_read(&mut self, key: &[u8]) -> Option<u32> {
        let slot = self.find(key);
        self.count_read(key, slot)
    }

    /// A read that does not count as a use of the key.
    pub(crate) fn find_for_look(&mut self, key: &[u8]) -> Option<u32> {
        let slot = self.find_quietly(key);
        self.count_read(key, slot)
    }

    /// The same without the event of a key that is not there.
    pub(crate) fn find_for_inspection(&mut self, key: &[u8]) -> Option<u32> {
        let slot = self.find_quietly(key);
        let stats = &mut self.state.introspection.stats;
        match slot {
            Some(_) => stats.keyspace_hits += 1,
            None => stats.keyspace_misses += 1,
        }
        slot
    }

    #[inline]
    fn count_read(&mut self, key: &[u8], slot: Option<u32>) -> Option<u32> {
        match slot {
            Some(_) => self.state.introspection.stats.keyspace_hits += 1,
            None => self.missed(key),
        }
        slot
    }

    #[cold]
    fn missed(&mut self, key: &[u8]) {
        self.state.introspection.stats.keyspace_misses += 1;
        self.state.tell_of_miss(self.session.db, key);
    }

    /// The value of a key, counted as a read; WRONGTYPE if it is of another type.
    #[inline]
    pub(crate) fn read<T: Typed>(&mut self, key: &[u8]) -> Result<Option<&T>, CommandError> {
        let slot = self.find_quietly(key);
        match self.count_read(key, slot) {
            Some(slot) => match T::of(self.used_value(slot)) {
                Some(value) => Ok(Some(value)),
                None => Err(CommandError::WrongType),
            },
            None => Ok(None),
        }
    }

    /// The value of a live key, which is used thereby.
    #[inline]
    fn used_value(&mut self, slot: u32) -> &mut Value {
        if self.notes_times_of_use() {
            let now = self.now_millis();
            self.db_mut().use_value(slot, now)
        } else {
            self.count_use(slot);
            self.db_mut().value_mut(slot)
        }
    }

    /// The same, with the generator for commands whose answer is drawn.
    pub(crate) fn read_with_draws<T: Typed>(
        &mut self,
        key: &[u8],
    ) -> Result<(Option<&T>, &mut Rng), CommandError> {
        let slot = self.find_for_read(key);
        let Parts { db, draws, .. } = self.parts();
        let value = match slot {
            Some(slot) => Some(T::of(db.value(slot)).ok_or(CommandError::WrongType)?),
            None => None,
        };
        Ok((value, draws))
    }

    /// The value of a key, to be changed; the caller says [`Ctx::touched`] if it was.
    #[inline]
    pub(crate) fn write<T: Typed>(&mut self, key: &[u8]) -> Result<Option<&mut T>, CommandError> {
        match self.find_quietly(key) {
            Some(slot) => match T::of_mut(self.used_value(slot)) {
                Some(value) => Ok(Some(value)),
                None => Err(CommandError::WrongType),
            },
            None => Ok(None),
        }
    }

    /// The same, with the generator for commands whose answer is drawn.
    pub(crate) fn write_with_draws<T: Typed>(
        &mut self,
        key: &[u8],
    ) -> Result<(Option<&mut T>, &mut Rng), CommandError> {
        let slot = self.find(key);
        let Parts { db, draws, .. } = self.parts();
        let value = match slot {
            Some(slot) => {
                let value = T::of_mut(db.value_mut(slot));
                Some(value.ok_or(CommandError::WrongType)?)
            }
            None => None,
        };
        Ok((value, draws))
    }

    /// The value of a key that the command has looked up before.
    #[inline]
    pub(crate) fn read_again<T: Typed>(&mut self, key: &[u8]) -> Result<Option<&T>, CommandError> {
        match self.find_quietly(key) {
            Some(slot) => match T::of(self.db().value(slot)) {
                Some(value) => Ok(Some(value)),
                None => Err(CommandError::WrongType),
            },
            None => Ok(None),
        }
    }

    /// The value of a key that the command has looked up before, to be changed.
    #[inline]
    pub(crate) fn write_again<T: Typed>(
        &mut self,
        key: &[u8],
    ) -> Result<Option<&mut T>, CommandError> {
        match self.find_quietly(key) {
            Some(slot) => match T::of_mut(self.db_mut().value_mut(slot)) {
                Some(value) => Ok(Some(value)),
                None => Err(CommandError::WrongType),
            },
            None => Ok(None),
        }
    }

    /// The value of a key that a blocking command waits for. When the command runs again, the node has looked the key up
    /// for all of its waiters together.
    #[inline]
    pub(crate) fn write_awaited<T: Typed>(
        &mut self,
        key: &[u8],
    ) -> Result<Option<&mut T>, CommandError> {
        match self.origin {
            Origin::Retry => self.write_again(key),
            Origin::Client | Origin::Exec | Origin::Script => self.write(key),
        }
    }

    /// Stores a value in place of any former one.
    #[inline]
    pub(crate) fn set(&mut self, key: &[u8], value: Value, ttl: Ttl) {
        let found = self.find(key);
        self.set_found(found, key, value, ttl);
    }

    /// The same for a key that the command has looked up before.
    #[inline]
    pub(crate) fn set_found(&mut self, found: Option<u32>, key: &[u8], value: Value, ttl: Ttl) {
        let mut has_deadline = false;
        let slot = match found {
            Some(slot) => {
                if value.kind() == Kind::Stream {
                    self.signal_stream(key);
                }
                if self.db().value(slot).kind() == Kind::Stream {
                    self.state.signal_key(self.session.db, key);
                }
                has_deadline = self.db_mut().replace(slot, value);
                slot
            }
            None => self.add(key, value),
        };
        match ttl {
            Ttl::Clear if has_deadline => self.db_mut().set_deadline(slot, None),
            Ttl::Keep | Ttl::Clear => {}
            Ttl::At(deadline) => self.db_mut().set_deadline(slot, Some(deadline)),
        }
        self.touched(key);
    }

    /// Adds a missing key; the caller has to call [`Ctx::touched`].
    pub(crate) fn add(&mut self, key: &[u8], value: Value) -> u32 {
        let kind = value.kind();
        if self.state.clients.pause.is_on()
            && let Some(expired) = self.db().find(key)
        {
            self.db_mut().remove(expired);
        }
        let (slot, now) = (self.db_mut().insert(key, value), self.now_millis());
        if self.state.config.maxmemory_policy.is_lfu() {
            let (place, state) = ((self.session.db, slot), &mut *self.state);
            state.data.begin_uses(place, now, &state.config);
        } else {
            self.db_mut().use_now(slot, now);
        }
        self.notify(Class::New, "new", key);
        match kind {
            Kind::Stream => self.signal_stream(key),
            Kind::List | Kind::SortedSet => self.state.signal_key(self.session.db, key),
            Kind::String | Kind::Hash | Kind::Set => {}
        }
        slot
    }

    /// Changes the deadline of an existing key.
    pub(crate) fn set_deadline(&mut self, key: &[u8], deadline: Option<UnixMillis>) {
        if let Some(slot) = self.find_quietly(key) {
            self.set_deadline_of(slot, key, deadline);
        }
    }

    /// The same for a key at a known slot.
    #[inline]
    pub(crate) fn set_deadline_of(&mut self, slot: u32, key: &[u8], deadline: Option<UnixMillis>) {
        self.db_mut().set_deadline(slot, deadline);
        self.touched(key);
    }

    /// Removes a key; true if it existed.
    #[inline]
    pub(crate) fn delete(&mut self, key: &[u8]) -> bool {
        let Some(slot) = self.find_quietly(key) else {
            return false;
        };
        self.db_mut().remove(slot);
        self.touched(key);
        true
    }

    /// Removes the key at which a command would have stored its result, also an expired key that is still stored. Returns true if
    /// there was one (`db.c: dbDelete`, which does not look at the deadline).
    pub(crate) fn clear_destination(&mut self, key: &[u8]) -> bool {
        let Some(slot) = self.db().find(key) else {
            return false;
        };
        self.db_mut().remove(slot);
        self.touched(key);
        true
    }

    /// Counts the value of a key that is about to be removed, if Redis frees it in another thread
    /// (`lazyfree.c: freeObjAsync`).
    pub(crate) fn count_lazy_removal(&mut self, key: &[u8]) {
        let Some(slot) = self.find_quietly(key) else {
            return;
        };
        let value = self.db().value(slot).as_type();
        if value.free_effort(&self.state.config) > LAZY_EFFORT_MIN {
            self.state.introspection.stats.lazily_freed += 1;
        }
    }

    /// The same for all keys of a database, or of all.
    pub(crate) fn count_lazy_flush(&mut self, db: Option<usize>) {
        let all = self.state.data.databases().iter().enumerate();
        let emptied = all.filter(|(index, _)| db.is_none_or(|db| db == *index));
        let keys: usize = emptied.map(|(_, keys)| keys.len()).sum();
        self.state.introspection.stats.lazily_freed += keys as u64;
    }

    /// Takes the value out of a slot; the caller says [`Ctx::touched`] about its key.
    pub(crate) fn remove(&mut self, slot: u32) -> Value {
        self.db_mut().remove(slot)
    }

    /// Empties the caller's database.
    pub(crate) fn flush(&mut self) {
        self.state.flush(self.session.db);
    }

    /// Empties all databases.
    pub(crate) fn flush_all(&mut self) {
        self.state.flush_all();
    }

    /// Exchanges two databases.
    pub(crate) fn swap(&mut self, first: usize, second: usize) {
        self.state.swap(first, second);
    }

    /// Switches the active expiry cycle on or off.
    pub(crate) fn set_active_expire(&mut self, is_on: bool) {
        self.state.data.set_active_expire(is_on);
    }

    /// Stops and starts what the node does by itself: expiry, timeouts of idle clients.
    pub(crate) fn pause_timers(&mut self, is_paused: bool) {
        self.state.are_timers_paused = is_paused;
    }

    /// Reports a changed key to watches, blocked clients, caches of clients, replicas and the disk.
    #[inline]
    pub(crate) fn touched(&mut self, key: &[u8]) {
        if self.state.config.maxmemory_policy.is_lfu() {
            self.pass_uses_on(key);
        }
        self.state.touched(self.session.db, key);
    }

    /// A value that replaces another takes over its uses (`db.c: dbSetValue`).
    #[cold]
    fn pass_uses_on(&mut self, key: &[u8]) {
        if let Some(slot) = self.db().find(key) {
            let (db, state) = (self.session.db, &mut *self.state);
            state.data.pass_uses_on(db, slot, &state.config);
        }
    }

    /// Reports a change of a stream's groups, which concerns replicas and the disk, and neither watches nor caches of clients.
    #[inline]
    pub(crate) fn touched_quietly(&mut self, key: &[u8]) {
        self.state.touched_quietly(self.session.db, key);
    }

    /// A stream has new entries, or is new itself: requests that wait for it are served after the unit.
    #[inline]
    pub(crate) fn signal_stream(&mut self, key: &[u8]) {
        self.state.signal_stream(self.session.db, key);
    }

    /// Marks the point at which Redis begins to write the reply. Keyspace events and invalidations that this connection
    /// receives from here on come behind the reply.
    #[inline]
    pub(crate) fn replies_here(&mut self) {
        if (self.session.is_subscribed || self.state.clients.tracking.is_on())
            && self.origin != Origin::Script
            && self.state.unit.caller == Some(self.session.conn)
        {
            let here = self.state.unit.own_frames.len();
            self.reply_at.get_or_insert(here);
        }
    }

    /// An event in the life of a key, for subscribers of keyspace notifications. The caller
    /// says it after [`Ctx::touched`], with the event's name as `notify.c` has it.
    #[inline(always)]
    pub(crate) fn notify(&mut self, class: Class, event: &str, key: &[u8]) {
        self.state.notify(self.session.db, class, event, key);
    }
}
