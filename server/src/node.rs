//! A node: the engine, its clock, and the connections to it.
//!
//! [`SharedNode`] is what transports hold. A transport takes the node once per batch of input; the lock is
//! never held across an await. While a long script has the node, a connection in process is left in the
//! inbox (`node/lock.rs`), and the script's hook serves it (see `engine::BusyHandler`). Knows neither tokio
//! nor sockets.

mod busy;
mod delivery;
mod lock;
mod mishap;
mod outgoing;
mod serving;
mod timers;

#[cfg(feature = "net")]
pub(crate) use lock::NodeGuard;
use mishap::Pauses;
pub(crate) use outgoing::Outgoing;

use crate::client_connection::ClientConnection;
use crate::clock::NodeClock;
use crate::control_queue::ControlQueue;
use crate::disk::Disk;
use crate::engine::{Config, Effect, Engine, NodeApi as _, UnixMicros, UnixMillis};
use crate::fault::Plan;
use crate::history::History;
use lock::{News, Turns};
use serving::Served;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use timers::Timers;

/// Everything that is served in turn.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) engine: Engine,
    stall: Option<Stall>,
    pauses: Pauses,
    /// What is found after a crash; absent when that is nothing.
    disk: Option<Box<Disk>>,
    /// It has crashed: when (in true time) it is started again, if that is known.
    restart_at: Option<Option<UnixMicros>>,
    /// Connections with input that came while nobody was served, in order of arrival.
    backlog: VecDeque<Arc<ClientConnection>>,
}

/// A node that serves nobody for a while (DEBUG SLEEP).
#[derive(Debug)]
struct Stall {
    /// When it goes on, on its own clock.
    until: UnixMicros,
    /// Whose request it was; the answer is held until then.
    sleeper: Option<Arc<ClientConnection>>,
}

/// A node as its transports see it.
#[derive(Debug)]
pub(crate) struct SharedNode {
    node: Mutex<Node>,
    turns: Turns,
    /// The part of the backlog that is being served at this moment.
    backlog: Mutex<VecDeque<Arc<ClientConnection>>>,
    news: News,
    /// Effects that came about beside a long script, or before it, and that need the node.
    deferred: Mutex<VecDeque<Effect>>,
    /// Whether there are any.
    has_deferred: AtomicBool,
    /// A script has run for so long that the clock has to be read again.
    has_run_long: AtomicBool,
    /// The server was dropped or shut down, or has failed.
    down: AtomicBool,
    /// The node went down by a panic.
    failed: AtomicBool,
    pub(crate) plan: Plan,
    pub(crate) orders: ControlQueue,
    pub(crate) clock: NodeClock,
    /// Open connections by client id.
    links: Mutex<BTreeMap<u64, Arc<ClientConnection>>>,
    /// When (in true time) a connection has to be looked at: a delayed message is due.
    timers: Timers,
    gated: Mutex<Gated>,
    /// What gates ring when they open.
    bell: OnceLock<Waker>,
    history: Mutex<History>,
    has_history: bool,
    /// What the node has to say to others, in order; see `topology/`.
    outgoing: Mutex<VecDeque<Outgoing>>,
    /// Whether there is something in it.
    has_outgoing: AtomicBool,
    has_network: AtomicBool,
    /// The node has crashed and was not started again.
    crashed: AtomicBool,
}

/// Connections with a message that waits for a gate: the number of each, which grows, by client id.
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
            turns: Turns::default(),
            backlog: Mutex::default(),
            news: News::default(),
            deferred: Mutex::default(),
            has_deferred: AtomicBool::new(false),
            has_run_long: AtomicBool::new(false),
            down: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            orders: ControlQueue::default(),
            clock: NodeClock::default(),
            links: Mutex::default(),
            timers: Timers::default(),
            gated: Mutex::default(),
            bell: OnceLock::new(),
            history: Mutex::new(History::with_capacity(history_max)),
            has_history: history_max > 0,
            outgoing: Mutex::default(),
            has_outgoing: AtomicBool::new(false),
            has_network: AtomicBool::new(false),
            crashed: AtomicBool::new(false),
        }
    }

    /// The same, and takes orders.
    pub(crate) fn with_orders(mut self, orders: ControlQueue) -> Self {
        self.orders = orders;
        self
    }

    /// Has `bell` rung when a gate opens that holds a message.
    pub(crate) fn ring(&self, bell: Waker) {
        self.bell.get_or_init(|| bell);
    }

    /// Has every connection looked at that waits for a gate.
    pub(crate) fn gate_opened(&self, now: UnixMicros) {
        let gated = lock(&self.gated).numbers.clone();
        let mut gated: Vec<(u64, u64)> = gated.into_iter().map(|(id, n)| (n, id)).collect();
        // Who came first goes first.
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

    pub(crate) fn connections(&self) -> usize {
        lock(&self.links).len()
    }

    /// Open connections, oldest first.
    pub(crate) fn links(&self) -> Vec<Arc<ClientConnection>> {
        lock(&self.links).values().cloned().collect()
    }

    /// Serves a connection in process that has new input, or that has gone. `clock` is read once the
    /// caller has the node, so that time does not seem to go back.
    ///
    /// Returns the time (in true time) at which the node wants to be called again; `None` if it does not,
    /// or if a long script has the node and serves the connection.
    pub(crate) fn poke(
        &self,
        link: &Arc<ClientConnection>,
        clock: impl FnOnce() -> UnixMicros,
    ) -> Option<UnixMicros> {
        let mut node = self.node_for(link)?;
        let now = clock();
        node.begin_turn(self, now);
        node.serve(self, link, now);
        node.serve_later(self, now);
        node.end_turn(self, now);
        node.poll_timeout(self)
    }

    /// Ends every connection; later ones are refused.
    pub(crate) fn shut_down(&self) {
        self.down.store(true, Ordering::Release);
        let links: Vec<_> = lock(&self.links).values().cloned().collect();
        for link in links {
            link.output().abandon();
            self.note(&link);
        }
    }

    /// Whether a script has run for so long since the last call that the clock has to be read again.
    #[inline]
    pub(crate) fn take_has_run_long(&self) -> bool {
        self.has_run_long.load(Ordering::Relaxed)
            && self.has_run_long.swap(false, Ordering::Relaxed)
    }

    /// The next connection of the backlog that is being served.
    fn pop_backlog(&self) -> Option<Arc<ClientConnection>> {
        let link = lock(&self.backlog).pop_front()?;
        link.input().queued = false;
        Some(link)
    }

    fn set_timer(&self, at: UnixMicros, client_id: u64) {
        self.timers.insert(at, client_id);
    }

    fn link(&self, client_id: u64) -> Option<Arc<ClientConnection>> {
        lock(&self.links).get(&client_id).cloned()
    }
}

impl Node {
    /// Serves a connection until all of its input is served, or until the node serves no client.
    pub(crate) fn serve(
        &mut self,
        shared: &SharedNode,
        link: &Arc<ClientConnection>,
        now: UnixMicros,
    ) {
        self.serve_quietly(shared, link, now);
        shared.note(link);
    }

    /// The same for a transport that looks at the output afterwards by itself.
    pub(crate) fn serve_quietly(
        &mut self,
        shared: &SharedNode,
        link: &Arc<ClientConnection>,
        now: UnixMicros,
    ) {
        loop {
            if self.is_stalled() && !shared.is_down() {
                if shared.orders.are_taken() {
                    shared.hear_order(&mut self.engine, link, now);
                }
                let mut input = link.input();
                if !input.queued {
                    input.queued = true;
                    drop(input);
                    self.backlog.push_back(link.clone());
                }
                break;
            }
            let served = shared.serve_batch(&mut self.engine, link, &mut link.input(), now);
            match served {
                Served::All => break,
                Served::UpToEffects => self.carry_out(shared, Some(link), now),
            }
        }
    }

    /// Changes the engine from outside, and carries out what follows from it.
    pub(crate) fn change(
        &mut self,
        shared: &SharedNode,
        now: UnixMicros,
        change: impl FnOnce(&mut Engine, UnixMicros),
    ) {
        change(&mut self.engine, shared.node_time(now));
        self.carry_out(shared, None, now);
        self.end_turn(shared, now);
    }

    /// Before connections are served: the node goes on if it has slept for long enough.
    #[inline]
    pub(crate) fn begin_turn(&mut self, shared: &SharedNode, now: UnixMicros) {
        self.wake_up(shared, now);
    }

    /// After connections were served: serves what a long script has left over, then sends what waits for
    /// the end of a turn. A node that sleeps is in the midst of its turn.
    #[inline]
    pub(crate) fn end_turn(&mut self, shared: &SharedNode, now: UnixMicros) {
        if shared.has_deferred.load(Ordering::Relaxed) {
            self.carry_out(shared, None, now);
        }
        loop {
            let left_over = shared.turns.take_left_over();
            if left_over.is_empty() {
                break;
            }
            left_over
                .iter()
                .for_each(|link| self.serve(shared, link, now));
            self.serve_later(shared, now);
        }
        if !self.is_stalled() && self.engine.end_turn() {
            self.carry_out(shared, None, now);
        }
    }

    /// Carries out what a request (of `caller`) or the passing of time does to others.
    fn carry_out(
        &mut self,
        shared: &SharedNode,
        caller: Option<&Arc<ClientConnection>>,
        now: UnixMicros,
    ) {
        while let Some(effect) = shared.pop_deferred().or_else(|| self.engine.poll_effect()) {
            match effect {
                Effect::Reply { conn, reply } => {
                    if let Some(link) = shared.answer_parked(&self.engine, conn, &reply, now) {
                        // What it had sent behind the parked request is served after the caller.
                        let was_queued = std::mem::replace(&mut link.input().queued, true);
                        if !was_queued {
                            self.backlog.push_back(link);
                        }
                    }
                }
                Effect::Push { conn, frame } => {
                    shared.push(&self.engine, conn, &frame, now);
                }
                Effect::Close { conn } => shared.close(&mut self.engine, conn, now),
                Effect::Stall { until } => {
                    let earlier = self.stall.take().and_then(|stall| stall.sleeper);
                    let sleeper = caller.cloned().or(earlier);
                    if let Some(sleeper) = &sleeper {
                        // Until the node's clock is there, wherever that is moved meanwhile.
                        sleeper.output().hold_until(UnixMicros(i64::MAX));
                    }
                    self.stall = Some(Stall { until, sleeper });
                }
                Effect::Shutdown => shared.shut_down(),
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

    fn is_stalled(&self) -> bool {
        self.is_paused() || self.stall.is_some()
    }

    /// Goes on when it has slept for long enough, first with those that came meanwhile.
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
            if let Some(sleeper) = stall.sleeper {
                let mut output = sleeper.output();
                output.hold_until(now);
                output.release(now);
                drop(output);
                shared.note(&sleeper);
            }
            self.serve_backlog(shared, now);
        }
    }

    /// Until when the node sleeps, on its own clock.
    pub(crate) fn stalled_until(&self) -> Option<UnixMicros> {
        self.stall.as_ref().map(|stall| stall.until)
    }

    /// Serves the backlog. The hook of a long script finds the rest of it in [`SharedNode`].
    fn serve_backlog(&mut self, shared: &SharedNode, now: UnixMicros) {
        while !self.is_stalled() {
            lock(&shared.backlog).append(&mut self.backlog);
            let Some(link) = shared.pop_backlog() else {
                return;
            };
            self.serve(shared, &link, now);
        }
        let mut rest = std::mem::take(&mut *lock(&shared.backlog));
        rest.append(&mut self.backlog);
        self.backlog = rest;
    }

    /// When (in true time) [`Node::handle_timeout`] has something to do.
    pub(crate) fn poll_timeout(&self, shared: &SharedNode) -> Option<UnixMicros> {
        if let Some(restart_at) = self.restart_at {
            return restart_at;
        }
        let message = shared.timers.first();
        // A paused or sleeping node expires nothing: whoever looks, looks later.
        let own = match &self.stall {
            Some(stall) => Some(stall.until),
            None if self.is_paused() => None,
            None => self.engine.poll_timeout().map(UnixMillis::micros),
        };
        let own = own.and_then(|at| shared.clock.when(at));
        [message, own].into_iter().flatten().min()
    }

    /// Does what is due at `now`.
    pub(crate) fn handle_timeout(&mut self, shared: &SharedNode, now: UnixMicros) {
        self.restart(shared, now);
        if self.is_crashed() {
            return;
        }
        self.wake_up(shared, now);
        if !self.is_stalled() {
            self.engine.handle_timeout(shared.node_time(now));
            self.carry_out(shared, None, now);
        }
        self.serve_later(shared, now);
        self.end_turn(shared, now);
    }

    /// Serves the connections that had to be looked at by now, in the order in which they were left.
    #[inline]
    pub(crate) fn serve_later(&mut self, shared: &SharedNode, now: UnixMicros) {
        if !self.backlog.is_empty() {
            self.serve_backlog(shared, now);
        }
        while shared.timers.first().is_some_and(|first| first <= now)
            && let Some(client_id) = shared.timers.pop_due(now)
        {
            let link = shared.link(client_id);
            if let Some(link) = &link {
                link.output().release(now);
                self.serve(shared, link, now);
            }
            if !link.is_some_and(|link| link.is_at_gate()) {
                lock(&shared.gated).numbers.remove(&client_id);
            }
        }
    }
}
