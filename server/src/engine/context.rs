//! All that a handler may touch, and the one door through which anything changes.
//!
//! *Policy of expiry* (`expire.c`, `db.c: expireIfNeeded`): a key is gone once `now > deadline`,
//! in milliseconds. Whoever meets such a key removes it, so a handler never sees one; the active
//! cycle removes the others in the order of their deadlines. `now` is one instant for the whole
//! unit (a command or a script), so nothing expires in its middle.

use super::State;
use super::effect::{Effect, Outbox};
use super::keyspace::Db;
use super::notify::Class;
use super::session::Session;
use super::time::{UnixMicros, UnixMillis};
use super::value::{Kind, Typed, Value};
use crate::command::CommandError;
use crate::resp::Reply;
use std::time::Duration;

/// Where a request comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A connection.
    Client,
    /// `redis.call` of a script.
    Script,
}

/// What the engine is to do with a script after the handler has returned.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ScriptCall {
    /// Run it. `first_key` is the index of the first key argument in the request.
    Run {
        script: usize,
        first_key: usize,
        keys: usize,
    },
    /// Compile it and answer its digest.
    Load { script: usize },
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
    pub(crate) outbox: &'a mut Outbox,
    pub(crate) now: UnixMicros,
    pub(crate) script: Option<ScriptCall>,
}

impl Ctx<'_> {
    pub(crate) fn now_millis(&self) -> UnixMillis {
        self.now.millis()
    }

    pub(crate) fn db(&self) -> &Db {
        &self.state.dbs[self.session.db]
    }

    fn db_mut(&mut self) -> &mut Db {
        &mut self.state.dbs[self.session.db]
    }

    /// The slot of a live key. An expired one is removed on the way.
    #[inline]
    pub(crate) fn find(&mut self, key: &[u8]) -> Option<u32> {
        let (slot, is_live) = self.db().find_live(key, self.now_millis())?;
        if !is_live {
            let db = self.session.db;
            self.state.expire(db, slot);
            return None;
        }
        Some(slot)
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
            Some(slot) => T::of(self.db().value(slot)).map(Some),
            None => Ok(None),
        }
    }

    /// The value of a key, to be changed; the caller says [`Ctx::touched`] if it was.
    #[inline]
    pub(crate) fn write<T: Typed>(&mut self, key: &[u8]) -> Result<Option<&mut T>, CommandError> {
        match self.find(key) {
            Some(slot) => T::of_mut(self.db_mut().value_mut(slot)).map(Some),
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
                slot
            }
            None => self.db_mut().insert(key, value),
        };
        match ttl {
            Ttl::Keep => {}
            Ttl::Clear => self.db_mut().set_deadline(slot, None),
            Ttl::At(deadline) => self.db_mut().set_deadline(slot, Some(deadline)),
        }
        self.touched(key);
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

    /// An event in the life of a key, for whoever subscribed to keyspace notifications. The caller
    /// says it after [`Ctx::touched`], with the event's name as `notify.c` has it.
    pub(crate) fn notify(&mut self, _class: Class, _event: &str, _key: &[u8]) {}

    /// Parks the request until one of `keys` holds a value of this kind, or for `timeout` (`None`:
    /// for ever), after which the answer is `on_timeout`. Where nothing may wait (EXEC), that is the
    /// answer at once. The request is then run again through the same handler, for one key that
    /// became ready: [`Ctx::may_serve`]. Handlers return what this returns.
    pub(crate) fn block_on(
        &mut self,
        _keys: &[&[u8]],
        _kind: Kind,
        _timeout: Option<Duration>,
        _on_timeout: Reply,
    ) -> Result<Reply, CommandError> {
        Err(CommandError::NotImplemented {
            what: "blocking commands".to_owned(),
        })
    }

    /// Whether a blocking command may look at this key now: at its first run at all of them, when it
    /// is run again only at the one that became ready.
    pub(crate) fn may_serve(&self, _key: &[u8]) -> bool {
        true
    }

    /// The node serves nobody until `until`.
    pub(crate) fn stall(&mut self, until: UnixMicros) {
        self.outbox.push(Effect::Stall { until });
    }

    /// Ends the caller's connection after its reply.
    pub(crate) fn close(&mut self) {
        let conn = self.session.conn;
        self.outbox.push(Effect::Close { conn });
    }
}
