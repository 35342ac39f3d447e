//! Where locks come from: one Redis node, reached in one way, in one environment.

#[cfg(feature = "redis")]
use crate::connector::{self, Connected, ConnectionSource, Connector as _};
use crate::{
    core::Core,
    environment::{Environment, Tokio},
    node::{CONNECT_TIMEOUT, Node},
    observe::{Metrics, Observer},
    options::Options,
    renewal::Renewals,
    wire::Endpoint,
};
use std::{fmt, sync::Arc, time::Duration};

/// Makes locks on one Redis node. Cheap to clone; clones share the connection.
#[derive(Clone)]
pub struct LockManager {
    core: Arc<Core>,
}

impl LockManager {
    /// Makes a manager that sends everything over the user's own connection: a multiplexed or
    /// cluster connection, a connection manager.
    ///
    /// The connection belongs to the user, so this crate cannot replace it. An answer that stays
    /// out holds up all later answers of that connection; if it never comes (half-open TCP), a
    /// plain `MultiplexedConnection` stays silent for good, and every lock on it fails or is lost at
    /// its deadline, as it should. [`from_client`](Self::from_client) makes a new connection
    /// instead. `ConnectionManager` reconnects when a connection ends, though not after a mere
    /// timeout.
    ///
    /// The connection's own response timeout, 500 ms unless set otherwise, applies besides
    /// [`reply_timeout`](crate::LockBuilder::reply_timeout). All clones of the connection must share one
    /// stream, or a release may overtake the request that it is to undo.
    #[cfg(feature = "redis")]
    pub fn new<C>(connection: C) -> Self
    where
        C: redis::aio::ConnectionLike + Clone + Send + Sync + 'static,
    {
        Self::builder(connection).build()
    }

    /// Makes a manager with a connection of its own, which it replaces when it ends or when an
    /// answer stays out.
    ///
    /// # Errors
    ///
    /// If the first connection cannot be made.
    #[cfg(feature = "redis")]
    pub async fn from_client(client: redis::Client) -> redis::RedisResult<Self> {
        let connected = client.connect().await?;
        let manager = Self::builder(client).build();
        // Fails only if there is no runtime, which then is found out when a lock is used.
        let _ = manager.core.node.link.adopt(connector::dialled(connected));
        Ok(manager)
    }

    /// Makes a manager that sends everything over the user's own connection, as [`new`](Self::new), which
    /// speaks RESP3 and whose push sender sends to `pushes`: then waiters are woken by messages. A cluster
    /// connection can have one too.
    ///
    /// ```no_run
    /// # async fn f() -> redis::RedisResult<()> {
    /// use redis::aio::ConnectionManagerConfig;
    /// use redouble_lock::LockManager;
    ///
    /// let (sender, pushes) = tokio::sync::mpsc::unbounded_channel();
    /// let config = ConnectionManagerConfig::new().set_push_sender(sender);
    /// let client = redis::Client::open("redis://127.0.0.1?protocol=resp3")?;
    /// let connection = client.get_connection_manager_with_config(config).await?;
    /// let locks = LockManager::with_pushes(connection, pushes);
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "redis")]
    pub fn with_pushes<C>(
        connection: C,
        pushes: tokio::sync::mpsc::UnboundedReceiver<redis::PushInfo>,
    ) -> Self
    where
        C: redis::aio::ConnectionLike + Clone + Send + Sync + 'static,
    {
        Self::builder(Connected::new(connection).pushes(pushes)).build()
    }

    /// Makes a manager whose locks are on the master that sentinels name. It connects when a lock is first used, and asks the sentinels
    /// again after each failover.
    ///
    /// A failover loses each lock that the new master does not have yet: see [`replicas`](crate::LockBuilder::replicas), and use
    /// [fencing tokens](crate::Fenced) where that does damage.
    ///
    /// ```no_run
    /// # fn f() -> redis::RedisResult<()> {
    /// use redis::sentinel::{SentinelClient, SentinelServerType};
    /// use redouble_lock::LockManager;
    ///
    /// let sentinels = vec!["redis://10.0.0.1:26379", "redis://10.0.0.2:26379", "redis://10.0.0.3:26379"];
    /// let name = "mymaster".to_owned();
    /// let client = SentinelClient::build(sentinels, name, None, SentinelServerType::Master)?;
    /// let locks = LockManager::from_sentinel(client);
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "sentinel")]
    #[must_use]
    pub fn from_sentinel(client: redis::sentinel::SentinelClient) -> Self {
        Self::builder(client).build()
    }

    /// Makes a manager whose locks are on a cluster of Redis 6 or later. Connects at once, with RESP3, so that messages wake waiters.
    ///
    /// Each lock is on the master of its slot, and survives a failover as little as with [sentinels](Self::from_sentinel). The connection
    /// finds moved slots and new masters by itself.
    ///
    /// # Errors
    ///
    /// If no node of the cluster can be reached, or none speaks RESP3. For earlier servers, and for connections with other settings, there
    /// is [`new`](Self::new).
    ///
    /// ```no_run
    /// # async fn f() -> redis::RedisResult<()> {
    /// use redis::cluster::ClusterClient;
    /// use redouble_lock::LockManager;
    ///
    /// let nodes = vec!["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
    /// let locks = LockManager::from_cluster(ClusterClient::builder(nodes)).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "cluster")]
    pub async fn from_cluster(
        cluster: redis::cluster::ClusterClientBuilder,
    ) -> redis::RedisResult<Self> {
        let (sender, pushes) = tokio::sync::mpsc::unbounded_channel();
        let cluster = cluster.use_protocol(redis::ProtocolVersion::RESP3);
        let client = cluster.push_sender(sender).build()?;
        let connection = client.get_async_connection().await?;
        Ok(Self::with_pushes(connection, pushes))
    }

    /// Lets messages arrive over a second connection, the user's own, so that waiters are woken and need not
    /// poll. It is subscribed to one channel while calls wait; messages that the user subscribed to before get
    /// lost. When it ends, waiters poll again.
    ///
    /// ```no_run
    /// # async fn f(connection: redis::aio::MultiplexedConnection) -> redis::RedisResult<()> {
    /// use redouble_lock::LockManager;
    ///
    /// let client = redis::Client::open("redis://127.0.0.1")?;
    /// let locks = LockManager::new(connection).with_subscriber(client.get_async_pubsub().await?);
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "redis")]
    #[must_use]
    pub fn with_subscriber(self, pubsub: redis::aio::PubSub) -> Self {
        self.core
            .node
            .subscription
            .give(connector::subscriber(pubsub));
        self
    }

    /// Starts to build a manager from a way to connect, or from a connection of the user's own (see [`new`](Self::new)).
    /// A way to connect is used when a lock is used for the first time.
    ///
    /// ```no_run
    /// # fn f() -> redis::RedisResult<()> {
    /// use redouble_lock::{LockManager, Tokio};
    ///
    /// let client = redis::Client::open("redis://127.0.0.1")?;
    /// let locks = LockManager::builder(client).environment(Tokio).build();
    /// # Ok(())
    /// # }
    /// # fn g(connection: redis::aio::MultiplexedConnection) {
    /// # use redouble_lock::{LockManager, Tokio};
    /// let locks = LockManager::builder(connection).environment(Tokio).build();
    /// # }
    /// ```
    #[cfg(feature = "redis")]
    pub fn builder<How>(source: impl ConnectionSource<How>) -> LockManagerBuilder {
        Self::builder_on(connector::Adapter(source.connector()))
    }

    /// Starts to build a manager on an adapter for another client library than `redis`. Its traits may change in any release.
    #[doc(hidden)]
    pub fn builder_on(endpoint: impl Endpoint) -> LockManagerBuilder {
        LockManagerBuilder {
            endpoint: Box::new(endpoint),
            env: Arc::new(Tokio),
            connect_timeout: CONNECT_TIMEOUT,
            defaults: Options::default(),
            key_prefix: Vec::new(),
        }
    }

    pub(crate) fn of(core: Arc<Core>) -> Self {
        Self { core }
    }

    pub(crate) fn node(&self) -> &Node {
        &self.core.node
    }

    pub(crate) fn core(&self) -> Arc<Core> {
        Arc::clone(&self.core)
    }
}

impl fmt::Debug for LockManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockManager").finish_non_exhaustive()
    }
}

/// Builds a [`LockManager`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct LockManagerBuilder {
    endpoint: Box<dyn Endpoint>,
    env: Arc<dyn Environment>,
    connect_timeout: Duration,
    defaults: Options,
    key_prefix: Vec<u8>,
}

impl LockManagerBuilder {
    /// Sets how long an attempt to connect may take: name resolution, TCP, TLS, AUTH. Default: 5 s; at least 1 ms.
    ///
    /// A call waits for the connection no longer than its [reply timeout](crate::LockBuilder::reply_timeout). The attempt goes on without it,
    /// for the next call.
    pub fn connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.connect_timeout = connect_timeout.max(Duration::from_millis(1));
        self
    }

    /// Sets the lease of locks that are built without one of their own. Default: 30 s.
    ///
    /// Its limits are those of [`LockBuilder::lease`](crate::LockBuilder::lease); [`build`](crate::LockBuilder::build) of a lock checks
    /// them.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = redouble::Server::builder().clock(redouble::Clock::Tokio).start().await?;
    /// use redouble_lock::LockManager;
    /// use std::time::Duration;
    ///
    /// let locks = LockManager::builder(server.connection().await?)
    ///     .default_lease(Duration::from_secs(10))
    ///     .watchdog(true)
    ///     .key_prefix("shop:")
    ///     .build();
    /// let guard = locks.mutex("order:17").build()?.lock().await?;
    /// assert_eq!(guard.key(), b"shop:order:17");
    /// assert!(guard.remaining() < Duration::from_secs(10));
    /// # Ok(())
    /// # }
    /// ```
    pub fn default_lease(mut self, lease: Duration) -> Self {
        self.defaults.lease = lease;
        self
    }

    /// Sets whether locks have a [watchdog](crate::LockBuilder::watchdog) that do not say so themselves. Default: no.
    pub fn watchdog(mut self, watchdog: bool) -> Self {
        self.defaults.watchdog = watchdog;
        self
    }

    /// Sets what the keys of all locks, latches and counters of the manager begin with. Default: nothing.
    ///
    /// Methods take keys without it, and [`Guard::key`](crate::Guard::key) returns them with it. A [`Redlock`](crate::Redlock) uses the
    /// prefix of its first manager on all nodes. In a cluster, a prefix with a hash tag such as `{shop}:` puts all keys into one slot.
    pub fn key_prefix(mut self, prefix: impl AsRef<[u8]>) -> Self {
        self.key_prefix = prefix.as_ref().to_vec();
        self
    }

    /// Sets where time, tasks and randomness come from. Default: [`Tokio`].
    pub fn environment(mut self, env: impl Environment) -> Self {
        self.env = Arc::new(env);
        self
    }

    /// Sets the hooks that are called at each change of a lock. Default: none.
    pub fn metrics(mut self, metrics: impl Metrics) -> Self {
        self.defaults.observer = Observer::new(metrics);
        self
    }

    /// Makes the manager. Nothing is sent to Redis.
    pub fn build(self) -> LockManager {
        let core = Core {
            renewals: Renewals::new(Arc::clone(&self.env)),
            node: Node::new(self.endpoint, self.env, self.connect_timeout),
            defaults: self.defaults,
            key_prefix: self.key_prefix,
        };
        LockManager {
            core: Arc::new(core),
        }
    }
}

impl fmt::Debug for LockManagerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockManagerBuilder").finish_non_exhaustive()
    }
}
