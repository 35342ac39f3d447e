//! A client process as the code under test uses it: a clock, randomness, tasks, connections.

use super::{
    machine::{Address, Machine},
    port::Port,
    scheduler::{Outside, Task, TaskHandle},
    sim_env::SimEnv,
};
use crate::scenario::chance;
#[cfg(feature = "bench")]
use crate::vocabulary::REQUESTS_PER_LEASE;
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

/// A client process. Clones are cheap and share its state.
///
/// A subject takes time, randomness, tasks and connections from its host. Time from `Instant::now` and tasks
/// from `tokio::spawn` are outside of the scenario's control, except in the plain form of a lock: see
/// [`Plain`](crate::subject::Plain).
///
/// Its connections use database 0, or the database of the URL of a running server. The channel of the keyspace events of a key is
/// `__keyspace@0__:` and the key. [`listen`](Self::listen) hears one channel, by SUBSCRIBE. A lock that needs PSUBSCRIBE,
/// SSUBSCRIBE or client tracking is played in its plain form.
#[derive(Clone)]
pub struct Host(Arc<Inner>);

struct Inner {
    id: u8,
    incarnation: u32,
    seed: u64,
    /// Timeout of a request.
    patience: Duration,
    ground: Ground,
    draws: Arc<Mutex<Draws>>,
}

/// Environment of a process.
enum Ground {
    /// A scenario, which controls time, tasks and links.
    SimEnv(SimEnv),
    /// The machine that runs this program.
    Machine(Machine),
}

/// A running task. Dropping the handle does not end the task.
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

/// Number of threads of a client process, for [`Host::worker_id`].
const THREADS: u64 = 3;

/// Draws are numbered within the current event, so that other events do not change them.
#[derive(Default)]
struct Draws {
    event: u64,
    nth: u64,
}

impl Host {
    /// Makes a process of a scenario.
    pub(super) fn in_env(id: u8, seed: u64, patience: Duration, env: SimEnv) -> Self {
        let incarnation = env.spawner.incarnation(id);
        let ground = Ground::SimEnv(env);
        Self::new(id, incarnation, seed, patience, ground, Arc::default())
    }

    /// Makes a process on the machine that runs this program. Its draws depend on the seed.
    #[cfg(feature = "bench")]
    pub(super) fn on_machine(id: u8, seed: u64, lease: Duration, machine: Machine) -> Self {
        let ground = Ground::Machine(machine);
        let patience = lease / REQUESTS_PER_LEASE;
        Self::new(id, 0, seed, patience, ground, Arc::default())
    }

    /// Returns the same process on another machine, for code that runs there.
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

    /// Returns the number of the process within the scenario.
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

    /// Converts an instant of tokio's clock to the clock of the process.
    ///
    /// # Panics
    /// In virtual time, which is independent of tokio's clock, unless the lock is played in its plain form:
    /// see [`Plain`](crate::subject::Plain).
    #[must_use]
    pub fn time_of(&self, instant: Instant) -> Duration {
        match &self.0.ground {
            Ground::SimEnv(env) => env.time_of(instant).expect(
                "tokio's clock does not follow virtual time: take time from the host, or play the lock in its plain form",
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

    /// Waits for a future, up to a limit on the clock of the process. Returns `None` if the limit is over first; the future is
    /// dropped then.
    pub async fn timeout<T>(&self, limit: Duration, future: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            outcome = future => Some(outcome),
            () = self.sleep(limit) => None,
        }
    }

    /// Sleeps for a duration on the clock of the process.
    pub fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send + use<> {
        self.sleep_until(self.now() + duration)
    }

    /// Draws 128 bits. Two draws of a run are equal only by chance.
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

    /// Draws a token of 32 hexadecimal digits.
    #[must_use]
    pub fn random_token(&self) -> String {
        self.random()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    /// Starts a background task of the process, which ends with the process. Returns false if the process has
    /// crashed.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> bool {
        self.spawn_task(Box::pin(task)).is_some()
    }

    /// Reads the wall clock of the process, as time since 1970.
    #[must_use]
    pub fn wall_clock(&self) -> Duration {
        match &self.0.ground {
            Ground::SimEnv(env) => env.wall_clock(),
            Ground::Machine(machine) => machine.wall_clock(),
        }
    }

    /// Returns the number of the thread on which the caller runs, as in a runtime with several threads: it
    /// may change at every await.
    #[must_use]
    pub fn worker_id(&self) -> u64 {
        match &self.0.ground {
            Ground::SimEnv(env) => 1 + env.spawner.thread(THREADS),
            Ground::Machine(machine) => machine.thread(),
        }
    }

    /// Returns the process id on its machine. Processes of different machines may share one.
    #[must_use]
    pub fn process_id(&self) -> u32 {
        1 + self.0.incarnation
    }

    /// Returns the number of servers to which the process connects: 1 for a master with replicas. A lock on several nodes, as
    /// Redlock, takes the number of its servers from here.
    #[must_use]
    pub fn nodes(&self) -> u8 {
        match &self.0.ground {
            Ground::SimEnv(env) => env.network.addresses(),
            Ground::Machine(machine) => machine.addresses(),
        }
    }

    /// Returns the URL of a server, numbered from 0, for clients that connect by themselves.
    ///
    /// # Errors
    /// If there is no server of this number, or if the links of the simulation have no address. Code that
    /// connects by itself is played in its plain form, see [`Plain`](crate::subject::Plain).
    pub fn url(&self, node: u8) -> io::Result<String> {
        match &self.0.ground {
            Ground::SimEnv(_) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this form of a lock has no sockets; play it in its plain form",
            )),
            Ground::Machine(machine) => Ok(machine.address(node)?.to_string()),
        }
    }

    /// Returns the timeout of a request. Some scenarios draw it, in others it is a share of the lease.
    #[must_use]
    pub fn request_timeout(&self) -> Duration {
        self.0.patience
    }

    /// Connects once. The caller polls the driver and applies timeouts.
    pub(super) async fn dial(&self, node: u8) -> RedisResult<(MultiplexedConnection, Task)> {
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_connection_timeout(None);
        self.connect_as(self.login(), node, config).await
    }

    /// Connects like [`dial`](Self::dial), for a caller that receives pushes.
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

    /// Returns the scenario's environment, if the process belongs to a scenario.
    #[cfg(unix)]
    pub(super) fn env(&self) -> Option<&SimEnv> {
        match &self.0.ground {
            Ground::SimEnv(env) => Some(env),
            Ground::Machine(_) => None,
        }
    }

    /// Opens a port on the machine that leads to a server over the links of this process, for code that runs
    /// outside of the simulation.
    pub(crate) async fn port_to(&self, node: u8) -> io::Result<Port> {
        match &self.0.ground {
            Ground::SimEnv(env) => env.port_to(self.0.id, node).await,
            Ground::Machine(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Adjusts the number of tasks that run outside of the scheduler: such tasks count 1, tasks in the
    /// scheduler that represent them count -1.
    pub(super) fn has_elsewhere(&self, tasks: isize) {
        match &self.0.ground {
            Ground::SimEnv(env) => env.spawner.has_elsewhere(self.0.id, tasks),
            Ground::Machine(_) => {}
        }
    }

    /// Makes pauses of this process apply to something that runs outside of the simulation.
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

    /// Returns the true time at which the process's clock shows `local`.
    pub(crate) fn true_time(&self, local: Duration) -> Duration {
        match &self.0.ground {
            Ground::SimEnv(env) => env.clock.true_time(local),
            Ground::Machine(machine) => machine.true_time(local),
        }
    }
}
