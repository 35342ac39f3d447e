//! A node: the engine, its clock, and the connections to it. Takes turns, never waits.
//!
//! `Shared` is what transports hold. Its node is taken once per batch of input; the lock is never
//! held across an await. While a long script has the node, transports leave their connection in
//! the inbox instead, and the script's hook serves it (see `engine::Bystanders`).

use crate::clock::NodeClock;
use crate::engine::{Config, ConnId, Desk, Effect, Engine, Outcome, UnixMicros};
use crate::fault::{Plan, Verdict};
use crate::history::{Entry, History};
use crate::link::{Ending, Input, Link, OUTPUT_BYTES_MAX};
use crate::resp::{ErrorReply, OwnedRequest, Protocol, Reply, Request, encode};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

/// Everything that is served in turn.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) engine: Engine,
    /// Serves nobody until this instant of its own clock (DEBUG SLEEP).
    stalled_until: Option<UnixMicros>,
    /// Serves nobody until it is resumed.
    paused: bool,
    /// Connections with input that came while nobody was served, in order of arrival.
    backlog: VecDeque<Arc<Link>>,
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
    clock: NodeClock,
    /// Open connections by client id.
    links: Mutex<BTreeMap<u64, Arc<Link>>>,
    /// When (in true time) a connection has to be looked at: a delayed message is due.
    timers: Timers,
    history: Mutex<History>,
    has_history: bool,
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
    all: Mutex<BTreeSet<(UnixMicros, u64)>>,
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
        all.insert((at, client_id));
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
        let first = all.first().copied().filter(|(at, _)| *at <= now)?;
        all.remove(&first);
        self.note_first(&all);
        Some(first.1)
    }

    fn note_first(&self, all: &BTreeSet<(UnixMicros, u64)>) {
        self.first.store(
            all.first().map_or(NO_TIMER, |(at, _)| at.0),
            Ordering::Release,
        );
    }
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
                stalled_until: None,
                paused: false,
                backlog: VecDeque::new(),
            }),
            inbox: Mutex::default(),
            busy: AtomicBool::new(false),
            down: AtomicBool::new(false),
            clock: NodeClock::default(),
            links: Mutex::default(),
            timers: Timers::default(),
            history: Mutex::new(History::with_capacity(history_max)),
            has_history: history_max > 0,
        }
    }

    /// The node, for a look or a change from outside. Waits for a script that runs.
    pub(crate) fn node(&self) -> MutexGuard<'_, Node> {
        lock(&self.node)
    }

    /// The node in its turn; nothing while a long script has it. A script becomes long, so who waits for
    /// the node has to look for that too.
    pub(crate) fn turn(&self) -> Option<MutexGuard<'_, Node>> {
        for tries in 0_u64.. {
            match self.node.try_lock() {
                Ok(node) => return Some(node),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if self.busy.load(Ordering::Acquire) => return None,
                Err(TryLockError::WouldBlock) if tries < YIELDS => std::thread::yield_now(),
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOOK_AGAIN),
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

    /// Moves the node's clock against true time, without stepping through what becomes due.
    pub(crate) fn jump(&self, by_us: i64) {
        self.clock.jump(by_us);
    }

    pub(crate) fn connections(&self) -> usize {
        lock(&self.links).len()
    }

    /// Serves a connection that has new input, or that has gone. Its transport, which calls this,
    /// is not woken: it looks at its output afterwards. `enter` prepares the engine for this caller.
    ///
    /// Gives the time (in true time) at which the node wants to be called again; `None` when it
    /// does not, or when a script has the node.
    pub(crate) fn poke(
        &self,
        link: &Arc<Link>,
        now: UnixMicros,
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
        enter(&mut node.engine);
        node.serve_quietly(self, link, now);
        if waited || self.busy.load(Ordering::Acquire) {
            self.after_script(&mut node, now);
        }
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
                        Effect::Close { conn } => self.close(conn),
                        Effect::Push { conn, frame } => self.push(desk, conn, &frame),
                        Effect::Shutdown => self.shut_down(),
                        // The busy gate lets no command pass that does these.
                        Effect::Reply { .. } | Effect::Stall { .. } => {}
                    }
                }
            }
            link.output().wake();
        }
    }

    /// Sends a connection what it did not ask for. One that does not read is given up, at the hard
    /// limit that Redis sets for subscribers.
    fn push(&self, desk: &(impl Desk + ?Sized), conn: ConnId, frame: &Reply) {
        if let Some(link) = self.link(conn.client_id()) {
            let mut output = link.output();
            output.write(frame, desk.protocol(conn));
            if output.unread_bytes() > desk.pushed_bytes_max() {
                tracing::warn!(
                    client_id = conn.client_id(),
                    "a subscriber does not read: closed"
                );
                output.end(Ending::Reset);
            }
            output.wake();
        }
    }

    fn close(&self, conn: ConnId) {
        if let Some(link) = self.link(conn.client_id()) {
            link.output().end(Ending::Close);
        }
    }

    /// Ends every connection; nobody is served any more.
    pub(crate) fn shut_down(&self) {
        self.down.store(true, Ordering::Release);
        let links: Vec<_> = lock(&self.links).values().cloned().collect();
        links
            .iter()
            .for_each(|link| link.output().end(Ending::Close));
    }

    /// Executes what a connection has sent, up to the first request with effects on others.
    fn serve_batch(
        &self,
        desk: &mut (impl Desk + ?Sized),
        link: &Arc<Link>,
        now: UnixMicros,
    ) -> Served {
        let mut input = link.input();
        let Input {
            decoder,
            delayed,
            parked,
            silenced,
            closed,
            replies,
            ..
        } = &mut *input;
        if *closed || self.is_down() {
            if let Some(conn) = link.conn.get()
                && lock(&self.links).remove(&conn.client_id()).is_some()
            {
                desk.disconnect(*conn);
            }
            link.output().end(Ending::Close);
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
        let is_ruled = !self.plan.is_empty();
        let mut is_open = !link.output().is_blocked();
        let served = loop {
            if !is_open || parked.is_some() || *silenced {
                break Served::All;
            }
            if let Some((due, request)) = delayed.take() {
                if due > now {
                    *delayed = Some((due, request));
                    break Served::All;
                }
                if let Some(request) = request.as_request() {
                    is_open = site.execute(desk, request, parked);
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
                        break Served::All;
                    }
                };
                let verdict = if is_ruled {
                    site.judge(desk, request)
                } else {
                    Verdict::Pass
                };
                match verdict {
                    // The ordinary case: replies are gathered and written at once.
                    Verdict::Pass if !is_ruled => match site.run(desk, request) {
                        Outcome::Reply(reply) => {
                            encode(&reply, desk.protocol(conn), replies);
                            is_open = replies.len() <= OUTPUT_BYTES_MAX;
                        }
                        Outcome::Parked => *parked = Some(request.to_owned()),
                        Outcome::Silent => {}
                    },
                    Verdict::Pass => is_open = site.execute(desk, request, parked),
                    Verdict::Delay(duration) => {
                        let due = now.plus(duration);
                        *delayed = Some((due, request.to_owned()));
                        self.set_timer(due, conn.client_id());
                        break Served::All;
                    }
                    verdict @ (Verdict::Drop | Verdict::Close | Verdict::Reset) => {
                        site.lose(verdict);
                        *silenced = true;
                        decoder.clear();
                        break Served::All;
                    }
                }
            }
            if desk.has_effects() {
                break Served::UpToEffects;
            }
        };
        if !replies.is_empty() {
            link.output().append(replies);
        }
        link.was_served();
        served
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

/// Where and when a request is executed.
struct Site<'a> {
    shared: &'a Shared,
    link: &'a Arc<Link>,
    conn: ConnId,
    now: UnixMicros,
    node_time: UnixMicros,
}

impl Site<'_> {
    #[inline]
    fn judge(&self, desk: &(impl Desk + ?Sized), request: Request<'_>) -> Verdict {
        let plan = &self.shared.plan;
        if plan.is_empty() {
            Verdict::Pass
        } else {
            plan.on_request(self.conn, desk.name(self.conn), request)
        }
    }

    /// Executes a request; false when the connection takes no more for now.
    #[inline]
    fn execute(
        &self,
        desk: &mut (impl Desk + ?Sized),
        request: Request<'_>,
        parked: &mut Option<OwnedRequest>,
    ) -> bool {
        match self.run(desk, request) {
            Outcome::Reply(reply) => self.answer(desk, request, &reply),
            Outcome::Parked => {
                *parked = Some(request.to_owned());
                false
            }
            Outcome::Silent => true,
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

    /// Writes a reply, if nothing happens to it; false when the connection takes no more for now.
    #[inline]
    fn answer(&self, desk: &(impl Desk + ?Sized), request: Request<'_>, reply: &Reply) -> bool {
        let plan = &self.shared.plan;
        let verdict = if plan.is_empty() {
            Verdict::Pass
        } else {
            plan.on_reply(self.conn, desk.name(self.conn), request, reply)
        };
        let protocol = desk.protocol(self.conn);
        match verdict {
            Verdict::Pass => {
                let mut output = self.link.output();
                output.write(reply, protocol);
                return !output.is_blocked();
            }
            Verdict::Delay(duration) => {
                let due = self.now.plus(duration);
                self.link.output().write_delayed(reply, protocol, due);
                self.shared.set_timer(due, self.conn.client_id());
            }
            Verdict::Drop => self.link.output().silence(),
            verdict @ (Verdict::Close | Verdict::Reset) => self.lose(verdict),
        }
        !self.link.output().is_blocked()
    }

    fn lose(&self, verdict: Verdict) {
        let mut output = self.link.output();
        match verdict {
            Verdict::Close => output.end(Ending::Close),
            Verdict::Reset => output.end(Ending::Reset),
            Verdict::Pass | Verdict::Drop | Verdict::Delay(_) => {}
        }
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
            if self.is_stalled(shared, now) && !link.input().closed {
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
                    shared.push(&self.engine, conn, &frame);
                }
                Effect::Close { conn } => shared.close(conn),
                Effect::Stall { until } => {
                    self.stalled_until = Some(until);
                    let until = shared.clock.when(until);
                    if let Some(caller) = caller
                        && let Some(conn) = caller.conn.get()
                    {
                        caller.output().hold_until(until);
                        shared.set_timer(until, conn.client_id());
                    }
                }
                Effect::Shutdown => shared.shut_down(),
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
            site.answer(&self.engine, request, reply);
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

    fn is_stalled(&mut self, shared: &Shared, now: UnixMicros) -> bool {
        if self
            .stalled_until
            .is_some_and(|until| until <= shared.node_time(now))
        {
            self.stalled_until = None;
        }
        self.paused || self.stalled_until.is_some()
    }

    /// Serves nobody until [`Node::resume`]. Replies that are on their way still arrive.
    pub(crate) fn pause(&mut self) {
        self.paused = true;
    }

    /// Serves everybody again, in the order in which their input came.
    pub(crate) fn resume(&mut self, shared: &Shared, now: UnixMicros) {
        self.paused = false;
        self.serve_backlog(shared, now);
    }

    fn serve_backlog(&mut self, shared: &Shared, now: UnixMicros) {
        while !self.is_stalled(shared, now)
            && let Some(link) = self.backlog.pop_front()
        {
            link.input().queued = false;
            self.serve(shared, &link, now);
        }
    }

    /// When (in true time) [`Node::handle_timeout`] has something to do.
    pub(crate) fn poll_timeout(&self, shared: &Shared) -> Option<UnixMicros> {
        let clock = &shared.clock;
        let message = shared.timers.first();
        let stall = self.stalled_until.map(|until| clock.when(until));
        // A paused or sleeping node expires nothing: whoever looks, looks later.
        let is_asleep = self.paused || self.stalled_until.is_some();
        let expiry = self
            .engine
            .poll_timeout()
            .filter(|_| !is_asleep)
            .map(|at| clock.when(at.micros()));
        [message, stall, expiry].into_iter().flatten().min()
    }

    /// Does what is due at `now`.
    pub(crate) fn handle_timeout(&mut self, shared: &Shared, now: UnixMicros) {
        if !self.is_stalled(shared, now) {
            self.engine.handle_timeout(shared.node_time(now));
            self.carry_out(shared, None, now);
            self.serve_backlog(shared, now);
        }
        while let Some(client_id) = shared.timers.pop_due(now) {
            if let Some(link) = shared.link(client_id) {
                link.output().release(now);
                self.serve(shared, &link, now);
            }
        }
    }
}
