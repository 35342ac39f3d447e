//! A server: how it is built, reached and ended.

use crate::control::Control;
use crate::control_queue::{ControlMode, ControlQueue};
use crate::disk::Persistence;
use crate::engine::{Config, UnixMicros, UnixMillis};
use crate::fault::{MessageRule, Rule};
use crate::fault_guard::FaultGuard;
use crate::history::HISTORY_MAX;
use crate::listen::{ListenConfig, Listening};
use crate::net::{Driver, DriverTask, InProcess};
use crate::node::SharedNode;
use crate::node_handle::{Clock, EPOCH, NodeHandle, TimeSource, TrueTime};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// How a server is to be. Every setting has a default that works.
#[derive(Clone, Debug)]
pub struct ServerBuilder {
    pub(crate) config: Config,
    pub(crate) wanted: ListenConfig,
    clock: Clock,
    epoch: UnixMicros,
    /// What an external clock follows.
    source: Option<Arc<dyn TimeSource>>,
    time: Option<Arc<TrueTime>>,
    history_max: usize,
    persistence: Persistence,
    /// Whether the ordinary ports take orders, or the control port, if this is one.
    control_mode: ControlMode,
    control_port: Option<u16>,
}

impl Default for ServerBuilder {
    fn default() -> Self {
        Self {
            config: Config::default(),
            wanted: ListenConfig::default(),
            clock: Clock::System,
            epoch: EPOCH,
            source: None,
            time: None,
            history_max: 0,
            persistence: Persistence::None,
            control_mode: ControlMode::Closed,
            control_port: None,
        }
    }
}

impl ServerBuilder {
    /// The clock that everything on the server follows. [`Clock::System`] unless set.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Follows the time of a simulation; the clock is then [`Clock::External`]. Whoever has a scheduler and timers
    /// of its own also wants to poll the timer of the server: see [`build`](Self::build).
    #[must_use]
    pub fn time_source(mut self, source: Arc<dyn TimeSource>) -> Self {
        self.clock = Clock::External;
        self.source = Some(source);
        self
    }

    /// What a manual, tokio or external clock shows at the start. 2024-01-01 unless set.
    #[must_use]
    pub fn starting_at(mut self, time: UnixMillis) -> Self {
        self.epoch = time.micros();
        self
    }

    /// Shares the clock of another server: [`ServerBuilder::clock`] and
    /// [`ServerBuilder::starting_at`] do not count then. When a manual clock is moved through any of
    /// the servers that share it, the deadlines of all of them are met in order, those of one instant
    /// in the order in which the servers were made. Each server may still jump, drift and freeze
    /// by itself. The others go on when one of them ends.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// # use redis::AsyncTypedCommands;
    /// use redouble::{Clock, Server};
    /// use std::time::Duration;
    ///
    /// let first = Server::builder().clock(Clock::Manual).start().await?;
    /// let second = Server::builder().beside(&first).start().await?;
    /// second.connection().await?.set_ex("lease", "mine", 30).await?;
    /// second.clock().jump(Duration::from_secs(5)); // its own clock is ahead
    /// first.clock().advance(Duration::from_secs(26));
    /// assert!(!second.exists("lease"));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn beside(mut self, other: &Server) -> Self {
        self.time = Some(other.handle.time.clone());
        self
    }

    /// The seed of all randomness on the server. 0 unless set.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.config.seed = seed;
        self
    }

    /// The password that clients have to give (`requirepass`). None unless set.
    #[must_use]
    pub fn requirepass(mut self, password: impl Into<Vec<u8>>) -> Self {
        self.config.requirepass = password.into();
        self
    }

    /// The number of databases. 16 unless set; at least 1.
    #[must_use]
    pub fn databases(mut self, count: usize) -> Self {
        self.config.databases = count.max(1);
        self
    }

    /// Keeps the latest `max` commands for [`Server::history`]. 0, the default, keeps none;
    /// [`crate::HISTORY_MAX`] is plenty.
    #[must_use]
    pub fn history(mut self, max: usize) -> Self {
        self.history_max = max;
        self
    }

    /// What survives a [crash](Server::crash). Nothing unless set.
    #[must_use]
    pub fn persistence(mut self, persistence: Persistence) -> Self {
        self.persistence = persistence;
        self
    }

    /// Lets clients control the server by `REDOUBLE.CLOCK`, `REDOUBLE.FAULT`, `REDOUBLE.NODE`,
    /// `REDOUBLE.HISTORY` and `REDOUBLE.RESET`, as a test in Rust does by methods; each has HELP.
    /// Off unless set, and then those are refused. They are no commands of Redis: no list shows them.
    /// A history is kept from now on, of [`crate::HISTORY_MAX`] commands unless
    /// [`ServerBuilder::history`] says otherwise.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// use redis::AsyncTypedCommands;
    ///
    /// let server = redouble::Server::builder().control(true).start().await?;
    /// let mut redis = server.connection().await?; // or a client of any other language
    /// redis.set_ex("lease", "mine", 30).await?;
    /// redis::cmd("REDOUBLE.CLOCK").arg("JUMP").arg(31_000).exec_async(&mut redis).await?;
    /// assert_eq!(redis.get("lease").await?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn control(mut self, on: bool) -> Self {
        self.control_mode = if on {
            ControlMode::Open
        } else {
            ControlMode::Closed
        };
        self
    }

    /// The same at a port of its own alone, 0 for a free one: [`Server::control_url`]. Whatever is
    /// done to the server, that port answers.
    #[must_use]
    pub fn control_port(mut self, port: u16) -> Self {
        self.control_port = Some(port);
        self
    }

    /// Takes away what is common to several servers: their control port, which has no one to speak to
    /// yet.
    pub(crate) fn take_control_port(&mut self) -> io::Result<Option<Server>> {
        let Some(port) = self.control_port.take() else {
            return Ok(None);
        };
        self.keep_history();
        let mut builder = Self::default().bind(self.wanted.ip()).port(port);
        builder
            .config
            .requirepass
            .clone_from(&self.config.requirepass);
        builder.config.protected_mode = self.config.protected_mode;
        builder.control_mode = ControlMode::Alone;
        builder.make().map(Some)
    }

    /// Who may give orders at its ports.
    pub(crate) fn control_mode(mut self, control_mode: ControlMode) -> Self {
        self.control_mode = control_mode;
        self
    }

    fn keep_history(&mut self) {
        if self.history_max == 0 {
            self.history_max = HISTORY_MAX;
        }
    }

    /// The seed of the server at this place among several.
    pub(crate) fn seed_of(mut self, place: usize) -> Self {
        let seed = self.config.seed;
        self.config.seed = seed.wrapping_add((place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        self
    }

    /// The parameters behind all this, and the bounds that have no method of their own.
    #[must_use]
    pub fn configure(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    /// Starts the server. Its timer runs on the current tokio runtime; sockets are served by a
    /// thread of the server's own once somebody asks for its address.
    ///
    /// # Errors
    /// When the port cannot be bound.
    ///
    /// # Panics
    /// Outside of a tokio runtime: [`blocking::Server`](crate::blocking::Server) needs none.
    ///
    /// # Cancel safety
    /// It never waits; it is async so that it is called inside a runtime.
    #[expect(clippy::unused_async, reason = "makes the compiler ask for a runtime")]
    pub async fn start(self) -> io::Result<Server> {
        let (server, driver) = self.build()?;
        server.own_driver(driver.spawn());
        Ok(server)
    }

    /// Makes the server and leaves its timer to the caller, who polls it: for simulations with a
    /// scheduler of their own.
    ///
    /// # Errors
    /// When the port cannot be bound, or for [`Clock::Tokio`] outside of a runtime.
    pub fn build(self) -> io::Result<(Server, Driver)> {
        let server = self.make()?;
        let driver = Driver::new(server.handle.clone());
        Ok((server, driver))
    }

    pub(crate) fn make(mut self) -> io::Result<Server> {
        let control = self.take_control_port()?;
        if self.control_mode == ControlMode::Open {
            self.keep_history();
        }
        let time = match self.time {
            Some(time) => time,
            None => {
                let source = crate::net::source(self.clock, self.source, self.epoch)?;
                Arc::new(TrueTime::new(source))
            }
        };
        let clock = time.source.mode();
        // Time that waits for nobody times out every request on a real socket: most such servers need none.
        let is_lazy = matches!(clock, Clock::Tokio | Clock::External);
        let listening = self.wanted.bind(is_lazy, &mut self.config)?;
        let is_known = listening.is_known;
        let shared = SharedNode::new(self.config, self.history_max, time.source.now())
            .with_orders(ControlQueue::at(self.control_mode));
        if self.persistence != Persistence::None {
            shared.node().persist(self.persistence);
        }
        let server = Server {
            handle: NodeHandle::new(shared, time),
            listening: Mutex::new(listening),
            driver: Mutex::new(None),
            is_timed_by_sockets: clock == Clock::System,
            control: control.map(Box::new),
        };
        let orders = Control::alone(&server.handle);
        if self.control_mode == ControlMode::Open {
            server.handle.set_control(orders.clone());
        }
        if let Some(control) = &server.control {
            control.handle.set_control(orders);
            control.serve()?;
        }
        if is_known {
            server.serve()?;
        }
        Ok(server)
    }
}

/// A Redis double in this process. Dropping it ends its connections, its thread and its timer, and
/// frees its port.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use redis::AsyncTypedCommands;
///
/// let server = redouble::Server::start().await?;
/// let client = redis::Client::open(server.url())?;
/// let mut connection = client.get_multiplexed_async_connection().await?;
/// connection.set("k", "v").await?;
/// assert_eq!(server.get("k").as_deref(), Some(&b"v"[..]));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Server {
    pub(crate) handle: Arc<NodeHandle>,
    pub(crate) listening: Mutex<Listening>,
    driver: Mutex<Option<DriverTask>>,
    pub(crate) is_timed_by_sockets: bool,
    /// Serves the control port, if there is one.
    control: Option<Box<Self>>,
}

impl Server {
    /// Starts a server with the wall clock on a free port.
    ///
    /// # Errors
    /// When no port can be bound.
    ///
    /// # Panics
    /// Outside of a tokio runtime, as [`ServerBuilder::start`].
    pub async fn start() -> io::Result<Self> {
        ServerBuilder::default().start().await
    }

    /// A server with other settings.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// A connection without a socket: bytes of RESP go in and come out. Works under a paused clock.
    pub fn connect(&self) -> InProcess {
        InProcess::open(self.handle.clone(), None)
    }

    /// The same from an address of the caller's choice, as CLIENT LIST and the conditions of faults
    /// see it: a host of a simulation, say `"worker-1:5000"`. An IP address is treated as one.
    pub fn connect_from(&self, addr: &str) -> InProcess {
        InProcess::open(self.handle.clone(), Some(addr))
    }

    /// A connection of the `redis` crate without a socket.
    ///
    /// # Errors
    /// When the greeting fails, because the server wants a password.
    #[cfg(feature = "redis")]
    pub async fn connection(&self) -> redis::RedisResult<crate::Connection> {
        self.connection_with(
            redis::RedisConnectionInfo::default(),
            redis::AsyncConnectionConfig::new(),
        )
        .await
    }

    /// The same with a database, a password, RESP3, other timeouts.
    ///
    /// # Errors
    /// When the greeting fails.
    #[cfg(feature = "redis")]
    pub async fn connection_with(
        &self,
        info: redis::RedisConnectionInfo,
        config: redis::AsyncConnectionConfig,
    ) -> redis::RedisResult<crate::Connection> {
        let spawn: crate::Spawn = Arc::new(|driver| drop(tokio::spawn(driver)));
        self.connection_spawned_by(info, config, spawn).await
    }

    /// A connection of the `redis` crate from an address of the caller's choice, which it keeps when
    /// it dials anew: [`Server::connect_from`].
    ///
    /// # Errors
    /// When the greeting fails.
    #[cfg(feature = "redis")]
    pub async fn connection_from(&self, addr: &str) -> redis::RedisResult<crate::Connection> {
        let spawn: crate::Spawn = Arc::new(|driver| drop(tokio::spawn(driver)));
        let info = redis::RedisConnectionInfo::default();
        let config = redis::AsyncConnectionConfig::new();
        crate::Connection::open(self.handle.clone(), Some(addr), info, config, spawn).await
    }

    /// The same with a scheduler of the caller's own for the connection's driver.
    ///
    /// # Errors
    /// When the greeting fails.
    #[cfg(feature = "redis")]
    pub async fn connection_spawned_by(
        &self,
        info: redis::RedisConnectionInfo,
        config: redis::AsyncConnectionConfig,
        spawn: crate::Spawn,
    ) -> redis::RedisResult<crate::Connection> {
        crate::Connection::open(self.handle.clone(), None, info, config, spawn).await
    }

    /// The URL of its control port ([`ServerBuilder::control_port`]), if there is one.
    pub fn control_url(&self) -> Option<String> {
        self.control.as_ref().map(|control| control.url())
    }

    /// Installs a fault; it goes away with the guard.
    pub fn inject<F>(&self, rule: Rule<F>) -> FaultGuard
    where
        Rule<F>: MessageRule + 'static,
    {
        self.inject_rule(rule)
    }

    /// Installs a rule of the caller's own, or one that [`fault::parse`](crate::fault::parse) made.
    pub fn inject_rule(&self, rule: impl Into<Box<dyn MessageRule>>) -> FaultGuard {
        FaultGuard::install(self.handle.clone(), rule.into())
    }

    /// Its port; for a server that has none yet one that stands for its place among several.
    pub(crate) fn port_or(&self, place: usize) -> u16 {
        let port = self.handle.shared.node().engine.state().config.port;
        if port == 0 {
            6379_u16.saturating_add(place as u16)
        } else {
            port
        }
    }

    /// Whether it has a port that others may know of.
    pub(crate) fn has_port(&self) -> bool {
        self.handle.shared.node().engine.state().config.port != 0
    }

    /// Whether the server has ended, by SHUTDOWN.
    pub fn is_shut_down(&self) -> bool {
        self.handle.shared.is_down()
    }

    pub(crate) fn own_driver(&self, driver: DriverTask) {
        *self.driver.lock().unwrap_or_else(PoisonError::into_inner) = Some(driver);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.handle.shut_down();
    }
}
