//! A node: the engine, its clock, and the connections to it. Takes turns, never waits.
//!
//! `SharedNode` is what transports hold. Its node is taken once per batch of input; the lock is never
//! held across an await. While a long script has the node, transports leave their connection in
//! the inbox instead, and the script's hook serves it (see `engine::BusyHandler`).

mod delivery;
mod mishap;
mod outgoing;
mod serving;
mod timers;

use mishap::Pauses;
pub(crate) use outgoing::Outgoing;

use crate::client_connection::ClientConnection;
use crate::clock::NodeClock;
use crate::control_queue::ControlQueue;
use crate::disk::Disk;
use crate::engine::{Config, ConnId, Effect, Engine, NodeApi, UnixMicros, UnixMillis};
use crate::fault::Plan;
use crate::history::History;
use crate::resp::Reply;
use serving::{Flow, Served, Site};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::task::Waker;
use std::time::Duration;
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
    /// Connections that wait beside a long script.
    inbox: Mutex<Vec<Arc<ClientConnection>>>,
    /// A long script has the node and reads the inbox.
    pub(crate) busy: AtomicBool,
    /// The server was dropped or shut down.
    down: AtomicBool,
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

/// How often others may go first before it is worth while to sleep: most turns are short.
const YIELDS: u64 = 100;
const LOOK_AGAIN: Duration = Duration::from_micros(50);

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
            inbox: Mutex::default(),
            busy: AtomicBool::new(false),
            down: AtomicBool::new(false),
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

    /// The node, for a look or a change from outside. Waits for a script that runs.
    pub(crate) fn node(&self) -> MutexGuard<'_, Node> {
        lock(&self.node)
    }

    /// The same unless somebody else has it.
    pub(crate) fn try_node(&self) -> Option<MutexGuard<'_, Node>> {
        match self.node.try_lock() {
            Ok(node) => Some(node),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
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

    /// The node in its turn; nothing while a long script has it. A script becomes long, so who waits for
    /// the node has to look for that too.
    pub(crate) fn turn(&self) -> Option<MutexGuard<'_, Node>> {
        for tries in 0_u64.. {
            if let Some(node) = self.try_node() {
                return Some(node);
            }
            if self.busy.load(Ordering::Acquire) {
                return None;
            }
            if tries < YIELDS {
                std::thread::yield_now();
            } else {
                std::thread::sleep(LOOK_AGAIN);
            }
        }
        None
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

    /// Serves a connection that has new input, or that has gone. Its transport, which calls this,
    /// is not woken: it looks at its output afterwards. `enter` prepares the engine for this caller.
    /// `clock` is read once nobody else has the node, so that time does not seem to go back.
    ///
    /// Gives the time (in true time) at which the node wants to be called again; `None` when it
    /// does not, or when a script has the node.
    pub(crate) fn poke(
        &self,
        link: &Arc<ClientConnection>,
        clock: impl FnOnce() -> UnixMicros,
        enter: impl FnOnce(&mut Engine),
    ) -> Option<UnixMicros> {
        let mut waited = false;
        let mut node = loop {
            if let Some(node) = self.turn() {
                break node;
            }
            lock(&self.inbox).push(link.clone());
            if self.busy.load(Ordering::Acquire) {
                return None;
            }
            // The script has ended in between, and may not have seen the inbox.
            waited = true;
        };
        let now = clock();
        enter(&mut node.engine);
        node.wake_up(self, now);
        node.serve_quietly(self, link, now);
        if waited || self.busy.load(Ordering::Acquire) {
            self.after_script(&mut node, now);
        }
        node.serve_later(self, now);
        node.end_turn(self, now);
        node.poll_timeout(self)
    }

    /// Serves what was left in the inbox when a long script ended.
    #[cold]
    fn after_script(&self, node: &mut Node, now: UnixMicros) {
        self.busy.store(false, Ordering::Release);
        loop {
            let waiting = std::mem::take(&mut *lock(&self.inbox));
            if waiting.is_empty() {
                break;
            }
            waiting.iter().for_each(|link| node.serve(self, link, now));
        }
    }

    /// Serves the inbox through the desk of a busy node; called from a script's hook.
    pub(crate) fn serve_inbox(&self, api: &mut (impl NodeApi + ?Sized), now: UnixMicros) {
        let waiting = std::mem::take(&mut *lock(&self.inbox));
        for link in waiting {
            while matches!(self.serve_batch(api, &link, now), Served::UpToEffects) {
                while let Some(effect) = api.poll_effect() {
                    match effect {
                        Effect::Close { conn } => self.close(api, conn, now),
                        Effect::Push { conn, frame } => self.push(api, conn, &frame, now),
                        Effect::Shutdown => self.shut_down(),
                        // The busy gate lets no command pass that does these.
                        Effect::Reply { .. }
                        | Effect::Stall { .. }
                        | Effect::Propagate(_)
                        | Effect::Follow { .. }
                        | Effect::Cluster(_)
                        | Effect::Migrate(_)
                        | Effect::FailOver { .. } => {}
                    }
                }
            }
            link.output().wake();
        }
    }

    /// Ends every connection; nobody is served any more.
    pub(crate) fn shut_down(&self) {
        self.down.store(true, Ordering::Release);
        let links: Vec<_> = lock(&self.links).values().cloned().collect();
        links.iter().for_each(|link| link.output().abandon());
    }

    fn set_timer(&self, at: UnixMicros, client_id: u64) {
        self.timers.insert(at, client_id);
    }

    fn link(&self, client_id: u64) -> Option<Arc<ClientConnection>> {
        lock(&self.links).get(&client_id).cloned()
    }
}

impl Node {
    /// Serves a connection until it has nothing more to say, or until nobody is served.
    pub(crate) fn serve(
        &mut self,
        shared: &SharedNode,
        link: &Arc<ClientConnection>,
        now: UnixMicros,
    ) {
        self.serve_quietly(shared, link, now);
        link.output().wake();
    }

    /// The same for a transport that looks at its output afterwards by itself.
    fn serve_quietly(
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
            match shared.serve_batch(&mut self.engine, link, now) {
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

    /// Everybody is served: tells what waited for that. Who sleeps is in the midst of it.
    #[inline]
    pub(crate) fn end_turn(&mut self, shared: &SharedNode, now: UnixMicros) {
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
        while let Some(effect) = self.engine.poll_effect() {
            match effect {
                Effect::Reply { conn, reply } => self.answer_parked(shared, conn, &reply, now),
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

    fn answer_parked(&mut self, shared: &SharedNode, conn: ConnId, reply: &Reply, now: UnixMicros) {
        let Some(link) = shared.link(conn.client_id()) else {
            return;
        };
        let Some(request) = link.input().parked.take() else {
            return;
        };
        if shared.has_history {
            lock(&shared.history).answered(conn.client_id(), reply);
        }
        if let Some(request) = request.as_request() {
            let site = Site {
                shared,
                link: &link,
                conn,
                now,
                node_time: shared.node_time(now),
            };
            if site.answer(&self.engine, request, reply) == Flow::Silenced {
                link.input().silence();
            }
        }
        // What it had sent behind the parked request is served after the caller.
        let mut input = link.input();
        if !input.queued {
            input.queued = true;
            self.backlog.push_back(link.clone());
        }
        drop(input);
        shared.set_timer(now, conn.client_id());
        link.output().wake();
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
            }
            self.serve_backlog(shared, now);
        }
    }

    /// Until when the node sleeps, on its own clock.
    pub(crate) fn stalled_until(&self) -> Option<UnixMicros> {
        self.stall.as_ref().map(|stall| stall.until)
    }

    fn serve_backlog(&mut self, shared: &SharedNode, now: UnixMicros) {
        while !self.is_stalled()
            && let Some(link) = self.backlog.pop_front()
        {
            link.input().queued = false;
            self.serve(shared, &link, now);
        }
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
    fn serve_later(&mut self, shared: &SharedNode, now: UnixMicros) {
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
