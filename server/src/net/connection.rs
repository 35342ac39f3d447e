//! A connection of the `redis` crate to a server in this process, and its settings.

use super::InProcess;
use crate::node_handle::NodeHandle;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{
    AsyncConnectionConfig, Cmd, Pipeline, ProtocolVersion, RedisConnectionInfo, RedisFuture,
    RedisResult, Value,
};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bound of a greeting, as with connections that the `redis` crate dials itself.
const GREETING: Duration = Duration::from_secs(1);

/// Runs the driver of a connection: `tokio::spawn` unless
/// [`ConnectionBuilder::spawn`] sets another one.
pub type Spawn = Arc<dyn Fn(Pin<Box<dyn Future<Output = ()> + Send>>) + Send + Sync>;

/// Settings of a [`Connection`]: [`Server::connection_builder`](crate::Server::connection_builder).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use redis::{AsyncTypedCommands, ProtocolVersion};
/// use redouble::Server;
///
/// let server = Server::builder().requirepass("secret").start().await?;
/// let builder = server.connection_builder().password("secret").addr("worker-1:5000").database(3);
/// let mut redis = builder.client_name("worker-1").protocol(ProtocolVersion::RESP3).open().await?;
/// redis.set("k", "v").await?;
/// server.db(3).assert_get("k", "v");
/// let clients: String = redis::cmd("CLIENT").arg("LIST").query_async(&mut redis).await?;
/// assert!(clients.contains("addr=worker-1:5000 ") && clients.contains(" name=worker-1 "));
///
/// let refused = server.connection_builder().password("wrong").open().await;
/// assert_eq!(refused.expect_err("wrong password").kind(), redis::ErrorKind::AuthenticationFailed);
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "a builder does nothing until it opens a connection"]
pub struct ConnectionBuilder {
    handle: Arc<NodeHandle>,
    addr: Option<String>,
    client_name: Option<String>,
    info: RedisConnectionInfo,
    config: AsyncConnectionConfig,
    spawn: Spawn,
}

impl std::fmt::Debug for ConnectionBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConnectionBuilder")
            .field("addr", &self.addr)
            .field("client_name", &self.client_name)
            .field("database", &self.info.db())
            .field("protocol", &self.info.protocol())
            .finish_non_exhaustive()
    }
}

impl ConnectionBuilder {
    pub(crate) fn new(handle: Arc<NodeHandle>) -> Self {
        Self {
            handle,
            addr: None,
            client_name: None,
            info: RedisConnectionInfo::default(),
            config: AsyncConnectionConfig::new(),
            spawn: Arc::new(|driver| drop(tokio::spawn(driver))),
        }
    }

    /// The client's address, as CLIENT LIST and the conditions of faults see it: a host of a
    /// simulation, say `"worker-1:5000"`. `in-process:0` unless set. An IP address outside of this
    /// machine is subject to `protected-mode`.
    pub fn addr(mut self, addr: impl Into<String>) -> Self {
        self.addr = Some(addr.into());
        self
    }

    /// The client's name, which the connection sets by CLIENT SETNAME each time it dials. None unless
    /// set.
    pub fn client_name(mut self, name: impl Into<String>) -> Self {
        self.client_name = Some(name.into());
        self
    }

    /// The password of the user. None unless set.
    pub fn password(mut self, password: impl AsRef<str>) -> Self {
        self.info = self.info.set_password(password);
        self
    }

    /// The user to authenticate. The server knows `default` alone.
    pub fn username(mut self, username: impl AsRef<str>) -> Self {
        self.info = self.info.set_username(username);
        self
    }

    /// The database to select. 0 unless set.
    pub fn database(mut self, index: i64) -> Self {
        self.info = self.info.set_db(index);
        self
    }

    /// The protocol. RESP2 unless set.
    pub fn protocol(mut self, protocol: ProtocolVersion) -> Self {
        self.info = self.info.set_protocol(protocol);
        self
    }

    /// Timeouts, the receiver of RESP3 pushes, and the other settings that the `redis` crate has for
    /// its connections.
    pub fn config(mut self, config: AsyncConnectionConfig) -> Self {
        self.config = config;
        self
    }

    /// The scheduler of the connection's driver: for simulations that have one of their own.
    /// `tokio::spawn` unless set.
    pub fn spawn(mut self, spawn: Spawn) -> Self {
        self.spawn = spawn;
        self
    }

    /// Opens the connection and waits for the server to accept it, for one second at most.
    ///
    /// # Errors
    /// A [`redis::RedisError`] if the greeting fails: the server refuses the password or the database,
    /// is paused, has crashed, or a fault hits the greeting.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    ///
    /// # Cancel safety
    /// If the future is dropped, the server closes the connection.
    pub async fn open(self) -> RedisResult<Connection> {
        let mut connection = Connection {
            inner: Arc::new(Inner {
                settings: self,
                current: Mutex::new(None),
                number: AtomicU64::new(0),
                dials: AtomicU64::new(0),
            }),
            last: None,
        };
        connection.dialled().await?;
        Ok(connection)
    }
}

/// A connection of the `redis` crate that needs no socket, so it works on a paused tokio clock.
/// Clones share it. The command that meets a disconnect or a timeout fails; the next one dials again and
/// waits one second at most for that. The driver of the connection ends with its last clone.
///
/// # Cancel safety
/// The server may still execute a command whose future was dropped, as on every connection.
#[derive(Clone)]
pub struct Connection {
    inner: Arc<Inner>,
    /// The dialled connection that this clone used last; valid while its number is the current one.
    last: Option<Dialled>,
}

struct Inner {
    settings: ConnectionBuilder,
    current: Mutex<Option<Dialled>>,
    /// The number of `current`, or 0 when it has to be dialled.
    number: AtomicU64,
    dials: AtomicU64,
}

#[derive(Clone)]
struct Dialled {
    connection: MultiplexedConnection,
    /// Which dial it came from, so that one failure does not throw away its successor.
    number: u64,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let settings = &self.inner.settings;
        f.debug_struct("Connection")
            .field("addr", &settings.addr)
            .field("client_name", &settings.client_name)
            .field("database", &settings.info.db())
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// The connection in use, dialled anew if there is none.
    async fn dialled(&mut self) -> RedisResult<&mut Dialled> {
        let number = self.inner.number.load(Ordering::Acquire);
        let last = match self.last.take().filter(|last| last.number == number) {
            Some(last) => last,
            None => self.inner.dial().await?,
        };
        Ok(self.last.insert(last))
    }
}

impl ConnectionBuilder {
    /// Dials the server once and says HELLO, AUTH, SELECT and CLIENT SETNAME as the settings ask.
    async fn greet(&self) -> RedisResult<MultiplexedConnection> {
        let stream = InProcess::open(self.handle.clone(), self.addr.as_deref());
        let greeting =
            MultiplexedConnection::new_with_config(&self.info, stream, self.config.clone());
        let (mut connection, driver) = greeting.await?;
        (self.spawn)(Box::pin(driver));
        if let Some(name) = &self.client_name {
            let mut set_name = redis::cmd("CLIENT");
            set_name.arg("SETNAME").arg(name);
            set_name.exec_async(&mut connection).await?;
        }
        Ok(connection)
    }
}

impl Inner {
    fn current(&self) -> MutexGuard<'_, Option<Dialled>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection in use, dialled anew if there is none.
    async fn dial(&self) -> RedisResult<Dialled> {
        if let Some(dialled) = self.current().clone() {
            return Ok(dialled);
        }
        let greeted = tokio::time::timeout(GREETING, self.settings.greet());
        let connection = greeted
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let mut current = self.current();
        let number = self.dials.fetch_add(1, Ordering::AcqRel) + 1;
        self.number.store(number, Ordering::Release);
        Ok(current.insert(Dialled { connection, number }).clone())
    }

    /// Forgets a connection that broke, so that the next command dials again.
    fn judge<T>(&self, number: u64, result: RedisResult<T>) -> RedisResult<T> {
        if let Err(error) = &result
            && (error.is_connection_dropped()
                || error.is_timeout()
                || error.is_unrecoverable_error())
        {
            let mut current = self.current();
            if current
                .take_if(|dialled| dialled.number == number)
                .is_some()
            {
                self.number.store(0, Ordering::Release);
            }
        }
        result
    }
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            let Dialled { connection, number } = self.dialled().await?;
            let number = *number;
            let result = connection.req_packed_command(cmd).await;
            self.inner.judge(number, result)
        })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async move {
            let Dialled { connection, number } = self.dialled().await?;
            let number = *number;
            let result = connection
                .req_packed_commands(pipeline, offset, count)
                .await;
            self.inner.judge(number, result)
        })
    }

    fn get_db(&self) -> i64 {
        self.inner.settings.info.db()
    }
}
