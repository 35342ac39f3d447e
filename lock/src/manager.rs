//! Where locks come from: one Redis node, reached in one way, in one environment.

#[cfg(feature = "redis")]
use crate::connector::{self, ConnectionSource, Connector as _};
use crate::{
    core::Core,
    environment::{Environment, Tokio},
    node::{CONNECT_TIMEOUT, Node},
    observe::{Metrics, Observer},
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
        Self::builder(connector::Pushed::new(connection, pushes)).build()
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

    /// Starts to build a manager on an adapter for another client library than `redis`.
    pub fn builder_on(endpoint: impl Endpoint) -> LockManagerBuilder {
        LockManagerBuilder {
            endpoint: Box::new(endpoint),
            env: Arc::new(Tokio),
            observer: Observer::default(),
            connect_timeout: CONNECT_TIMEOUT,
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
    observer: Observer,
    connect_timeout: Duration,
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

    /// Sets where time, tasks and randomness come from. Default: [`Tokio`].
    pub fn environment(mut self, env: impl Environment) -> Self {
        self.env = Arc::new(env);
        self
    }

    /// Sets who is told what becomes of the locks. Default: nobody.
    pub fn metrics(mut self, metrics: impl Metrics) -> Self {
        self.observer = Observer::new(metrics);
        self
    }

    /// Makes the manager. Nothing is sent to Redis.
    pub fn build(self) -> LockManager {
        let core = Core {
            renewals: Renewals::new(Arc::clone(&self.env)),
            node: Node::new(self.endpoint, self.env, self.connect_timeout),
            observer: self.observer,
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
