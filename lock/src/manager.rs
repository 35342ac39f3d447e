//! Where locks come from: one Redis node, reached in one way, in one environment.

#[cfg(feature = "redis")]
use crate::connector::{self, Connector};
use crate::{
    environment::{Environment, Tokio},
    kind::{Exclusive, Fenced},
    node::Node,
    options::LockBuilder,
    wire::Endpoint,
};
use std::{fmt, sync::Arc};

/// Makes locks on one Redis node. Cheap to clone; clones share the connection.
#[derive(Clone)]
pub struct LockManager {
    core: Arc<Core>,
}

/// What all locks of a manager share.
pub(crate) struct Core {
    pub(crate) node: Arc<Node>,
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
    /// [`reply_timeout`](LockBuilder::reply_timeout). All clones of the connection must share one
    /// stream, or a release may overtake the request that it is to undo.
    #[cfg(feature = "redis")]
    pub fn new<C>(connection: C) -> Self
    where
        C: redis::aio::ConnectionLike + Clone + Send + Sync + 'static,
    {
        Self::builder(connector::Fixed(connection)).build()
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
        // Fails only for connections with a driver to spawn. These have none.
        let _ = manager.core.node.adopt(connector::dialled(connected));
        Ok(manager)
    }

    /// Starts to build a manager from a way to connect. Connects when a lock is first used.
    ///
    /// ```no_run
    /// # fn f() -> redis::RedisResult<()> {
    /// use redouble_lock::{LockManager, Tokio};
    ///
    /// let client = redis::Client::open("redis://127.0.0.1")?;
    /// let locks = LockManager::builder(client).environment(Tokio).build();
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "redis")]
    pub fn builder(connector: impl Connector) -> LockManagerBuilder {
        Self::builder_on(connector::Adapter(connector))
    }

    /// Starts to build a manager on an adapter for another client library than `redis`.
    pub fn builder_on(endpoint: impl Endpoint) -> LockManagerBuilder {
        LockManagerBuilder {
            endpoint: Box::new(endpoint),
            env: Arc::new(Tokio),
        }
    }

    pub(crate) fn core(&self) -> Arc<Core> {
        Arc::clone(&self.core)
    }

    /// Starts to build a mutex on `key`. Others than this crate must leave that key alone.
    pub fn mutex(&self, key: impl AsRef<[u8]>) -> LockBuilder<Exclusive> {
        LockBuilder::new(Arc::clone(&self.core), key.as_ref(), Exclusive)
    }

    /// Starts to build a mutex on `key` whose grants are numbered.
    pub fn fenced_mutex(&self, key: impl AsRef<[u8]>) -> LockBuilder<Fenced> {
        LockBuilder::new(Arc::clone(&self.core), key.as_ref(), Fenced)
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
}

impl LockManagerBuilder {
    /// Sets where time, tasks and randomness come from. Default: [`Tokio`].
    pub fn environment(mut self, env: impl Environment) -> Self {
        self.env = Arc::new(env);
        self
    }

    /// Makes the manager. Nothing is sent to Redis.
    pub fn build(self) -> LockManager {
        let node = Arc::new(Node::new(self.endpoint, self.env));
        LockManager {
            core: Arc::new(Core { node }),
        }
    }
}

impl fmt::Debug for LockManagerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockManagerBuilder").finish_non_exhaustive()
    }
}
