//! One run: builds the simulation of a scenario, plays it, and returns its history.

use super::{
    clock::{HostClock, WallClock},
    held,
    host::Host,
    network::Network,
    player::Player,
    recorder::Recorder,
    resource::Resource,
    scheduler::{Ran, Scheduler, Spawner, Step, TaskOwner},
    sim_env::SimEnv,
    true_time::TrueTime,
};
use crate::{
    backend::{Backend, Servers},
    history::{Actor, Cause, History, Holder, OpId, POLLS_PER_LEASE, PROBE_HOST, Terms, What},
    scenario::{Capability, Fault, Op, Scenario, Topology},
    subject::{DynSubject, LINGER, Observed, Promises},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{sync::OnceCell, time::Instant};

/// Result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Recorded history.
    pub history: History,
    /// Number of polls of tasks.
    pub steps: u64,
    /// The last number drawn by the scheduler.
    pub last_draw: u64,
    /// True if the run was stopped because tasks woke each other forever.
    pub endless: bool,
    /// Number of tasks that the subject started with `tokio::spawn`, outside of the scheduler.
    pub stray_tasks: usize,
    /// The first error of the subject's `open`, with its sources.
    pub open_error: Option<String>,
    /// Keys of a server at the first time when it had keys, but no holder was observed.
    pub beside: Vec<Vec<u8>>,
    /// Longest time for which the machine did not run the program (real servers only).
    pub gap: Duration,
}

/// Reason why a scenario could not be run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The server or the runtime cannot be reached.
    #[error("the run could not be set up: {0}")]
    OutOfReach(#[from] io::Error),
    /// The backend, or the form of the subject, lacks a capability that the scenario needs.
    #[error("the backend or the form of the lock does not support: {}", .0.name())]
    Unsupported(Capability),
}

/// The operation by which the probe acquires the lock at the end of every run.
pub const PROBE_OP: OpId = OpId::MAX - 1;

/// The probe of a semaphore whose calls take one permit each has operations from this number on.
pub const FIRST_PROBE_OP: OpId = PROBE_OP - PROBES_MAX;

/// Most permits that the probe takes one by one.
pub(super) const PROBES_MAX: u32 = 64;

/// Plays a scenario with a subject on a backend.
///
/// # Errors
/// If the backend cannot be reached, or lacks a capability that the scenario needs.
pub fn run(
    subject: Arc<dyn DynSubject>,
    backend: &dyn Backend,
    scenario: &Scenario,
) -> Result<Run, RunError> {
    if let Some(lacking) = scenario
        .needs()
        .into_iter()
        .find(|&need| !backend.can(need) || !subject.can(need))
    {
        return Err(RunError::Unsupported(lacking));
    }
    let virtual_time = backend.virtual_time();
    let mut builder = tokio::runtime::Builder::new_current_thread();
    if !virtual_time {
        builder.enable_all(); // virtual time does not use tokio's clock
    }
    let runtime = builder.build()?;
    let (world, mut scheduler) = runtime.block_on(async {
        let mut time = TrueTime::start(virtual_time);
        let opened = backend.open(scenario, Arc::new(time.clone())).await?;
        if !virtual_time {
            time = TrueTime::start(false); // starting servers takes time
        }
        let promises = subject.promises();
        let history = History {
            kind: promises.kind,
            reentrant: promises.reentrant,
            topology: scenario.topology,
            timeout: Some(scenario.request_timeout()),
            terms: terms(promises, scenario),
            ..History::new(
                promises.longest_lease(scenario.lease()),
                opened.servers.observes(),
            )
        };
        let spawner = Spawner::new();
        for (node, driver) in (0..).zip(opened.drivers) {
            spawner.spawn(TaskOwner::Server(node), driver);
        }
        let recorder = Recorder::new(time.clone(), history);
        let world = World::new(subject, scenario, opened.servers, recorder, spawner.clone());
        let world = Arc::new(world);
        let director = Arc::clone(&world).direct();
        spawner.spawn(TaskOwner::Director, Box::pin(director));
        if !virtual_time {
            spawner.spawn(
                TaskOwner::Director,
                Box::pin(Arc::clone(&world).heartbeat()),
            );
        }
        let scheduler = Scheduler::new(spawner, scenario.seed, scenario.schedule, time);
        Ok::<_, RunError>((world, scheduler))
    })?;
    let on_step = |step: Step<'_>| world.on_step(&step);
    let ran = if virtual_time {
        let _context = runtime.enter(); // processes may have runtimes of their own
        scheduler.run_alone(on_step)
    } else {
        runtime.block_on(scheduler.run(on_step))
    };
    runtime.block_on(async {
        scheduler.end();
        let stray_tasks = tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks();
        world.network.servers.clean_up().await;
        if let Some(failure) = world.network.servers.failure() {
            return Err(RunError::OutOfReach(failure));
        }
        let mut history = std::mem::take(&mut *world.recorder.history());
        let gap = (*held(&world.gap)).max(world.network.servers.gap());
        history.terms.slack = gap;
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
            open_error: held(&world.open_error).take(),
            beside: std::mem::take(&mut *held(&world.beside)),
            gap,
        })
    })
}

/// Adds advice to tokio's panic message about timers.
fn advised(message: &str) -> String {
    if message.contains("timers are disabled") {
        format!(
            "{message} In a simulation take time from the host (Host::sleep, Host::now), or play code that sleeps with \
             tokio::time in its plain form."
        )
    } else {
        message.to_owned()
    }
}

/// Longest pause of a waiter between two requests, where a lock that waits by itself says nothing.
pub(super) const LONGEST_POLL: Duration = Duration::from_secs(1);

/// Returns the promises of the lock, and the delays of the scenario without faults.
fn terms(promises: Promises, scenario: &Scenario) -> Terms {
    let part = |share: u32| scenario.lease() / share.max(1);
    let wake = promises
        .wake_share
        .map(|share| part(share).min(promises.poll.unwrap_or(Duration::MAX)));
    let by_itself = || {
        promises
            .waits
            .then(|| part(POLLS_PER_LEASE).max(LONGEST_POLL))
    };
    let poll = promises.poll.or_else(by_itself);
    let skip = promises.skip_timeouts.map_or(Duration::ZERO, |timeouts| {
        let pause = wake.or(poll).unwrap_or_default();
        pause + scenario.request_timeout() * timeouts
    });
    Terms {
        latency: Duration::from_millis(scenario.latency_ms),
        slack: Duration::ZERO,
        waits: promises.waits,
        lease_spread: promises.longest_lease(scenario.lease())
            - promises.shortest_lease(scenario.lease()),
        wake,
        poll,
        retry: promises.retry,
        skip,
        answers: promises.answers,
        tells: promises.tells,
        linger: if promises.lingers {
            LINGER
        } else {
            Duration::ZERO
        },
        hold: promises.hold_share.map_or(Duration::ZERO, part),
        fair: promises.fair,
        prefers_writers: promises.prefers_writers,
        renews: promises.renews,
        signals: promises.signals,
        notices: promises.notices,
        set_up: promises.set_up,
        anew: promises.anew,
    }
}

/// A grant whose deadline is read after each step of its host.
pub(super) struct Watch {
    pub(super) host: u8,
    pub(super) grant: OpId,
    pub(super) last: Option<Duration>,
    /// Reads the deadline, as true time.
    pub(super) read: Box<dyn Fn() -> Option<Duration> + Send>,
}

/// State that the players, the director and the observer of a run share.
pub(super) struct World {
    pub(super) subject: Arc<dyn DynSubject>,
    pub(super) promises: Promises,
    pub(super) scenario: Scenario,
    pub(super) network: Arc<Network>,
    pub(super) resource: Arc<Resource>,
    pub(super) recorder: Recorder,
    pub(super) spawner: Spawner,
    clocks: BTreeMap<u8, (HostClock, WallClock)>,
    pub(super) watches: Mutex<Vec<Watch>>,
    pub(super) alive: Mutex<BTreeSet<u8>>,
    /// Last observed state of each node.
    stored: Mutex<Vec<Seen>>,
    /// Actors with operations left, or with grants.
    pub(super) busy: Mutex<BTreeSet<Actor>>,
    /// Last recorded remains.
    remains: Mutex<Option<What>>,
    gap: Mutex<Duration>,
    /// The first error of the subject's `open`.
    pub(super) open_error: Mutex<Option<String>>,
    /// Keys of a server at the first time when it had keys, but no holder was observed.
    beside: Mutex<Vec<Vec<u8>>>,
}

/// Observed state of a node.
#[derive(Clone, Default)]
struct Seen {
    stored: Vec<Holder>,
    anonymous: u32,
    queued: Vec<Vec<u8>>,
}

impl World {
    fn new(
        subject: Arc<dyn DynSubject>,
        scenario: &Scenario,
        servers: Arc<dyn Servers>,
        recorder: Recorder,
        spawner: Spawner,
    ) -> Self {
        let network = Arc::new(Network::new(scenario, servers));
        let resource = Resource::new(Arc::clone(&network), recorder.clone(), spawner.clone());
        let hosts = scenario.hosts().into_iter().chain([PROBE_HOST]);
        Self {
            promises: subject.promises(),
            subject,
            clocks: hosts.map(|host| (host, clocks(scenario, host))).collect(),
            scenario: scenario.clone(),
            network,
            resource,
            recorder,
            spawner,
            watches: Mutex::default(),
            alive: Mutex::default(),
            open_error: Mutex::default(),
            beside: Mutex::default(),
            stored: Mutex::new(vec![
                Seen::default();
                usize::from(scenario.topology.servers())
            ]),
            busy: Mutex::default(),
            remains: Mutex::default(),
            gap: Mutex::default(),
        }
    }

    fn on_step(&self, step: &Step<'_>) {
        match *step {
            Step::Polled(TaskOwner::Client(host)) => self.look_at_deadlines(host),
            Step::Polled(TaskOwner::Link(host)) => {
                for node in self.network.take_touched() {
                    self.look_at(node, Cause::Client(host));
                    self.look_at_replicas(node);
                }
            }
            Step::Polled(TaskOwner::Server(node)) => {
                self.look_at(node, Cause::Server);
                self.look_at_replicas(node);
            }
            Step::Polled(TaskOwner::Director) => {}
            Step::Still(clients) => self.look_at_remains(clients),
            Step::Panicked(host, message) => {
                held(&self.alive).remove(&host);
                held(&self.watches).retain(|watch| watch.host != host);
                self.recorder.record(What::Panic {
                    host,
                    message: advised(message),
                });
                if host == PROBE_HOST {
                    self.spawner.stop(); // no other client is left
                }
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

    /// Observes the replicas of a master: they may have received its writes.
    fn look_at_replicas(&self, master: u8) {
        if let Topology::Replicated { .. } = self.scenario.topology {
            let servers = 0..self.scenario.topology.servers();
            for node in servers.filter(|&node| node != master) {
                self.look_at(node, Cause::Server);
            }
        }
    }

    /// Observes all nodes, after a fault.
    pub(super) fn look_at_all(&self) {
        for node in 0..self.scenario.topology.servers() {
            self.look_at(node, Cause::Fault);
        }
    }

    fn look_at(&self, node: u8, cause: Cause) {
        let servers = &self.network.servers;
        let Some(view) = servers.view(node) else {
            return;
        };
        let Observed {
            holders: stored,
            waiters: waiting,
            anonymous,
        } = self.subject.observe(view, servers.key());
        if stored.is_empty() && anonymous == 0 {
            let mut beside = held(&self.beside);
            if beside.is_empty() {
                *beside = view.keys();
            }
        }
        let mut all = held(&self.stored);
        let Some(last) = all.get_mut(usize::from(node)) else {
            return;
        };
        if last.queued != waiting {
            last.queued.clone_from(&waiting);
            self.recorder.record(What::Queue {
                node,
                cause,
                waiting,
            });
        }
        if last.stored != stored || last.anonymous != anonymous {
            last.stored.clone_from(&stored);
            last.anonymous = anonymous;
            self.recorder.record(What::Server {
                node,
                cause,
                stored,
                anonymous,
            });
        }
    }

    /// Records the remains when no actor has operations left and no message is in flight.
    fn look_at_remains(&self, clients: &dyn Fn() -> usize) {
        let servers = &self.network.servers;
        let done = held(&self.busy).is_empty() && !held(&self.alive).is_empty();
        if !done || !servers.observes() || !self.network.is_still() {
            return;
        }
        let (mut keys, mut endless) = (BTreeSet::new(), BTreeSet::new());
        let mut subscriptions = 0;
        for node in 0..self.scenario.topology.servers() {
            let Some(view) = servers.view(node) else {
                continue;
            };
            for key in view.keys() {
                let name = std::str::from_utf8(&key).unwrap_or_default();
                let has_no_end = || {
                    let data = view.data(name);
                    data.is_some_and(|(_, expires)| expires.is_none())
                };
                let is_endless = self.subject.ends(&key) && has_no_end();
                if is_endless {
                    endless.insert(key.clone());
                }
                if is_endless || !self.subject.outlasts(&key) {
                    keys.insert(key);
                }
            }
            subscriptions += view.subscriptions();
        }
        // Tasks that may remain: the driver of each connection, and the task of each actor.
        let alive = held(&self.alive);
        let actors = self.scenario.actors().into_iter();
        let actors = actors.filter(|actor| alive.contains(&actor.host)).count();
        let remains = What::Remains {
            keys: keys.into_iter().collect(),
            endless: endless.into_iter().collect(),
            subscriptions,
            tasks: clients().saturating_sub(self.network.ends() + actors),
        };
        let mut last = held(&self.remains);
        if last.as_ref() != Some(&remains) {
            self.recorder.record(remains.clone());
            *last = Some(remains);
        }
    }

    fn host(&self, id: u8) -> Host {
        let (clock, wall) = self.clocks[&id].clone();
        let env = SimEnv {
            clock,
            wall,
            network: Arc::clone(&self.network),
            recorder: self.recorder.clone(),
            spawner: self.spawner.clone(),
        };
        Host::in_env(id, self.scenario.seed, self.scenario.request_timeout(), env)
    }

    /// Starts a client process with the remaining operations of its actors.
    pub(super) fn start(self: &Arc<Self>, id: u8, from_ms: u64) {
        let host = self.host(id);
        let lock = Arc::new(OnceCell::new());
        let actors = self.scenario.actors();
        for actor in actors.into_iter().filter(|actor| actor.host == id) {
            held(&self.busy).insert(actor);
            let events = self
                .scenario
                .ops()
                .filter(|&(event, who, _)| who == actor && event.at_ms >= from_ms);
            let events: Vec<(OpId, u64, Op)> = events
                .map(|(event, _, op)| (event.id, event.at_ms, op))
                .collect();
            let player = Player {
                world: Arc::clone(self),
                host: host.clone(),
                actor,
                lock: Arc::clone(&lock),
                own: OnceCell::new(),
                grants: Vec::new(),
                name: None,
            };
            host.spawn(player.play(events));
        }
    }

    /// Makes a player on a host without faults, which starts after all others.
    pub(super) fn prober(self: &Arc<Self>) -> Player {
        Player {
            world: Arc::clone(self),
            host: self.host(PROBE_HOST),
            actor: Actor::on(PROBE_HOST),
            lock: Arc::default(),
            own: OnceCell::new(),
            grants: Vec::new(),
            name: None,
        }
    }

    /// Records the time for which the machine did not run the program.
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

/// Makes the clocks of a client process.
fn clocks(scenario: &Scenario, host: u8) -> (HostClock, WallClock) {
    let (mut drifts, mut standstills, mut jumps) = (Vec::new(), Vec::new(), Vec::new());
    let theirs = scenario
        .faults()
        .filter(|(.., fault)| fault.host() == Some(host));
    for (from, to, fault) in theirs {
        let (from, to) = (Duration::from_millis(from), Duration::from_millis(to));
        if let Fault::Drift { ppm, .. } = fault {
            drifts.push((from, to, ppm));
        } else if let Fault::Suspend { .. } = fault {
            standstills.push((from, to, HostClock::STANDSTILL));
        } else if let Fault::WallClock { by_ms, .. } = fault {
            jumps.push((from, by_ms));
        }
    }
    let mut wall = WallClock::new(HostClock::drifting(&drifts));
    for (at, by_ms) in jumps {
        wall.set(at, by_ms);
    }
    drifts.extend(standstills);
    (HostClock::drifting(&drifts), wall)
}
