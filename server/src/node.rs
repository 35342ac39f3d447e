//! A node: the engine, its clock, and the connections to it. Takes turns, never waits.
//!
//! `Shared` is what transports hold. Its node is taken once per batch of input; the lock is never
//! held across an await. While a long script has the node, transports leave their connection in
//! the inbox instead, and the script's hook serves it (see `engine::Bystanders`).

use crate::clock::{ClockMap, NodeClock};
use crate::disk::{Disk, Loss, Persistence};
use crate::engine::{
    Address, Config, ConnId, Desk, Effect, Engine, Migration, News, Outcome, Unit, UnixMicros,
    UnixMillis,
};
use crate::fault::{Direction, Fate, Judgement, Plan, Sender};
use crate::history::{Entry, History};
use crate::link::{Ending, Gone, Held, Input, Link, OUTPUT_BYTES_MAX, Output};
use crate::order::{Meant, Orders};
use crate::resp::{ErrorReply, OwnedRequest, Protocol, Reply, Request, encode};
use crate::wait::Wait;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::task::Waker;
use std::time::Duration;

/// Everything that is served in turn.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) engine: Engine,
    stall: Option<Stall>,
    /// Serves nobody until it is resumed.
    paused: bool,
    /// What is found after a crash; absent when that is nothing.
    disk: Option<Box<Disk>>,
    /// It has crashed: when (in true time) it is started again, if that is known.
    restart_at: Option<Option<UnixMicros>>,
    /// Connections with input that came while nobody was served, in order of arrival.
    backlog: VecDeque<Arc<Link>>,
}

/// A node that serves nobody for a while (DEBUG SLEEP).
#[derive(Debug)]
struct Stall {
    /// When it goes on, on its own clock.
    until: UnixMicros,
    /// Whose request it was; the answer is held until then.
    sleeper: Option<Arc<Link>>,
}

/// A node as its transports see it.
#[derive(Debug)]
pub(crate) struct Shared {
    node: Mutex<Node>,
    /// Connections that wait beside a long script.
    inbox: Mutex<Vec<Arc<Link>>>,
    /// A long script has the node and reads the inbox.
    pub(crate) busy: AtomicBool,
    /// The server was dropped or shut down.
    down: AtomicBool,
    pub(crate) plan: Plan,
    pub(crate) orders: Orders,
    pub(crate) clock: NodeClock,
    /// Open connections by client id.
    links: Mutex<BTreeMap<u64, Arc<Link>>>,
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

/// When connections have to be looked at; the first time is known without a lock.
#[derive(Debug)]
struct Timers {
    first: AtomicI64,
    all: Mutex<TimerSet>,
}

/// By time; those of one time in the order in which they were set.
#[derive(Debug, Default)]
struct TimerSet {
    due: BTreeMap<(UnixMicros, u64), u64>,
    count: u64,
}

/// What [`Timers::first`] holds when there are none.
const NO_TIMER: i64 = i64::MAX;

impl Default for Timers {
    fn default() -> Self {
        Self {
            first: AtomicI64::new(NO_TIMER),
            all: Mutex::default(),
        }
    }
}

impl Timers {
    fn insert(&self, at: UnixMicros, client_id: u64) {
        let mut all = lock(&self.all);
        all.count += 1;
        let number = all.count;
        all.due.insert((at, number), client_id);
        self.note_first(&all);
    }

    #[inline]
    fn first(&self) -> Option<UnixMicros> {
        Some(self.first.load(Ordering::Acquire))
            .filter(|first| *first != NO_TIMER)
            .map(UnixMicros)
    }

    fn pop_due(&self, now: UnixMicros) -> Option<u64> {
        let mut all = lock(&self.all);
        let first = all.due.first_entry().filter(|first| first.key().0 <= now)?;
        let client_id = first.remove();
        self.note_first(&all);
        Some(client_id)
    }

    fn note_first(&self, all: &TimerSet) {
        let first = all.due.first_key_value();
        self.first.store(
            first.map_or(NO_TIMER, |((at, _), _)| at.0),
            Ordering::Release,
        );
    }
}

/// What a node wants to reach other nodes, or its disk.
#[derive(Clone, Debug)]
pub(crate) enum Outgoing {
    Unit(Arc<Unit>),
    /// It shall follow this node, or nobody.
    Follow(Option<Address>),
    /// Something for the other nodes of its cluster.
    Cluster(News),
    /// Keys shall go to another node.
    Migrate(Box<Migration>),
    /// A replica shall take its master's place: this one, or one that a sentinel chooses.
    FailOver(Option<Address>),
    /// Everything that was under way from and to it is lost.
    Crashed,
    /// It runs again.
    Restarted,
}

/// How far a connection was served.
enum Served {
    /// There is nothing to do until more comes.
    All,
    /// A request has effects on others, which come before the next request.
    UpToEffects,
}

impl Shared {
    pub(crate) fn new(config: Config, history_max: usize, now: UnixMicros) -> Self {
        Self {
            plan: Plan::new(config.seed),
            node: Mutex::new(Node {
                engine: Engine::new(config, now),
                stall: None,
                paused: false,
                disk: None,
                restart_at: None,
                backlog: VecDeque::new(),
            }),
            inbox: Mutex::default(),
            busy: AtomicBool::new(false),
            down: AtomicBool::new(false),
            orders: Orders::default(),
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
    pub(crate) fn with_orders(mut self, orders: Orders) -> Self {
        self.orders = orders;
        self
    }

    /// From now on there are others to speak to.
    pub(crate) fn join_network(&self) {
        self.has_network.store(true, Ordering::Release);
    }

    pub(crate) fn has_outgoing(&self) -> bool {
        self.has_outgoing.load(Ordering::Acquire)
    }

    /// Says something to the other nodes, if there are any.
    fn post(&self, outgoing: Outgoing) {
        if !self.has_network.load(Ordering::Acquire) {
            return;
        }
        lock(&self.outgoing).push_back(outgoing);
        self.has_outgoing.store(true, Ordering::Release);
    }

    /// Takes what the node has to say to others.
    #[inline]
    pub(crate) fn take_outgoing(&self) -> VecDeque<Outgoing> {
        if !self.has_outgoing.swap(false, Ordering::AcqRel) {
            return VecDeque::new();
        }
        std::mem::take(&mut *lock(&self.outgoing))
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
    pub(crate) fn links(&self) -> Vec<Arc<Link>> {
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
        link: &Arc<Link>,
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
    pub(crate) fn serve_inbox(&self, desk: &mut (impl Desk + ?Sized), now: UnixMicros) {
        let waiting = std::mem::take(&mut *lock(&self.inbox));
        for link in waiting {
            while matches!(self.serve_batch(desk, &link, now), Served::UpToEffects) {
                while let Some(effect) = desk.poll_effect() {
                    match effect {
                        Effect::Close { conn } => self.close(desk, conn, now),
                        Effect::Push { conn, frame } => self.push(desk, conn, &frame, now),
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

    /// Sends a connection what it did not ask for. One that does not read is given up, at the hard
    /// limit that Redis sets for subscribers.
    fn push(&self, desk: &(impl Desk + ?Sized), conn: ConnId, frame: &Reply, now: UnixMicros) {
        let Some(link) = self.link(conn.client_id()) else {
            return;
        };
        if self.plan.is_empty() {
            link.output().write(frame, desk.protocol(conn));
        } else {
            let sender = sender(&link, desk, conn);
            let judgement = self.plan.on_push(sender, frame);
            if self.deliver(&link, judgement, frame, desk.protocol(conn), conn, now) {
                link.input().silence();
            }
        }
        let mut output = link.output();
        if output.unread_bytes() > desk.pushed_bytes_max() {
            tracing::warn!(
                client_id = conn.client_id(),
                "a subscriber does not read: closed"
            );
            output.end(Ending::Reset);
        }
        output.wake();
    }

    /// Writes what a rule has left of a frame; true when the client is not heard any more either.
    fn deliver(
        &self,
        link: &Link,
        judgement: Judgement,
        frame: &Reply,
        protocol: Protocol,
        conn: ConnId,
        now: UnixMicros,
    ) -> bool {
        let wait = self.waiting(&judgement, conn.client_id(), now);
        let mut output = link.output();
        let mut frames = Vec::new();
        let ending = match judgement.fate {
            Fate::Drop | Fate::Silence => {
                output.silence();
                return judgement.fate == Fate::Silence;
            }
            Fate::Arrives => {
                if wait.is_none() && judgement.instead.is_none() {
                    output.write(frame, protocol);
                    return false;
                }
                None
            }
            Fate::CutAfter(_) | Fate::Close => Some(Ending::Close),
            Fate::Reset => Some(Ending::Reset),
        };
        if matches!(judgement.fate, Fate::Arrives | Fate::CutAfter(_)) {
            match judgement.instead {
                Some(error) => encode(&error.into(), protocol, &mut frames),
                None => encode(frame, protocol, &mut frames),
            }
        }
        if let Fate::CutAfter(bytes) = judgement.fate {
            frames.truncate(bytes);
        }
        output.write_late(frames, ending, wait);
        false
    }

    /// What a message has to wait for; the connection will be looked at again.
    fn waiting(&self, judgement: &Judgement, client_id: u64, now: UnixMicros) -> Option<Wait> {
        let mut wait = Wait::default();
        if !judgement.delay.is_zero() {
            let due = now.plus(judgement.delay);
            self.set_timer(due, client_id);
            wait.until = Some(due);
        }
        if !judgement.gates.is_empty() {
            // Before the gates are asked, so that none opens unnoticed.
            let mut gated = lock(&self.gated);
            gated.count += 1;
            let number = gated.count;
            gated.numbers.entry(client_id).or_insert(number);
            drop(gated);
            let bell = self.bell.get().unwrap_or_else(|| Waker::noop());
            let gates = judgement.gates.iter();
            wait.gates = gates.map(|gate| gate.enter(bell)).collect();
        }
        (!wait.is_over(now)).then_some(wait)
    }

    /// Ends a connection. What it listened to, watched and waited for is forgotten at once, whenever
    /// its client notices; what it was sent is still delivered.
    fn close(&self, desk: &mut (impl Desk + ?Sized), conn: ConnId, now: UnixMicros) {
        if let Some(link) = self.link(conn.client_id()) {
            let wait = if self.plan.is_empty() {
                None
            } else {
                let sender = sender(&link, desk, conn);
                let judgement = self.plan.on_end(sender, Direction::Reply);
                self.waiting(&judgement, conn.client_id(), now)
            };
            let mut output = link.output();
            match wait {
                None => output.end(Ending::Close),
                wait => output.write_late(Vec::new(), Some(Ending::Close), wait),
            }
        }
        desk.disconnect(conn);
    }

    /// Ends every connection; nobody is served any more.
    pub(crate) fn shut_down(&self) {
        self.down.store(true, Ordering::Release);
        let links: Vec<_> = lock(&self.links).values().cloned().collect();
        links.iter().for_each(|link| link.output().abandon());
    }

    /// Executes what a connection has sent, up to the first request with effects on others.
    fn serve_batch(
        &self,
        desk: &mut (impl Desk + ?Sized),
        link: &Arc<Link>,
        now: UnixMicros,
    ) -> Served {
        let mut input = link.input();
        if self.is_down() {
            self.forget(desk, link);
            link.output().abandon();
            return Served::All;
        }
        if self.crashed.load(Ordering::Acquire) {
            link.output().end(Ending::Reset);
            return Served::All;
        }
        let node_time = self.node_time(now);
        let Some(conn) = self.session(desk, link, node_time) else {
            return Served::All;
        };
        let site = Site {
            shared: self,
            link,
            conn,
            now,
            node_time,
        };
        let Input {
            decoder,
            held,
            parked,
            silenced,
            replies,
            ..
        } = &mut *input;
        let is_ruled = !self.plan.is_empty();
        let mut flow = Flow::after(&link.output());
        let served = loop {
            if flow != Flow::Open || parked.is_some() || *silenced {
                break Served::All;
            }
            if let Some(arrived) = held.take() {
                if !arrived.wait.is_over(now) {
                    *held = Some(arrived);
                    break Served::All;
                }
                if let Some(request) = arrived.request.as_request() {
                    flow = site.meet(desk, request, arrived.instead, arrived.fate, parked);
                }
            } else {
                let request = match decoder.next(&desk.limits(conn)) {
                    Ok(Some(request)) => request,
                    Ok(None) => break Served::All,
                    Err(error) => {
                        let mut output = link.output();
                        output.append(replies);
                        if !error.is_silent() {
                            let error =
                                ErrorReply::from_bytes([b"ERR ", &*error.to_bytes()].concat());
                            output.write(&error.into(), desk.protocol(conn));
                        }
                        output.end(Ending::Close);
                        desk.disconnect(conn);
                        break Served::All;
                    }
                };
                if self.orders.are_taken() {
                    match self.orders.sort(request, desk.limits(conn).authenticated) {
                        Meant::ForTheNode => {}
                        Meant::Order => {
                            *parked = Some(request.to_owned());
                            self.orders.push(link);
                            break Served::All;
                        }
                        Meant::Refused(why) => {
                            let mut output = link.output();
                            output.append(replies);
                            output.write(&Reply::error(why), desk.protocol(conn));
                            flow = Flow::after(&output);
                            continue;
                        }
                    }
                }
                if is_ruled {
                    let judgement = self.plan.on_request(sender(link, desk, conn), request);
                    let wait = self.waiting(&judgement, conn.client_id(), now);
                    let Judgement { instead, fate, .. } = judgement;
                    match wait {
                        None => flow = site.meet(desk, request, instead, fate, parked),
                        Some(wait) => {
                            let request = request.to_owned();
                            *held = Some(Held {
                                wait,
                                request,
                                instead,
                                fate,
                            });
                            break Served::All;
                        }
                    }
                } else {
                    // The ordinary case: replies are gathered and written at once.
                    match site.run(desk, request) {
                        Outcome::Reply(reply) => {
                            encode(&reply, desk.protocol(conn), replies);
                            if replies.len() > OUTPUT_BYTES_MAX {
                                flow = Flow::Blocked;
                            }
                        }
                        Outcome::Parked => *parked = Some(request.to_owned()),
                        Outcome::Silent => {}
                    }
                }
            }
            if desk.has_effects() {
                break Served::UpToEffects;
            }
        };
        if flow == Flow::Silenced {
            input.silence();
        }
        if !input.replies.is_empty() {
            link.output().append(&mut input.replies);
        }
        link.was_served(&input);
        if matches!(served, Served::All) && site.has_gone(desk, &mut input) {
            self.forget(desk, link);
            link.output().end(Ending::Close);
        }
        served
    }

    /// Takes an order of a node that serves nobody: only so can it be told to go on.
    #[cold]
    fn hear_order(&self, desk: &mut impl Desk, link: &Arc<Link>, now: UnixMicros) {
        let mut input = link.input();
        let is_free = input.held.is_none() && input.parked.is_none() && !input.silenced;
        let Some(conn) = self.session(desk, link, self.node_time(now)) else {
            return;
        };
        let limits = desk.limits(conn);
        if !is_free || link.output().is_blocked() {
            return;
        }
        let Ok(Some(request)) = input.decoder.next(&limits) else {
            return;
        };
        if self.orders.sort(request, limits.authenticated) == Meant::Order {
            input.parked = Some(request.to_owned());
            self.orders.push(link);
        } else {
            input.decoder.put_back();
        }
    }

    /// Lets the client of an order outlive a crash of the node, until it has its answer.
    pub(crate) fn spare(&self, link: &Link) {
        if let Some(conn) = link.conn.get() {
            lock(&self.links).remove(&conn.client_id());
        }
    }

    /// Answers an order.
    pub(crate) fn answer_order(
        &self,
        link: &Arc<Link>,
        reply: &Reply,
        protocol: Protocol,
        now: UnixMicros,
    ) {
        if link.input().parked.take().is_none() {
            return;
        }
        let is_here = |conn: &ConnId| self.link(conn.client_id()).is_some();
        let mut output = link.output();
        output.write(reply, protocol);
        if link.conn.get().is_some_and(is_here) {
            drop(output);
            self.node().serve(self, link, now);
        } else {
            output.end(Ending::Close);
        }
    }

    /// Ends the session of a connection.
    fn forget(&self, desk: &mut (impl Desk + ?Sized), link: &Link) {
        if let Some(conn) = link.conn.get() {
            lock(&self.gated).numbers.remove(&conn.client_id());
            if lock(&self.links).remove(&conn.client_id()).is_some() {
                desk.disconnect(*conn);
            }
        }
    }

    /// The session of a connection, opened at its first turn; `None` when there is no room.
    fn session(
        &self,
        desk: &mut (impl Desk + ?Sized),
        link: &Arc<Link>,
        node_time: UnixMicros,
    ) -> Option<ConnId> {
        if let Some(conn) = link.conn.get() {
            return Some(*conn);
        }
        match desk.connect(&link.addr, node_time) {
            Ok(conn) => {
                desk.reached_at(conn, &link.laddr);
                lock(&self.links).insert(conn.client_id(), link.clone());
                Some(*link.conn.get_or_init(|| conn))
            }
            Err(refusal) => {
                let mut output = link.output();
                output.write(&refusal.into(), Protocol::Resp2);
                output.end(Ending::Close);
                None
            }
        }
    }

    fn set_timer(&self, at: UnixMicros, client_id: u64) {
        self.timers.insert(at, client_id);
    }

    fn link(&self, client_id: u64) -> Option<Arc<Link>> {
        lock(&self.links).get(&client_id).cloned()
    }
}

/// Whose messages go over a link.
fn sender<'a>(link: &'a Link, desk: &'a (impl Desk + ?Sized), conn: ConnId) -> Sender<'a> {
    Sender {
        client_id: conn.client_id(),
        addr: &link.addr,
        name: desk.name(conn),
    }
}

/// Whether a connection takes another request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Open,
    /// Not for now.
    Blocked,
    /// Never again: what the client says is lost.
    Silenced,
}

impl Flow {
    fn after(output: &Output) -> Self {
        if output.is_blocked() {
            Self::Blocked
        } else {
            Self::Open
        }
    }
}

/// Where and when a request is executed.
struct Site<'a> {
    shared: &'a Shared,
    link: &'a Arc<Link>,
    conn: ConnId,
    now: UnixMicros,
    node_time: UnixMicros,
}

impl Site<'_> {
    /// Whether the client has gone, and nothing of it is on its way any more.
    fn has_gone(&self, desk: &(impl Desk + ?Sized), input: &mut Input) -> bool {
        // To a connection that has ended, or that nobody reads, nothing more will come.
        let is_coming = input.held.is_some() && !self.link.output().is_blocked();
        if matches!(input.gone, Gone::Yes) && !self.shared.plan.is_empty() && !is_coming {
            let sender = sender(self.link, desk, self.conn);
            let judgement = self.shared.plan.on_end(sender, Direction::Request);
            let client_id = self.conn.client_id();
            if let Some(wait) = self.shared.waiting(&judgement, client_id, self.now) {
                input.gone = Gone::Later(wait);
            }
        }
        match &input.gone {
            Gone::No => false,
            Gone::Yes => !is_coming,
            Gone::Later(wait) => wait.is_over(self.now),
        }
    }

    /// Does with a request what the rules have left of it.
    fn meet(
        &self,
        desk: &mut (impl Desk + ?Sized),
        request: Request<'_>,
        instead: Option<ErrorReply>,
        fate: Fate,
        parked: &mut Option<OwnedRequest>,
    ) -> Flow {
        if let Some(error) = instead {
            return match desk.turn_away(self.conn, request, &error) {
                Outcome::Reply(reply) => self.answer(desk, request, &reply),
                Outcome::Parked | Outcome::Silent => Flow::Open,
            };
        }
        let ending = match fate {
            Fate::Arrives => return self.execute(desk, request, parked),
            Fate::Drop => return Flow::Silenced,
            Fate::Silence => {
                self.link.output().silence();
                return Flow::Silenced;
            }
            Fate::CutAfter(bytes) => {
                if bytes >= request.wire_bytes() {
                    let _lost = self.run(desk, request);
                }
                Ending::Close
            }
            Fate::Close => Ending::Close,
            Fate::Reset => Ending::Reset,
        };
        self.link.output().end(ending);
        Flow::Silenced
    }

    /// Executes a request.
    #[inline]
    fn execute(
        &self,
        desk: &mut (impl Desk + ?Sized),
        request: Request<'_>,
        parked: &mut Option<OwnedRequest>,
    ) -> Flow {
        match self.run(desk, request) {
            Outcome::Reply(reply) => self.answer(desk, request, &reply),
            Outcome::Parked => {
                *parked = Some(request.to_owned());
                Flow::Blocked
            }
            Outcome::Silent => Flow::Open,
        }
    }

    #[inline]
    fn run(&self, desk: &mut (impl Desk + ?Sized), request: Request<'_>) -> Outcome {
        let outcome = desk.handle(self.conn, request, self.node_time);
        if self.shared.has_history {
            self.record(request, &outcome);
        }
        outcome
    }

    fn record(&self, request: Request<'_>, outcome: &Outcome) {
        let reply = match outcome {
            Outcome::Reply(reply) => Some(reply.clone()),
            Outcome::Parked | Outcome::Silent => None,
        };
        let entry = Entry {
            at: self.node_time,
            client_id: self.conn.client_id(),
            request: request.to_owned(),
            reply,
        };
        lock(&self.shared.history).push(entry);
    }

    /// Writes a reply, or what the rules have left of it.
    #[inline]
    fn answer(&self, desk: &(impl Desk + ?Sized), request: Request<'_>, reply: &Reply) -> Flow {
        let plan = &self.shared.plan;
        let protocol = desk.protocol(self.conn);
        // Where nothing is said nothing can happen to it.
        let is_nothing = matches!(reply, Reply::Several(frames) if frames.is_empty());
        if plan.is_empty() || is_nothing {
            self.link.output().write(reply, protocol);
        } else {
            let judgement = plan.on_reply(sender(self.link, desk, self.conn), request, reply);
            let (shared, link) = (self.shared, self.link);
            if shared.deliver(link, judgement, reply, protocol, self.conn, self.now) {
                return Flow::Silenced;
            }
        }
        Flow::after(&self.link.output())
    }
}

impl Node {
    /// Serves a connection until it has nothing more to say, or until nobody is served.
    pub(crate) fn serve(&mut self, shared: &Shared, link: &Arc<Link>, now: UnixMicros) {
        self.serve_quietly(shared, link, now);
        link.output().wake();
    }

    /// The same for a transport that looks at its output afterwards by itself.
    fn serve_quietly(&mut self, shared: &Shared, link: &Arc<Link>, now: UnixMicros) {
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
        shared: &Shared,
        now: UnixMicros,
        change: impl FnOnce(&mut Engine, UnixMicros),
    ) {
        change(&mut self.engine, shared.node_time(now));
        self.carry_out(shared, None, now);
    }

    /// Carries out what a request (of `caller`) or the passing of time does to others.
    fn carry_out(&mut self, shared: &Shared, caller: Option<&Arc<Link>>, now: UnixMicros) {
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

    fn answer_parked(&mut self, shared: &Shared, conn: ConnId, reply: &Reply, now: UnixMicros) {
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
        self.paused || self.stall.is_some()
    }

    /// Goes on when it has slept for long enough, first with those that came meanwhile.
    #[inline]
    fn wake_up(&mut self, shared: &Shared, now: UnixMicros) {
        if self.stall.is_some() {
            self.end_stall(shared, now);
        }
    }

    #[cold]
    fn end_stall(&mut self, shared: &Shared, now: UnixMicros) {
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

    pub(crate) fn is_paused(&self) -> bool {
        self.paused
    }

    /// Until when the node sleeps, on its own clock.
    pub(crate) fn stalled_until(&self) -> Option<UnixMicros> {
        self.stall.as_ref().map(|stall| stall.until)
    }

    /// What the node writes is kept from now on, as far as `persistence` goes.
    pub(crate) fn persist(&mut self, persistence: Persistence) {
        self.engine.keep_journal();
        let disk = Disk::new(self.engine.databases(), persistence);
        self.disk = Some(Box::new(disk));
    }

    /// Everything in memory is lost and every connection reset, until [`Node::restart`].
    ///
    /// # Panics
    /// For [`Loss::Last`] without a disk.
    pub(crate) fn crash(&mut self, shared: &Shared, loss: Loss, now: UnixMicros) {
        let node_time = shared.node_time(now);
        let databases = match (&mut self.disk, loss) {
            (Some(disk), _) => disk.crash(loss, now),
            (None, Loss::Nothing) => self.engine.databases().to_vec(),
            (None, Loss::AsConfigured | Loss::Everything) => Vec::new(),
            (None, Loss::Last(_)) => {
                panic!("a server without persistence cannot lose but the latest writes")
            }
        };
        self.engine.crash(databases, node_time);
        self.stall = None;
        self.paused = false;
        self.restart_at = Some(None);
        for link in self.backlog.drain(..) {
            link.input().queued = false;
        }
        shared.crashed.store(true, Ordering::Release);
        let links = std::mem::take(&mut *lock(&shared.links));
        for link in links.values() {
            link.output().end(Ending::Reset);
        }
        shared.post(Outgoing::Crashed);
    }

    /// A node that has crashed is started at this point of true time.
    pub(crate) fn restart_at(&mut self, at: UnixMicros) {
        if let Some(restart_at) = &mut self.restart_at {
            *restart_at = Some(at);
        }
    }

    fn restart(&mut self, shared: &Shared, now: UnixMicros) {
        if self.restart_at.flatten().is_some_and(|at| at <= now) {
            self.restart_at = None;
            self.engine.restarted(shared.node_time(now));
            shared.crashed.store(false, Ordering::Release);
            shared.post(Outgoing::Restarted);
        }
    }

    pub(crate) fn is_crashed(&self) -> bool {
        self.restart_at.is_some()
    }

    /// Serves nobody until [`Node::resume`]. Replies that are on their way still arrive.
    pub(crate) fn pause(&mut self) {
        self.paused = true;
    }

    /// As freshly started, but for its connections: without data, awake, with an empty history.
    /// False, and nothing has happened, while a script is given up that nobody has killed.
    pub(crate) fn reset(&mut self, shared: &Shared, now: UnixMicros) -> bool {
        if self.engine.state().busy.is_some() {
            return false;
        }
        if let Some(restart_at) = &mut self.restart_at {
            *restart_at = Some(now);
            self.restart(shared, now);
        }
        shared.plan.clear();
        shared.clock.change(|map| *map = ClockMap::default());
        lock(&shared.history).clear();
        self.change(shared, now, Engine::reset);
        if let Some(disk) = &mut self.disk {
            disk.clear();
        }
        if let Some(stall) = &mut self.stall {
            stall.until = UnixMicros(i64::MIN);
        }
        self.wake_up(shared, now);
        self.resume(shared, now);
        true
    }

    /// Whether a crash may lose but the latest writes.
    pub(crate) fn has_disk(&self) -> bool {
        self.disk.is_some()
    }

    /// Serves everybody again, in the order in which their input came.
    pub(crate) fn resume(&mut self, shared: &Shared, now: UnixMicros) {
        self.paused = false;
        self.serve_backlog(shared, now);
    }

    fn serve_backlog(&mut self, shared: &Shared, now: UnixMicros) {
        while !self.is_stalled()
            && let Some(link) = self.backlog.pop_front()
        {
            link.input().queued = false;
            self.serve(shared, &link, now);
        }
    }

    /// When (in true time) [`Node::handle_timeout`] has something to do.
    pub(crate) fn poll_timeout(&self, shared: &Shared) -> Option<UnixMicros> {
        if let Some(restart_at) = self.restart_at {
            return restart_at;
        }
        let message = shared.timers.first();
        // A paused or sleeping node expires nothing: whoever looks, looks later.
        let own = match &self.stall {
            Some(stall) => Some(stall.until),
            None if self.paused => None,
            None => self.engine.poll_timeout().map(UnixMillis::micros),
        };
        let own = own.and_then(|at| shared.clock.when(at));
        [message, own].into_iter().flatten().min()
    }

    /// Does what is due at `now`.
    pub(crate) fn handle_timeout(&mut self, shared: &Shared, now: UnixMicros) {
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
    }

    /// Serves the connections that had to be looked at by now, in the order in which they were left.
    #[inline]
    fn serve_later(&mut self, shared: &Shared, now: UnixMicros) {
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
