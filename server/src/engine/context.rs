//! All that a handler may touch, and the one door through which anything changes.
//!
//! *Policy of expiry* (`expire.c`, `db.c: expireIfNeeded`): a key is gone once `now > deadline`,
//! in milliseconds. Whoever meets such a key removes it, so a handler never sees one; the active
//! cycle removes the others in the order of their deadlines. `now` is one instant for the whole
//! unit (a command or a script), so nothing expires in its middle.

use super::State;
use super::blocking::BlockingWait;
use super::effect::Effect;
use super::frequency;
use super::keyspace::Db;
use super::notify::Class;
use super::session::Session;
use super::time::{UnixMicros, UnixMillis};
use super::transaction::Queue;
use super::value::{EncodingHint, Kind, Typed, Value};
use crate::command::CommandError;
use crate::resp::{Blob, Reply};
use std::time::Duration;

/// Where a request comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A connection.
    Client,
    /// The queue of a transaction.
    Exec,
    /// `redis.call` of a script.
    Script,
    /// A request that waited for a key.
    Retry,
}

/// What the engine is to do with a script after the handler has returned.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ScriptCall {
    /// Run it. `first_key` is the index of the first key argument in the request.
    Run {
        script: usize,
        first_key: usize,
        keys: usize,
        /// Whether the caller wants nothing written, whatever the script says of itself.
        reads_only: bool,
    },
    /// Compile it and answer its digest.
    Load { script: usize },
}

/// What is to be done when a handler has returned.
#[derive(Debug)]
pub(crate) enum Continuation {
    /// A script runs, and its reply is the reply.
    Script(ScriptCall),
    /// EXEC took this from the queue.
    Exec(Box<Queue>),
    /// The request waits.
    Wait(Box<BlockingWait>),
}

/// What happens to the deadline of a key when its value is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ttl {
    Keep,
    Clear,
    At(UnixMillis),
}

/// The context of one command.
pub(crate) struct Ctx<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) session: &'a mut Session,
    pub(crate) now: UnixMicros,
    /// The same, as deadlines count.
    pub(crate) now_millis: UnixMillis,
    pub(crate) origin: Origin,
    /// How long the command takes, microseconds.
    pub(crate) took: u64,
    /// What the handler leaves to whoever called it.
    pub(crate) then: Option<Continuation>,
    /// How many of the caller's own frames come before the reply.
    pub(crate) reply_at: Option<usize>,
}

impl Ctx<'_> {
    #[inline(always)]
    pub(crate) fn now_millis(&self) -> UnixMillis {
        self.now_millis
    }

    pub(crate) fn db(&self) -> &Db {
        &self.state.dbs[self.session.db]
    }

    pub(super) fn db_mut(&mut self) -> &mut Db {
        &mut self.state.dbs[self.session.db]
    }

    /// The slot of a live key, which is used thereby. An expired one is removed on the way.
    #[inline(always)]
    pub(crate) fn find(&mut self, key: &[u8]) -> Option<u32> {
        let slot = self.find_quietly(key)?;
        if self.state.config.maxmemory_policy.is_lfu() {
            self.count_use(slot);
        } else {
            let now = self.now_millis();
            self.db_mut().use_now(slot, now);
        }
        Some(slot)
    }

    #[cold]
    fn count_use(&mut self, slot: u32) {
        let (now, db, state) = (self.now_millis(), self.session.db, &mut *self.state);
        let draw = || state.uses.unit();
        state.dbs[db].count_use(slot, now, &state.config, draw);
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

    /// Removes an expired key, if somebody may: nothing changes while clients are paused, nor by itself
    /// on a replica, but nobody sees the key either.
    #[cold]
    fn forget_expired(&mut self, slot: u32) {
        if !(self.state.pause.is_on() || self.state.replication.is_replica()) {
            self.state.expire(self.session.db, slot);
        }
    }

    /// Whether a key is past its deadline; for whoever looks at many keys and removes none.
    pub(crate) fn is_expired(&self, slot: u32) -> bool {
        self.db()
            .deadline(slot)
            .is_some_and(|deadline| self.now_millis() > deadline)
    }

    /// The same for a command that counts as a read (`keyspace_hits`, `keyspace_misses`).
    #[inline]
    pub(crate) fn find_for_read(&mut self, key: &[u8]) -> Option<u32> {
        let slot = self.find(key);
        self.count_read(slot)
    }

    /// A read that does not count as a use of the key.
    pub(crate) fn find_for_look(&mut self, key: &[u8]) -> Option<u32> {
        let slot = self.find_quietly(key);
        self.count_read(slot)
    }

    #[inline]
    fn count_read(&mut self, slot: Option<u32>) -> Option<u32> {
        match slot {
            Some(_) => self.state.stats.keyspace_hits += 1,
            None => self.state.stats.keyspace_misses += 1,
        }
        slot
    }

    /// The value of a key, counted as a read; WRONGTYPE if it is of another type.
    #[inline]
    pub(crate) fn read<T: Typed>(&mut self, key: &[u8]) -> Result<Option<&T>, CommandError> {
        match self.find_for_read(key) {
            Some(slot) => match T::of(self.db().value(slot)) {
                Some(value) => Ok(Some(value)),
                None => Err(CommandError::WrongType),
            },
            None => Ok(None),
        }
    }

    /// The value of a key, to be changed; the caller says [`Ctx::touched`] if it was.
    #[inline]
    pub(crate) fn write<T: Typed>(&mut self, key: &[u8]) -> Result<Option<&mut T>, CommandError> {
        match self.find(key) {
            Some(slot) => match T::of_mut(self.db_mut().value_mut(slot)) {
                Some(value) => Ok(Some(value)),
                None => Err(CommandError::WrongType),
            },
            None => Ok(None),
        }
    }

    /// Stores a value, over whatever the key held.
    #[inline]
    pub(crate) fn set(&mut self, key: &[u8], value: Value, ttl: Ttl) {
        let found = self.find(key);
        self.set_found(found, key, value, ttl);
    }

    /// The same for a key that [`Ctx::find`] was just asked for.
    #[inline]
    pub(crate) fn set_found(&mut self, found: Option<u32>, key: &[u8], value: Value, ttl: Ttl) {
        let slot = match found {
            Some(slot) => {
                *self.db_mut().value_mut(slot) = value;
                self.db_mut().set_form(slot, EncodingHint::Natural);
                slot
            }
            None => self.add(key, value),
        };
        match ttl {
            Ttl::Keep => {}
            Ttl::Clear => self.db_mut().set_deadline(slot, None),
            Ttl::At(deadline) => self.db_mut().set_deadline(slot, Some(deadline)),
        }
        self.touched(key);
    }

    /// Adds a key that is not there; the caller says [`Ctx::touched`].
    pub(crate) fn add(&mut self, key: &[u8], value: Value) -> u32 {
        if self.state.pause.is_on()
            && let Some(expired) = self.db().find(key)
        {
            self.db_mut().remove(expired);
        }
        let (slot, now) = (self.db_mut().insert(key, value), self.now_millis());
        if self.state.config.maxmemory_policy.is_lfu() {
            self.db_mut().set_frequency(slot, now, frequency::INITIAL);
        } else {
            self.db_mut().use_now(slot, now);
        }
        self.notify(Class::New, "new", key);
        slot
    }

    pub(crate) fn deadline(&mut self, key: &[u8]) -> Option<Option<UnixMillis>> {
        let slot = self.find(key)?;
        Some(self.db().deadline(slot))
    }

    /// Changes the deadline of a key that is there.
    pub(crate) fn set_deadline(&mut self, key: &[u8], deadline: Option<UnixMillis>) {
        if let Some(slot) = self.find(key) {
            self.db_mut().set_deadline(slot, deadline);
            self.touched(key);
        }
    }

    /// Removes a key; true when it was there.
    #[inline]
    pub(crate) fn delete(&mut self, key: &[u8]) -> bool {
        let Some(slot) = self.find(key) else {
            return false;
        };
        self.db_mut().remove(slot);
        self.touched(key);
        true
    }

    /// The one door for change: everything that reacts to a changed key hangs here.
    #[inline]
    pub(crate) fn touched(&mut self, key: &[u8]) {
        self.state.touched(self.session.db, key);
    }

    /// Redis writes the reply at this point: a connection that listens to its own events, or that
    /// another one has named to be told of what it has cached, gets what comes from here on behind it.
    #[inline]
    pub(crate) fn replies_here(&mut self) {
        if (self.session.is_subscribed || self.state.tracking.is_on())
            && self.origin != Origin::Script
            && self.state.caller == Some(self.session.conn)
        {
            self.reply_at = Some(self.state.own_frames.len());
        }
    }

    /// An event in the life of a key, for whoever subscribed to keyspace notifications. The caller
    /// says it after [`Ctx::touched`], with the event's name as `notify.c` has it.
    #[inline(always)]
    pub(crate) fn notify(&mut self, class: Class, event: &str, key: &[u8]) {
        self.state.notify(self.session.db, class, event, key);
    }

    /// Parks the request until one of `keys` holds a value of this kind, or for `timeout` (`None`:
    /// for ever), after which the answer is `on_timeout`. Where nothing may wait (EXEC), that is the
    /// answer at once. The request is then run again through the same handler, for one key that
    /// became ready: [`Ctx::may_serve`]. Handlers return what this returns.
    pub(crate) fn block_on(
        &mut self,
        keys: &[&[u8]],
        kind: Kind,
        timeout: Option<Duration>,
        on_timeout: Reply,
    ) -> Result<Reply, CommandError> {
        match self.origin {
            Origin::Exec | Origin::Script => return Ok(on_timeout),
            Origin::Retry => {}
            Origin::Client => {
                let wait = BlockingWait {
                    db: self.session.db,
                    keys: keys.iter().map(|key| Blob::new(key)).collect(),
                    kind,
                    until: timeout.map(|timeout| self.now.plus(timeout).millis()),
                    on_timeout,
                };
                self.then = Some(Continuation::Wait(Box::new(wait)));
            }
        }
        Err(CommandError::Parked)
    }

    /// Parks the request for a time (`None`: for ever) and then answers; at once where nothing may wait.
    pub(crate) fn block_for(
        &mut self,
        timeout: Option<Duration>,
        answer: Reply,
    ) -> Result<Reply, CommandError> {
        // No key will ever end this.
        self.block_on(&[], Kind::String, timeout, answer)
    }

    /// Whether a blocking command may look at this key now: at its first run at all of them, when it
    /// is run again only at the one that became ready.
    pub(crate) fn may_serve(&self, key: &[u8]) -> bool {
        self.state
            .retry
            .as_ref()
            .is_none_or(|ready| **ready == *key)
    }

    /// Lets the next EXEC of this connection fail if the key changes.
    pub(crate) fn watch(&mut self, key: &[u8]) {
        let found = self.db().find_live(key, self.now_millis());
        let was_expired = found.is_some_and(|(_, is_live)| !is_live);
        let (conn, db) = (self.session.conn, self.session.db);
        self.state.watches.watch(conn, db, key, was_expired);
    }

    /// Whether a watched key has changed, or has run out without anybody's having looked at it.
    pub(crate) fn is_watch_broken(&self) -> bool {
        let (conn, watches) = (self.session.conn, &self.state.watches);
        let has_expired = |(db, key): (usize, &Blob)| {
            let found = self.state.dbs[db].find_live(key, self.now_millis());
            found.is_some_and(|(_, is_live)| !is_live)
        };
        watches.is_dirty(conn) || watches.fresh_keys(conn).any(has_expired)
    }

    /// The node serves nobody until so much time has passed.
    pub(crate) fn stall(&mut self, duration: Duration) {
        // What sleeps twice in a transaction sleeps the longer.
        let begun = match self.origin {
            Origin::Exec => self.state.awake_at.max(self.now),
            Origin::Client | Origin::Script | Origin::Retry => self.now,
        };
        let until = begun.plus(duration);
        self.state.awake_at = until;
        self.took = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.state.outbox.push(Effect::Stall { until });
    }

    /// Ends the caller's connection after its reply.
    pub(crate) fn close(&mut self) {
        let conn = self.session.conn;
        self.state.outbox.push(Effect::Close { conn });
    }
}
