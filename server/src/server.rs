//! A server: its settings, its start, its connections, its end.

use crate::control::Control;
use crate::control_queue::{ControlMode, ControlQueue};
use crate::disk::Persistence;
use crate::engine::AppendFsync;
use crate::engine::{Config, Profile, UnixMicros, UnixMillis};
use crate::error::StartError;
use crate::fault::{MessageRule, Rule};
use crate::fault_guard::FaultGuard;
use crate::history::HISTORY_MAX;
use crate::listen::{ListenConfig, Listening};
use crate::net::{Driver, DriverTask, InProcess};
use crate::node::SharedNode;
use crate::node_handle::{Clock, ClockKind, NodeHandle, TrueTime};
use crate::storage::Folder;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Settings of a server: [`Server::builder`]. Every setting has a default that works.
///
/// ```
/// use redouble::{Clock, Server};
///
/// let builder = Server::builder()
///     .clock(Clock::Manual) // time moves when the test says so
///     .history(100) // for assertions about requests
///     .requirepass("secret");
/// let server = builder.start_blocking()?;
/// server.set("greeting", "hello");
/// # Ok::<(), redouble::StartError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it starts a server"]
pub struct ServerBuilder {
    pub(crate) config: Config,
    pub(crate) listen: ListenConfig,
    clock: Clock,
    epoch: UnixMicros,
    /// The time of the servers beside this one, in the place of `clock` and `epoch`.
    time: Option<Arc<TrueTime>>,
    history_max: usize,
    /// The folder of RDB files.
    dir: Option<PathBuf>,
    /// The ports of this server that take `REDOUBLE.*` commands.
    control_mode: ControlMode,
    control_port: Option<u16>,
}

impl Default for ServerBuilder {
    fn default() -> Self {
        Self {
            config: Config::default(),
            listen: ListenConfig::default(),
            clock: Clock::System,
            epoch: Clock::START.micros(),
            time: None,
            history_max: 0,
            dir: None,
            control_mode: ControlMode::Closed,
            control_port: None,
        }
    }
}

impl ServerBuilder {
    /// The clock that everything on the server follows. [`Clock::System`] unless set.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// The time that a manual, tokio or external clock shows at the start, as a
    /// [`SystemTime`](std::time::SystemTime) or as milliseconds since 1970. [`Clock::START`] unless set; a system
    /// clock always shows the present.
    ///
    /// ```
    /// use redouble::{Clock, Server};
    /// use std::time::{Duration, UNIX_EPOCH};
    ///
    /// let leap_day = UNIX_EPOCH + Duration::from_secs(1_709_164_800);
    /// let server = Server::builder().clock(Clock::Manual).starting_at(leap_day).start_blocking()?;
    /// assert_eq!(server.now().millis().0, 1_709_164_800_000);
    /// # Ok::<(), redouble::StartError>(())
    /// ```
    pub fn starting_at(mut self, time: impl Into<UnixMillis>) -> Self {
        self.epoch = time.into().micros();
        self
    }

    /// Shares the clock of another server, in the place of what [`ServerBuilder::clock`] and
    /// [`ServerBuilder::starting_at`] have set. If a test moves a manual clock through any of
    /// the servers that share it, the deadlines of all of them are met in order; deadlines of one instant
    /// are met in the order in which the servers were built. The clock of each server can still jump,
    /// drift and freeze by itself. The clock outlives each single server.
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
    pub fn beside(mut self, other: &Server) -> Self {
        self.time = Some(other.handle.time.clone());
        self
    }

    /// The seed of all randomness on the server: SRANDMEMBER, eviction, run ids, faults with a
    /// probability. 0 unless set, so two runs draw the same.
    pub fn seed(mut self, seed: u64) -> Self {
        self.config.seed = seed;
        self
    }

    /// The password that clients have to give (`requirepass`). None unless set.
    pub fn requirepass(mut self, password: impl Into<Vec<u8>>) -> Self {
        self.config.requirepass = password.into();
        self
    }

    /// The server to imitate: a release of Redis or of Valkey. [`Profile::REDIS_7_0`] unless set.
    ///
    /// ```
    /// use redouble::{Profile, Server};
    ///
    /// let server = Server::builder().compat(Profile::REDIS_7_2).start_blocking()?;
    /// server.command(["CLIENT", "SETINFO", "LIB-NAME", "mine"])?; // new in 7.2
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn compat(mut self, profile: Profile) -> Self {
        self.config.profile = profile;
        self
    }

    /// The number of databases. 16 unless set; at least 1.
    pub fn databases(mut self, count: usize) -> Self {
        self.config.databases = count.max(1);
        self
    }

    /// Keeps the latest `max` commands for [`Server::history`]. 0, the default, keeps none;
    /// [`crate::HISTORY_MAX`] is plenty.
    pub fn history(mut self, max: usize) -> Self {
        self.history_max = max;
        self
    }

    /// The part of the data that survives a [crash](Server::crash). Nothing unless set.
    pub fn persistence(mut self, persistence: Persistence) -> Self {
        self.config.keep_writes(match persistence {
            Persistence::None => None,
            Persistence::EverySecond => Some(AppendFsync::EverySecond),
            Persistence::Always => Some(AppendFsync::Always),
        });
        self
    }

    /// Lets SAVE and BGSAVE write an RDB file into this folder, and loads the file at the start if it is there. The file
    /// is the one that Redis 7.0 writes and reads; its name is `dump.rdb` unless [`ServerBuilder::dbfilename`] says
    /// otherwise. Without a folder, which is the default, the server writes no files. The nodes of a deployment write to
    /// the same file.
    ///
    /// ```
    /// let folder = std::env::temp_dir().join(format!("redouble-doc-{}", std::process::id()));
    /// std::fs::create_dir_all(&folder)?;
    /// let server = redouble::Server::builder().dir(&folder).start_blocking()?;
    /// server.set("k", "v");
    /// server.command(&["SAVE"])?;
    /// let again = redouble::Server::builder().dir(&folder).start_blocking()?;
    /// again.assert_get("k", "v");
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.dir = Some(folder.into());
        self
    }

    /// The name of the file in the folder of [`ServerBuilder::dir`].
    pub fn dbfilename(mut self, name: impl Into<String>) -> Self {
        self.config.dbfilename = name.into();
        self
    }

    /// Lets clients of any language control the server by `REDOUBLE.CLOCK`, `REDOUBLE.FAULT`,
    /// `REDOUBLE.NODE`, `REDOUBLE.HISTORY` and `REDOUBLE.RESET`; each of them has a HELP. Off unless
    /// set: the server refuses these commands. They are not part of Redis, so COMMAND does not list
    /// them. The server then keeps a history of [`crate::HISTORY_MAX`] commands unless
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
    pub fn control(mut self, on: bool) -> Self {
        self.control_mode = if on {
            ControlMode::Open
        } else {
            ControlMode::Closed
        };
        self
    }

    /// Takes the commands of [`ServerBuilder::control`] at a port of its own and nowhere else; 0 takes
    /// a free port. [`Server::control_url`] returns its URL. The port answers even while the server is
    /// paused or has crashed.
    pub fn control_port(mut self, port: u16) -> Self {
        self.control_port = Some(port);
        self
    }

    /// Takes the control port out of the settings, because the servers of a deployment share one, and
    /// builds the server behind it. It controls no server yet.
    pub(crate) fn take_control_port(&mut self) -> Result<Option<Server>, StartError> {
        let Some(port) = self.control_port.take() else {
            return Ok(None);
        };
        self.keep_history();
        let mut builder = Self::default().bind(self.listen.ip()).port(port);
        builder
            .config
            .requirepass
            .clone_from(&self.config.requirepass);
        builder.config.protected_mode = self.config.protected_mode;
        builder.control_mode = ControlMode::ControlPort;
        builder.make().map(Some)
    }

    /// The ports that take `REDOUBLE.*` commands.
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

    /// Changes the parameters that have no method of their own: those of `CONFIG SET`, and the bounds
    /// of scripts.
    ///
    /// ```
    /// let builder = redouble::Server::builder().configure(|config| config.maxmemory = 4 << 20);
    /// let server = builder.start_blocking()?;
    /// assert_eq!(server.command(["CONFIG", "GET", "maxmemory"])?.to_string(), "[maxmemory 4194304]");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn configure(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    /// Starts the server. Its timer runs on the current tokio runtime. A thread of the server serves
    /// the sockets; it starts when a caller first asks for the address, or now if clients may know
    /// the address already (a chosen port, a Unix socket).
    ///
    /// # Errors
    /// A [`StartError`] if a socket cannot be bound or TLS cannot be set up.
    ///
    /// # Panics
    /// Outside of a tokio runtime: use [`ServerBuilder::start_blocking`] there.
    ///
    /// # Cancel safety
    /// The future completes when it is first polled. If it is dropped before, no server starts.
    #[expect(clippy::unused_async, reason = "makes the compiler ask for a runtime")]
    pub async fn start(self) -> Result<Server, StartError> {
        let (server, driver) = self.build()?;
        server.own_driver(driver.spawn());
        Ok(server)
    }

    /// Starts the server without a tokio runtime: the thread that serves its sockets also keeps its
    /// time. On a [`Clock::External`] the server handles its deadlines when the next request arrives.
    ///
    /// The async methods of the server ([`Server::connection`], [`Server::within`]) still need a
    /// runtime; a test without one uses a client over the socket, and [`Server::within_blocking`].
    ///
    /// ```
    /// use redis::TypedCommands;
    /// use redouble::{Clock, Server};
    /// use std::time::Duration;
    ///
    /// let server = Server::builder().clock(Clock::Manual).start_blocking()?;
    /// let mut connection = redis::Client::open(server.url())?.get_connection()?;
    /// connection.set_ex("lease", "mine", 30)?;
    /// server.clock().advance(Duration::from_secs(31));
    /// assert_eq!(connection.get("lease")?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A [`StartError`] if a socket cannot be bound, TLS cannot be set up or no thread can start;
    /// [`StartError::NoRuntime`] for [`Clock::Tokio`].
    pub fn start_blocking(self) -> Result<Server, StartError> {
        let server = self.make()?;
        // A shared clock may be that of a runtime which this server is not on.
        if server.handle.time.source.kind() == ClockKind::Tokio {
            return Err(StartError::NoRuntime);
        }
        server.serve()?;
        Ok(server)
    }

    /// Builds the server and leaves its timer to the caller, which polls it: for simulations with a
    /// scheduler of their own.
    ///
    /// # Errors
    /// A [`StartError`] if a socket cannot be bound or TLS cannot be set up;
    /// [`StartError::NoRuntime`] for [`Clock::Tokio`] outside of a runtime.
    pub fn build(self) -> Result<(Server, Driver), StartError> {
        let server = self.make()?;
        let driver = Driver::new(server.handle.clone());
        Ok((server, driver))
    }

    pub(crate) fn make(mut self) -> Result<Server, StartError> {
        redouble_core::command::check_users(&self.config)
            .map_err(|reason| StartError::Users { reason })?;
        let control = self.take_control_port()?;
        if self.control_mode == ControlMode::Open {
            self.keep_history();
        }
        if let Some(dir) = &self.dir {
            let folder = Folder::open(dir).map_err(|source| StartError::Load {
                place: dir.display().to_string(),
                source,
            })?;
            self.config.storage = Some(Arc::new(folder));
        }
        let time = match self.time {
            Some(time) => time,
            None => Arc::new(TrueTime::new(crate::net::source(self.clock, self.epoch)?)),
        };
        let clock = time.source.kind();
        self.config.stopwatch = time.source.stopwatch();
        // Virtual time outruns every request on a real socket, so most such servers need no socket.
        let is_lazy = matches!(clock, ClockKind::Tokio | ClockKind::External);
        let listening = self.listen.bind(is_lazy, &mut self.config)?;
        let is_known = listening.is_known;
        let file = self.config.dbfilename.clone();
        let shared = SharedNode::new(self.config, self.history_max, time.source.now())
            .with_control_queue(ControlQueue::new(self.control_mode));
        if self.dir.is_some() {
            let now = shared.node_time(time.source.now());
            let loaded = shared.node().engine.load_file(now);
            loaded.map_err(|why| StartError::Load {
                place: file,
                source: std::io::Error::other(why),
            })?;
        }
        let append_only = shared.node().engine.config().append_only();
        shared.node().keep_writes(append_only);
        let server = Server {
            handle: NodeHandle::new(shared, time),
            listening: Mutex::new(listening),
            driver: Mutex::new(None),
            is_timed_by_sockets: clock == ClockKind::System,
            control: control.map(Box::new),
        };
        let orders = Control::of_server(&server.handle);
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
///
/// | to | use |
/// |---|---|
/// | connect a client of any kind | [`url`](Self::url), [`unix_url`](Self::unix_url), `tls_url` |
/// | connect the `redis` crate without a socket | [`connection`](Self::connection), [`connection_builder`](Self::connection_builder) |
/// | write and read data | [`set`](Self::set), [`hset`](Self::hset), [`command`](Self::command), [`get`](Self::get), [`hash`](Self::hash), [`db`](Self::db) |
/// | check data and requests | [`assert_get`](Self::assert_get), [`assert_history`](Self::assert_history), [`snapshot`](Self::snapshot) |
/// | move time | [`clock`](Self::clock) |
/// | inject faults | [`inject`](Self::inject), [`pause`](Self::pause), [`crash`](Self::crash), [`evict`](Self::evict) |
/// | find out why a test hangs | [`within`](Self::within), [`diagnosis`](Self::diagnosis), `{server:?}` |
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
    /// A [`StartError`] if no port can be bound.
    ///
    /// # Panics
    /// Outside of a tokio runtime, as [`ServerBuilder::start`].
    ///
    /// # Cancel safety
    /// As [`ServerBuilder::start`].
    pub async fn start() -> Result<Self, StartError> {
        ServerBuilder::default().start().await
    }

    /// Starts a server with the wall clock on a free port, for tests without a tokio runtime.
    ///
    /// ```
    /// use redis::TypedCommands;
    ///
    /// let server = redouble::Server::start_blocking()?;
    /// let mut connection = redis::Client::open(server.url())?.get_connection()?;
    /// connection.set("k", "v")?;
    /// server.assert_get("k", "v");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`ServerBuilder::start_blocking`].
    pub fn start_blocking() -> Result<Self, StartError> {
        ServerBuilder::default().start_blocking()
    }

    /// Settings for another kind of server.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// Opens a connection without a socket: bytes of RESP go in and come out. It works on a paused
    /// tokio clock.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tokio::io::{AsyncReadExt, AsyncWriteExt};
    ///
    /// let server = redouble::Server::start().await?;
    /// let mut stream = server.connect();
    /// stream.write_all(b"PING\r\n").await?;
    /// let mut reply = [0; 7];
    /// stream.read_exact(&mut reply).await?;
    /// assert_eq!(&reply, b"+PONG\r\n");
    /// # Ok(()) }
    /// ```
    pub fn connect(&self) -> InProcess {
        InProcess::open(self.handle.clone(), None)
    }

    /// Opens a connection without a socket from an address of the caller's choice, as CLIENT LIST and
    /// the conditions of faults see it: a host of a simulation, say `"worker-1:5000"`. An IP address
    /// outside of this machine is subject to `protected-mode`.
    pub fn connect_from(&self, addr: &str) -> InProcess {
        InProcess::open(self.handle.clone(), Some(addr))
    }

    /// Opens a connection of the `redis` crate without a socket, with default settings:
    /// [`Server::connection_builder`] has others.
    ///
    /// # Errors
    /// A [`redis::RedisError`] if the greeting fails: the server wants a password, is paused, has
    /// crashed, or a fault hits the greeting.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    ///
    /// # Cancel safety
    /// If the future is dropped, the server closes the connection.
    #[cfg(feature = "redis")]
    pub async fn connection(&self) -> redis::RedisResult<crate::Connection> {
        self.connection_builder().open().await
    }

    /// Settings for a connection of the `redis` crate without a socket: its address, client name,
    /// password, database, protocol, timeouts.
    #[cfg(feature = "redis")]
    pub fn connection_builder(&self) -> crate::ConnectionBuilder {
        crate::ConnectionBuilder::new(self.handle.clone())
    }

    /// The URL of the control port; `None` for a server that was built without
    /// [`ServerBuilder::control_port`].
    pub fn control_url(&self) -> Option<String> {
        self.control.as_ref().map(|control| control.url())
    }

    /// Installs a fault of [`crate::fault`]. Dropping the guard removes it.
    pub fn inject<F>(&self, rule: Rule<F>) -> FaultGuard
    where
        Rule<F>: MessageRule + 'static,
    {
        self.inject_rule(rule)
    }

    /// Installs a custom rule, or one that [`fault::parse`](crate::fault::parse) made.
    pub fn inject_rule(&self, rule: impl Into<Box<dyn MessageRule>>) -> FaultGuard {
        FaultGuard::install(self.handle.clone(), rule.into())
    }

    /// Its port, or a port that stands for its index among several servers if it has none yet.
    pub(crate) fn port_or(&self, place: usize) -> u16 {
        let port = self.handle.shared.node().engine.config().port;
        if port == 0 {
            6379_u16.saturating_add(place as u16)
        } else {
            port
        }
    }

    /// True if it has a port that clients can know.
    pub(crate) fn has_port(&self) -> bool {
        self.handle.shared.node().engine.config().port != 0
    }

    /// True while a slow script has the server, and clients get `BUSY` (see the parameter `busy-reply-threshold`).
    pub fn is_busy(&self) -> bool {
        self.handle.shared.is_busy()
    }

    /// True if SHUTDOWN has ended the server.
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
