//! Requests that wait for a key: their connections, keys, and deadlines.
//!
//! *Policy* (`blocked.c`): a parked request waits on (database, key, kind of value). After the whole
//! unit that made a key ready (a command, EXEC, a script) the waiters of that key run again, in
//! the order in which they began to wait, each for this key alone. A waiter that finds nothing keeps its place
//! and gets no answer. A waiter whose connection ends removes nothing from the key. The first run resolves the
//! deadline and the database once and for all.

use crate::engine::clients::session::Sessions;
use crate::engine::conn_id::ConnId;
use crate::engine::time::{UnixMicros, UnixMillis};
use crate::engine::value::{Kind, StreamId};
use crate::resp::{Blob, OwnedRequest, Reply, quoted};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A wait that a handler starts with `Ctx::block_on`.
#[derive(Clone, Debug)]
pub(crate) struct BlockingWait {
    pub(crate) db: usize,
    pub(crate) keys: Vec<Blob>,
    pub(crate) kind: Kind,
    pub(crate) until: Option<UnixMillis>,
    pub(crate) on_timeout: Reply,
    /// For each key of XREAD, the id behind which entries are awaited.
    pub(crate) after: Vec<StreamId>,
    /// The request is also run again, and answers an error, when a key holds no value of this kind any more.
    pub(crate) hears_of_loss: bool,
}

impl BlockingWait {
    /// The id behind which entries of a key are awaited.
    pub(crate) fn after(&self, key: &[u8]) -> Option<StreamId> {
        let at = self.keys.iter().position(|other| **other == *key)?;
        self.after.get(at).copied()
    }
}

/// Reason for which a blocked request runs again.
#[derive(Clone, Debug)]
pub(crate) struct Retry {
    /// The key that became ready.
    pub(crate) key: Blob,
    /// The id behind which entries of it are awaited.
    pub(crate) after: Option<StreamId>,
    /// A stream has new entries, or is new itself. Other changes of a stream serve no reader.
    pub(crate) has_news: bool,
}

/// A request that waits.
#[derive(Clone, Debug)]
pub(crate) struct Waiter {
    pub(crate) wait: BlockingWait,
    pub(crate) request: OwnedRequest,
    /// The number of its command in the table.
    pub(crate) command: u16,
    pub(crate) since: UnixMicros,
    /// Its place in the queue of each of its keys.
    turn: u64,
}

/// A waiting request, for the diagnosis of a test that hangs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting {
    /// The connection.
    pub conn: ConnId,
    /// The name it gave itself; empty if none.
    pub client_name: Vec<u8>,
    /// Address of the client.
    pub addr: String,
    /// The database of its keys.
    pub db: usize,
    /// The keys it waits on; none for WAIT.
    pub keys: Vec<Vec<u8>>,
    /// The request, as it came.
    pub request: OwnedRequest,
    /// Start of the wait, on the node's clock.
    pub since: UnixMicros,
    /// Time after which the request gives up; `None` waits forever.
    pub until: Option<UnixMillis>,
}

impl Waiting {
    /// Its number among the clients, as CLIENT LIST shows it.
    pub fn client_id(&self) -> u64 {
        self.conn.client_id()
    }
}

/// `client 7 "worker" (in-process:0) waits on "jobs" in database 0 since 1704067200000 ms, for ever: BLPOP jobs 0`
impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {} ", self.client_id())?;
        if !self.client_name.is_empty() {
            write!(f, "{} ", quoted(&self.client_name))?;
        }
        write!(f, "({}) waits", self.addr)?;
        for (index, key) in self.keys.iter().enumerate() {
            let before = if index == 0 { " on" } else { "," };
            write!(f, "{before} {}", quoted(key))?;
        }
        write!(
            f,
            " in database {} since {} ms",
            self.db,
            self.since.millis().0
        )?;
        match self.until {
            Some(until) => write!(f, ", until {} ms", until.0)?,
            None => write!(f, ", for ever")?,
        }
        write!(f, ": {}", self.request)
    }
}

type Place = (usize, Blob);

/// All requests that wait, of one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiters {
    by_conn: BTreeMap<ConnId, Waiter>,
    /// Per key, in the order in which they began to wait.
    by_key: BTreeMap<Place, BTreeMap<u64, ConnId>>,
    deadlines: BTreeSet<(UnixMillis, u64, ConnId)>,
    /// Keys that changed, in the order in which they did; true for a stream with news ([`Retry::has_news`]).
    ready: Vec<(Place, bool)>,
    turns: u64,
}

impl Waiters {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.by_conn.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_conn.len()
    }

    /// Number of waiters with a deadline.
    pub(crate) fn timed_len(&self) -> usize {
        self.deadlines.len()
    }

    pub(crate) fn park(
        &mut self,
        conn: ConnId,
        wait: BlockingWait,
        request: OwnedRequest,
        command: u16,
        now: UnixMicros,
    ) {
        self.turns += 1;
        let turn = self.turns;
        for key in &wait.keys {
            let queue = self.by_key.entry((wait.db, key.clone())).or_default();
            queue.insert(turn, conn);
        }
        if let Some(until) = wait.until {
            self.deadlines.insert((until, turn, conn));
        }
        let waiter = Waiter {
            wait,
            request,
            command,
            since: now,
            turn,
        };
        self.by_conn.insert(conn, waiter);
    }

    pub(crate) fn get(&self, conn: ConnId) -> Option<&Waiter> {
        self.by_conn.get(&conn)
    }

    /// Changes the answer at the timeout; false if the connection does not wait.
    pub(crate) fn answers_late_with(&mut self, conn: ConnId, reply: Reply) -> bool {
        let waiter = self.by_conn.get_mut(&conn);
        waiter
            .map(|waiter| waiter.wait.on_timeout = reply)
            .is_some()
    }

    /// Ends a waiting.
    pub(crate) fn remove(&mut self, conn: ConnId) -> Option<Waiter> {
        let waiter = self.by_conn.remove(&conn)?;
        for key in &waiter.wait.keys {
            let place = (waiter.wait.db, key.clone());
            if let Some(queue) = self.by_key.get_mut(&place) {
                queue.remove(&waiter.turn);
                if queue.is_empty() {
                    self.by_key.remove(&place);
                }
            }
        }
        if let Some(until) = waiter.wait.until {
            self.deadlines.remove(&(until, waiter.turn, conn));
        }
        Some(waiter)
    }

    /// A key has changed or gone: marks it as ready if a request waits on it.
    pub(crate) fn touched(&mut self, db: usize, key: &[u8]) {
        self.note(db, key, false);
    }

    /// A stream has new entries, or is new itself (`blocked.c: signalKeyAsReady`).
    pub(crate) fn signal_stream(&mut self, db: usize, key: &[u8]) {
        self.note(db, key, true);
    }

    fn note(&mut self, db: usize, key: &[u8], has_news: bool) {
        let place = (db, Blob::new(key));
        if !self.by_key.contains_key(&place) {
            return;
        }
        match self.ready.iter_mut().find(|(other, _)| *other == place) {
            Some((_, news)) => *news |= has_news,
            None => self.ready.push((place, has_news)),
        }
    }

    /// The awaited keys of a database, for an exchange of the whole database.
    pub(crate) fn keys_of(&self, db: usize) -> Vec<Blob> {
        let awaited = self.by_key.keys().filter(|(of, _)| *of == db);
        awaited.map(|(_, key)| key.clone()).collect()
    }

    #[inline]
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    pub(crate) fn take_ready(&mut self) -> Vec<(Place, bool)> {
        std::mem::take(&mut self.ready)
    }

    /// Connections that wait on a key, first come first.
    pub(crate) fn queue(&self, place: &Place) -> Vec<ConnId> {
        let queue = self.by_key.get(place);
        queue.map_or_else(Vec::new, |queue| queue.values().copied().collect())
    }

    /// True if a request waits for a value of this kind at a key.
    pub(crate) fn awaits(&self, place: &Place, kind: Kind) -> bool {
        let conns = self
            .by_key
            .get(place)
            .into_iter()
            .flat_map(|queue| queue.values());
        let mut waiters = conns.filter_map(|conn| self.get(*conn));
        waiters.any(|waiter| waiter.wait.kind == kind)
    }

    /// The earliest deadline, and its connection.
    pub(crate) fn first_deadline(&self) -> Option<(UnixMillis, ConnId)> {
        self.deadlines
            .first()
            .map(|(until, _, conn)| (*until, *conn))
    }

    /// All waiting requests, in the order in which they began to wait.
    pub(crate) fn list(&self, sessions: &Sessions) -> Vec<Waiting> {
        let mut all: Vec<_> = self.by_conn.iter().collect();
        all.sort_by_key(|(_, waiter)| waiter.turn);
        let describe = |(conn, waiter): (&ConnId, &Waiter)| {
            let session = sessions.get(*conn);
            Waiting {
                conn: *conn,
                client_name: session.map_or_else(Vec::new, |session| session.name.to_vec()),
                addr: session.map_or_else(String::new, |session| session.addr.to_string()),
                db: waiter.wait.db,
                keys: waiter.wait.keys.iter().map(|key| key.to_vec()).collect(),
                request: waiter.request.clone(),
                since: waiter.since,
                until: waiter.wait.until,
            }
        };
        all.into_iter().map(describe).collect()
    }
}
