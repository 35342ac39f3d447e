//! [`Engine`]: the driver of a node's state. It takes requests, runs units of work and hands out effects.
//!
//! `unit.rs` decides in which order things happen, `gates/` which requests may run, `dispatch.rs` runs them. The other
//! files are what the outside does to a node: replication, clusters, sentinels, migration, reset.

mod api;
#[cfg(feature = "script")]
mod busy_node;
mod cluster;
mod direct;
mod dispatch;
mod gates;
mod migration;
mod replication;
mod reset;
#[cfg(feature = "script")]
mod script;
mod sentinel;
mod unit;

pub use api::{NodeApi, Outcome};
pub use replication::FullCopy;
#[cfg(feature = "script")]
pub use script::BusyHandler;

use super::channel::Space;
use super::clients::blocking::Waiting;
use super::config::Config;
use super::data::keyspace::Db;
use super::peers::image::Image;
use super::state::State;
use super::state::users_at_start;
use super::table::{CommandTable, Tables};
use super::time::{UnixMicros, UnixMillis};

/// One node.
///
/// ```
/// # extern crate redouble_core as redouble;
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
    pub(super) state: Option<Box<State>>,
    tables: Tables,
    /// The commands of the node's role.
    pub(super) table: &'static CommandTable,
    #[cfg(feature = "script")]
    pub(super) runner: script::Runner,
    /// Settings of its start, for the next start.
    start: Config,
}

pub(super) const HAS_STATE: &str = "the state is in its place whenever no script runs";

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
            state: Some(Box::new(State::new(config, table.catalogue(), now))),
        }
    }

    /// Checks the users in the settings of an ordinary node.
    ///
    /// # Errors
    /// The reason why they are invalid.
    pub(crate) fn check_users(config: &Config, tables: Tables) -> Result<(), String> {
        users_at_start(config, tables.ordinary.catalogue()).map(|_| ())
    }

    #[inline]
    pub(super) fn state(&self) -> &State {
        self.state.as_deref().expect(HAS_STATE)
    }

    #[inline]
    pub(super) fn state_mut(&mut self) -> &mut State {
        self.state.as_deref_mut().expect(HAS_STATE)
    }

    /// The parameters of the node.
    pub fn config(&self) -> &Config {
        &self.state().config
    }

    /// True while a long or abandoned script keeps the node busy.
    pub fn is_busy(&self) -> bool {
        self.state().scripting.busy.is_some()
    }

    /// True if the node follows a master.
    pub fn is_replica(&self) -> bool {
        self.state().peers.replication.is_replica()
    }

    /// End of CLIENT PAUSE, if it is on.
    pub fn paused_until(&self) -> Option<UnixMillis> {
        self.state().clients.pause.until()
    }

    /// Lowers `maxclients` to what `allowed` makes of it.
    pub fn limit_connections(&mut self, allowed: impl FnOnce(usize) -> usize) {
        self.start.maxclients = allowed(self.start.maxclients);
        self.state_mut().config.maxclients = self.start.maxclients;
    }

    /// Open connections.
    pub fn connections(&self) -> usize {
        self.state().clients.sessions.len()
    }

    /// Blocked clients with the keys that they wait on, in the order in which they blocked.
    pub fn waiting(&self) -> Vec<Waiting> {
        let state = self.state();
        state.clients.waiters.list(&state.clients.sessions)
    }

    /// Returns the number of subscribers of a channel, without those of patterns.
    pub fn subscribers(&self, channel: &[u8]) -> usize {
        let pubsub = &self.state().clients.pubsub;
        pubsub.listener_count(Space::Channel, channel)
    }

    /// Number of subscriptions to channels and patterns: two connections with the same channel have two.
    pub fn subscriptions(&self) -> usize {
        self.state().clients.pubsub.len()
    }

    /// Number of connections since the start, closed ones included.
    pub fn connections_total(&self) -> u64 {
        self.state().introspection.stats.connections
    }

    /// All databases, by their numbers.
    pub fn databases(&self) -> &[Db] {
        self.state().data.databases()
    }

    /// The database of this number; `None` if there is none.
    pub fn database(&self, index: usize) -> Option<&Db> {
        self.databases().get(index)
    }

    /// Loads the file of the storage, if there is one.
    ///
    /// # Errors
    /// The reason why the file cannot be loaded.
    pub fn load_file(&mut self, now: UnixMicros) -> Result<bool, String> {
        let state = self.state_mut();
        state.unit.begin(now);
        let was_there = state.load_file().map_err(|error| error.to_string())?;
        #[cfg(feature = "script")]
        self.read_libraries_at_start(now)
            .map_err(|error| error.text().to_owned())?;
        Ok(was_there)
    }

    /// Replaces all data at one instant.
    pub(crate) fn replace_databases(&mut self, databases: &[Db], now: UnixMicros) {
        let state = self.state_mut();
        state.unit.begin(now);
        state.replace(databases);
        self.follow_up(now);
    }

    /// Replaces all data and libraries of functions at one instant.
    pub fn restore_image(&mut self, image: &Image, now: UnixMicros) {
        let state = self.state_mut();
        state.unit.begin(now);
        state.replace(image.databases());
        state.replace_libraries(image.libraries());
        self.follow_up(now);
    }

    /// Removes a key as an eviction does; false if it does not exist.
    pub fn evict(&mut self, db: usize, key: &[u8], now: UnixMicros) -> bool {
        let was_there = self.state_mut().evict(db, key);
        self.follow_up(now);
        was_there
    }

    /// Adds or removes one guard that switches the active expiry cycle off.
    pub fn expire_lazily(&mut self, is_wanted: bool) {
        self.state_mut().data.expire_lazily(is_wanted);
    }

    /// Forgets all scripts, as SCRIPT FLUSH does.
    pub fn flush_scripts(&mut self) {
        #[cfg(feature = "script")]
        self.state_mut().scripting.scripts.clear();
    }

    /// Sends invalidations to the connections that track prefixes, for all changes since the last call. The driver calls
    /// this when no input is left, before it waits (`server.c: beforeSleep`). True if there may be effects.
    #[inline]
    pub fn end_turn(&mut self) -> bool {
        let state = self.state_mut();
        let has_broadcasts = state.clients.tracking.has_broadcasts();
        if has_broadcasts {
            state.broadcast();
        }
        if state.clients_limit().is_some() {
            state.evict_clients(None);
        }
        !state.unit.outbox.is_empty()
    }

    /// The live keys of a database, sorted.
    pub fn keys(&self, db: usize, now: UnixMicros) -> Vec<Vec<u8>> {
        let Some(keys) = self.database(db) else {
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
    /// Without the `script` feature no command runs a script.
    fn run_script(
        &mut self,
        _call: super::context::ScriptCall,
        session: Box<super::clients::session::Session>,
        _request: crate::resp::Request<'_>,
        _now: UnixMicros,
    ) -> Outcome {
        self.state_mut().clients.sessions.put_back(session);
        Outcome::Silent
    }
}

#[cfg(test)]
mod tests {
    use super::dispatch::Dispatched;
    use super::*;
    use crate::engine::CommandError;
    use crate::resp::{Blob, Reply};

    /// Every reply is moved a few times; moves of one shape cost nothing, others stall.
    #[test]
    fn the_outcome_of_a_request_is_no_larger_than_a_blob() {
        assert_eq!(size_of::<Reply>(), size_of::<Blob>());
        assert_eq!(size_of::<Result<Reply, CommandError>>(), size_of::<Blob>());
        assert_eq!(size_of::<Dispatched>(), size_of::<Blob>());
        assert_eq!(size_of::<Outcome>(), size_of::<Blob>());
    }
}
