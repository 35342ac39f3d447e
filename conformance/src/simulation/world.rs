//! One run: builds the world of a scenario, plays it, and returns its history.

use super::{
    chance,
    clock::HostClock,
    host::Host,
    scheduler::{Place, Ran, Scheduler, Spawner, Step},
    stream::LinkPlan,
};
use crate::{
    backend::{Backend, Node},
    history::{Actor, Call, Cause, History, OpId, PROBE_HOST, Stored, What},
    scenario::{Fault, Op, Scenario},
    subject::{BoxError, NotOffered, Subject},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    io,
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};
use tokio::{sync::OnceCell, time::Instant};

/// What a run gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// What happened.
    pub history: History,
    /// How many times a task was polled.
    pub steps: u64,
    /// The last number drawn by the scheduler.
    pub last_draw: u64,
    /// Whether it was stopped because tasks woke each other for ever.
    pub endless: bool,
    /// How many tasks the subject started behind the scheduler's back.
    pub stray_tasks: usize,
    /// The longest time for which the machine did not let us run (real servers only).
    pub gap: Duration,
}

/// Why a scenario could not be run: the server or the runtime is out of reach.
#[derive(Debug, thiserror::Error)]
#[error("the run could not be set up: {0}")]
pub struct RunError(#[from] io::Error);

/// The operation with which the probe asks for the lock at the end of every run.
pub const PROBE_OP: OpId = OpId::MAX - 1;

/// Plays a scenario with a subject on a backend.
///
/// # Errors
/// If the backend is out of reach.
pub fn run<S: Subject>(
    subject: &Arc<S>,
    backend: &dyn Backend,
    scenario: &Scenario,
) -> Result<Run, RunError> {
    let virtual_time = backend.virtual_time();
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(virtual_time);
    if !virtual_time {
        builder.enable_io(); // in virtual time it would only cost system calls
    }
    let runtime = builder.build()?;
    runtime.block_on(async {
        let started = Instant::now();
        let opened = backend.open(scenario.seed).await?;
        let history = History::new(scenario.lease(), opened.node.observes());
        let recorder = Recorder {
            started,
            history: Arc::new(Mutex::new(history)),
        };
        let spawner = Spawner::new();
        if let Some(driver) = opened.driver {
            spawner.spawn(Place::Server, driver);
        }
        let world = Arc::new(World::new(
            Arc::clone(subject),
            scenario.clone(),
            opened.node,
            recorder,
            spawner.clone(),
        ));
        let director = Arc::clone(&world).direct();
        spawner.spawn(Place::Director, Box::pin(director));
        if !virtual_time {
            spawner.spawn(Place::Director, Box::pin(Arc::clone(&world).heartbeat()));
        }
        let scheduler = Scheduler::new(spawner, scenario.seed, scenario.schedule, started);
        let ran = scheduler.run(|step| world.on_step(&step)).await;
        let stray_tasks = tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks();
        world.node.clean_up().await;
        let history = std::mem::take(&mut *world.recorder.history());
        let gap = *held(&world.gap);
        let Ran {
            steps,
            last_draw,
            endless,
        } = ran;
        Ok(Run {
            history,
            steps,
            last_draw,
            endless,
            stray_tasks,
            gap,
        })
    })
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes the history, and is the one source of true time.
#[derive(Clone)]
pub(crate) struct Recorder {
    started: Instant,
    history: Arc<Mutex<History>>,
}

impl Recorder {
    /// True time since the start of the run.
    pub(crate) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// The instant of a true time.
    pub(crate) fn instant(&self, at: Duration) -> Instant {
        self.started + at
    }

    pub(crate) fn record(&self, what: What) {
        let now = self.now();
        self.history().push(now, what);
    }

    fn history(&self) -> MutexGuard<'_, History> {
        held(&self.history)
    }
}

/// Reads the deadline of a grant that somebody holds, in true time.
type ReadDeadline = Box<dyn Fn() -> Option<Duration> + Send>;

/// A grant whose deadline is looked at after each step of its host.
struct Watch {
    host: u8,
    grant: OpId,
    last: Option<Duration>,
    read: ReadDeadline,
}

struct World<S: Subject> {
    subject: Arc<S>,
    scenario: Scenario,
    node: Arc<dyn Node>,
    recorder: Recorder,
    spawner: Spawner,
    plans: BTreeMap<u8, Arc<LinkPlan>>,
    clocks: BTreeMap<u8, HostClock>,
    watches: Mutex<Vec<Watch>>,
    alive: Mutex<BTreeSet<u8>>,
    stored: Mutex<Option<Stored>>,
    gap: Mutex<Duration>,
}

impl<S: Subject> World<S> {
    fn new(
        subject: Arc<S>,
        scenario: Scenario,
        node: Arc<dyn Node>,
        recorder: Recorder,
        spawner: Spawner,
    ) -> Self {
        let hosts: Vec<u8> = scenario.hosts().into_iter().chain([PROBE_HOST]).collect();
        let plan = |&host: &u8| (host, Arc::new(LinkPlan::of(&scenario, host)));
        let clock = |&host: &u8| {
            let spans: Vec<_> = scenario
                .faults()
                .filter_map(|(from, to, fault)| match fault {
                    Fault::Drift { host: theirs, ppm } if theirs == host => {
                        Some((Duration::from_millis(from), Duration::from_millis(to), ppm))
                    }
                    Fault::Pause { .. }
                    | Fault::Delay { .. }
                    | Fault::Cut { .. }
                    | Fault::Crash { .. }
                    | Fault::Drift { .. } => None,
                })
                .collect();
            (host, HostClock::drifting(&spans))
        };
        Self {
            plans: hosts.iter().map(plan).collect(),
            clocks: hosts.iter().map(clock).collect(),
            subject,
            scenario,
            node,
            recorder,
            spawner,
            watches: Mutex::default(),
            alive: Mutex::default(),
            stored: Mutex::default(),
            gap: Mutex::default(),
        }
    }

    fn on_step(&self, step: &Step<'_>) {
        match *step {
            Step::Polled(Place::Client(host)) => self.look_at_deadlines(host),
            Step::Polled(Place::Link(host)) => self.look_at_server(Cause::Client(host)),
            Step::Polled(Place::Server) => self.look_at_server(Cause::Server),
            Step::Polled(Place::Director) => {}
            Step::Panicked(host, message) => {
                held(&self.alive).remove(&host);
                held(&self.watches).retain(|watch| watch.host != host);
                self.recorder.record(What::Panic {
                    host,
                    message: message.to_owned(),
                });
            }
        }
    }

    fn look_at_deadlines(&self, host: u8) {
        for watch in held(&self.watches)
            .iter_mut()
            .filter(|watch| watch.host == host)
        {
            let deadline = (watch.read)();
            if deadline != watch.last {
                watch.last = deadline;
                self.recorder.record(What::Deadline {
                    grant: watch.grant,
                    deadline,
                });
            }
        }
    }

    fn look_at_server(&self, cause: Cause) {
        if !self.node.observes() {
            return;
        }
        let stored = self.node.peek();
        let mut last = held(&self.stored);
        if *last != stored {
            last.clone_from(&stored);
            self.recorder.record(What::Server { cause, stored });
        }
    }

    /// Plays the faults, then lets everybody die and asks for the lock once more.
    async fn direct(self: Arc<Self>) {
        for host in self.scenario.actors().into_iter().map(|actor| actor.host) {
            if held(&self.alive).insert(host) {
                self.start(host, 0);
            }
        }
        for (at_ms, turn) in turns(&self.scenario) {
            self.until(at_ms).await;
            self.take(turn, at_ms);
        }
        self.until(self.scenario.end_ms() + self.scenario.lease_ms / 3)
            .await;
        let alive: Vec<u8> = held(&self.alive).iter().copied().collect();
        for host in alive {
            self.crash(host);
        }
        for (_, plan) in self.plans.iter().filter(|&(&host, _)| host != PROBE_HOST) {
            plan.forget();
        }
        self.probe();
    }

    async fn until(&self, at_ms: u64) {
        let at = self.recorder.instant(Duration::from_millis(at_ms));
        if Instant::now() < at {
            tokio::time::sleep_until(at).await;
        }
    }

    fn take(self: &Arc<Self>, turn: Turn, at_ms: u64) {
        match turn {
            Turn::Pause(host) => {
                self.recorder.record(What::Pause { host });
                self.spawner.pause(host);
            }
            Turn::Resume(host) => {
                self.spawner.resume(host);
                self.recorder.record(What::Resume { host });
            }
            Turn::Crash(host) => self.crash(host),
            Turn::Restart(host) => {
                if held(&self.alive).insert(host) {
                    self.recorder.record(What::Restart { host });
                    self.start(host, at_ms);
                }
            }
        }
    }

    fn crash(&self, host: u8) {
        if held(&self.alive).remove(&host) {
            self.recorder.record(What::Crash { host });
            held(&self.watches).retain(|watch| watch.host != host);
            self.spawner.kill(host);
        }
    }

    fn host(&self, id: u8) -> Host {
        Host::new(
            id,
            self.scenario.seed,
            self.scenario.lease(),
            self.clocks[&id].clone(),
            Arc::clone(&self.plans[&id]),
            Arc::clone(&self.node),
            self.recorder.clone(),
            self.spawner.clone(),
        )
    }

    /// Starts a client process with what its actors have yet to do.
    fn start(self: &Arc<Self>, id: u8, from_ms: u64) {
        let host = self.host(id);
        let lock = Arc::new(OnceCell::new());
        let actors = self.scenario.actors();
        for actor in actors.into_iter().filter(|actor| actor.host == id) {
            let events = self
                .scenario
                .ops()
                .filter(|&(event, who, _)| who == actor && event.at_ms >= from_ms);
            let events: Vec<(OpId, u64, Op)> = events
                .map(|(event, _, op)| (event.id, event.at_ms, op))
                .collect();
            let player = self.player(actor, &host, &lock);
            host.spawn(player.play(events));
        }
    }

    fn player(
        self: &Arc<Self>,
        actor: Actor,
        host: &Host,
        lock: &Arc<OnceCell<S::Lock>>,
    ) -> Player<S> {
        let (world, host, lock) = (Arc::clone(self), host.clone(), Arc::clone(lock));
        Player {
            world,
            host,
            actor,
            lock,
            grant: None,
        }
    }

    /// Asks for the lock on a host without faults, as long as a dead holder's lease can last.
    fn probe(self: &Arc<Self>) {
        let host = self.host(PROBE_HOST);
        let mut player = self.player(Actor::on(PROBE_HOST), &host, &Arc::default());
        let (spawner, wait_ms) = (self.spawner.clone(), self.scenario.lease_ms * 3 / 2);
        host.spawn(async move {
            player.perform(PROBE_OP, Op::Acquire { wait_ms }).await;
            spawner.stop();
        });
    }

    /// Records for how long the machine did not let us run.
    async fn heartbeat(self: Arc<Self>) {
        const BEAT: Duration = Duration::from_millis(2);
        loop {
            let before = Instant::now();
            tokio::time::sleep(BEAT).await;
            let late = before.elapsed().saturating_sub(BEAT);
            let mut gap = held(&self.gap);
            *gap = gap.max(late);
        }
    }
}

/// A change of the world that the director makes.
#[derive(Clone, Copy)]
enum Turn {
    Pause(u8),
    Resume(u8),
    Crash(u8),
    Restart(u8),
}

fn turns(scenario: &Scenario) -> Vec<(u64, Turn)> {
    let mut turns = Vec::new();
    for (from, to, fault) in scenario.faults() {
        match fault {
            Fault::Pause { host } => {
                turns.extend([(from, Turn::Pause(host)), (to, Turn::Resume(host))])
            }
            Fault::Crash { host } => {
                turns.extend([(from, Turn::Crash(host)), (to, Turn::Restart(host))])
            }
            Fault::Delay { .. } | Fault::Cut { .. } | Fault::Drift { .. } => {}
        }
    }
    turns.sort_by_key(|&(at, _)| at);
    turns
}

/// Plays the operations of one actor.
struct Player<S: Subject> {
    world: Arc<World<S>>,
    host: Host,
    actor: Actor,
    /// The lock object, shared by the tasks of the host.
    lock: Arc<OnceCell<S::Lock>>,
    grant: Option<Held<S::Grant>>,
}

struct Held<G> {
    id: OpId,
    grant: Arc<G>,
    lost: bool,
}

impl<S: Subject> Player<S> {
    async fn play(mut self, events: Vec<(OpId, u64, Op)>) {
        for (id, at_ms, op) in events {
            let at = self.world.recorder.instant(Duration::from_millis(at_ms));
            self.idle_until(Some(at)).await;
            self.perform(id, op).await;
        }
        self.idle_until(None).await;
    }

    /// Waits, listening for the loss of a grant that is held.
    async fn idle_until(&mut self, at: Option<Instant>) {
        if let Some(held) = self.grant.as_mut().filter(|held| !held.lost) {
            tokio::select! {
                biased;
                () = self.world.subject.lost(&held.grant) => {
                    held.lost = true;
                    self.world.recorder.record(What::Lost { grant: held.id });
                }
                () = elapse(at) => return,
            }
        }
        elapse(at).await;
    }

    async fn perform(&mut self, id: OpId, op: Op) {
        self.host.begin_event(id);
        match op {
            Op::Try => self.acquire(id, Call::Try, u32::MAX).await,
            Op::Acquire { wait_ms } => {
                let wait = Duration::from_millis(wait_ms);
                self.acquire(id, Call::Acquire { wait }, u32::MAX).await;
            }
            Op::Cancelled { wait_ms, polls } => {
                let wait = Duration::from_millis(wait_ms);
                self.acquire(id, Call::Acquire { wait }, polls).await;
            }
            Op::Renew => self.renew(id).await,
            Op::Release => self.release(id).await,
            Op::Drop => self.drop_guard(id),
        }
    }

    fn record(&self, what: What) {
        self.world.recorder.record(what);
    }

    async fn acquire(&mut self, op: OpId, call: Call, polls: u32) {
        if self.grant.is_some() {
            return;
        }
        self.record(What::Invoke {
            op,
            actor: self.actor,
            call,
        });
        let outcome = {
            let attempt = pin!(self.attempt(op, call));
            GiveUp {
                future: attempt,
                polls,
            }
            .await
        };
        match outcome {
            Some(Ok(Some(grant))) => {
                let grant = Arc::new(grant);
                let read = self.read_deadline(&grant);
                // A grant that has no deadline although it should is dead on arrival.
                let promised = self.world.subject.promises().deadline;
                let deadline = read().or_else(|| promised.then(|| self.world.recorder.now()));
                self.record(What::Ok { op, deadline });
                let watch = Watch {
                    host: self.actor.host,
                    grant: op,
                    last: deadline,
                    read,
                };
                held(&self.world.watches).push(watch);
                self.grant = Some(Held {
                    id: op,
                    grant,
                    lost: false,
                });
            }
            Some(Ok(None)) => self.record(What::Fail { op }),
            Some(Err(error)) => self.record(What::Info {
                op,
                error: error.to_string(),
            }),
            None => self.record(What::Info {
                op,
                error: "cancelled".to_owned(),
            }),
        }
    }

    /// One acquisition; where the subject does not wait by itself, a loop of tries.
    async fn attempt(&self, op: OpId, call: Call) -> Result<Option<S::Grant>, BoxError> {
        let lease = self.world.scenario.lease();
        let subject = &self.world.subject;
        let open = || subject.open(&self.host, self.world.node.key(), lease);
        // A lock that cannot even be opened has definitely not been acquired.
        let Ok(lock) = self.lock.get_or_try_init(open).await else {
            return Ok(None);
        };
        let Call::Acquire { wait } = call else {
            return subject.try_lock(lock).await;
        };
        let until = self.host.now() + wait;
        match subject.lock_timeout(lock, wait).await {
            Err(error) if error.is::<NotOffered>() => {}
            outcome => return outcome,
        }
        for nth in 0.. {
            if nth > 0 {
                self.record(What::Attempt { op });
            }
            // An attempt that failed without an answer is unknown; so is the whole operation.
            if let Some(grant) = subject.try_lock(lock).await? {
                return Ok(Some(grant));
            }
            let who = u64::from(self.actor.host) << 8 | u64::from(self.actor.task);
            let purpose = [self.world.scenario.seed, who, u64::from(op), nth];
            let pause = lease / 24 + lease.mul_f64(chance::below(1_000, purpose) as f64 / 12_000.0);
            if self.host.now() + pause > until {
                return Ok(None);
            }
            self.host.sleep(pause).await;
        }
        Ok(None)
    }

    fn read_deadline(&self, grant: &Arc<S::Grant>) -> ReadDeadline {
        let (subject, grant) = (Arc::clone(&self.world.subject), Arc::clone(grant));
        let host = self.host.clone();
        Box::new(move || Some(host.true_time(subject.deadline(&grant)?)))
    }

    async fn renew(&mut self, op: OpId) {
        let Some(held) = &self.grant else { return };
        self.record(What::Invoke {
            op,
            actor: self.actor,
            call: Call::Renew { grant: held.id },
        });
        let Some(lock) = self.lock.get() else { return };
        match self.world.subject.extend(lock, &held.grant).await {
            Ok(true) => {
                let deadline = self.read_deadline(&held.grant)();
                self.record(What::Ok { op, deadline });
            }
            Ok(false) => self.record(What::Fail { op }),
            Err(error) if error.is::<NotOffered>() => self.record(What::Fail { op }),
            Err(error) => self.record(What::Info {
                op,
                error: error.to_string(),
            }),
        }
    }

    /// Takes the grant out of the player and of the watch list.
    fn give_up(&mut self, op: OpId, call: impl FnOnce(OpId) -> Call) -> Option<S::Grant> {
        let Held { id, grant, .. } = self.grant.take()?;
        held(&self.world.watches).retain(|watch| watch.grant != id);
        self.record(What::Invoke {
            op,
            actor: self.actor,
            call: call(id),
        });
        Arc::into_inner(grant)
    }

    async fn release(&mut self, op: OpId) {
        let Some(grant) = self.give_up(op, |grant| Call::Release { grant }) else {
            return;
        };
        let Some(lock) = self.lock.get() else { return };
        match self.world.subject.release(lock, grant).await {
            Ok(true) => self.record(What::Ok { op, deadline: None }),
            Ok(false) => self.record(What::Fail { op }),
            Err(error) => self.record(What::Info {
                op,
                error: error.to_string(),
            }),
        }
    }

    fn drop_guard(&mut self, op: OpId) {
        if let Some(grant) = self.give_up(op, |grant| Call::Drop { grant }) {
            drop(grant);
            self.record(What::Ok { op, deadline: None });
        }
    }
}

async fn elapse(at: Option<Instant>) {
    match at {
        Some(at) if Instant::now() >= at => {}
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Drops a future at its k-th poll, if it gets there.
struct GiveUp<F> {
    future: F,
    polls: u32,
}

impl<F: Future + Unpin> Future for GiveUp<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls == 0 {
            return Poll::Ready(None);
        }
        self.polls = self.polls.saturating_sub(u32::from(self.polls != u32::MAX));
        Pin::new(&mut self.future).poll(cx).map(Some)
    }
}
