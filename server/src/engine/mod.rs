//! The deterministic core of one node: requests in, replies and effects out.
//!
//! No socket, no timer, no clock and no randomness of its own: `now` is an argument and the seed
//! is in the [`Config`]. The same inputs give the same outputs, byte for byte.

mod config;
mod context;
mod dispatch;
mod effect;
mod expiry;
mod glob;
mod keyspace;
mod notify;
mod rng;
#[cfg(feature = "script")]
mod script;
mod session;
mod slab;
mod time;
mod value;

pub use config::Config;
pub(crate) use context::{Ctx, Origin, ScriptCall, Ttl};
pub use effect::{Effect, Outbox};
pub use glob::glob_match;
pub(crate) use notify::Class;
pub use rng::Rng;
#[cfg(feature = "script")]
pub use script::Bystanders;
pub use session::ConnId;
#[cfg(not(feature = "script"))]
use session::Session;
pub use time::{UnixMicros, UnixMillis};
pub(crate) use value::{Hash, Kind, Value};

use crate::command::CommandSpec;
use crate::resp::{ErrorReply, Limits, Protocol, Reply, Request};
use dispatch::{Dispatched, dispatch};
use keyspace::Db;
use session::Sessions;

/// What a request came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The caller's answer.
    Reply(Reply),
    /// The answer follows later, as an [`Effect::Reply`].
    Parked,
    /// There is no answer.
    Silent,
}

/// A driver's way to a node: the engine itself, or the engine beside a long script.
pub trait Desk {
    /// Opens a connection from `addr`.
    ///
    /// # Errors
    /// `ERR max number of clients reached`, as `networking.c: acceptCommonHandler`.
    fn connect(&mut self, addr: &str, now: UnixMicros) -> Result<ConnId, ErrorReply>;
    /// Forgets a connection.
    fn disconnect(&mut self, conn: ConnId);
    /// Runs one request of a connection. `now` is the node's clock, read once for the whole unit.
    fn handle(
        &mut self,
        conn: ConnId,
        request: Request<'_>,
        now: UnixMicros,
        outbox: &mut Outbox,
    ) -> Outcome;
    /// The protocol a connection is answered in.
    fn protocol(&self, conn: ConnId) -> Protocol;
    /// The bounds under which a connection's input is decoded.
    fn limits(&self, conn: ConnId) -> Limits;
    /// The name a connection gave itself by CLIENT SETNAME; empty at first.
    fn name(&self, conn: ConnId) -> &[u8];
}

/// A script that was given up, or that runs while others are being answered.
#[derive(Clone, Debug)]
pub(crate) struct Busy {
    pub(crate) caller: ConnId,
    pub(crate) killed: bool,
    /// Its VM is gone and only the caller still waits: what to tell it when the script is killed.
    pub(crate) abandoned: Option<ErrorReply>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Stats {
    pub(crate) commands: u64,
    pub(crate) errors: u64,
    pub(crate) connections: u64,
    pub(crate) rejected_connections: u64,
    pub(crate) expired_keys: u64,
    pub(crate) keyspace_hits: u64,
    pub(crate) keyspace_misses: u64,
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
    /// The row of the latest request's command.
    pub(crate) last_command: Option<&'static CommandSpec>,
    pub(crate) started: UnixMicros,
    pub(crate) run_id: String,
    /// Changes since the start (`rdb_changes_since_last_save`).
    pub(crate) dirty: u64,
}

impl State {
    fn new(config: Config, now: UnixMicros) -> Self {
        let seed = config.seed;
        let hash_seed = Rng::for_component(seed, "keyspace").next_u64();
        Self {
            dbs: (0..config.databases.max(1))
                .map(|_| Db::new(hash_seed))
                .collect(),
            sessions: Sessions::default(),
            #[cfg(feature = "script")]
            scripts: script::Scripts::default(),
            stats: Stats::default(),
            busy: None,
            script_wrote: false,
            script_reads_only: false,
            active_expire: true,
            last_command: None,
            started: now,
            run_id: Rng::for_component(seed, "run id").hex(20),
            dirty: 0,
            config,
        }
    }

    /// Removes a key whose deadline has passed.
    pub(crate) fn expire(&mut self, db: usize, slot: u32) {
        let key = self.dbs[db].key(slot).clone();
        self.dbs[db].remove(slot);
        self.stats.expired_keys += 1;
        self.touched(db, &key);
    }

    /// A key was created, changed or removed. Watchers, waiters and trackers of keys hang here.
    #[inline]
    pub(crate) fn touched(&mut self, _db: usize, _key: &[u8]) {
        self.dirty += 1;
    }

    /// Empties a database.
    pub(crate) fn flush(&mut self, db: usize) {
        self.dirty += self.dbs[db].len() as u64;
        self.dbs[db].clear();
    }

    pub(crate) fn hash_seed(&self) -> u64 {
        self.config.seed
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

impl Desk for State {
    fn connect(&mut self, addr: &str, now: UnixMicros) -> Result<ConnId, ErrorReply> {
        if self.sessions.len() >= self.config.maxclients {
            self.stats.rejected_connections += 1;
            return Err(ErrorReply::new("ERR max number of clients reached"));
        }
        self.stats.connections += 1;
        let authenticated = self.config.requirepass.is_empty();
        let conn = self.sessions.open(authenticated);
        tracing::debug!(addr, client_id = conn.client_id(), at = now.0, "connected");
        Ok(conn)
    }

    fn disconnect(&mut self, conn: ConnId) {
        self.sessions.close(conn);
    }

    fn handle(
        &mut self,
        conn: ConnId,
        request: Request<'_>,
        now: UnixMicros,
        outbox: &mut Outbox,
    ) -> Outcome {
        let Some(mut session) = self.sessions.take(conn) else {
            return Outcome::Silent;
        };
        let dispatched = dispatch(self, &mut session, request, now, Origin::Client, outbox);
        self.sessions.put_back(session);
        match dispatched {
            Dispatched::Reply(reply) => Outcome::Reply(reply),
            Dispatched::Silent => Outcome::Silent,
            // Only the busy gate can be in front of this desk, and it lets no script pass.
            Dispatched::Script(_) => Outcome::Reply(crate::command::CommandError::Busy.into()),
        }
    }

    fn protocol(&self, conn: ConnId) -> Protocol {
        self.sessions
            .get(conn)
            .map_or_else(Protocol::default, |session| session.protocol)
    }

    fn limits(&self, conn: ConnId) -> Limits {
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

    fn name(&self, conn: ConnId) -> &[u8] {
        self.sessions.get(conn).map_or(b"", |session| &session.name)
    }
}

/// One node.
///
/// ```
/// use redouble::engine::{Config, Desk, Engine, Outbox, Outcome, UnixMicros};
/// use redouble::resp::{OwnedRequest, Reply};
///
/// let (mut engine, mut outbox) = (Engine::new(Config::default(), UnixMicros(0)), Outbox::default());
/// let conn = engine.connect("127.0.0.1:5000", UnixMicros(0))?;
/// let mut run = |args: &[&str], now: i64| {
///     let request = OwnedRequest::new(args.iter().map(|arg| arg.as_bytes()));
///     engine.handle(conn, request.as_request().expect("not empty"), UnixMicros(now), &mut outbox)
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
    #[cfg(feature = "script")]
    runner: script::Runner,
}

const HAS_STATE: &str = "the state is in its place whenever no script runs";

impl Engine {
    /// An empty node whose clock shows `now`.
    pub fn new(config: Config, now: UnixMicros) -> Self {
        Self {
            #[cfg(feature = "script")]
            runner: script::Runner::new(&config),
            state: Some(Box::new(State::new(config, now))),
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
        let config = &mut self.state_mut().config;
        config.maxclients = allowed(config.maxclients);
    }

    /// Open connections.
    pub fn connections(&self) -> usize {
        self.state().sessions.len()
    }

    /// When [`Engine::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<UnixMillis> {
        let state = self.state();
        let (deadline, ..) = state.first_deadline().filter(|_| state.active_expire)?;
        // A key is expired only when now > deadline.
        Some(UnixMillis(deadline.0.saturating_add(1)))
    }

    /// Does what is due: removes expired keys, in the order of their deadlines.
    pub fn handle_timeout(&mut self, now: UnixMicros, _outbox: &mut Outbox) {
        let state = self.state_mut();
        while let Some((deadline, db, slot)) = state.first_deadline()
            && now.millis() > deadline
            && state.active_expire
        {
            state.expire(db, slot);
        }
    }

    /// The string at `key` and its deadline, without the traces that a command leaves.
    pub fn peek(
        &self,
        db: usize,
        key: &[u8],
        now: UnixMicros,
    ) -> Option<(&[u8], Option<UnixMillis>)> {
        let (value, deadline) = self.live(db, key, now)?;
        match value {
            Value::String(string) => Some((string, deadline)),
            Value::Hash(_) => None,
        }
    }

    /// The deadline of a key that is there; `Some(None)` for one without.
    pub fn deadline(&self, db: usize, key: &[u8], now: UnixMicros) -> Option<Option<UnixMillis>> {
        self.live(db, key, now).map(|(_, deadline)| deadline)
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

    fn live(&self, db: usize, key: &[u8], now: UnixMicros) -> Option<(&Value, Option<UnixMillis>)> {
        let keys = self.state().dbs.get(db)?;
        let (slot, is_live) = keys.find_live(key, now.millis())?;
        is_live.then(|| (keys.value(slot), keys.deadline(slot)))
    }
}

impl Desk for Engine {
    fn connect(&mut self, addr: &str, now: UnixMicros) -> Result<ConnId, ErrorReply> {
        self.state_mut().connect(addr, now)
    }

    fn disconnect(&mut self, conn: ConnId) {
        self.state_mut().disconnect(conn);
    }

    #[inline]
    fn handle(
        &mut self,
        conn: ConnId,
        request: Request<'_>,
        now: UnixMicros,
        outbox: &mut Outbox,
    ) -> Outcome {
        let state = self.state_mut();
        let Some(mut session) = state.sessions.take(conn) else {
            return Outcome::Silent;
        };
        match dispatch(state, &mut session, request, now, Origin::Client, outbox) {
            Dispatched::Reply(reply) => {
                state.sessions.put_back(session);
                Outcome::Reply(reply)
            }
            Dispatched::Silent => {
                state.sessions.put_back(session);
                Outcome::Silent
            }
            Dispatched::Script(call) => self.run_script(call, session, request, now, outbox),
        }
    }

    fn protocol(&self, conn: ConnId) -> Protocol {
        self.state().protocol(conn)
    }

    fn limits(&self, conn: ConnId) -> Limits {
        self.state().limits(conn)
    }

    fn name(&self, conn: ConnId) -> &[u8] {
        self.state().name(conn)
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
        _outbox: &mut Outbox,
    ) -> Outcome {
        self.state_mut().sessions.put_back(session);
        Outcome::Silent
    }
}
