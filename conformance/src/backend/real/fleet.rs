//! Servers that are started for one run, because the run pauses, kills or replicates them.

use super::{
    super::{
        Later, Servers, Transport,
        redis_server::{self, CAN_PAUSE, RedisServer},
    },
    dial::dialled,
};
use crate::{
    scenario::{Fault, Scenario},
    vocabulary::Topology,
};
use redis::{Connection, RedisConnectionInfo};
use std::{
    ffi::OsStr,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Longest time until replicas hold their master's data.
const SYNC_MAX: Duration = Duration::from_secs(10);
/// Longest time until a server replies to a request of the suite. It runs on the same machine and is idle, but the machine may
/// be busy.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// Longest time until replicas report that they have received a message.
const HEARD_MAX: Duration = Duration::from_millis(25);

/// Options of a server that has to keep its data when it is killed.
const KEEPING: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];
/// Options that start replication without delay.
const REPLICATED: [&str; 4] = ["--repl-diskless-sync-delay", "0", "--hz", "100"];

pub(super) struct Fleet {
    nodes: Vec<Node>,
    master: AtomicU8,
    key: String,
    login: RedisConnectionInfo,
    failure: Mutex<Option<io::Error>>,
    starts: Arc<Starts>,
}

/// Times that servers took to reply after a start during the run.
#[derive(Default)]
struct Starts {
    longest_us: AtomicU64,
    /// Start times of servers that do not reply yet.
    awaited: Mutex<Vec<Instant>>,
}

impl Starts {
    /// Waits for a server that was just started, on a thread, so that the run goes on.
    fn watch(self: &Arc<Self>, port: u16) {
        let (starts, began) = (Arc::clone(self), Instant::now());
        starts.awaited().push(began);
        thread::spawn(move || {
            while !redis_server::answers(port) && began.elapsed() < SYNC_MAX {
                thread::sleep(Duration::from_millis(1));
            }
            starts.note(began.elapsed());
            let mut awaited = starts.awaited();
            if let Some(at) = awaited.iter().position(|&since| since == began) {
                awaited.swap_remove(at);
            }
        });
    }

    fn awaited(&self) -> MutexGuard<'_, Vec<Instant>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, took: Duration) {
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.longest_us.fetch_max(took, Ordering::Relaxed);
    }

    fn longest(&self) -> Duration {
        for since in &*self.awaited() {
            self.note(since.elapsed());
        }
        Duration::from_micros(self.longest_us.load(Ordering::Relaxed))
    }
}

struct Node {
    port: u16,
    state: Mutex<State>,
}

/// The running faults. If faults of a kind overlap, only the end of the last one has an effect.
struct State {
    server: RedisServer,
    pauses: u32,
    crashes: u32,
}

impl Node {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a connection for requests of the suite.
    fn connection(&self) -> io::Result<Connection> {
        let open = || {
            let client = redis::Client::open(("127.0.0.1", self.port))?;
            let connection = client.get_connection_with_timeout(ANSWER_MAX)?;
            connection.set_read_timeout(Some(ANSWER_MAX))?;
            Ok(connection)
        };
        open().map_err(|error: redis::RedisError| io::Error::other(error.to_string()))
    }

    /// Sends a request.
    fn order(&self, words: &[&str]) -> io::Result<()> {
        let (&name, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let done = redis::cmd(name)
            .arg(arguments)
            .exec(&mut self.connection()?);
        done.map_err(|error| io::Error::other(format!("{}: {error}", words.join(" "))))
    }

    /// Publishes a message; true if `replicas` replicas soon report that they received it.
    fn reaches(&self, replicas: usize) -> io::Result<bool> {
        let patience = HEARD_MAX.as_millis().to_string();
        let mut heard = redis::pipe();
        heard.cmd("PUBLISH").arg("replicated").arg("").ignore();
        heard.cmd("WAIT").arg(replicas).arg(patience);
        let heard: redis::RedisResult<(usize,)> = heard.query(&mut self.connection()?);
        let (heard,) = heard.map_err(|error| io::Error::other(error.to_string()))?;
        Ok(heard >= replicas)
    }
}

impl Fleet {
    /// Starts the servers of a scenario.
    pub(super) fn start(
        program: &OsStr,
        key: String,
        login: RedisConnectionInfo,
        scenario: &Scenario,
    ) -> io::Result<Self> {
        let mut options: Vec<&str> = Vec::new();
        let mut faults = scenario.faults();
        if faults.any(|(.., fault)| matches!(fault, Fault::NodeCrash { keeps: true, .. })) {
            options.extend(KEEPING);
        }
        let replicated = matches!(scenario.topology, Topology::Replicated { .. });
        if replicated {
            options.extend(REPLICATED);
        }
        let mut servers = vec![RedisServer::start(program, &options)?];
        let port = servers[0].port().to_string();
        if replicated {
            options.extend(["--replicaof", "127.0.0.1", &port]);
        }
        for _ in 1..scenario.topology.servers() {
            servers.push(RedisServer::begin(program, &options)?);
        }
        for server in &mut servers {
            server.wait()?;
        }
        let node = |server: RedisServer| Node {
            port: server.port(),
            state: Mutex::new(State {
                server,
                pauses: 0,
                crashes: 0,
            }),
        };
        let fleet = Self {
            nodes: servers.into_iter().map(node).collect(),
            master: AtomicU8::new(0),
            key,
            login,
            failure: Mutex::default(),
            starts: Arc::default(),
        };
        if replicated {
            fleet.wait_for_replicas()?;
        }
        Ok(fleet)
    }

    /// Waits until all replicas report that they received a second message. The first one may have been part
    /// of their initial data, up to a second before the stream of commands starts.
    fn wait_for_replicas(&self) -> io::Result<()> {
        let began = Instant::now();
        let (master, replicas) = self.nodes.split_first().ok_or(io::ErrorKind::NotFound)?;
        let mut heard = 0;
        while heard < 2 {
            if master.reaches(replicas.len())? {
                heard += 1;
            } else if began.elapsed() > SYNC_MAX {
                let text = "the replicas do not reach the state of their master";
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
        }
        Ok(())
    }

    fn node(&self, node: u8) -> io::Result<&Node> {
        let node = self.nodes.get(usize::from(node));
        node.ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }

    /// Returns the next replica to become master.
    fn heir(&self) -> u8 {
        (self.master() + 1) % u8::try_from(self.nodes.len()).unwrap_or(u8::MAX)
    }

    fn note(&self, done: io::Result<()>) {
        if let Err(error) = done {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(error);
        }
    }

    fn begin(&self, fault: Fault) -> io::Result<()> {
        match fault {
            Fault::NodePause { node } => {
                let mut state = self.node(node)?.state();
                state.pauses += 1;
                state.server.pause()
            }
            Fault::NodeCrash { node, keeps } => {
                let mut state = self.node(node)?.state();
                state.crashes += 1;
                if state.crashes == 1 {
                    state.server.kill()?;
                }
                if keeps { Ok(()) } else { state.server.forget() }
            }
            Fault::FlushScripts { node } => self.unless_down(node, &["SCRIPT", "FLUSH"]),
            Fault::Evict { node } => self.unless_down(node, &["UNLINK", &self.key]),
            // From here on the replica receives no writes.
            Fault::FailOver => self.node(self.heir())?.order(&["REPLICAOF", "NO", "ONE"]),
            Fault::SplitBrain { .. } => {
                let heir = self.heir();
                self.node(heir)?.order(&["REPLICAOF", "NO", "ONE"])?;
                self.master.store(heir, Ordering::Relaxed);
                Ok(())
            }
            Fault::Pause { .. }
            | Fault::Suspend { .. }
            | Fault::Delay { .. }
            | Fault::Hold { .. }
            | Fault::Cut { .. }
            | Fault::Partition { .. }
            | Fault::Crash { .. }
            | Fault::Drift { .. }
            | Fault::WallClock { .. }
            | Fault::AnswerError { .. }
            | Fault::NodeClock { .. }
            | Fault::NodeDrift { .. }
            | Fault::NodeFreeze { .. } => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Sends a request unless the server is down or paused: then it has lost its data already, or would
    /// execute the request later.
    fn unless_down(&self, node: u8, words: &[&str]) -> io::Result<()> {
        let node = self.node(node)?;
        let (crashes, pauses) = {
            let state = node.state();
            (state.crashes, state.pauses)
        };
        if crashes > 0 {
            return Ok(());
        }
        if pauses > 0 {
            return Err(io::Error::other(format!(
                "{}: the server is paused",
                words.join(" ")
            )));
        }
        node.order(words)
    }

    fn end(&self, fault: Fault) -> io::Result<()> {
        match fault {
            Fault::NodePause { node } => {
                let mut state = self.node(node)?.state();
                state.pauses = state.pauses.saturating_sub(1);
                if state.pauses == 0 && state.crashes == 0 {
                    state.server.resume()?;
                }
                Ok(())
            }
            Fault::NodeCrash { node, .. } => {
                let mut state = self.node(node)?.state();
                state.crashes = state.crashes.saturating_sub(1);
                if state.crashes == 0 {
                    state.server.restart()?;
                    if state.pauses > 0 {
                        state.server.pause()?;
                    } else {
                        self.starts.watch(state.server.port());
                    }
                }
                Ok(())
            }
            Fault::FailOver => {
                let (old, new) = (self.master(), self.heir());
                self.master.store(new, Ordering::Relaxed);
                self.follow(old, new)
            }
            Fault::SplitBrain { .. } => {
                let new = self.master();
                let nodes = 0..u8::try_from(self.nodes.len()).unwrap_or(u8::MAX);
                let mut others = nodes.filter(|&node| node != new);
                others.try_for_each(|old| self.follow(old, new))
            }
            Fault::Pause { .. }
            | Fault::Suspend { .. }
            | Fault::Delay { .. }
            | Fault::Hold { .. }
            | Fault::Cut { .. }
            | Fault::Partition { .. }
            | Fault::Crash { .. }
            | Fault::Drift { .. }
            | Fault::WallClock { .. }
            | Fault::AnswerError { .. }
            | Fault::FlushScripts { .. }
            | Fault::Evict { .. }
            | Fault::NodeClock { .. }
            | Fault::NodeDrift { .. }
            | Fault::NodeFreeze { .. } => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Kills a server and restarts it as a replica.
    fn follow(&self, old: u8, new: u8) -> io::Result<()> {
        let port = self.node(new)?.port.to_string();
        let mut state = self.node(old)?.state();
        state.server.kill()?;
        state.server.forget()?;
        state
            .server
            .add_options(&["--replicaof", "127.0.0.1", &port]);
        state.server.restart()
    }
}

impl Servers for Fleet {
    fn key(&self) -> &str {
        &self.key
    }

    fn login(&self) -> &RedisConnectionInfo {
        &self.login
    }

    fn dial(&self, node: u8) -> Later<'_, io::Result<Box<dyn Transport>>> {
        Box::pin(async move { dialled("127.0.0.1", self.node(node)?.port).await })
    }

    fn master(&self) -> u8 {
        self.master.load(Ordering::Relaxed)
    }

    fn pauses(&self) -> bool {
        CAN_PAUSE
    }

    fn strike(&self, fault: Fault) {
        self.note(self.begin(fault));
    }

    fn heal(&self, fault: Fault) {
        self.note(self.end(fault));
    }

    fn gap(&self) -> Duration {
        self.starts.longest()
    }

    fn failure(&self) -> Option<io::Error> {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.take()
    }
}
