//! Client-side caching: which connection has read which key, and who is told when it changes.
//!
//! *Policy* (`tracking.c`): a connection that tracks is told once of each key that it has read, when
//! it changes, and then has to read it again; in broadcast mode it is told of every key with one of
//! its prefixes, all that a unit has changed at once. A connection hears of what its own request has
//! changed after that request's reply, and after the whole transaction; of anything else at once. A
//! script counts as a read of the keys it was given as soon as it reads anything. The table of what
//! was read knows no databases and outlives its readers; past `tracking-table-max-keys` some key goes,
//! and its readers are told as if it had changed.

use super::State;
use super::context::Origin;
use super::session::{ConnId, Session};
use super::table::CommandSpec;
use crate::resp::{Blob, Protocol, Reply, Request};
use foldhash::fast::FixedState;
use indexmap::IndexMap;
use std::collections::{BTreeMap, BTreeSet};

/// Where a RESP2 connection hears of what was redirected to it, if it listens to anything at all.
const CHANNEL: &str = "__redis__:invalidate";

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
    /// By prefix, whatever was read.
    pub(crate) broadcast: bool,
    pub(crate) choice: Choice,
    /// What its own requests change is nothing new to it (NOLOOP).
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
    /// Who is told instead.
    redirect: Option<ConnId>,
    /// Who should have been told had gone.
    pub(crate) is_broken: bool,
    pub(crate) prefixes: BTreeSet<Blob>,
    caching: Caching,
}

impl Tracker {
    /// The number of the client that is told instead; 0 for none.
    pub(crate) fn redirect_id(&self) -> u64 {
        self.redirect.map_or(0, ConnId::client_id)
    }

    /// Whether CLIENT CACHING was said and not yet used.
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

/// What those who track a prefix are to be told.
#[derive(Clone, Debug, Default)]
struct Broadcast {
    listeners: BTreeSet<ConnId>,
    /// Keys that have changed, each with who changed it last; nobody for scripts and expiry.
    keys: BTreeMap<Blob, Option<ConnId>>,
}

/// What a connection is told.
#[derive(Clone, Debug)]
enum News {
    Keys(Vec<Blob>),
    /// All keys have gone.
    All,
}

/// Readers of a key by their number, in the order in which Redis has them: by its bytes, the lowest first.
type Readers = BTreeSet<[u8; 8]>;

/// All that is tracked on a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tracking {
    /// By the number of the client.
    trackers: BTreeMap<u64, Tracker>,
    read: IndexMap<Blob, Readers, FixedState>,
    /// Readers of all keys.
    items: usize,
    prefixes: BTreeMap<Blob, Broadcast>,
    /// Keys were noted for those who track prefixes.
    has_broadcasts: bool,
    /// The connection whose session is out of its place.
    running: Option<(ConnId, Protocol)>,
    /// The keys of the script that runs; none outside.
    script_keys: Option<Vec<Blob>>,
    /// What the current request's own connection is told behind its reply.
    behind: Vec<News>,
    /// Data went without anybody's request, which is told once.
    is_flushed: bool,
}

impl Tracking {
    /// Whether anybody tracks, or has and something is left of it.
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
    pub(crate) fn cache_next(&mut self, conn: ConnId, origin: Origin) {
        if let Some(tracker) = self.trackers.get_mut(&conn.client_id()) {
            tracker.caching = match origin {
                Origin::Client => Caching::Next,
                Origin::Exec | Origin::Script | Origin::Retry => Caching::Now,
            };
        }
    }

    /// The session of a connection is taken out to run a request.
    pub(super) fn runs(&mut self, session: &Session) {
        self.running = Some((session.conn, session.protocol));
    }

    /// A request has come (`networking.c: resetClient`).
    pub(super) fn next_request(&mut self, session: &Session, is_about_client: bool) {
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
    pub(super) fn refused(&mut self, conn: ConnId) {
        if let Some(tracker) = self.trackers.get_mut(&conn.client_id()) {
            tracker.caching = Caching::No;
        }
    }

    /// A script begins that was given these keys.
    #[cfg(feature = "script")]
    pub(super) fn script_begins(&mut self, keys: Vec<Blob>) {
        self.script_keys = Some(keys);
    }

    #[cfg(feature = "script")]
    pub(super) fn script_ends(&mut self) {
        self.script_keys = None;
    }

    fn remember(&mut self, conn: ConnId, keys: impl Iterator<Item = Blob>) {
        let is_reader = |tracker: &Tracker| tracker.remembers();
        if self.tracker(conn).is_some_and(is_reader) {
            for key in keys {
                let readers = self.read.entry(key).or_default();
                self.items += usize::from(readers.insert(conn.client_id().to_le_bytes()));
            }
        }
    }

    /// Takes a key out of the table; who has read it and still wants to know.
    fn take(&mut self, key: &[u8]) -> Vec<ConnId> {
        let readers = self.read.swap_remove(key).unwrap_or_default();
        self.items -= readers.len();
        let trackers = readers
            .iter()
            .filter_map(|id| self.trackers.get(&u64::from_le_bytes(*id)));
        let trackers = trackers.filter(|tracker| !tracker.mode.broadcast);
        trackers.map(|tracker| tracker.conn).collect()
    }

    /// Notes a changed key for those who track its prefix.
    fn note(&mut self, key: &[u8], author: Option<ConnId>) {
        let prefixes = self.prefixes.iter_mut();
        for (_, broadcast) in prefixes.filter(|(prefix, _)| key.starts_with(prefix)) {
            broadcast.keys.insert(Blob::new(key), author);
            self.has_broadcasts = true;
        }
    }

    fn skips(&self, conn: ConnId, author: Option<ConnId>) -> bool {
        let skips_own = |tracker: &Tracker| tracker.mode.skips_own;
        author == Some(conn) && self.tracker(conn).is_some_and(skips_own)
    }
}

impl State {
    /// A READONLY command was executed.
    #[cold]
    pub(super) fn remember_read(
        &mut self,
        conn: ConnId,
        spec: &CommandSpec,
        request: Request<'_>,
        origin: Origin,
    ) {
        let tracking = &mut self.tracking;
        match origin {
            Origin::Client | Origin::Exec => {
                let keys = spec.keys_of(request);
                tracking.remember(conn, keys.into_iter().map(Blob::new));
            }
            Origin::Script => {
                let keys = tracking.script_keys.clone().unwrap_or_default();
                tracking.remember(conn, keys.into_iter());
            }
            Origin::Retry => {}
        }
        self.has_sequel = true;
    }

    /// A key was created, changed or removed; `is_request` unless it has run out.
    pub(super) fn invalidate(&mut self, key: &[u8], is_request: bool) {
        // What is taken for one who waits was told of when it was put there.
        if self.retry.as_ref().is_some_and(|ready| **ready == *key) {
            return;
        }
        let is_own = is_request && self.tracking.script_keys.is_none();
        let author = self.caller.filter(|_| is_own);
        self.tracking.note(key, author);
        for conn in self.tracking.take(key) {
            if !self.tracking.skips(conn, self.caller) {
                self.inform(conn, News::Keys(vec![Blob::new(key)]));
            }
        }
    }

    /// Data has gone as a whole (`tracking.c: trackingInvalidateKeysOnFlush`).
    pub(super) fn invalidate_all(&mut self) {
        if !self.tracking.is_on() {
            return;
        }
        self.tracking.read.clear();
        self.tracking.items = 0;
        if self.caller.is_none() {
            self.tracking.is_flushed = true;
            self.has_sequel = true;
            return;
        }
        self.inform_all();
    }

    fn inform_all(&mut self) {
        let all = self.tracking.trackers.values();
        for conn in all.map(|tracker| tracker.conn).collect::<Vec<_>>() {
            self.inform(conn, News::All);
        }
    }

    /// Tells a connection of a change: at once, or behind its own reply.
    fn inform(&mut self, conn: ConnId, news: News) {
        if self.caller == Some(conn) {
            self.tracking.behind.push(news);
            self.has_sequel = true;
        } else {
            self.send_news(conn, news);
        }
    }

    /// What was kept for the one whose request it was, now that it has its reply.
    pub(super) fn inform_behind(&mut self, conn: ConnId) {
        for news in std::mem::take(&mut self.tracking.behind) {
            self.send_news(conn, news);
        }
    }

    /// The unit is over: the bound of the table, and what went without a request.
    pub(super) fn finish_tracking(&mut self) {
        self.bound_tracking();
        if std::mem::take(&mut self.tracking.is_flushed) {
            self.inform_all();
        }
    }

    /// Whether anybody may have to be told when the turn is over.
    #[inline]
    pub(super) fn has_broadcasts(&self) -> bool {
        self.tracking.has_broadcasts
    }

    /// The turn is over: who tracks prefixes is told of all that has changed in it, at once
    /// (`tracking.c: trackingBroadcastInvalidationMessages`).
    #[cold]
    pub(super) fn broadcast(&mut self) {
        self.tracking.has_broadcasts = false;
        let mut letters = Vec::new();
        for broadcast in self.tracking.prefixes.values_mut() {
            let keys = std::mem::take(&mut broadcast.keys);
            if !keys.is_empty() {
                let listeners = broadcast.listeners.iter().copied();
                letters.push((listeners.collect::<Vec<_>>(), keys));
            }
        }
        for (listeners, keys) in letters {
            for conn in listeners {
                let keys = keys.iter();
                let keys = keys.filter(|(_, author)| !self.tracking.skips(conn, **author));
                let keys: Vec<Blob> = keys.map(|(key, _)| key.clone()).collect();
                if !keys.is_empty() {
                    self.send_news(conn, News::Keys(keys));
                }
            }
        }
    }

    /// `tracking.c: trackingLimitUsedSlots`, all at once.
    fn bound_tracking(&mut self) {
        let keys_max = self.config.tracking_table_max_keys;
        if self.tracking.trackers.is_empty() || keys_max == 0 {
            return;
        }
        while self.tracking.keys() > keys_max {
            let at = self.tracking_draws.next_u64() % self.tracking.keys() as u64;
            let Some((key, _)) = self.tracking.read.get_index(at as usize) else {
                return;
            };
            let key = key.clone();
            for conn in self.tracking.take(&key) {
                self.send_news(conn, News::Keys(vec![key.clone()]));
            }
        }
    }

    fn is_open(&self, conn: ConnId) -> bool {
        self.caller == Some(conn) || self.sessions.get(conn).is_some()
    }

    fn protocol_now(&self, conn: ConnId) -> Protocol {
        let running = self
            .tracking
            .running
            .filter(|(running, _)| *running == conn);
        let running = running.map_or_else(Protocol::default, |(_, protocol)| protocol);
        let session = self.sessions.get(conn);
        session.map_or(running, |session| session.protocol)
    }

    /// Writes to a connection that tracks, or to the one it has named (`tracking.c: sendTrackingMessage`).
    fn send_news(&mut self, conn: ConnId, news: News) {
        let Some(redirect) = self.tracking.tracker(conn).map(|tracker| tracker.redirect) else {
            return;
        };
        let own = self.protocol_now(conn);
        if let Some(gone) = redirect.filter(|target| !self.is_open(*target)) {
            if let Some(tracker) = self.tracking.trackers.get_mut(&conn.client_id()) {
                tracker.is_broken = true;
            }
            if own == Protocol::Resp3 {
                let word = Reply::bulk("tracking-redir-broken");
                let id = Reply::Int(gone.client_id() as i64);
                self.push(conn, Reply::Push(vec![word, id]));
            }
            return;
        }
        let target = redirect.unwrap_or(conn);
        let protocol = self.protocol_now(target);
        let mut frame = match protocol {
            Protocol::Resp3 => vec![Reply::bulk("invalidate")],
            Protocol::Resp2 if redirect.is_some() && !self.pubsub.counts(target).is_zero() => {
                vec![Reply::bulk("message"), Reply::bulk(CHANNEL)]
            }
            Protocol::Resp2 => return,
        };
        frame.push(match news {
            News::Keys(keys) => Reply::Array(keys.into_iter().map(Reply::Bulk).collect()),
            News::All if own == protocol => Reply::Nil,
            // The empty value is that of the one that tracks.
            News::All => Reply::Earlier {
                protocol: own,
                reply: Box::new(Reply::Nil),
            },
        });
        self.push(target, Reply::Push(frame));
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::{Config, ConnId, Effect, Engine, NodeApi as _, Outcome, UnixMicros};
    use crate::resp::{OwnedRequest, Protocol, encode};

    const NOW: UnixMicros = UnixMicros(1_700_000_000_000_000);

    struct Node {
        engine: Engine,
        /// What connections were sent without having asked, each with its number.
        told: Vec<(u64, String)>,
    }

    impl Node {
        fn new(keys_max: usize) -> Self {
            let config = Config {
                tracking_table_max_keys: keys_max,
                ..Config::default()
            };
            Self {
                engine: Engine::new(config, NOW),
                told: Vec::new(),
            }
        }

        fn client(&mut self) -> ConnId {
            let conn = self.engine.connect("127.0.0.1:1", NOW);
            let conn = conn.expect("there is room");
            self.run(conn, "HELLO 3");
            conn
        }

        fn run(&mut self, conn: ConnId, line: &str) -> String {
            let request = OwnedRequest::new(line.split(' ').map(str::as_bytes));
            let request = request.as_request().expect("not empty");
            let mut text = Vec::new();
            if let Outcome::Reply(reply) = self.engine.handle(conn, request, NOW) {
                encode(&reply, Protocol::Resp3, &mut text);
            }
            self.engine.end_turn();
            while let Some(effect) = self.engine.poll_effect() {
                if let Effect::Push { conn, frame } = effect {
                    let mut text = Vec::new();
                    encode(&frame, Protocol::Resp3, &mut text);
                    let text = String::from_utf8_lossy(&text).into_owned();
                    self.told.push((conn.client_id(), text));
                }
            }
            String::from_utf8_lossy(&text).into_owned()
        }

        fn figures(&mut self, conn: ConnId) -> Vec<String> {
            let info = self.run(conn, "INFO clients stats");
            let lines = info.lines().filter(|line| line.starts_with("tracking_"));
            lines
                .filter_map(|line| Some(line.split_once(':')?.1.to_owned()))
                .collect()
        }
    }

    #[test]
    fn the_table_has_a_bound_and_who_loses_a_key_is_told() {
        let play = || {
            let mut node = Node::new(10);
            let (reader, other) = (node.client(), node.client());
            node.run(reader, "CLIENT TRACKING ON NOLOOP");
            for key in 0..1_000 {
                node.run(reader, &format!("GET {key}"));
            }
            assert_eq!(node.figures(other), ["1", "10", "10", "0"]);
            assert_eq!(node.told.len(), 990);
            assert!(node.told.iter().all(|(id, _)| *id == reader.client_id()));
            node.run(reader, "CONFIG SET tracking-table-max-keys 3");
            assert_eq!(node.told.len(), 997);
            // Every key was told of once, or is still remembered.
            for key in 0..1_000 {
                node.run(other, &format!("SET {key} v"));
            }
            let told: std::collections::BTreeSet<_> = node.told.iter().collect();
            assert_eq!((node.told.len(), told.len()), (1_000, 1_000));
            node.told
        };
        assert_eq!(play(), play());
    }

    #[test]
    fn who_leaves_is_told_nothing_and_leaves_nothing_but_what_was_read() {
        let mut node = Node::new(0);
        let (first, second, other) = (node.client(), node.client(), node.client());
        node.run(first, "CLIENT TRACKING ON BCAST PREFIX a PREFIX b");
        node.run(second, "CLIENT TRACKING ON");
        node.run(second, "MGET a k l");
        assert_eq!(node.figures(other), ["2", "3", "3", "2"]);
        node.engine.disconnect(first);
        node.run(other, &format!("CLIENT KILL ID {}", second.client_id()));
        assert_eq!(node.figures(other), ["0", "3", "3", "0"]);
        assert!(node.engine.state().tracking.is_on());
        node.run(other, "MSET a 1 k 1 l 1");
        assert_eq!(node.figures(other), ["0", "0", "0", "0"]);
        assert!(!node.engine.state().tracking.is_on() && node.told.is_empty());
    }

    #[test]
    fn eviction_and_new_data_invalidate() {
        let mut node = Node::new(0);
        let reader = node.client();
        node.run(reader, "SET k v");
        node.run(reader, "CLIENT TRACKING ON");
        node.run(reader, "MGET k l");
        assert!(node.engine.evict(0, b"k", NOW));
        let databases = node.engine.databases().to_vec();
        node.engine.replace_databases(&databases, NOW);
        node.run(reader, "PING");
        let told: Vec<&str> = node.told.iter().map(|(_, text)| &**text).collect();
        let expected = [
            ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n",
            ">2\r\n$10\r\ninvalidate\r\n_\r\n",
        ];
        assert_eq!(told, expected);
        assert_eq!(node.figures(reader), ["1", "0", "0", "0"]);
    }
}
