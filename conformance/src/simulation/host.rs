//! A client process as the code under test sees it: a clock, randomness, tasks, connections.

use super::{
    chance,
    connection::Connection,
    machine::{Address, Machine},
    port::Port,
    scheduler::{Outside, Task, TaskHandle},
    sim_env::SimEnv,
};
#[cfg(feature = "bench")]
use crate::history::REQUESTS_PER_LEASE;
use redis::{
    AsyncConnectionConfig, ProtocolVersion, PushInfo, RedisConnectionInfo, RedisResult,
    aio::MultiplexedConnection,
};
use std::{
    future::Future,
    io,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::{
    net::TcpStream,
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    task::AbortHandle,
    time::Instant,
};

/// A client process. Cheap to clone; all clones are the same process.
///
/// A subject takes time, randomness, tasks and connections from here. What it takes from
/// elsewhere (`Instant::now`, `tokio::spawn`) is not under the scenario's control, unless it is played in its
/// plain form: see [`Plain`](crate::subject::Plain).
#[derive(Clone)]
pub struct Host(Arc<Inner>);

struct Inner {
    id: u8,
    incarnation: u32,
    seed: u64,
    /// How long a request waits for its reply.
    patience: Duration,
    ground: Ground,
    draws: Arc<Mutex<Draws>>,
}

/// What a process stands on.
enum Ground {
    /// A scenario, which decides on time, tasks and links.
    SimEnv(SimEnv),
    /// The machine that we run on.
    Machine(Machine),
}

/// A task that runs, wherever that is. Dropping the handle does nothing.
pub(crate) enum Running {
    Scheduled(TaskHandle),
    Spawned(AbortHandle),
}

impl Running {
    /// Ends the task.
    pub(crate) fn abort(&self) {
        match self {
            Self::Scheduled(task) => task.abort(),
            Self::Spawned(task) => task.abort(),
        }
    }
}

/// The threads of a client process, as [`Host::worker_id`] pretends.
const THREADS: u64 = 3;

/// Draws are numbered from the event that is under way, so that other events do not matter.
#[derive(Default)]
struct Draws {
    event: u64,
    nth: u64,
}

impl Host {
    /// A process of a scenario.
    pub(super) fn in_env(id: u8, seed: u64, patience: Duration, env: SimEnv) -> Self {
        let incarnation = env.spawner.incarnation(id);
        let ground = Ground::SimEnv(env);
        Self::new(id, incarnation, seed, patience, ground, Arc::default())
    }

    /// A process on the machine that we run on. Its draws hang on the seed.
    #[cfg(feature = "bench")]
    pub(super) fn on_machine(id: u8, seed: u64, lease: Duration, machine: Machine) -> Self {
        let ground = Ground::Machine(machine);
        let patience = lease / REQUESTS_PER_LEASE;
        Self::new(id, 0, seed, patience, ground, Arc::default())
    }

    /// The same process on a machine of its own: how code sees it that is led there.
    pub(crate) fn moved_to(&self, machine: Machine) -> Self {
        let Inner {
            id,
            incarnation,
            seed,
            patience,
            ..
        } = *self.0;
        let (ground, draws) = (Ground::Machine(machine), Arc::clone(&self.0.draws));
        Self::new(id, incarnation, seed, patience, ground, draws)
    }

    fn new(
        id: u8,
        incarnation: u32,
        seed: u64,
        patience: Duration,
        ground: Ground,
        draws: Arc<Mutex<Draws>>,
    ) -> Self {
        Self(Arc::new(Inner {
            id,
            incarnation,
            seed,
            patience,
            ground,
            draws,
        }))
    }

    /// The number of the process within the scenario.
    #[must_use]
    pub fn id(&self) -> u8 {
        self.0.id
    }

    /// Reads the monotonic clock of the process. It runs on through a pause.
    #[must_use]
    pub fn now(&self) -> Duration {
        match &self.0.ground {
            Ground::SimEnv(env) => env.now(),
            Ground::Machine(machine) => machine.now(),
        }
    }

    /// What the clock of the process shows at an instant of tokio's.
    ///
    /// # Panics
    /// In virtual time, which is not tokio's, unless the lock is played in its plain form: see
    /// [`Plain`](crate::subject::Plain).
    #[must_use]
    pub fn time_of(&self, instant: Instant) -> Duration {
        match &self.0.ground {
            Ground::SimEnv(env) => env.time_of(instant).expect(
                "tokio's clock is not the simulation's: take time from the host, or play the lock in its plain form",
            ),
            Ground::Machine(machine) => machine.time_of(instant),
        }
    }

    /// Sleeps until the process's clock shows `deadline`.
    pub fn sleep_until(&self, deadline: Duration) -> impl Future<Output = ()> + Send + use<> {
        match &self.0.ground {
            Ground::SimEnv(env) => env.sleep_until(deadline),
            Ground::Machine(machine) => machine.sleep_until(deadline),
        }
    }

    /// Waits for a future, but no longer than that on the process's clock.
    pub(super) async fn timeout<T>(
        &self,
        limit: Duration,
        future: impl Future<Output = T>,
    ) -> Option<T> {
        tokio::select! {
            biased;
            outcome = future => Some(outcome),
            () = self.sleep(limit) => None,
        }
    }

    /// Sleeps for a duration of the process's clock.
    pub fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send + use<> {
        self.sleep_until(self.now() + duration)
    }

    /// Draws 128 bits; no two draws of a run are equal but by chance.
    #[must_use]
    pub fn random(&self) -> [u8; 16] {
        let mut draws = self.0.draws.lock().unwrap_or_else(PoisonError::into_inner);
        draws.nth += 1;
        let half = |which| {
            let Inner {
                seed,
                id,
                incarnation,
                ..
            } = *self.0;
            let who = u64::from(id) << 32 | u64::from(incarnation);
            chance::draw([seed, who, draws.event, draws.nth, which]).to_be_bytes()
        };
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&half(0));
        bytes[8..].copy_from_slice(&half(1));
        bytes
    }

    /// Draws a token, 32 hexadecimal digits.
    #[must_use]
    pub fn random_token(&self) -> String {
        self.random()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    /// Starts a background task of the process; it dies with it. Returns false if it is dead.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> bool {
        self.spawn_task(Box::pin(task)).is_some()
    }

    /// Reads the wall clock of the process: the time since 1970, as far as it knows.
    #[must_use]
    pub fn wall_clock(&self) -> Duration {
        match &self.0.ground {
            Ground::SimEnv(env) => env.wall_clock(),
            Ground::Machine(machine) => machine.wall_clock(),
        }
    }

    /// The thread on which the caller runs, as a runtime with several threads numbers them: after an
    /// await it may be another one.
    #[must_use]
    pub fn worker_id(&self) -> u64 {
        match &self.0.ground {
            Ground::SimEnv(env) => 1 + env.spawner.thread(THREADS),
            Ground::Machine(machine) => machine.thread(),
        }
    }

    /// The number of the process on its machine. Processes of different machines may have the same.
    #[must_use]
    pub fn process_id(&self) -> u32 {
        1 + self.0.incarnation
    }

    /// How many servers there are to connect to.
    #[must_use]
    pub fn nodes(&self) -> u8 {
        match &self.0.ground {
            Ground::SimEnv(env) => env.network.addresses(),
            Ground::Machine(machine) => machine.addresses(),
        }
    }

    /// The URL of a server, numbered from 0, for clients that dial by themselves.
    ///
    /// # Errors
    /// If there is none of this number, or none at all: the links of a simulation have no address. Whoever
    /// dials by itself is played in its plain form, see [`Plain`](crate::subject::Plain).
    pub fn url(&self, node: u8) -> io::Result<String> {
        match &self.0.ground {
            Ground::SimEnv(_) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "there are no sockets in this form of a simulation; play the lock in its plain form",
            )),
            Ground::Machine(machine) => Ok(machine.address(node)?.to_string()),
        }
    }

    /// Opens a connection to the first server that dials again when it broke or a reply timed out.
    /// Where there are replicas, it leads to the master.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub async fn connection(&self) -> RedisResult<Connection> {
        self.connect_to(0).await
    }

    /// The same to another server, numbered from 0.
    ///
    /// # Errors
    /// If the server cannot be reached, or there is none of this number.
    pub async fn connect_to(&self, node: u8) -> RedisResult<Connection> {
        self.patient_connection(node, self.request_timeout()).await
    }

    /// The same with another limit of how long a reply is waited for.
    ///
    /// # Errors
    /// If the server cannot be reached, or there is none of this number.
    pub async fn patient_connection(
        &self,
        node: u8,
        patience: Duration,
    ) -> RedisResult<Connection> {
        Connection::open(self.clone(), node, patience).await
    }

    /// How long a request of this process waits for its reply. Some scenarios draw it, in others it is a share of the lease.
    #[must_use]
    pub fn request_timeout(&self) -> Duration {
        self.0.patience
    }

    /// Dials once. The driver must be polled for anything to happen, and the caller keeps the time limits.
    pub(super) async fn dial(&self, node: u8) -> RedisResult<(MultiplexedConnection, Task)> {
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_connection_timeout(None);
        self.connect_as(self.login(), node, config).await
    }

    /// The same for a caller that takes pushes.
    pub(crate) async fn dial_resp3(
        &self,
        node: u8,
    ) -> RedisResult<(MultiplexedConnection, Task, UnboundedReceiver<PushInfo>)> {
        let (sender, pushes) = unbounded_channel();
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_connection_timeout(None)
            .set_push_sender(sender);
        let login = self.login().clone().set_protocol(ProtocolVersion::RESP3);
        let (connection, driver) = self.connect_as(&login, node, config).await?;
        Ok((connection, driver, pushes))
    }

    pub(super) fn login(&self) -> &RedisConnectionInfo {
        match &self.0.ground {
            Ground::SimEnv(env) => env.network.servers.login(),
            Ground::Machine(machine) => machine.login(),
        }
    }

    async fn connect_as(
        &self,
        login: &RedisConnectionInfo,
        node: u8,
        config: AsyncConnectionConfig,
    ) -> RedisResult<(MultiplexedConnection, Task)> {
        match &self.0.ground {
            Ground::SimEnv(env) => {
                let end = env.wire(self.0.id, node).await?;
                let (connection, driver) =
                    MultiplexedConnection::new_with_config(login, end, config).await?;
                Ok((connection, Box::pin(driver)))
            }
            Ground::Machine(machine) => match machine.address(node)? {
                Address::Tcp(host, port) => {
                    let stream = TcpStream::connect((&**host, *port)).await?;
                    stream.set_nodelay(true)?;
                    let (connection, driver) =
                        MultiplexedConnection::new_with_config(login, stream, config).await?;
                    Ok((connection, Box::pin(driver)))
                }
                #[cfg(unix)]
                Address::Unix(path) => {
                    let stream = UnixStream::connect(path).await?;
                    let (connection, driver) =
                        MultiplexedConnection::new_with_config(login, stream, config).await?;
                    Ok((connection, Box::pin(driver)))
                }
                #[cfg(not(unix))]
                Address::Unix(_) => Err(io::Error::from(io::ErrorKind::Unsupported).into()),
            },
        }
    }

    /// The scenario that it is in, if it stands there.
    #[cfg(unix)]
    pub(super) fn env(&self) -> Option<&SimEnv> {
        match &self.0.ground {
            Ground::SimEnv(env) => Some(env),
            Ground::Machine(_) => None,
        }
    }

    /// Opens a port of this machine that leads to a server over the links of this process: for code
    /// of it that runs outside of the simulation.
    pub(crate) async fn port_to(&self, node: u8) -> io::Result<Port> {
        match &self.0.ground {
            Ground::SimEnv(env) => env.port_to(self.0.id, node).await,
            Ground::Machine(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Says how many tasks it has elsewhere than in the scheduler, less those that it has there for their sake.
    pub(super) fn has_elsewhere(&self, tasks: isize) {
        match &self.0.ground {
            Ground::SimEnv(env) => env.spawner.has_elsewhere(self.0.id, tasks),
            Ground::Machine(_) => {}
        }
    }

    /// What belongs to this process and runs outside of the simulation is paused with it.
    pub(crate) fn attach(&self, outside: Weak<dyn Outside>) {
        match &self.0.ground {
            Ground::SimEnv(env) => env.spawner.attach(self.0.id, outside),
            Ground::Machine(_) => {} // never paused
        }
    }

    pub(crate) fn spawn_task(&self, task: Task) -> Option<Running> {
        match &self.0.ground {
            Ground::SimEnv(env) => {
                let task = env.spawner.spawn_in(self.0.id, self.0.incarnation, task)?;
                Some(Running::Scheduled(task))
            }
            Ground::Machine(machine) => Some(Running::Spawned(machine.spawn(task))),
        }
    }

    pub(crate) fn begin_event(&self, event: u32) {
        let mut draws = self.0.draws.lock().unwrap_or_else(PoisonError::into_inner);
        *draws = Draws {
            event: u64::from(event),
            nth: 0,
        };
    }

    /// The true time at which the process's clock shows `local`.
    pub(crate) fn true_time(&self, local: Duration) -> Duration {
        match &self.0.ground {
            Ground::SimEnv(env) => env.clock.true_time(local),
            Ground::Machine(machine) => machine.true_time(local),
        }
    }
}
