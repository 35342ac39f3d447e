//! The one place from which all parts learn that keys have changed, expired, gone or come.

use super::State;
use crate::engine::channel::Space;
use crate::engine::clients::transaction::Presence;
use crate::engine::data::keyspace::Db;
use crate::engine::effect::Effect;
use crate::engine::notify::Class;
use crate::engine::peers::cluster::{Claim, ClusterMessage};
use crate::engine::peers::journal::Change;
use crate::engine::time::{UnixMicros, UnixMillis};
use crate::engine::value::Kind;
use crate::resp::Blob;

fn presence(db: &Db, key: &[u8], now: UnixMillis) -> Presence {
    match db.find_live(key, now) {
        None => Presence::Missing,
        Some((_, false)) => Presence::Expired,
        Some((_, true)) => Presence::There,
    }
}

impl State {
    /// Removes an expired key.
    pub(in crate::engine) fn expire(&mut self, db: usize, slot: u32) {
        let key = self.data.db(db).key(slot).clone();
        self.data.db_mut(db).remove(slot);
        self.introspection.stats.expired_keys += 1;
        self.propagate_deletion(db, &key, "lazyfree-lazy-expire");
        self.touched_by(false, db, &key);
        self.notify(db, Class::Expired, "expired", &key);
    }

    /// Removes the fields of one hash that are past their deadlines, and the hash if it is empty then.
    pub(in crate::engine) fn expire_fields(&mut self, now: UnixMillis) {
        let Some((db, key, names)) = self.data.expire_fields(now) else {
            return;
        };
        if names.is_empty() {
            return;
        }
        let head: [&[u8]; 2] = [b"HDEL", &key];
        let mut command = head.to_vec();
        command.extend(names.iter().map(Vec::as_slice));
        if self.peers.stream.is_some() {
            self.propagate_command(db, &command);
        }
        let slot = self.data.db(db).find(&key);
        let is_empty = |slot: &u32| self.data.db(db).value(*slot).as_type().is_empty();
        let emptied = slot.filter(is_empty);
        if let Some(slot) = emptied {
            self.data.db_mut(db).remove(slot);
        }
        self.introspection.stats.expired_fields += names.len() as u64;
        self.touched_by(false, db, &key);
        self.notify(db, Class::Hash, "hexpired", &key);
        if emptied.is_some() {
            self.notify(db, Class::Generic, "del", &key);
        }
    }

    /// Looks an awaited key up for all of its waiters together (`blocked.c: handleClientsBlockedOnKeys`): uses it if it
    /// has what one of them waits for, and removes it if it is past its deadline.
    pub(in crate::engine) fn look_up_awaited(
        &mut self,
        place: &(usize, Blob),
        has_news: bool,
        now: UnixMicros,
    ) {
        let (db, key) = place;
        let found = self.data.db(*db).find_live(key, now.millis());
        let keeps = self.clients.pause.is_on() || self.peers.replication.is_replica();
        match found {
            Some((slot, true)) => {
                let kind = self.data.db(*db).value(slot).kind();
                let is_news = has_news || kind != Kind::Stream;
                if is_news && self.clients.waiters.awaits(place, kind) {
                    self.data.use_key(*db, slot, now.millis(), &self.config);
                }
            }
            Some((slot, false)) if !keeps => {
                self.expire(*db, slot);
                self.end_stream_unit();
            }
            Some((_, false)) | None => {}
        }
    }

    /// Evicts a key, as `evict.c: performEvictions`; false if it does not exist.
    pub(in crate::engine) fn evict(&mut self, db: usize, key: &[u8]) -> bool {
        let Some(slot) = self
            .data
            .databases()
            .get(db)
            .and_then(|keys| keys.find(key))
        else {
            return false;
        };
        self.data.db_mut(db).remove(slot);
        self.introspection.stats.evicted_keys += 1;
        self.propagate_deletion(db, key, "lazyfree-lazy-eviction");
        self.touched_by(true, db, key);
        self.notify(db, Class::Evicted, "evicted", key);
        true
    }

    /// A key was created, changed or removed. Watchers, waiters and trackers of keys hang here.
    #[inline]
    pub(in crate::engine) fn touched(&mut self, db: usize, key: &[u8]) {
        self.introspection.count_changes(1);
        self.touched_by(true, db, key);
    }

    /// The same, saying whether a request wanted it. What the server removes by itself is no change that
    /// `rdb_changes_since_last_save` counts.
    #[inline]
    fn touched_by(&mut self, is_request: bool, db: usize, key: &[u8]) {
        if !(self.clients.watches.is_empty()
            && self.clients.waiters.is_empty()
            && self.peers.journal.is_none()
            && !self.data.hears_of_changes()
            && !self.clients.tracking.is_on())
        {
            self.tell_of(is_request, db, key);
        }
    }

    #[cold]
    fn tell_of(&mut self, is_request: bool, db: usize, key: &[u8]) {
        if self.clients.tracking.is_on() {
            self.invalidate(key, is_request);
        }
        self.data.note_touched(db, key);
        self.data.note_fields(db, key);
        if let Some(journal) = &mut self.peers.journal {
            journal.touched(db, key);
            self.unit.has_sequel = true;
        }
        let is_there = self.data.db(db).find(key).is_some();
        self.clients.watches.touched(db, key, is_there);
        if !is_there {
            self.signal_key(db, key);
        }
    }

    /// A key came, or was lost: the requests that wait on it look at it after the unit. Those that find what they wait for in
    /// place of something else are not told, as in Redis (`db.c: dbAdd, dbOverwrite`).
    #[inline]
    pub(in crate::engine) fn signal_key(&mut self, db: usize, key: &[u8]) {
        if !self.clients.waiters.is_empty() {
            self.clients.waiters.touched(db, key);
            self.unit.has_sequel |= self.clients.waiters.has_ready();
        }
    }

    /// A key has changed in a way that neither watches nor caches of clients hear of: the groups of a stream.
    pub(in crate::engine) fn touched_quietly(&mut self, db: usize, key: &[u8]) {
        self.introspection.count_changes(1);
        if self.data.is_accounted() {
            self.data.note_touched(db, key);
        }
        if let Some(journal) = &mut self.peers.journal {
            journal.touched(db, key);
            self.unit.has_sequel = true;
        }
    }

    /// A stream has new entries, or is new itself: its readers are served after the unit.
    #[inline]
    pub(in crate::engine) fn signal_stream(&mut self, db: usize, key: &[u8]) {
        if !self.clients.waiters.is_empty() {
            self.clients.waiters.signal_stream(db, key);
            self.unit.has_sequel |= self.clients.waiters.has_ready();
        }
    }

    /// The requests that wait on keys of a database look at them again, after all of it was replaced.
    fn wake_database(&mut self, db: usize) {
        for key in self.clients.waiters.keys_of(db) {
            let keys = self.data.db(db);
            let found = keys.find(&key).map(|slot| keys.value(slot).kind());
            if found == Some(Kind::Stream) {
                self.clients.waiters.signal_stream(db, &key);
            } else {
                self.clients.waiters.touched(db, &key);
            }
        }
        self.unit.has_sequel |= self.clients.waiters.has_ready();
    }

    /// An event in the life of a key, to the channels that are named after both.
    #[inline(always)]
    pub(in crate::engine) fn notify(&mut self, db: usize, class: Class, event: &str, key: &[u8]) {
        if self.peers.journal.is_some() || !self.clients.pubsub.is_empty() {
            self.tell_of_event(db, class, event, key);
        }
    }

    #[cold]
    fn tell_of_event(&mut self, db: usize, class: Class, event: &str, key: &[u8]) {
        self.note_told(|| Change::Event {
            db,
            class,
            event: event.to_owned(),
            key: Blob::new(key),
        });
        if self.config.notify_keyspace_events.contain(class) && !self.clients.pubsub.is_empty() {
            self.publish_event(db, event, key);
        }
    }

    /// The event of a read that found no key. A node tells only its own clients of its reads, so no replica hears of it.
    pub(in crate::engine) fn tell_of_miss(&mut self, db: usize, key: &[u8]) {
        if !self.clients.pubsub.is_empty()
            && self.config.notify_keyspace_events.contain(Class::Miss)
        {
            self.publish_event(db, "keymiss", key);
        }
    }

    #[cold]
    fn publish_event(&mut self, db: usize, event: &str, key: &[u8]) {
        let classes = self.config.notify_keyspace_events;
        if classes.by_key() {
            let channel = [format!("__keyspace@{db}__:").as_bytes(), key].concat();
            self.deliver(Space::Channel, &channel, event.as_bytes());
        }
        if classes.by_event() {
            let channel = format!("__keyevent@{db}__:{event}");
            self.deliver(Space::Channel, channel.as_bytes(), key);
        }
    }

    /// Sends a message to all subscribers and returns the number of those on this node.
    pub(in crate::engine) fn publish(
        &mut self,
        space: Space,
        channel: &[u8],
        message: &[u8],
    ) -> usize {
        if self.peers.cluster.is_some() {
            // There the bus carries messages, to replicas too.
            self.unit
                .outbox
                .push(Effect::Cluster(ClusterMessage(Claim::Message {
                    space,
                    channel: Blob::new(channel),
                    message: Blob::new(message),
                })));
        } else {
            self.note_told(|| Change::Publish {
                space,
                channel: Blob::new(channel),
                message: Blob::new(message),
            });
        }
        self.deliver(space, channel, message)
    }

    pub(in crate::engine) fn deliver(
        &mut self,
        space: Space,
        channel: &[u8],
        message: &[u8],
    ) -> usize {
        let messages = self.clients.pubsub.publish(space, channel, message);
        let count = messages.len();
        for (conn, frame) in messages {
            self.push(conn, frame);
        }
        count
    }

    /// Empties a database.
    pub(in crate::engine) fn flush(&mut self, db: usize) {
        self.empty(db);
        self.invalidate_all();
    }

    /// Empties all databases.
    pub(in crate::engine) fn flush_all(&mut self) {
        (0..self.data.databases().len()).for_each(|db| self.empty(db));
        self.invalidate_all();
    }

    /// Tells clients that all keys are gone: watched keys that were there have changed, and so have all tracked ones.
    pub(in crate::engine) fn forget_all_keys(&mut self) {
        for db in 0..self.data.databases().len() {
            for key in self.watched_there(db) {
                self.clients.watches.touched(db, &key, false);
            }
        }
        self.invalidate_all();
    }

    /// The watched keys that are in a database.
    fn watched_there(&self, db: usize) -> Vec<Blob> {
        let watched = self.clients.watches.keys_of(db);
        let is_there = |key: &Blob| self.data.db(db).find(key).is_some();
        watched.into_iter().filter(is_there).collect()
    }

    /// Watched keys that were in the database have changed.
    fn empty(&mut self, db: usize) {
        let there = self.watched_there(db);
        self.introspection
            .count_changes(self.data.db(db).len() as u64);
        self.data.db_mut(db).clear();
        self.data.forget_sizes();
        self.note(|| Change::Flush { db });
        for key in there {
            self.clients.watches.touched(db, &key, false);
        }
        self.wake_database(db);
    }

    /// Puts other data in the place of all that is there. Watched keys that were there or are there
    /// now have changed; waiters of keys that are there now are served.
    pub(in crate::engine) fn replace(&mut self, databases: &[Db]) {
        let now = self.unit.now().millis();
        for (db, other) in databases
            .iter()
            .enumerate()
            .take(self.data.databases().len())
        {
            for key in self.clients.watches.keys_of(db) {
                let was_there = self.data.db(db).find(&key).is_some();
                let presence = presence(other, &key, now);
                self.clients
                    .watches
                    .exchanged(db, &key, was_there, presence);
            }
        }
        self.data.load(databases.iter().cloned());
        for db in 0..databases.len().min(self.data.databases().len()) {
            self.wake_database(db);
        }
        self.introspection.count_changes(1);
        self.end_stream();
        if self.peers.journal.is_some() {
            // Fewer databases may have come than the node has; readers get all of them.
            let all = self.data.databases().to_vec();
            self.note(|| Change::Replace(all));
        }
        self.invalidate_all();
    }

    /// Exchanges two databases. Watched keys that are in either have changed; waiters of keys
    /// that came with the exchange are served (`db.c: dbSwapDatabases`).
    pub(in crate::engine) fn swap(&mut self, first: usize, second: usize) {
        let now = self.unit.now().millis();
        for (db, other) in [(first, second), (second, first)] {
            for key in self.clients.watches.keys_of(db) {
                let was_there = self.data.db(db).find(&key).is_some();
                let presence = presence(self.data.db(other), &key, now);
                self.clients
                    .watches
                    .exchanged(db, &key, was_there, presence);
            }
        }
        // Keys that were touched before are recorded before.
        self.note(|| Change::Swap { first, second });
        self.data.swap(first, second);
        self.wake_database(first);
        self.wake_database(second);
    }
}
