//! The adapter for the `redis` crate: how its connections are made, and how its values and errors
//! read in terms of [`wire`](crate::wire).

mod pushes;
#[cfg(feature = "sentinel")]
mod sentinel;

pub(crate) use pushes::subscriber;
#[cfg(feature = "sentinel")]
pub use sentinel::BySentinel;

use crate::{
    environment::BoxFuture,
    error::{NodeError, NodeErrorKind},
    wire::{Command, Dialled, Endpoint, Pushes, Reply, Wire},
};
use redis::{
    AsyncConnectionConfig, ErrorKind, ProtocolVersion, PushInfo, RedisError, RedisResult, Value,
    aio::{ConnectionLike, PubSub},
};
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Makes connections to one Redis node.
///
/// [`redis::Client`] is one, [`Fixed`] is another. A simulation writes its own, over streams that
/// it can cut.
///
/// ```
/// use redis::{AsyncConnectionConfig, ProtocolVersion, RedisConnectionInfo, aio::MultiplexedConnection};
/// use redouble_lock::{BoxFuture, Connected, Connector};
/// use tokio::{io::{AsyncRead, AsyncWrite}, sync::mpsc::unbounded_channel};
///
/// struct InProcess<S>(Box<dyn Fn() -> S + Send + Sync>);
///
/// impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Connector for InProcess<S> {
///     type Connection = MultiplexedConnection;
///
///     fn connect(&self) -> BoxFuture<'_, redis::RedisResult<Connected<Self::Connection>>> {
///         Box::pin(async {
///             // With RESP3, messages that wake waiters come over the same connection.
///             let info = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3);
///             let (sender, pushes) = unbounded_channel();
///             let config = AsyncConnectionConfig::new()
///                 .set_response_timeout(None)
///                 .set_push_sender(sender);
///             let (connection, driver) =
///                 MultiplexedConnection::new_with_config(&info, (self.0)(), config).await?;
///             Ok(Connected::new(connection).driver(driver).pushes(pushes))
///         })
///     }
/// }
/// ```
///
/// So can a pool be used, of which a lock needs one connection as long as that is sound. A multiplexed
/// connection can go back to the pool at once.
///
/// ```no_run
/// use redis::{RedisResult, aio::MultiplexedConnection};
/// use redouble_lock::{BoxFuture, Connected, Connector, LockManager};
///
/// struct Pooled(deadpool_redis::Pool);
///
/// impl Connector for Pooled {
///     type Connection = MultiplexedConnection;
///
///     fn connect(&self) -> BoxFuture<'_, RedisResult<Connected<Self::Connection>>> {
///         Box::pin(async {
///             let pooled = self.0.get().await.map_err(std::io::Error::other)?;
///             Ok(Connected::new(MultiplexedConnection::clone(&pooled)))
///         })
///     }
/// }
///
/// # fn f() -> Result<(), deadpool_redis::CreatePoolError> {
/// let pool = deadpool_redis::Config::from_url("redis://127.0.0.1").create_pool(None)?;
/// let locks = LockManager::builder(Pooled(pool)).build();
/// # Ok(())
/// # }
/// ```
pub trait Connector: Send + Sync + 'static {
    /// The type of its connections.
    ///
    /// All clones share one stream, and requests are executed in the order in which they were
    /// first polled.
    type Connection: ConnectionLike + Clone + Send + Sync + 'static;

    /// Opens a connection.
    ///
    /// The future is dropped when [`connect_timeout`](crate::LockManagerBuilder::connect_timeout) is over.
    fn connect(&self) -> BoxFuture<'_, RedisResult<Connected<Self::Connection>>>;

    /// Returns true if [`connect`](Self::connect) opens a new connection each time. If it does not, a connection stays
    /// in use although an answer stayed out.
    fn reconnects(&self) -> bool {
        true
    }

    /// Returns true if a connection sends a request again by itself when its stream ends, without telling: the locks
    /// then ask in a way that executing a request twice does no harm. They also take it for a connection to a cluster, of which
    /// a node knows only some of the subscribers. Default: true for the `ClusterConnection` of the `redis` crate, which is found out
    /// by the name of the type.
    fn resends(&self) -> bool {
        std::any::type_name::<Self::Connection>().contains("ClusterConnection")
    }

    /// Opens a second connection for messages alone, if there is a way to. Asked for when a waiter is to be
    /// woken and the connections of [`connect`](Self::connect) have no [`pushes`](Connected::pushes).
    fn subscriber(&self) -> BoxFuture<'_, RedisResult<Option<PubSub>>> {
        Box::pin(async { Ok(None) })
    }
}

/// A fresh connection, with what belongs to it.
pub struct Connected<C> {
    connection: C,
    driver: Option<BoxFuture<'static, ()>>,
    pushes: Option<Box<dyn Pushes>>,
}

impl<C> Connected<C> {
    /// A connection that runs by itself and receives nothing unasked.
    #[must_use]
    pub fn new(connection: C) -> Self {
        Self {
            connection,
            driver: None,
            pushes: None,
        }
    }

    /// Adds the task that moves the connection's bytes, if it does not run yet. It is run through the
    /// [`Environment`](crate::Environment) and dropped when the connection is not needed any more.
    #[must_use]
    pub fn driver(mut self, driver: impl Future<Output = ()> + Send + 'static) -> Self {
        self.driver = Some(Box::pin(driver));
        self
    }

    /// Adds the receiver of what the connection's push sender sends. The connection must speak RESP3.
    #[must_use]
    pub fn pushes(mut self, pushes: UnboundedReceiver<PushInfo>) -> Self {
        self.pushes = Some(Box::new(pushes::Received(pushes)));
        self
    }
}

impl<C> fmt::Debug for Connected<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connected")
            .field("driver", &self.driver.is_some())
            .field("pushes", &self.pushes.is_some())
            .finish_non_exhaustive()
    }
}

/// Opens multiplexed connections, without a response timeout of their own. With RESP3 (`?protocol=resp3` in
/// the URL) messages come over the same connection, with RESP2 over a second one.
impl Connector for redis::Client {
    type Connection = redis::aio::MultiplexedConnection;

    fn connect(&self) -> BoxFuture<'_, RedisResult<Connected<Self::Connection>>> {
        Box::pin(async {
            // The locks keep that time limit themselves, on the clock of their environment.
            let config = AsyncConnectionConfig::new().set_response_timeout(None);
            if !speaks_resp3(self) {
                let connection = self.get_multiplexed_async_connection_with_config(&config);
                return Ok(Connected::new(connection.await?));
            }
            let (sender, pushes) = unbounded_channel();
            let config = config.set_push_sender(sender);
            let connection = self.get_multiplexed_async_connection_with_config(&config);
            Ok(Connected::new(connection.await?).pushes(pushes))
        })
    }

    fn subscriber(&self) -> BoxFuture<'_, RedisResult<Option<PubSub>>> {
        Box::pin(async { self.get_async_pubsub().await.map(Some) })
    }
}

fn speaks_resp3(client: &redis::Client) -> bool {
    let info = client.get_connection_info();
    matches!(info.redis_settings().protocol(), ProtocolVersion::RESP3)
}

/// One connection that stays the same: the user's own.
///
/// See [`LockManager::new`](crate::LockManager::new) for what that means.
#[derive(Debug, Clone)]
pub struct Fixed<C>(pub C);

impl<C: ConnectionLike + Clone + Send + Sync + 'static> Connector for Fixed<C> {
    type Connection = C;

    fn connect(&self) -> BoxFuture<'_, RedisResult<Connected<C>>> {
        Box::pin(async { Ok(Connected::new(self.0.clone())) })
    }

    fn reconnects(&self) -> bool {
        false
    }
}

/// One connection that stays the same, with what belongs to it.
struct Given<C> {
    connection: C,
    /// Taken by the first use.
    rest: Mutex<Option<Connected<C>>>,
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> Connector for Given<C> {
    type Connection = C;

    fn connect(&self) -> BoxFuture<'_, RedisResult<Connected<C>>> {
        Box::pin(async {
            let mut rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
            let connection = || Connected::new(self.connection.clone());
            Ok(rest.take().unwrap_or_else(connection))
        })
    }

    fn reconnects(&self) -> bool {
        false
    }
}

/// What [`LockManager::builder`](crate::LockManager::builder) takes: a [`Connector`] such as `redis::Client`, a `SentinelClient` (feature
/// `sentinel`), a connection of the `redis` crate, or [`Connected`], a connection with its pushes.
///
/// `How` tells them apart; the compiler finds it.
pub trait ConnectionSource<How> {
    /// The connector. A connection becomes [`Fixed`].
    #[doc(hidden)]
    fn connector(self) -> impl Connector;
}

/// A source that is a [`Connector`].
#[derive(Debug)]
pub struct ByConnector;

/// A source that is a connection.
#[derive(Debug)]
pub struct ByConnection;

/// A source that is a connection with its pushes.
#[derive(Debug)]
pub struct ByConnected;

impl<C> ConnectionSource<ByConnected> for Connected<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    fn connector(self) -> impl Connector {
        Given {
            connection: self.connection.clone(),
            rest: Mutex::new(Some(self)),
        }
    }
}

impl<C: Connector> ConnectionSource<ByConnector> for C {
    fn connector(self) -> impl Connector {
        self
    }
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> ConnectionSource<ByConnection> for C {
    fn connector(self) -> impl Connector {
        Fixed(self)
    }
}

/// Gives a [`Connector`] the shape that the core knows.
pub(crate) struct Adapter<C>(pub(crate) C);

impl<C: Connector> Endpoint for Adapter<C> {
    fn dial(&self) -> BoxFuture<'_, Result<Dialled, NodeError>> {
        Box::pin(async {
            let connected = self.0.connect().await;
            Ok(dialled(connected.map_err(not_connected)?))
        })
    }

    fn redials(&self) -> bool {
        self.0.reconnects()
    }

    fn resends(&self) -> bool {
        self.0.resends()
    }

    fn dial_subscriber(&self) -> BoxFuture<'_, Result<Option<Dialled>, NodeError>> {
        Box::pin(async {
            let pubsub = self.0.subscriber().await.map_err(not_connected)?;
            Ok(pubsub.map(subscriber))
        })
    }
}

/// Gives a connection the shape that the core knows.
pub(crate) fn dialled<C>(connected: Connected<C>) -> Dialled
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    let Connected {
        connection,
        driver,
        pushes,
    } = connected;
    Dialled {
        wire: Arc::new(Connection(connection)),
        driver,
        pushes,
    }
}

struct Connection<C>(C);

impl<C: ConnectionLike + Clone + Send + Sync + 'static> Wire for Connection<C> {
    fn call(&self, command: Command) -> BoxFuture<'static, Result<Reply, NodeError>> {
        let mut connection = self.0.clone();
        Box::pin(async move {
            let mut packed = redis::Cmd::with_capacity(command.len(), command.size_bytes());
            for arg in command.args() {
                packed.arg(arg);
            }
            let value: Value = packed.query_async(&mut connection).await.map_err(failed)?;
            reply(value)
        })
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "whatever else there is or will be is treated alike"
)]
fn reply(value: Value) -> Result<Reply, NodeError> {
    Ok(match value {
        Value::Okay => Reply::Okay,
        Value::Nil => Reply::Nil,
        Value::Int(integer) => Reply::Integer(integer),
        Value::BulkString(bytes) => Reply::Bytes(bytes),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => {
            Reply::Bytes(text.into_bytes())
        }
        // A confirmation that answers SUBSCRIBE is a push.
        Value::Array(items) | Value::Push { data: items, .. } => {
            let items = items.into_iter().map(reply);
            Reply::Array(items.collect::<Result<_, _>>()?)
        }
        other => {
            let text = format!("{other:?}");
            return Err(NodeError::new(NodeErrorKind::Protocol).with_source(Unexpected(text)));
        }
    })
}

/// A value of a type that no lock asks for.
#[derive(Debug, thiserror::Error)]
#[error("unexpected value {0}")]
struct Unexpected(String);

/// Reads the error of a request that was sent.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "whatever else there is or will be is treated alike"
)]
fn failed(error: RedisError) -> NodeError {
    let kind = match error.kind() {
        ErrorKind::Server(_) | ErrorKind::Extension => {
            refused(&error).unwrap_or(NodeErrorKind::Protocol)
        }
        ErrorKind::Io if error.is_timeout() => NodeErrorKind::TimedOut,
        ErrorKind::Io => NodeErrorKind::Disconnected,
        ErrorKind::ClusterConnectionNotFound => NodeErrorKind::Unreachable,
        ErrorKind::Client | ErrorKind::InvalidClientConfig => NodeErrorKind::Client,
        // To be on the safe side: it may have been executed.
        _ => NodeErrorKind::Protocol,
    };
    NodeError::new(kind).with_source(error)
}

/// Reads the error of an attempt to connect, where nothing was sent yet that matters.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "whatever else there is or will be is treated alike"
)]
fn not_connected(error: RedisError) -> NodeError {
    let kind = match error.kind() {
        ErrorKind::AuthenticationFailed
        | ErrorKind::InvalidClientConfig
        | ErrorKind::RESP3NotSupported => NodeErrorKind::Client,
        _ => refused(&error).unwrap_or(NodeErrorKind::Unreachable),
    };
    NodeError::new(kind).with_source(error)
}

fn refused(error: &RedisError) -> Option<NodeErrorKind> {
    let code = error.code()?.to_owned();
    // Redis 7.2 and later answer NOPERM if a script calls a command that its user may not run.
    let detail = error.detail().unwrap_or_default();
    Some(if detail.starts_with("ACL failure in script") {
        NodeErrorKind::RaisedInScript { code }
    } else {
        NodeErrorKind::Refused { code }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(answer: &str) -> NodeError {
        let value = redis::parse_redis_value(format!("-{answer}\r\n").as_bytes()).unwrap();
        failed(value.extract_error().unwrap_err()).of_script()
    }

    #[test]
    fn a_command_that_a_script_may_not_run_ends_it_halfway() {
        let refused = "NOPERM User default has no permissions to run the 'evalsha' command";
        assert!(!answered(refused).is_unknown());
        let raised = [
            // Redis 7.0 and before.
            "ERR The user executing the script can't run this command or subcommand script: 5ca1e, on @user_script:1.",
            // Redis 7.2 and later, Valkey.
            "NOPERM ACL failure in script: User default has no permissions to run the 'time' command script: 5ca1e, on @user_script:1.",
        ];
        for raised in raised {
            let error = answered(raised);
            assert!(
                matches!(error.kind(), NodeErrorKind::RaisedInScript { .. }),
                "{error:?}"
            );
            assert!(error.is_unknown());
        }
    }
}
