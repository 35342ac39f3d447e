//! The deterministic core of one node: requests in, replies and effects out.
//!
//! No socket, no timer, no clock and no randomness of its own: `now` is an argument and the seed
//! is in the [`Config`]. The same inputs give the same outputs, byte for byte.

mod api;
mod args;
mod blocking;
mod buffer_limits;
mod cluster;
mod config;
mod context;
#[cfg(feature = "script")]
mod digest;
#[cfg(feature = "net")]
mod direct;
mod dispatch;
mod effect;
mod error;
mod eviction;
mod expiry;
mod failover;
mod frequency;
mod glob;
mod idle;
mod image;
mod journal;
mod keyspace;
mod latency;
mod memory;
mod migration;
mod monitor;
mod notify;
mod parameter;
mod pause;
mod profile;
mod pubsub;
mod rdb;
mod replication;
mod reset;
mod rng;
#[cfg(feature = "script")]
mod script;
mod sentinel;
mod session;
mod slab;
mod slowlog;
mod stats;
pub(crate) mod table;
mod time;
mod tracking;
mod transaction;
mod unit;
mod value;

pub use api::{NodeApi, Outcome};
pub(crate) use args::{Args, integer_of};
pub use blocking::Waiting;
pub use buffer_limits::BufferLimits;
pub use cluster::ClusterMessage;
pub(crate) use cluster::{Change as ClusterChange, Claim, Cluster, Health, SLOTS, slot_of};
#[cfg(feature = "net")]
pub(crate) use cluster::{Member, Side, merge, share_of};
pub use config::Config;
pub(crate) use context::{Continuation, Ctx, Origin, ScriptCall, Ttl};
pub use effect::Effect;
pub(crate) use error::{CommandError, UnknownCommand, UnknownSubcommand};
pub use eviction::EvictionPolicy;
pub(crate) use failover::Failover;
pub use glob::glob_match;
pub(crate) use latency::{groups, percentile};
pub(crate) use memory::{Overhead, STARTUP_BYTES, key_bytes};
pub use migration::Migration;
pub(crate) use migration::NO_ANSWER;
pub(crate) use notify::Class;
pub use notify::Classes;
pub(crate) use parameter::is_secret;
pub(crate) use parameter::parse_memory;
pub(crate) use pause::Paused;
pub use profile::Profile;
pub(crate) use pubsub::Space;
pub use rng::Rng;
#[cfg(feature = "script")]
pub use script::BusyHandler;
pub use session::ConnId;
pub(crate) use session::{Asking, ReplyMode, Session};
pub(crate) use table::{
    CommandResult, CommandSpec, CommandTable, Entry, Flags, Group, Handler, Tables, is_category,
};
pub use time::{UnixMicros, UnixMillis};
pub(crate) use tracking::{Choice as TrackingChoice, Mode as TrackingMode, Tracking};
pub(crate) use transaction::Queue;
pub(crate) use value::{
    EncodingHint, End, Hash, HashLimits, Kind, List, PayloadError, SortedSet, SortedSetLimits,
    Value, clamp_range, dump, restore, serialized_bytes, sorted_set_order,
};

use crate::resp::{Blob, ErrorReply, Limits, Protocol, Reply};
use blocking::Waiters;
use effect::Outbox;
use eviction::MemoryAccounting;
pub(crate) use image::Image;
pub use journal::Unit;
use journal::{Change, Journal};
pub(crate) use keyspace::Db;
use latency::Latency;
use pause::Pause;
use pubsub::PubSub;
pub use replication::Address;
pub(crate) use replication::Replication;
pub(crate) use sentinel::{Seen, Sentinel, Watched};
use session::Sessions;
use slowlog::Slowlog;
use stats::Stats;
use transaction::Watches;
use unit::Transaction;

/// A script that was given up, or that runs while others are being answered.
#[derive(Clone, Debug)]
pub(crate) struct Busy {
    pub(crate) caller: ConnId,
    pub(crate) killed: bool,
    /// Its VM is gone and only the caller still waits: what to tell it when the script is killed.
    pub(crate) abandoned: Option<ErrorReply>,
    /// The transaction that it was part of.
    pub(crate) transaction: Option<Transaction>,
}

/// Everything a node knows. Handlers reach it through [`Ctx`].
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) config: Config,
    pub(crate) dbs: Vec<Db>,
    pub(crate) sessions: Sessions,
    #[cfg(feature = "script")]
    pub(crate) scripts: script::Scripts,
    pub(crate) stats: Stats,
    pub(crate) busy: Option<Busy>,
    /// Whether the script that runs, or was given up, has executed a write command.
    pub(crate) script_wrote: bool,
    /// Whether the script that runs has promised not to write.
    pub(crate) script_reads_only: bool,
    pub(crate) active_expire: bool,
    /// How many tests want keys to go only when somebody looks at them.
    lazy_only: usize,
    /// The queue of an earlier transaction, to use again.
    pub(crate) spare_queue: Option<Box<Queue>>,
    /// When the latest command that slept was done.
    awake_at: UnixMicros,
    pub(crate) slowlog: Slowlog,
    pub(crate) latency: Latency,
    /// The latest error that a script was given.
    script_error: Option<ErrorReply>,
    pub(crate) started: UnixMicros,
    pub(crate) run_id: String,
    /// `master_replid`.
    pub(crate) replication_id: String,
    replication_ids: Rng,
    /// The largest estimate that was ever asked for, bytes.
    memory_peak: usize,
    /// When to look for clients that have said nothing for too long.
    idle_check: Option<UnixMillis>,
    /// The instant of the unit that runs, or ran last.
    now: UnixMicros,
    /// What the unit that runs has changed; absent when nobody reads it.
    journal: Option<Box<Journal>>,
    /// What all data takes; absent as long as it may take anything.
    accounting: Option<Box<MemoryAccounting>>,
    /// Decides whether a use of a key counts.
    uses: Rng,
    /// Whether the script that runs may take memory that is not there.
    script_allows_oom: bool,
    pub(crate) replication: Replication,
    /// A failover that was asked for and has not come about.
    pub(crate) failover: Option<Failover>,
    /// Its view of the cluster that it belongs to, if any.
    pub(crate) cluster: Option<Box<Cluster>>,
    /// Whether the script that runs has promised to keep to the slot of its first key.
    script_keeps_to_slot: bool,
    /// Whether a request may be refused for the node's place among others: by a replica, for want of
    /// replicas, in a cluster.
    is_guarded: bool,
    /// What the node knows as a sentinel, if it is one.
    pub(crate) sentinel: Option<Box<Sentinel>>,
    /// Changes since the start (`rdb_changes_since_last_save`).
    pub(crate) dirty: u64,
    /// What the driver has to carry out.
    pub(crate) outbox: Outbox,
    pub(crate) watches: Watches,
    pub(crate) waiters: Waiters,
    pub(crate) pubsub: PubSub,
    pub(crate) tracking: Tracking,
    /// For the key that leaves the table of tracking when it is full.
    tracking_draws: Rng,
    pub(crate) pause: Pause,
    /// Connections that are told of every command.
    pub(crate) monitors: Vec<ConnId>,
    /// Whose request is being handled.
    caller: Option<ConnId>,
    /// What the caller was sent by its own request.
    own_frames: Vec<Reply>,
    /// What MONITOR tells the caller of its own request.
    own_tail: Vec<Reply>,
    /// How many of the caller's own frames come before its reply; all unless said.
    reply_at: Option<usize>,
    /// Whether anything follows from this unit (see `unit.rs`).
    has_sequel: bool,
    /// The key for which a waiting request is being run again.
    retry: Option<Blob>,
    /// A transaction whose script was killed and that goes on now.
    resumed: Option<Transaction>,
    /// For commands whose answer is drawn.
    pub(crate) draws: Rng,
}

impl State {
    fn new(config: Config, commands: usize, now: UnixMicros) -> Self {
        let seed = config.seed;
        let mut replication_ids = Rng::for_component(seed, "replication id");
        let hash_seed = Rng::for_component(seed, "keyspace").next_u64();
        Self {
            dbs: (0..config.databases.max(1))
                .map(|_| Db::new(hash_seed))
                .collect(),
            sessions: Sessions::default(),
            #[cfg(feature = "script")]
            scripts: script::Scripts::default(),
            stats: Stats::new(commands),
            busy: None,
            script_wrote: false,
            script_reads_only: false,
            active_expire: true,
            lazy_only: 0,
            spare_queue: None,
            awake_at: now,
            slowlog: Slowlog::default(),
            latency: Latency::default(),
            script_error: None,
            started: now,
            run_id: Rng::for_component(seed, "run id").hex(20),
            replication_id: replication_ids.hex(20),
            replication_ids,
            memory_peak: 0,
            idle_check: idle::first_check(&config, now),
            now,
            journal: None,
            accounting: MemoryAccounting::of(&config),
            uses: Rng::for_component(seed, "uses"),
            script_allows_oom: false,
            replication: Replication::default(),
            failover: None,
            cluster: None,
            script_keeps_to_slot: false,
            sentinel: None,
            is_guarded: false,
            dirty: 0,
            outbox: Outbox::default(),
            watches: Watches::default(),
            waiters: Waiters::default(),
            pubsub: PubSub::default(),
            tracking: Tracking::default(),
            tracking_draws: Rng::for_component(seed, "tracking"),
            pause: Pause::default(),
            monitors: Vec::new(),
            caller: None,
            own_frames: Vec::new(),
            own_tail: Vec::new(),
            reply_at: None,
            has_sequel: false,
            retry: None,
            resumed: None,
            draws: Rng::for_component(seed, "commands"),
            config,
        }
    }

    /// Something happens that no client has asked for.
    fn begin(&mut self, now: UnixMicros) {
        self.now = now;
        self.caller = None;
    }

    /// Draws another `master_replid`.
    pub(crate) fn change_replication_id(&mut self) {
        self.replication_id = self.replication_ids.hex(20);
    }

    /// Ends a connection at once, from the side of the server.
    pub(crate) fn kick(&mut self, conn: ConnId) {
        self.disconnect(conn);
        self.outbox.push(Effect::Close { conn });
    }

    /// Removes a key whose deadline has passed.
    pub(crate) fn expire(&mut self, db: usize, slot: u32) {
        let key = self.dbs[db].key(slot).clone();
        self.dbs[db].remove(slot);
        self.stats.expired_keys += 1;
        self.touched_by(false, db, &key);
        self.notify(db, Class::Expired, "expired", &key);
    }

    /// Removes a key for want of memory, as `evict.c: performEvictions`; false when it is not there.
    fn evict(&mut self, db: usize, key: &[u8]) -> bool {
        let Some(slot) = self.dbs.get(db).and_then(|keys| keys.find(key)) else {
            return false;
        };
        self.dbs[db].remove(slot);
        self.stats.evicted_keys += 1;
        self.touched(db, key);
        self.notify(db, Class::Evicted, "evicted", key);
        true
    }

    /// A key was created, changed or removed. Watchers, waiters and trackers of keys hang here.
    #[inline]
    pub(crate) fn touched(&mut self, db: usize, key: &[u8]) {
        self.touched_by(true, db, key);
    }

    /// The same, saying whether a request wanted it.
    #[inline]
    fn touched_by(&mut self, is_request: bool, db: usize, key: &[u8]) {
        self.dirty += 1;
        if !(self.watches.is_empty()
            && self.waiters.is_empty()
            && self.journal.is_none()
            && self.accounting.is_none()
            && !self.tracking.is_on())
        {
            self.tell_of(is_request, db, key);
        }
    }

    #[cold]
    fn tell_of(&mut self, is_request: bool, db: usize, key: &[u8]) {
        if self.tracking.is_on() {
            self.invalidate(key, is_request);
        }
        if let Some(accounting) = &mut self.accounting {
            accounting.touched(db, key);
        }
        if let Some(journal) = &mut self.journal {
            journal.touched(db, key);
            self.has_sequel = true;
        }
        let is_there = self.dbs[db].find(key).is_some();
        self.watches.touched(db, key, is_there);
        if is_there {
            self.waiters.touched(db, key);
            self.has_sequel |= self.waiters.has_ready();
        }
    }

    /// An event in the life of a key, to the channels that are named after both.
    #[inline(always)]
    pub(crate) fn notify(&mut self, db: usize, class: Class, event: &str, key: &[u8]) {
        if self.journal.is_some() || !self.pubsub.is_empty() {
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
        if self.config.notify_keyspace_events.contain(class) && !self.pubsub.is_empty() {
            self.publish_event(db, event, key);
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

    /// Sends a message to all who listen; how many they are.
    pub(crate) fn publish(&mut self, space: Space, channel: &[u8], message: &[u8]) -> usize {
        if self.cluster.is_some() {
            // There the bus carries messages, to replicas too.
            self.outbox
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

    fn deliver(&mut self, space: Space, channel: &[u8], message: &[u8]) -> usize {
        let messages = self.pubsub.publish(space, channel, message);
        let count = messages.len();
        for (conn, frame) in messages {
            self.push(conn, frame);
        }
        count
    }

    /// Empties a database.
    pub(crate) fn flush(&mut self, db: usize) {
        self.empty(db);
        self.invalidate_all();
    }

    /// Empties all databases.
    pub(crate) fn flush_all(&mut self) {
        (0..self.dbs.len()).for_each(|db| self.empty(db));
        self.invalidate_all();
    }

    /// Watched keys that were in the database have changed.
    fn empty(&mut self, db: usize) {
        let watched = self.watches.keys_of(db);
        let there: Vec<_> = watched
            .into_iter()
            .filter(|key| self.dbs[db].find(key).is_some())
            .collect();
        self.dirty += self.dbs[db].len() as u64;
        self.dbs[db].clear();
        self.data_replaced();
        self.note(|| Change::Flush { db });
        for key in there {
            self.watches.touched(db, &key, false);
        }
    }

    /// Puts other data in the place of all that is there. Watched keys that were there or are there
    /// now have changed; whoever waits on a key that is there now is served.
    fn replace(&mut self, databases: &[Db]) {
        for (db, other) in databases.iter().enumerate().take(self.dbs.len()) {
            for key in self.watches.keys_of(db) {
                let is_there = other.find(&key).is_some();
                if is_there || self.dbs[db].find(&key).is_some() {
                    self.watches.touched(db, &key, is_there);
                }
            }
            self.dbs[db] = other.clone();
            for key in self.waiters.keys_of(db) {
                if self.dbs[db].find(&key).is_some() {
                    self.waiters.touched(db, &key);
                }
            }
        }
        self.dirty += 1;
        self.data_replaced();
        self.has_sequel |= self.waiters.has_ready();
        if self.journal.is_some() {
            // What came may be fewer than the node has; a reader is told of all.
            let all = self.dbs.clone();
            self.note(|| Change::Replace(all));
        }
        self.invalidate_all();
    }

    /// Exchanges two databases. Watched keys that are in either have changed; whoever waits on a key
    /// that came with the exchange is served (`db.c: dbSwapDatabases`).
    pub(crate) fn swap(&mut self, first: usize, second: usize) {
        for db in [first, second] {
            for key in self.watches.keys_of(db) {
                let is_there = |db: usize| self.dbs[db].find(&key).is_some();
                if is_there(first) || is_there(second) {
                    self.watches.touched(db, &key, true);
                }
            }
        }
        // What was touched before has its state written down before.
        self.note(|| Change::Swap { first, second });
        self.dbs.swap(first, second);
        self.data_replaced();
        for db in [first, second] {
            for key in self.waiters.keys_of(db) {
                if self.dbs[db].find(&key).is_some() {
                    self.waiters.touched(db, &key);
                }
            }
        }
        self.has_sequel |= self.waiters.has_ready();
    }

    /// The key that expires next: its deadline, database and slot.
    fn first_deadline(&self) -> Option<(UnixMillis, usize, u32)> {
        let firsts = self.dbs.iter().enumerate();
        firsts
            .filter_map(|(db, keys)| {
                keys.first_deadline()
                    .map(|(deadline, slot)| (deadline, db, slot))
            })
            .min()
    }
}

/// The answer to a client of another machine in protected mode: Redis's first sentence, and what
/// can be done here.
const DENIED: &str = "DENIED Redis is running in protected mode because protected mode is enabled and no \
    password is set for the default user. Connections are accepted from 127.0.0.1 and ::1 only. To accept \
    others, start redouble with a password or with --protected-mode no, or send CONFIG SET protected-mode no \
    from this machine.";

impl State {
    pub(super) fn connect(&mut self, addr: &str, now: UnixMicros) -> Result<ConnId, ErrorReply> {
        if self.sessions.len() >= self.config.maxclients {
            self.stats.rejected_connections += 1;
            return Err(ErrorReply::new("ERR max number of clients reached"));
        }
        if self.config.denies(addr) {
            self.stats.rejected_connections += 1;
            return Err(ErrorReply::new(DENIED));
        }
        self.stats.connections += 1;
        let authenticated = self.config.requirepass.is_empty();
        let conn = self.sessions.open(authenticated, addr, now);
        tracing::debug!(addr, client_id = conn.client_id(), at = now.0, "connected");
        Ok(conn)
    }

    pub(super) fn reached_at(&mut self, conn: ConnId, laddr: &str) {
        if let Some(session) = self.sessions.get_mut(conn) {
            session.laddr = laddr.into();
        }
    }

    pub(super) fn disconnect(&mut self, conn: ConnId) {
        self.watches.unwatch(conn);
        self.waiters.remove(conn);
        self.pubsub.leave(conn);
        self.tracking.end(conn);
        self.pause.leave(conn);
        self.monitors.retain(|other| *other != conn);
        self.sessions.close(conn);
    }

    pub(super) fn protocol(&self, conn: ConnId) -> Protocol {
        self.sessions
            .get(conn)
            .map_or_else(Protocol::default, |session| session.protocol)
    }

    pub(super) fn pushed_bytes_max(&self) -> usize {
        self.config.client_output_buffer_limit.pushed_bytes_max()
    }

    pub(super) fn limits(&self, conn: ConnId) -> Limits {
        Limits {
            bulk_bytes_max: self.config.proto_max_bulk_len,
            buffer_bytes_max: usize::try_from(self.config.client_query_buffer_limit)
                .unwrap_or(usize::MAX),
            authenticated: self
                .sessions
                .get(conn)
                .is_some_and(|session| session.authenticated),
        }
    }

    pub(super) fn name(&self, conn: ConnId) -> &[u8] {
        self.sessions.get(conn).map_or(b"", |session| &session.name)
    }
}

/// One node.
///
/// ```
/// use redouble::engine::{Config, NodeApi, Engine, Outcome, UnixMicros};
/// use redouble::resp::{OwnedRequest, Reply};
///
/// let mut engine = Engine::new(Config::default(), UnixMicros(0));
/// let conn = engine.connect("127.0.0.1:5000", UnixMicros(0))?;
/// let mut run = |args: &[&str], now: i64| {
///     let request = OwnedRequest::new(args.iter().map(|arg| arg.as_bytes()));
///     engine.handle(conn, request.as_request().expect("not empty"), UnixMicros(now))
/// };
/// assert_eq!(run(&["SET", "k", "v", "PX", "10"], 0), Outcome::Reply(Reply::Ok));
/// assert_eq!(run(&["GET", "k"], 10_999), Outcome::Reply(Reply::bulk("v")));
/// assert_eq!(run(&["GET", "k"], 11_000), Outcome::Reply(Reply::Nil)); // expired once now > deadline
/// # Ok::<(), redouble::resp::ErrorReply>(())
/// ```
#[derive(Debug)]
pub struct Engine {
    /// Absent only while a script has it.
    state: Option<Box<State>>,
    tables: Tables,
    /// The commands of the node's role.
    table: &'static CommandTable,
    #[cfg(feature = "script")]
    runner: script::Runner,
    /// What it was started with, for the next start.
    start: Config,
}

const HAS_STATE: &str = "the state is in its place whenever no script runs";

impl Engine {
    /// An empty node with these commands, whose clock shows `now`.
    pub(crate) fn with_tables(config: Config, tables: Tables, now: UnixMicros) -> Self {
        let table = tables.ordinary;
        Self {
            tables,
            table,
            #[cfg(feature = "script")]
            runner: script::Runner::new(&config),
            start: config.clone(),
            state: Some(Box::new(State::new(config, table.len(), now))),
        }
    }

    #[inline]
    pub(crate) fn state(&self) -> &State {
        self.state.as_deref().expect(HAS_STATE)
    }

    #[inline]
    pub(crate) fn state_mut(&mut self) -> &mut State {
        self.state.as_deref_mut().expect(HAS_STATE)
    }

    /// Lowers `maxclients` to what `allowed` makes of it.
    pub fn limit_connections(&mut self, allowed: impl FnOnce(usize) -> usize) {
        self.start.maxclients = allowed(self.start.maxclients);
        self.state_mut().config.maxclients = self.start.maxclients;
    }

    /// Open connections.
    pub fn connections(&self) -> usize {
        self.state().sessions.len()
    }

    /// Who waits on which key, in the order in which they began.
    pub fn waiting(&self) -> Vec<Waiting> {
        let state = self.state();
        state.waiters.list(&state.sessions)
    }

    /// How many listen to a channel, patterns not counted.
    pub fn subscribers(&self, channel: &[u8]) -> usize {
        let pubsub = &self.state().pubsub;
        pubsub.listener_count(Space::Channel, channel)
    }

    /// How many channels and patterns somebody listens to.
    pub fn subscriptions(&self) -> usize {
        let pubsub = &self.state().pubsub;
        let channels = |space| pubsub.channels(space, None).len();
        channels(Space::Channel) + channels(Space::Shard) + pubsub.pattern_count()
    }

    /// Connections since the start, those that have ended among them.
    pub fn connections_total(&self) -> u64 {
        self.state().stats.connections
    }

    pub(crate) fn databases(&self) -> &[Db] {
        &self.state().dbs
    }

    pub(crate) fn database(&self, index: usize) -> Option<&Db> {
        self.state().dbs.get(index)
    }

    /// Replaces all data at one instant.
    pub(crate) fn replace_databases(&mut self, databases: &[Db], now: UnixMicros) {
        let state = self.state_mut();
        state.begin(now);
        state.replace(databases);
        self.follow_up(now);
    }

    /// Removes a key as if memory had run short; false when it is not there.
    pub fn evict(&mut self, db: usize, key: &[u8], now: UnixMicros) -> bool {
        let was_there = self.state_mut().evict(db, key);
        self.follow_up(now);
        was_there
    }

    /// Adds one who wants keys to go only when somebody looks at them, or takes one away.
    pub fn expire_lazily(&mut self, is_wanted: bool) {
        let count = &mut self.state_mut().lazy_only;
        *count = if is_wanted {
            *count + 1
        } else {
            count.saturating_sub(1)
        };
    }

    /// Forgets all scripts, as SCRIPT FLUSH does.
    pub fn flush_scripts(&mut self) {
        #[cfg(feature = "script")]
        self.state_mut().scripts.clear();
    }

    /// Tells who tracks keys by their prefix what has changed since the last time: when all is served that there
    /// was to serve, and before the next wait (`server.c: beforeSleep`). True if there may be effects.
    #[inline]
    pub fn end_turn(&mut self) -> bool {
        let state = self.state_mut();
        let has_broadcasts = state.has_broadcasts();
        if has_broadcasts {
            state.broadcast();
        }
        has_broadcasts
    }

    /// The live keys of a database, sorted.
    pub fn keys(&self, db: usize, now: UnixMicros) -> Vec<Vec<u8>> {
        let Some(keys) = self.state().dbs.get(db) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        let mut at = 0;
        while let Some(slot) = keys.next_used(at) {
            at = slot + 1;
            if keys
                .deadline(slot)
                .is_none_or(|deadline| now.millis() <= deadline)
            {
                found.push(keys.key(slot).to_vec());
            }
        }
        found.sort();
        found
    }
}

#[cfg(not(feature = "script"))]
impl Engine {
    /// Without the `script` feature no command asks for a script.
    fn run_script(
        &mut self,
        _call: ScriptCall,
        session: Box<Session>,
        _request: Request<'_>,
        _now: UnixMicros,
    ) -> Outcome {
        self.state_mut().sessions.put_back(session);
        Outcome::Silent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every reply is moved a few times; moves of one shape cost nothing, others stall.
    #[test]
    fn what_a_request_comes_to_is_no_larger_than_a_text() {
        assert_eq!(size_of::<Reply>(), size_of::<Blob>());
        assert_eq!(size_of::<Result<Reply, CommandError>>(), size_of::<Blob>());
        assert_eq!(size_of::<dispatch::Dispatched>(), size_of::<Blob>());
        assert_eq!(size_of::<Outcome>(), size_of::<Blob>());
    }
}
