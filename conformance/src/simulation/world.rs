//! The state of a run that players, director and observer share, and the observation of the servers after each step.

use super::{
    awaited_pauses::AwaitedPauses,
    clock::{HostClock, WallClock},
    held,
    host::Host,
    network::Network,
    recorder::Recorder,
    resource::Resource,
    scheduler::{Spawner, Step, TaskOwner},
    sim_env::SimEnv,
};
use crate::{
    backend::Servers,
    history::{Cause, What},
    scenario::{Fault, Scenario},
    subject::{DynSubject, Observed},
    vocabulary::{Actor, Holder, OpId, PROBE_HOST, Promises, Topology},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::time::Instant;

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
    /// Pauses that wait for replies, or have begun after them.
    pub(super) pauses: AwaitedPauses,
    /// Last observed state of each node.
    stored: Mutex<Vec<Seen>>,
    /// Actors with operations left, or with grants.
    pub(super) busy: Mutex<BTreeSet<Actor>>,
    /// Last recorded remains.
    remains: Mutex<Option<What>>,
    pub(super) gap: Mutex<Duration>,
    /// The first error of the subject's `open`.
    pub(super) open_error: Mutex<Option<String>>,
    /// Keys of a server at the first time when it had keys, but no holder was observed.
    pub(super) beside: Mutex<Vec<Vec<u8>>>,
}

/// Observed state of a node.
#[derive(Clone, Default)]
struct Seen {
    stored: Vec<Holder>,
    anonymous: u32,
    queued: Vec<Vec<u8>>,
    reserved: Vec<Vec<u8>>,
}

impl World {
    pub(super) fn new(
        subject: Arc<dyn DynSubject>,
        scenario: &Scenario,
        epoch: Duration,
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
            clocks: hosts
                .map(|host| (host, clocks(scenario, epoch, host)))
                .collect(),
            scenario: scenario.clone(),
            network,
            resource,
            recorder,
            spawner,
            watches: Mutex::default(),
            alive: Mutex::default(),
            pauses: AwaitedPauses::default(),
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

    pub(super) fn on_step(&self, step: &Step<'_>) {
        match *step {
            Step::Polled(TaskOwner::Client(host)) => self.look_at_deadlines(host),
            Step::Polled(TaskOwner::Link(host)) => {
                for node in self.network.take_touched() {
                    self.look_at(node, Cause::Client(host));
                    self.look_at_replicas(node);
                }
                self.begin_pauses(host);
            }
            Step::Polled(TaskOwner::Server(node)) => {
                self.look_at(node, Cause::Server);
                self.look_at_replicas(node);
            }
            Step::Polled(TaskOwner::Director) => {}
            Step::Still(clients) => self.look_at_remains(Some(clients)),
            Step::Stopped => self.look_at_remains(None),
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
            reserved,
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
        if last.reserved != reserved {
            last.reserved.clone_from(&reserved);
            self.recorder.record(What::Reserved {
                node,
                cause,
                waiters: reserved,
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

    /// Records the remains when no actor has operations left and no message is in flight. While a message is in flight, or a
    /// process is stopped that would go on (then `clients` is `None`), records only what is gone of them.
    fn look_at_remains(&self, clients: Option<&dyn Fn() -> usize>) {
        let servers = &self.network.servers;
        let done = held(&self.busy).is_empty() && !held(&self.alive).is_empty();
        if !done || !servers.observes() {
            return;
        }
        let mut last = held(&self.remains);
        let remains = if let Some(clients) = clients.filter(|_| self.network.is_still()) {
            self.remains(clients)
        } else {
            let Some(What::Remains {
                keys,
                endless,
                subscriptions,
                tasks,
            }) = last.as_ref().filter(|last| has_any(last))
            else {
                return;
            };
            let servers = 0..self.scenario.topology.servers();
            let views: Vec<_> = servers
                .filter_map(|node| self.network.servers.view(node))
                .collect();
            let now: BTreeSet<_> = views.iter().flat_map(|view| view.keys()).collect();
            let still = |keys: &[Vec<u8>]| {
                let still = keys.iter().filter(|key| now.contains(*key));
                still.cloned().collect()
            };
            let subscribed: usize = views.iter().map(|view| view.subscriptions()).sum();
            let running = clients.map_or(*tasks, |clients| self.tasks(clients));
            What::Remains {
                keys: still(keys),
                endless: still(endless),
                subscriptions: subscribed.min(*subscriptions),
                tasks: running.min(*tasks),
            }
        };
        if last.as_ref() != Some(&remains) {
            self.recorder.record(remains.clone());
            *last = Some(remains);
        }
    }

    /// What exists now and may have been left behind.
    fn remains(&self, clients: &dyn Fn() -> usize) -> What {
        let servers = &self.network.servers;
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
                // Of an untidy lock, and after the death of a client, this is all that is judged.
                let must_end = self.subject.ends(&key) || !self.subject.outlasts(&key);
                let is_endless = must_end && has_no_end();
                if is_endless {
                    endless.insert(key.clone());
                }
                if is_endless || !self.subject.outlasts(&key) {
                    keys.insert(key);
                }
            }
            subscriptions += view.subscriptions();
        }
        What::Remains {
            keys: keys.into_iter().collect(),
            endless: endless.into_iter().collect(),
            subscriptions,
            tasks: self.tasks(clients),
        }
    }

    /// The tasks beside those that may remain: the driver of each connection, and the task of each actor.
    fn tasks(&self, clients: &dyn Fn() -> usize) -> usize {
        let alive = held(&self.alive);
        let actors = self.scenario.actors().into_iter();
        let actors = actors.filter(|actor| alive.contains(&actor.host)).count();
        clients().saturating_sub(self.network.ends() + actors)
    }

    /// Makes a client process of this run.
    pub(super) fn host(&self, id: u8) -> Host {
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

    /// Records the time for which the machine did not run the program.
    pub(super) async fn heartbeat(self: Arc<Self>) {
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

/// Makes the clocks of a client process. The wall clock shows `epoch` at the start of the run.
fn clocks(scenario: &Scenario, epoch: Duration, host: u8) -> (HostClock, WallClock) {
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
    let mut wall = WallClock::new(epoch, HostClock::drifting(&drifts));
    for (at, by_ms) in jumps {
        wall.set(at, by_ms);
    }
    drifts.extend(standstills);
    (HostClock::drifting(&drifts), wall)
}

/// True if anything was left behind.
fn has_any(remains: &What) -> bool {
    matches!(remains, What::Remains { keys, subscriptions, tasks, .. }
        if !keys.is_empty() || *subscriptions + *tasks > 0)
}
