//! Access of handlers to the node itself: parameters, statistics, scripts, and its role in a deployment.

use super::Ctx;
use crate::engine::Address;
use crate::engine::CommandError;
use crate::engine::config::Config;
use crate::engine::effect::Effect;
use crate::engine::introspection::latency::Latency;
use crate::engine::introspection::slowlog::Slowlog;
use crate::engine::introspection::stats::Stats;
#[cfg(feature = "script")]
use crate::engine::libraries::Libraries;
use crate::engine::peers::cluster::{Change as ClusterChange, Cluster};
use crate::engine::peers::failover::Failover;
use crate::engine::peers::replication::{AckGoal, Replication};
use crate::engine::peers::sentinel::Sentinel;
#[cfg(feature = "script")]
use crate::engine::scripting::Scripts;
use crate::engine::time::UnixMicros;
#[cfg(feature = "script")]
use crate::resp::OwnedRequest;
use crate::resp::{Blob, ErrorReply, Reply};

/// Parameters, statistics and identity.
impl Ctx<'_> {
    /// The parameters of the node.
    #[inline]
    pub(crate) fn config(&self) -> &Config {
        &self.state.config
    }

    /// Goes on with other parameters.
    pub(crate) fn configure(&mut self, config: Config) {
        self.state.configure(config, self.now);
        self.state.refresh_rights(Some(self.session));
        self.state.guards_writes();
    }

    /// Counters since the start or CONFIG RESETSTAT.
    pub(crate) fn stats(&self) -> &Stats {
        &self.state.introspection.stats
    }

    /// Sets all counters to zero.
    pub(crate) fn reset_stats(&mut self) {
        self.state.introspection.stats.reset();
        let others = self.state.clients.sessions.iter_unordered();
        for session in others.chain(std::iter::once(&*self.session)) {
            session.output.take_traffic();
        }
    }

    /// Counts an error that is part of a larger reply.
    pub(crate) fn count_error(&mut self, error: &ErrorReply) {
        self.state.introspection.stats.count_error(error);
    }

    /// Counts a call of the row with this number as failed.
    pub(crate) fn count_failed_call(&mut self, number: u16) {
        self.state.introspection.stats.of(number).failed += 1;
    }

    /// Slow commands.
    pub(crate) fn slowlog(&self) -> &Slowlog {
        &self.state.introspection.slowlog
    }

    /// Forgets the slow commands.
    pub(crate) fn clear_slowlog(&mut self) {
        self.state.introspection.slowlog.clear();
    }

    /// Slow events.
    pub(crate) fn latency(&self) -> &Latency {
        &self.state.introspection.latency
    }

    /// Forgets an event; true if there was one.
    pub(crate) fn forget_latency(&mut self, event: &[u8]) -> bool {
        self.state.introspection.latency.forget(event)
    }

    /// Forgets all events and returns how many there were.
    pub(crate) fn clear_latency(&mut self) -> usize {
        self.state.introspection.latency.clear()
    }

    /// Number of changes since the start.
    pub(crate) fn changes(&self) -> u64 {
        self.state.introspection.changes()
    }

    /// Time at which the node started.
    pub(crate) fn started(&self) -> UnixMicros {
        self.state.introspection.started()
    }

    /// `run_id`
    pub(crate) fn run_id(&self) -> &str {
        self.state.introspection.run_id()
    }

    /// Estimated memory of an empty server and all data, bytes.
    pub(crate) fn memory_bytes(&mut self) -> usize {
        self.state.memory_bytes()
    }

    /// The largest of all [`Ctx::memory_bytes`].
    pub(crate) fn memory_peak(&self) -> usize {
        self.state.introspection.memory_peak()
    }

    /// Digest of all data, in hexadecimal digits.
    #[cfg(feature = "script")]
    pub(crate) fn digest(&self) -> String {
        self.state.data.digest()
    }

    /// Returns the digest of the value of a key; that of no data if the key does not exist.
    #[cfg(feature = "script")]
    pub(crate) fn value_digest(&self, key: &[u8]) -> String {
        self.state.data.value_digest(self.session.db, key)
    }
}

/// Effects on other connections, and scripts.
impl Ctx<'_> {
    /// Leaves an effect to the driver.
    pub(crate) fn emit(&mut self, effect: Effect) {
        self.state.unit.outbox.push(effect);
    }

    /// True while a long or abandoned script keeps the node busy.
    pub(crate) fn is_busy(&self) -> bool {
        self.state.scripting.busy.is_some()
    }

    /// Allows scripts to call commands that are refused in scripts, or forbids it again.
    pub(crate) fn allow_all_in_scripts(&mut self, is_wanted: bool) {
        self.state.scripting.allows_all = is_wanted;
    }

    /// The error for a request that cannot be served beside the script that runs.
    pub(crate) fn busy_error(&self) -> CommandError {
        self.state.scripting.busy_error()
    }

    /// True while a function, and no script, keeps the node busy.
    #[cfg(feature = "script")]
    pub(crate) fn runs_function(&self) -> bool {
        self.is_busy() && self.state.scripting.runs_function
    }

    /// The request that called the function that keeps the node busy, and the time at which it began.
    #[cfg(feature = "script")]
    pub(crate) fn function_call(&self) -> (&OwnedRequest, UnixMicros) {
        let scripting = &self.state.scripting;
        (&scripting.call, scripting.began)
    }

    /// Libraries of functions.
    #[cfg(feature = "script")]
    pub(crate) fn libraries(&self) -> &Libraries {
        &self.state.scripting.libraries
    }

    /// True if an RDB file had libraries that the VM has to read.
    #[cfg(feature = "script")]
    pub(crate) fn has_unread_libraries(&self) -> bool {
        !self.state.scripting.unread.is_empty()
    }

    /// Removes libraries.
    #[cfg(feature = "script")]
    pub(crate) fn remove_libraries(&mut self, names: Vec<Blob>) {
        self.state.change_libraries(names, Vec::new());
        self.state.unit.has_sequel = true;
    }

    /// Known scripts.
    #[cfg(feature = "script")]
    pub(crate) fn scripts(&self) -> &Scripts {
        &self.state.scripting.scripts
    }

    /// Returns the place of the script with this body, which it adds if it is new.
    #[cfg(feature = "script")]
    pub(crate) fn intern_script(&mut self, body: &[u8]) -> usize {
        self.state.scripting.scripts.intern(body)
    }

    /// Forgets all scripts.
    #[cfg(feature = "script")]
    pub(crate) fn flush_scripts(&mut self) {
        self.state.scripting.scripts.clear();
    }

    /// Ends the script or the function that keeps the node busy. The caller of an abandoned one gets its answer at once.
    ///
    /// # Errors
    /// There is none, it has written, or it is of the other kind.
    #[cfg(feature = "script")]
    pub(crate) fn kill(&mut self, is_function: bool) -> Result<(), CommandError> {
        let (wrote, error) = (self.state.scripting.wrote, self.busy_error());
        let runs_function = self.state.scripting.runs_function;
        let Some(busy) = &mut self.state.scripting.busy else {
            return Err(CommandError::NotBusy);
        };
        if wrote {
            return Err(CommandError::Unkillable);
        }
        if is_function != runs_function {
            return Err(error);
        }
        busy.killed = true;
        if let Some(error) = busy.abandoned.take() {
            let (conn, transaction) = (busy.caller, busy.transaction.take());
            self.state.scripting.busy = None;
            match transaction {
                Some(transaction) => self.state.resume(transaction, error.into()),
                None => self.state.answer(conn, error.into()),
            }
        }
        Ok(())
    }
}

/// The node's role in its deployment.
impl Ctx<'_> {
    /// The node's part in replication.
    pub(crate) fn replication(&self) -> &Replication {
        &self.state.peers.replication
    }

    /// `master_replid`
    pub(crate) fn replication_id(&self) -> &str {
        self.state.peers.replication.id()
    }

    /// Draws another `master_replid`.
    pub(crate) fn change_replication_id(&mut self) {
        self.state.peers.replication.change_id();
    }

    /// Makes the node a replica of a server outside of its deployment, with the link down.
    pub(crate) fn follow_outside(&mut self, master: Address) {
        self.state.follow_outside(master);
    }

    /// Makes the node a master.
    pub(crate) fn promote(&mut self) {
        self.state.promote();
    }

    /// Returns the present reply to WAIT or WAITAOF, and true if it meets the client's goal.
    pub(crate) fn acks(&mut self, goal: AckGoal) -> (Reply, bool) {
        let now = self.state.unit.now();
        self.state.peers.replication.settle_files(now);
        self.state.peers.replication.answer(goal)
    }

    /// Registers the caller for the acknowledgements of replicas, and for the append-only file.
    pub(crate) fn await_acks(&mut self, goal: AckGoal) {
        let conn = self.session.conn;
        self.state.await_acks(conn, goal);
    }

    /// True while a FAILOVER is in progress.
    pub(crate) fn is_failing_over(&self) -> bool {
        self.state.peers.failover.is_some()
    }

    /// `master_failover_state`
    pub(crate) fn failover_state(&self) -> &'static str {
        self.state.failover_state()
    }

    /// Begins a FAILOVER.
    pub(crate) fn begin_failover(&mut self, failover: Failover) {
        self.state.begin_failover(failover);
    }

    /// Calls a FAILOVER off.
    pub(crate) fn abort_failover(&mut self) {
        self.state.abort_failover();
    }

    /// Asks the deployment for a failover, as a sentinel.
    pub(crate) fn ask_for_failover(&mut self) {
        self.emit(Effect::FailOver { to: None });
    }

    /// The state of the node as a sentinel, to be changed.
    pub(crate) fn sentinel_mut(&mut self) -> Option<&mut Sentinel> {
        self.state.peers.sentinel.as_deref_mut()
    }

    /// The node's view of its cluster; `None` outside of a cluster.
    pub(crate) fn cluster(&self) -> Option<&Cluster> {
        self.state.peers.cluster.as_deref()
    }

    /// The same view, to be changed.
    pub(crate) fn cluster_mut(&mut self) -> Option<&mut Cluster> {
        self.state.peers.cluster.as_deref_mut()
    }

    /// True if the cluster is in working order, as far as this node can tell.
    pub(crate) fn is_cluster_ok(&self) -> bool {
        self.state.is_cluster_ok()
    }

    /// Keys of a hash slot, expired ones too.
    pub(crate) fn keys_in_slot(&self, slot: u16) -> impl Iterator<Item = &Blob> {
        self.state.keys_in_slot(slot)
    }

    /// Changes the node's view of its cluster, with all consequences.
    pub(crate) fn learn(&mut self, change: &ClusterChange) {
        self.state.learn(change);
    }

    /// State of the node as a sentinel; `None` for other nodes.
    pub(crate) fn sentinel(&self) -> Option<&Sentinel> {
        self.state.peers.sentinel.as_deref()
    }
}
