//! Client-side caching: which connection has read which key, and which connections a change invalidates.
//!
//! *Policy* (`tracking.c`): a tracking connection gets one invalidation for each key that it has read, when the key
//! changes, and has to read it again to get another one. In broadcast mode it gets an invalidation for every key with one
//! of its prefixes, all keys of a turn at once. A connection gets invalidations for changes of its own request behind
//! the reply, or behind the whole transaction; all others at once. A script reads all keys that it was given as soon as it
//! calls a read command. The table of read keys has no databases and outlives its readers. Beyond
//! `tracking-table-max-keys` a random key leaves the table, and its readers get an invalidation.

use crate::engine::clients::session::Session;
use crate::engine::conn_id::ConnId;
use crate::engine::rng::Rng;
use crate::resp::{Blob, Protocol};
use foldhash::fast::FixedState;
use indexmap::IndexMap;
use std::collections::{BTreeMap, BTreeSet};

/// Channel for redirected invalidations to a RESP2 connection that subscribes to it.
pub(in crate::engine) const CHANNEL: &str = "__redis__:invalidate";

/// Bytes of a client's prefix in Redis, apart from its text.
const PREFIX_BYTES: usize = 16;

/// Which reads are remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Choice {
    #[default]
    All,
    /// Those that CLIENT CACHING YES stands before.
    OptIn,
    /// Those that CLIENT CACHING NO does not stand before.
    OptOut,
}

/// How a connection tracks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mode {
    /// Tracks prefixes instead of read keys (BCAST).
    pub(crate) broadcast: bool,
    pub(crate) choice: Choice,
    /// Gets no invalidations for changes of its own requests (NOLOOP).
    pub(crate) skips_own: bool,
}

/// Whether CLIENT CACHING holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Caching {
    #[default]
    No,
    /// For the next request that is not itself about the connection.
    Next,
    /// For this one, or this transaction.
    Now,
}

/// A connection that tracks.
#[derive(Clone, Debug)]
pub(crate) struct Tracker {
    conn: ConnId,
    pub(crate) mode: Mode,
    /// The connection that gets the invalidations instead (REDIRECT).
    redirect: Option<ConnId>,
    /// The redirection target has gone.
    pub(crate) is_broken: bool,
    pub(crate) prefixes: BTreeSet<Blob>,
    caching: Caching,
}

impl Tracker {
    /// Bytes that its prefixes take.
    pub(crate) fn prefix_bytes(&self) -> usize {
        let sizes = self
            .prefixes
            .iter()
            .map(|prefix| prefix.len() + PREFIX_BYTES);
        sizes.sum()
    }

    /// Client id of the redirection target; 0 for none.
    pub(crate) fn redirect_id(&self) -> u64 {
        self.redirect.map_or(0, ConnId::client_id)
    }

    /// The connection that gets the invalidations instead.
    pub(in crate::engine) fn redirect(&self) -> Option<ConnId> {
        self.redirect
    }

    /// True if CLIENT CACHING holds for the next command.
    pub(crate) fn is_caching(&self) -> bool {
        self.caching != Caching::No
    }

    fn remembers(&self) -> bool {
        !self.mode.broadcast
            && match self.mode.choice {
                Choice::All => true,
                Choice::OptIn => self.is_caching(),
                Choice::OptOut => !self.is_caching(),
            }
    }
}

/// The changes of one prefix.
#[derive(Clone, Debug, Default)]
struct Broadcast {
    listeners: BTreeSet<ConnId>,
    /// Changed keys with the connection that changed each last; `None` for scripts and expiry.
    keys: BTreeMap<Blob, Option<ConnId>>,
}

/// An invalidation.
#[derive(Clone, Debug)]
pub(in crate::engine) enum News {
    Keys(Vec<Blob>),
    /// All keys have gone.
    All,
}

/// Readers of a key by their number, in the order in which Redis has them: by its bytes, the lowest first.
type Readers = BTreeSet<[u8; 8]>;

/// All that is tracked on a node.
#[derive(Debug)]
pub(crate) struct Tracking {
    /// Draws the key that leaves the table when it is full.
    draws: Rng,
    /// By the number of the client.
    trackers: BTreeMap<u64, Tracker>,
    read: IndexMap<Blob, Readers, FixedState>,
    /// Readers of all keys.
    items: usize,
    prefixes: BTreeMap<Blob, Broadcast>,
    /// True if a prefix has changed keys.
    has_broadcasts: bool,
    /// The connection that runs: its session is out of the table.
    running: Option<(ConnId, Protocol)>,
    /// The keys of the script that runs; none outside.
    script_keys: Option<Vec<Blob>>,
    /// Invalidations for the caller, behind its reply.
    behind: Vec<News>,
    /// Data went without a request; all connections get one invalidation.
    is_flushed: bool,
}

impl Tracking {
    pub(in crate::engine) fn new(seed: u64) -> Self {
        Self {
            draws: Rng::for_component(seed, "tracking"),
            trackers: BTreeMap::new(),
            read: IndexMap::default(),
            items: 0,
            prefixes: BTreeMap::new(),
            has_broadcasts: false,
            running: None,
            script_keys: None,
            behind: Vec::new(),
            is_flushed: false,
        }
    }

    /// Restarts the generator.
    pub(in crate::engine) fn reseed(&mut self, seed: u64) {
        self.draws = Rng::for_component(seed, "tracking");
    }

    /// True if a connection tracks, or the table still holds read keys.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        !(self.trackers.is_empty() && self.read.is_empty())
    }

    pub(crate) fn tracker(&self, conn: ConnId) -> Option<&Tracker> {
        self.trackers.get(&conn.client_id())
    }

    pub(crate) fn clients(&self) -> usize {
        self.trackers.len()
    }

    pub(crate) fn keys(&self) -> usize {
        self.read.len()
    }

    pub(crate) fn items(&self) -> usize {
        self.items
    }

    pub(crate) fn prefixes(&self) -> usize {
        self.prefixes.len()
    }

    /// Begins to track, or goes on with another mode; prefixes are added to those there are.
    pub(crate) fn begin(&mut self, conn: ConnId, mode: Mode, redirect: Option<ConnId>) {
        let fresh = Tracker {
            conn,
            mode,
            redirect,
            is_broken: false,
            prefixes: BTreeSet::new(),
            caching: Caching::No,
        };
        let tracker = self.trackers.entry(conn.client_id()).or_insert(fresh);
        (tracker.mode, tracker.redirect, tracker.is_broken) = (mode, redirect, false);
    }

    /// Adds a prefix to those of a connection that tracks.
    pub(crate) fn listen(&mut self, conn: ConnId, prefix: &[u8]) {
        if let Some(tracker) = self.trackers.get_mut(&conn.client_id()) {
            let prefix = Blob::new(prefix);
            tracker.prefixes.insert(prefix.clone());
            let broadcast = self.prefixes.entry(prefix).or_default();
            broadcast.listeners.insert(conn);
        }
    }

    /// Ends tracking. What the connection has read stays in the table.
    pub(crate) fn end(&mut self, conn: ConnId) {
        let Some(tracker) = self.trackers.remove(&conn.client_id()) else {
            return;
        };
        for prefix in tracker.prefixes {
            if let Some(broadcast) = self.prefixes.get_mut(&prefix) {
                broadcast.listeners.remove(&conn);
                if broadcast.listeners.is_empty() {
                    self.prefixes.remove(&prefix);
                }
            }
        }
    }

    /// CLIENT CACHING.
    pub(in crate::engine) fn cache_next(&mut self, conn: ConnId, is_in_unit: bool) {
        if let Some(tracker) = self.trackers.get_mut(&conn.client_id()) {
            // Inside of a transaction the unit has begun.
            tracker.caching = if is_in_unit {
                Caching::Now
            } else {
                Caching::Next
            };
        }
    }

    /// The session of a connection is taken out to run a request.
    pub(in crate::engine) fn runs(&mut self, session: &Session) {
        self.running = Some((session.conn, session.protocol));
    }

    /// A request has come (`networking.c: resetClient`).
    pub(in crate::engine) fn next_request(&mut self, session: &Session, is_about_client: bool) {
        self.runs(session);
        if let Some(tracker) = self.trackers.get_mut(&session.conn.client_id()) {
            tracker.caching = match tracker.caching {
                Caching::Next if is_about_client => Caching::Next,
                Caching::Next => Caching::Now,
                Caching::Now if session.queue.is_some() => Caching::Now,
                Caching::Now | Caching::No => Caching::No,
            };
        }
    }

    /// A request was refused: it was the next one all the same.
    pub(in crate::engine) fn refused(&mut self, conn: ConnId) {
        if let Some(tracker) = self.trackers.get_mut(&conn.client_id()) {
            tracker.caching = Caching::No;
        }
    }

    /// A script begins that was given these keys.
    #[cfg(feature = "script")]
    pub(in crate::engine) fn script_begins(&mut self, keys: Vec<Blob>) {
        self.script_keys = Some(keys);
    }

    #[cfg(feature = "script")]
    pub(in crate::engine) fn script_ends(&mut self) {
        self.script_keys = None;
    }

    /// Remembers what a READONLY command of a connection has read.
    pub(in crate::engine) fn remember(&mut self, conn: ConnId, keys: impl Iterator<Item = Blob>) {
        let is_reader = |tracker: &Tracker| tracker.remembers();
        if self.tracker(conn).is_some_and(is_reader) {
            for key in keys {
                let readers = self.read.entry(key).or_default();
                self.items += usize::from(readers.insert(conn.client_id().to_le_bytes()));
            }
        }
    }

    /// Remembers the keys of the script that runs, since it has read something.
    pub(in crate::engine) fn remember_script_keys(&mut self, conn: ConnId) {
        let keys = self.script_keys.clone().unwrap_or_default();
        self.remember(conn, keys.into_iter());
    }

    /// Takes a key out of the table and returns its readers that still track.
    pub(in crate::engine) fn take(&mut self, key: &[u8]) -> Vec<ConnId> {
        let readers = self.read.swap_remove(key).unwrap_or_default();
        self.items -= readers.len();
        let trackers = readers
            .iter()
            .filter_map(|id| self.trackers.get(&u64::from_le_bytes(*id)));
        let trackers = trackers.filter(|tracker| !tracker.mode.broadcast);
        trackers.map(|tracker| tracker.conn).collect()
    }

    /// Notes a changed key for its prefixes.
    pub(in crate::engine) fn note(&mut self, key: &[u8], author: Option<ConnId>) {
        // The caller of a script gets an invalidation, too.
        let author = author.filter(|_| self.script_keys.is_none());
        let prefixes = self.prefixes.iter_mut();
        for (_, broadcast) in prefixes.filter(|(prefix, _)| key.starts_with(prefix)) {
            broadcast.keys.insert(Blob::new(key), author);
            self.has_broadcasts = true;
        }
    }

    pub(in crate::engine) fn skips(&self, conn: ConnId, author: Option<ConnId>) -> bool {
        let skips_own = |tracker: &Tracker| tracker.mode.skips_own;
        author == Some(conn) && self.tracker(conn).is_some_and(skips_own)
    }

    /// Forgets all reads. Without a request as the cause, the connections get the invalidation at the end of the unit.
    pub(in crate::engine) fn forget_reads(&mut self, is_request: bool) {
        self.read.clear();
        self.items = 0;
        self.is_flushed |= !is_request;
    }

    /// True once after data went without a request.
    pub(in crate::engine) fn take_flushed(&mut self) -> bool {
        std::mem::take(&mut self.is_flushed)
    }

    /// All connections that track.
    pub(in crate::engine) fn conns(&self) -> Vec<ConnId> {
        self.trackers.values().map(|tracker| tracker.conn).collect()
    }

    /// Keeps news for the caller until it has its reply.
    pub(in crate::engine) fn keep_behind(&mut self, news: News) {
        self.behind.push(news);
    }

    /// The news for the caller that has its reply now.
    pub(in crate::engine) fn take_behind(&mut self) -> Vec<News> {
        std::mem::take(&mut self.behind)
    }

    /// True if a connection that tracks prefixes may have to be told when the turn is over.
    #[inline]
    pub(in crate::engine) fn has_broadcasts(&self) -> bool {
        self.has_broadcasts
    }

    /// The changed keys of each prefix, for each connection that tracks it.
    pub(in crate::engine) fn take_broadcasts(&mut self) -> Vec<(ConnId, Vec<Blob>)> {
        self.has_broadcasts = false;
        let mut letters = Vec::new();
        for broadcast in self.prefixes.values_mut() {
            let keys = std::mem::take(&mut broadcast.keys);
            if !keys.is_empty() {
                let listeners = broadcast.listeners.iter().copied();
                letters.push((listeners.collect::<Vec<_>>(), keys));
            }
        }
        let mut news = Vec::new();
        for (listeners, keys) in letters {
            for conn in listeners {
                let keys = keys.iter();
                let keys = keys.filter(|(_, author)| !self.skips(conn, **author));
                let keys: Vec<Blob> = keys.map(|(key, _)| key.clone()).collect();
                if !keys.is_empty() {
                    news.push((conn, keys));
                }
            }
        }
        news
    }

    /// A key that has to leave a table of more than `keys_max` keys, with its readers.
    pub(in crate::engine) fn take_excess(
        &mut self,
        keys_max: usize,
    ) -> Option<(Blob, Vec<ConnId>)> {
        if self.trackers.is_empty() || keys_max == 0 || self.keys() <= keys_max {
            return None;
        }
        let at = self.draws.next_u64() % self.keys() as u64;
        let (key, _) = self.read.get_index(at as usize)?;
        let key = key.clone();
        let readers = self.take(&key);
        Some((key, readers))
    }

    /// The protocol of the connection that runs.
    pub(in crate::engine) fn running_protocol(&self, conn: ConnId) -> Protocol {
        let running = self.running.filter(|(running, _)| *running == conn);
        running.map_or_else(Protocol::default, |(_, protocol)| protocol)
    }

    /// The redirection target of a connection has gone.
    pub(in crate::engine) fn set_broken(&mut self, conn: ConnId) {
        if let Some(tracker) = self.trackers.get_mut(&conn.client_id()) {
            tracker.is_broken = true;
        }
    }
}
