//! MULTI and WATCH: the queue of a connection, and the watched keys that can spoil it.
//!
//! *Policy* (`multi.c`): a key that is touched marks every connection that watches it, its own one
//! too, until EXEC, DISCARD or UNWATCH. A version in the entry would not do: a missing key that is
//! set and deleted again must spoil EXEC as well. A key that was past its deadline already at WATCH
//! and is then removed has not changed; one that runs out afterwards has.

use crate::engine::conn_id::ConnId;
use crate::resp::{Blob, Request, Requests};
use std::collections::{BTreeMap, BTreeSet};

/// A queue that held more is not kept for the next transaction.
const KEEP_BYTES_MAX: usize = 64 * 1024;

/// Needs of a command, or of several together, for gates that may refuse it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Needs {
    /// The command changes keys.
    pub(crate) writes: bool,
    /// The command may be propagated without changing keys.
    pub(crate) replicates: bool,
    /// The command may need memory.
    pub(crate) memory: bool,
    /// The command needs a replica whose link to the master is up.
    pub(crate) master: bool,
}

impl Needs {
    /// The needs of both.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            writes: self.writes || other.writes,
            replicates: self.replicates || other.replicates,
            memory: self.memory || other.memory,
            master: self.master || other.master,
        }
    }
}

/// Requests that a connection has queued since MULTI.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    requests: Requests,
    /// The number of each command in the table, and the position of its first argument.
    entries: Vec<(u16, usize)>,
    /// A request was refused, so EXEC will be too.
    pub(crate) spoiled: bool,
    /// Needs of all queued commands together, for the gates at EXEC.
    pub(crate) needs: Needs,
}

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of the requests.
    pub(crate) fn size_bytes(&self) -> usize {
        self.requests.size_bytes()
    }

    pub(crate) fn requests(&self) -> impl Iterator<Item = Request<'_>> {
        self.requests.iter()
    }

    pub(crate) fn push(&mut self, request: Request<'_>, entry: (u16, usize), needs: Needs) {
        // A request behind a refused one never runs.
        if !self.spoiled {
            self.requests.push(request);
            self.entries.push(entry);
            self.needs = self.needs.and(needs);
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<(Request<'_>, (u16, usize))> {
        Some((self.requests.get(index)?, *self.entries.get(index)?))
    }

    /// Itself for the next transaction, unless it has grown large.
    pub(crate) fn emptied(mut self: Box<Self>) -> Option<Box<Self>> {
        self.requests.clear();
        self.entries.clear();
        (self.spoiled, self.needs) = (false, Needs::default());
        (self.requests.capacity_bytes() <= KEEP_BYTES_MAX).then_some(self)
    }
}

/// Effect on a watched key when SWAPDB exchanges its database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Missing,
    /// The key is past its deadline.
    Expired,
    There,
}

#[derive(Clone, Copy, Debug)]
struct Watcher {
    conn: ConnId,
    /// The key existed at WATCH, but past its deadline.
    was_expired: bool,
}

/// All watched keys of a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watches {
    by_key: BTreeMap<(usize, Blob), Vec<Watcher>>,
    by_conn: BTreeMap<ConnId, Vec<(usize, Blob)>>,
    dirty: BTreeSet<ConnId>,
}

impl Watches {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    pub(crate) fn watch(&mut self, conn: ConnId, db: usize, key: &[u8], was_expired: bool) {
        let place = (db, Blob::new(key));
        let watchers = self.by_key.entry(place.clone()).or_default();
        if watchers.iter().all(|watcher| watcher.conn != conn) {
            watchers.push(Watcher { conn, was_expired });
            self.by_conn.entry(conn).or_default().push(place);
        }
    }

    pub(crate) fn unwatch(&mut self, conn: ConnId) {
        for place in self.by_conn.remove(&conn).unwrap_or_default() {
            if let Some(watchers) = self.by_key.get_mut(&place) {
                watchers.retain(|watcher| watcher.conn != conn);
                if watchers.is_empty() {
                    self.by_key.remove(&place);
                }
            }
        }
        self.dirty.remove(&conn);
    }

    /// Handles that a key was created, changed or removed; `is_there` is true if it exists now.
    pub(crate) fn touched(&mut self, db: usize, key: &[u8], is_there: bool) {
        let Some(watchers) = self.by_key.get_mut(&(db, Blob::new(key))) else {
            return;
        };
        for watcher in watchers {
            let only_removed = watcher.was_expired && !is_there;
            watcher.was_expired = false;
            if !only_removed {
                self.dirty.insert(watcher.conn);
            }
        }
    }

    /// The value of a key was exchanged together with its whole database (`multi.c: touchAllWatchedKeysInDb`).
    pub(crate) fn exchanged(&mut self, db: usize, key: &[u8], was_there: bool, now: Presence) {
        let Some(watchers) = self.by_key.get_mut(&(db, Blob::new(key))) else {
            return;
        };
        if !was_there && now == Presence::Missing {
            return;
        }
        for watcher in watchers {
            match (watcher.was_expired, now) {
                // An expired key that goes, or stays expired, has not changed for the client.
                (true, Presence::Missing) => watcher.was_expired = false,
                (true, Presence::Expired) => {}
                (false, Presence::Expired) if !was_there => watcher.was_expired = true,
                _ => {
                    self.dirty.insert(watcher.conn);
                }
            }
        }
    }

    /// Returns the number of keys that a connection watches.
    pub(crate) fn count(&self, conn: ConnId) -> usize {
        self.by_conn.get(&conn).map_or(0, Vec::len)
    }

    /// The watched keys of a database, for a flush or an exchange.
    pub(crate) fn keys_of(&self, db: usize) -> Vec<Blob> {
        let watched = self.by_key.keys().filter(|(of, _)| *of == db);
        watched.map(|(_, key)| key.clone()).collect()
    }

    pub(crate) fn is_dirty(&self, conn: ConnId) -> bool {
        self.dirty.contains(&conn)
    }

    /// Returns the watched keys that were not found expired, for a check before EXEC.
    pub(crate) fn fresh_keys(&self, conn: ConnId) -> impl Iterator<Item = (usize, &Blob)> {
        let watched = self.by_conn.get(&conn).into_iter().flatten();
        watched
            .filter(move |place| {
                self.by_key.get(place).is_some_and(|watchers| {
                    watchers
                        .iter()
                        .any(|watcher| watcher.conn == conn && !watcher.was_expired)
                })
            })
            .map(|(db, key)| (*db, key))
    }
}
