//! A node: the engine, its clock, and the connections to it.
//!
//! [`SharedNode`] is what transports hold. A transport takes the node once per batch of input; the lock is
//! never held across an await. While a long script has the node, a connection in process is left in the
//! inbox (`node/lock.rs`), and the script's hook serves it (see `engine::BusyHandler`). Knows neither tokio
//! nor sockets.

mod busy;
mod delivery;
mod lifecycle;
mod lock;
mod outgoing;
mod serving;
mod slow_reader;
mod timers;

use lifecycle::Pauses;
#[cfg(feature = "net")]
pub(crate) use lock::NodeGuard;
pub(crate) use outgoing::Outgoing;

use crate::client_connection::ClientConnection;
use crate::clock::NodeClock;
use crate::connection::Served;
use crate::control_queue::ControlQueue;
use crate::disk::Disk;
use crate::engine::{Config, Effect, Engine, NodeApi as _, UnixMicros, UnixMillis};
use crate::fault::Plan;
use crate::history::History;
use lock::{NodeAccess, Notified};
use slow_reader::SlowReaders;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use timers::Timers;

/// The part of a node that one thread uses at a time.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) engine: Engine,
    stall: Option<Sleep>,
    pauses: Pauses,
    /// The data that survives a crash; absent without persistence.
    disk: Option<Box<Disk>>,
    /// Set after a crash: the true time at which the node is started again, if that is known.
    restart_at: Option<Option<UnixMicros>>,
    /// Connections with input that arrived while the node served no client, in order of arrival.
    backlog: VecDeque<Arc<ClientConnection>>,
}

/// A time during which the node serves no client (DEBUG SLEEP).
#[derive(Debug)]
struct Sleep {
    /// Its end, on the node's clock.
    until: UnixMicros,
    /// The connection that sent the request. Its reply is held until the end.
    caller: Option<Arc<ClientConnection>>,
}

/// True time, as a node reads it again after a long script.
pub(crate) trait TrueClock: std::fmt::Debug + Send + Sync {
    fn now(&self) -> UnixMicros;
}

/// A node as its transports see it.
#[derive(Debug)]
pub(crate) struct SharedNode {
    node: Mutex<Node>,
    access: NodeAccess,
    /// The part of the backlog that is being served now.
    backlog: Mutex<VecDeque<Arc<ClientConnection>>>,
    notified: Notified,
    /// Effects from the time of a long script that need the node itself.
    deferred: Mutex<VecDeque<Effect>>,
    /// True if there are deferred effects.
    has_deferred: AtomicBool,
    /// True if a script has run for so long that the clock has to be read again.
    has_run_long: AtomicBool,
    /// True if the server was dropped or shut down, or has failed.
    down: AtomicBool,
    /// True if the node went down by a panic.
    failed: AtomicBool,
    pub(crate) plan: Plan,
    pub(crate) control_queue: ControlQueue,
    pub(crate) clock: NodeClock,
    true_clock: OnceLock<Arc<dyn TrueClock>>,
    /// Open connections by client id.
    connections: Mutex<BTreeMap<u64, Arc<ClientConnection>>>,
    /// The true times at which delayed messages are due.
    timers: Timers,
    slow_readers: SlowReaders,
    gated: Mutex<Gated>,
    /// The waker that gates call when they open.
    gate_waker: OnceLock<Waker>,
    history: Mutex<History>,
    has_history: bool,
    /// Messages to other nodes, in order; see `topology/`.
    outgoing: Mutex<VecDeque<Outgoing>>,
    /// True if there are messages to other nodes.
    has_outgoing: AtomicBool,
    has_network: AtomicBool,
    /// True if the node has crashed and was not started again.
    crashed: AtomicBool,
}

/// Connections with a message that waits for a gate, by client id. A number orders them by arrival.
#[derive(Debug, Default)]
struct Gated {
    numbers: BTreeMap<u64, u64>,
    count: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SharedNode {
    pub(crate) fn new(config: Config, history_max: usize, now: UnixMicros) -> Self {
        Self {
            plan: Plan::new(config.seed),
            node: Mutex::new(Node {
                engine: Engine::new(config, now),
                stall: None,
                pauses: Pauses::default(),
                disk: None,
                restart_at: None,
                backlog: VecDeque::new(),
            }),
            access: NodeAccess::default(),
            backlog: Mutex::default(),
            notified: Notified::default(),
            deferred: Mutex::default(),
            has_deferred: AtomicBool::new(false),
            has_run_long: AtomicBool::new(false),
            down: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            control_queue: ControlQueue::default(),
            clock: NodeClock::default(),
            true_clock: OnceLock::new(),
            connections: Mutex::default(),
            timers: Timers::default(),
            slow_readers: SlowReaders::default(),
            gated: Mutex::default(),
            gate_waker: OnceLock::new(),
            history: Mutex::new(History::with_capacity(history_max)),
            has_history: history_max > 0,
            outgoing: Mutex::default(),
            has_outgoing: AtomicBool::new(false),
            has_network: AtomicBool::new(false),
            crashed: AtomicBool::new(false),
        }
    }

    /// The same node with this queue of control requests.
    pub(crate) fn with_control_queue(mut self, control_queue: ControlQueue) -> Self {
        self.control_queue = control_queue;
        self
    }

    /// Sets the clock that is read again after a long script.
    pub(crate) fn follow(&self, clock: Arc<dyn TrueClock>) {
        self.true_clock.get_or_init(|| clock);
    }

    /// Sets the waker that gates call when they open.
    pub(crate) fn wake_on_open_gate(&self, gate_waker: Waker) {
        self.gate_waker.get_or_init(|| gate_waker);
    }

    /// Serves every connection that waits for a gate, at the next turn.
    pub(crate) fn gate_opened(&self, now: UnixMicros) {
        let gated = lock(&self.gated).numbers.clone();
        let mut gated: Vec<(u64, u64)> = gated.into_iter().map(|(id, n)| (n, id)).collect();
        // The first that was held goes first.
        gated.sort_unstable();
        gated.iter().for_each(|(_, id)| self.set_timer(now, *id));
    }

    pub(crate) fn history(&self) -> History {
        lock(&self.history).clone()
    }

    pub(crate) fn is_down(&self) -> bool {
        self.down.load(Ordering::Acquire)
    }

    pub(crate) fn node_time(&self, now: UnixMicros) -> UnixMicros {
        self.clock.at(now)
    }

    pub(crate) fn connection_count(&self) -> usize {
        lock(&self.connections).len()
    }

    /// Open connections, oldest first.
    pub(crate) fn connections(&self) -> Vec<Arc<ClientConnection>> {
        lock(&self.connections).values().cloned().collect()
    }

    /// Serves a connection in process that has new input, or whose client has gone. `clock` is read when the
    /// caller has the node, so that time does not seem to go back.
    ///
    /// Returns the true time at which the node has to be called again. Returns `None` if it has no deadline, or
    /// if a long script has the node: the script's hook then serves the connection.
    pub(crate) fn serve_connection(
        &self,
        connection: &Arc<ClientConnection>,
        clock: impl FnOnce() -> UnixMicros,
    ) -> Option<UnixMicros> {
        let mut node = self.node_for(connection)?;
        let now = clock();
        node.begin_turn(self, now);
        let now = node.serve(self, connection, now);
        let now = node.serve_due(self, now);
        node.end_turn(self, now);
        node.poll_timeout(self)
    }

    /// SHUTDOWN: to the other nodes of a deployment it is a crash.
    fn shut_down_by_request(&self) {
        self.post(Outgoing::Crashed);
        self.shut_down();
    }

    /// Ends every connection; later ones are refused.
    pub(crate) fn shut_down(&self) {
        self.down.store(true, Ordering::Release);
        let connections: Vec<_> = lock(&self.connections).values().cloned().collect();
        for connection in connections {
            connection.output().abandon();
            self.note(&connection);
        }
    }

    /// True if a script has run for so long since the last call of [`SharedNode::latest`] that the clock has to be
    /// read again.
    #[inline]
    fn has_run_long(&self) -> bool {
        self.has_run_long.load(Ordering::Relaxed)
    }

    /// The present, if a long script has run since `now` was read; else `now`.
    #[inline]
    fn latest(&self, now: UnixMicros) -> UnixMicros {
        if self.has_run_long() && self.has_run_long.swap(false, Ordering::Relaxed) {
            return self.true_clock.get().map_or(now, |clock| clock.now());
        }
        now
    }

    /// Takes the next connection of the backlog that is being served.
    fn pop_backlog(&self) -> Option<Arc<ClientConnection>> {
        let connection = lock(&self.backlog).pop_front()?;
        connection.input().is_queued = false;
        Some(connection)
    }

    fn set_timer(&self, at: UnixMicros, client_id: u64) {
        self.timers.insert(at, client_id);
    }

    fn connection(&self, client_id: u64) -> Option<Arc<ClientConnection>> {
        lock(&self.connections).get(&client_id).cloned()
    }
}

impl Node {
    /// Serves a connection until all of its input is served, or until the node serves no client. Returns the
    /// latest reading of the clock, which is `now` unless a long script has run.
    pub(crate) fn serve(
        &mut self,
        shared: &SharedNode,
        connection: &Arc<ClientConnection>,
        now: UnixMicros,
    ) -> UnixMicros {
        let now = self.serve_without_notice(shared, connection, now);
        shared.note(connection);
        now
    }

    /// The same for a transport that sends the output afterwards by itself.
    pub(crate) fn serve_without_notice(
        &mut self,
        shared: &SharedNode,
        connection: &Arc<ClientConnection>,
        mut now: UnixMicros,
    ) -> UnixMicros {
        loop {
            if self.is_stalled() && !shared.is_down() {
                if shared.control_queue.is_open() {
                    shared.take_control_request(&mut self.engine, connection, now);
                }
                let mut input = connection.input();
                if !input.is_queued {
                    input.is_queued = true;
                    drop(input);
                    self.backlog.push_back(connection.clone());
                }
                break;
            }
            let served =
                shared.serve_batch(&mut self.engine, connection, &mut connection.input(), now);
            match served {
                Served::All => break,
                Served::UpToEffects => self.carry_out(shared, Some(connection), now),
            }
            now = shared.latest(now);
        }
        shared.latest(now)
    }

    /// Changes the engine from outside, and carries out the effects of the change.
    pub(crate) fn change(
        &mut self,
        shared: &SharedNode,
        now: UnixMicros,
        change: impl FnOnce(&mut Engine, UnixMicros),
    ) {
        change(&mut self.engine, shared.node_time(now));
        self.carry_out(shared, None, now);
        let now = self.serve_due(shared, now);
        self.end_turn(shared, now);
    }

    /// Begins a turn: the node wakes up if it has slept for long enough.
    #[inline]
    pub(crate) fn begin_turn(&mut self, shared: &SharedNode, now: UnixMicros) {
        self.wake_up(shared, now);
    }

    /// Ends a turn: serves the connections that a long script has left over, then sends the messages that wait for
    /// the end of a turn. The turn of a node that sleeps goes on.
    #[inline]
    pub(crate) fn end_turn(&mut self, shared: &SharedNode, mut now: UnixMicros) {
        if shared.has_deferred.load(Ordering::Relaxed) {
            self.carry_out(shared, None, now);
        }
        loop {
            let left_over = shared.access.take_left_over();
            if left_over.is_empty() {
                break;
            }
            for connection in &left_over {
                now = self.serve(shared, connection, now);
            }
            now = self.serve_due(shared, now);
        }
        if !self.is_stalled() && self.engine.end_turn() {
            self.carry_out(shared, None, now);
        }
    }

    /// Carries out the effects of a request of `caller`, or of the passing of time, on other connections and nodes.
    fn carry_out(
        &mut self,
        shared: &SharedNode,
        caller: Option<&Arc<ClientConnection>>,
        now: UnixMicros,
    ) {
        while let Some(effect) = shared.pop_deferred().or_else(|| self.engine.poll_effect()) {
            match effect {
                Effect::Reply { conn, reply } => {
                    if let Some(connection) = shared.answer_parked(&self.engine, conn, &reply, now)
                    {
                        // The requests behind the parked one are served after the caller.
                        let was_queued = std::mem::replace(&mut connection.input().is_queued, true);
                        if !was_queued {
                            self.backlog.push_back(connection);
                        }
                    }
                }
                Effect::Push { conn, frame } => {
                    shared.push(&mut self.engine, conn, &frame, now);
                }
                Effect::Close { conn } => shared.close(&mut self.engine, conn, now),
                Effect::Stall { until } => {
                    let earlier = self.stall.take().and_then(|stall| stall.caller);
                    let caller = caller.cloned().or(earlier);
                    if let Some(caller) = &caller {
                        // Until the node's clock is there, wherever that is moved meanwhile.
                        caller.output().hold_until(UnixMicros(i64::MAX));
                    }
                    self.stall = Some(Sleep { until, caller });
                    shared.post(Outgoing::FellAsleep);
                }
                Effect::KeepWrites(policy) => self.keep_writes(policy),
                Effect::Shutdown => shared.shut_down_by_request(),
                Effect::Propagate(unit) => {
                    if let Some(disk) = &mut self.disk {
                        disk.write(unit.clone(), now);
                    }
                    shared.post(Outgoing::Unit(unit));
                }
                Effect::Follow { master } => shared.post(Outgoing::Follow(master)),
                Effect::Cluster(news) => shared.post(Outgoing::Cluster(news)),
                Effect::Migrate(migration) => shared.post(Outgoing::Migrate(migration)),
                Effect::FailOver { to } => shared.post(Outgoing::FailOver(to)),
            }
        }
    }

    /// True if the node is paused or asleep: it serves no client.
    pub(crate) fn is_stalled(&self) -> bool {
        self.is_paused() || self.stall.is_some()
    }

    /// Wakes the node up if it has slept for long enough. The backlog is served first.
    #[inline]
    fn wake_up(&mut self, shared: &SharedNode, now: UnixMicros) {
        if self.stall.is_some() {
            self.end_stall(shared, now);
        }
    }

    #[cold]
    fn end_stall(&mut self, shared: &SharedNode, now: UnixMicros) {
        let node_time = shared.node_time(now);
        if let Some(stall) = self.stall.take_if(|stall| stall.until <= node_time) {
            if let Some(caller) = stall.caller {
                let mut output = caller.output();
                output.hold_until(now);
                output.release(now);
                drop(output);
                shared.note(&caller);
            }
            self.serve_backlog(shared, now);
        }
    }

    /// The time of the node's clock at which it wakes up.
    pub(crate) fn stalled_until(&self) -> Option<UnixMicros> {
        self.stall.as_ref().map(|stall| stall.until)
    }

    /// Serves the backlog, and the requests that a pause of the clients has postponed: each with what its client has sent
    /// behind it. The hook of a long script finds the rest of it in [`SharedNode`]. Returns the latest
    /// reading of the clock.
    fn serve_backlog(&mut self, shared: &SharedNode, mut now: UnixMicros) -> UnixMicros {
        while !self.is_stalled() {
            lock(&shared.backlog).append(&mut self.backlog);
            if let Some(connection) = shared.pop_backlog() {
                now = self.serve(shared, &connection, now);
            } else if self.engine.has_postponed() {
                self.engine.run_postponed(shared.node_time(now));
                self.carry_out(shared, None, now);
            } else {
                return now;
            }
        }
        let mut rest = std::mem::take(&mut *lock(&shared.backlog));
        rest.append(&mut self.backlog);
        self.backlog = rest;
        now
    }

    /// The true time at which [`Node::handle_timeout`] has something to do.
    pub(crate) fn poll_timeout(&self, shared: &SharedNode) -> Option<UnixMicros> {
        if let Some(restart_at) = self.restart_at {
            return restart_at;
        }
        let message = shared.timers.first();
        // A paused or sleeping node expires nothing, and its clients look later.
        let own = match &self.stall {
            Some(stall) => Some(stall.until),
            None if self.is_paused() => None,
            None => {
                let engine = self.engine.poll_timeout().map(UnixMillis::micros);
                let slow_reader = shared.slow_readers.first();
                engine.into_iter().chain(slow_reader).min()
            }
        };
        let own = own.and_then(|at| shared.clock.when(at));
        [message, own].into_iter().flatten().min()
    }

    /// Handles all deadlines up to `now`.
    pub(crate) fn handle_timeout(&mut self, shared: &SharedNode, now: UnixMicros) {
        self.restart(shared, now);
        if self.is_crashed() {
            return;
        }
        self.wake_up(shared, now);
        if !self.is_stalled() {
            self.engine.handle_timeout(shared.node_time(now));
            self.end_slow_readers(shared, now);
            self.carry_out(shared, None, now);
        }
        let now = self.serve_due(shared, now);
        self.end_turn(shared, now);
    }

    /// Serves the backlog and the connections whose delayed messages are due, in order. Returns the latest
    /// reading of the clock.
    #[inline]
    pub(crate) fn serve_due(&mut self, shared: &SharedNode, mut now: UnixMicros) -> UnixMicros {
        if !self.backlog.is_empty() || self.engine.has_postponed() {
            now = self.serve_backlog(shared, now);
        }
        while shared.timers.first().is_some_and(|first| first <= now)
            && let Some(client_id) = shared.timers.pop_due(now)
        {
            let connection = shared.connection(client_id);
            if let Some(connection) = &connection {
                connection.output().release(now);
                now = self.serve(shared, connection, now);
            }
            if !connection.is_some_and(|connection| connection.is_at_gate()) {
                lock(&shared.gated).numbers.remove(&client_id);
            }
        }
        now
    }
}
