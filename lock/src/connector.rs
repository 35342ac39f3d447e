//! The adapter for the `redis` crate: how its connections are made, and how its values and errors
//! read in terms of [`wire`](crate::wire).

use crate::{
    environment::BoxFuture,
    error::{NodeError, NodeErrorKind},
    wire::{Command, Dialled, Endpoint, Reply, Wire},
};
use redis::{ErrorKind, RedisError, RedisResult, Value, aio::ConnectionLike};
use std::sync::Arc;

/// Makes connections to one Redis node.
///
/// [`redis::Client`] is one, [`Fixed`] is another. A simulation writes its own, over streams that
/// it can cut.
///
/// ```
/// use redis::{AsyncConnectionConfig, RedisConnectionInfo, aio::MultiplexedConnection};
/// use redouble_lock::{BoxFuture, Connected, Connector};
/// use tokio::io::{AsyncRead, AsyncWrite};
///
/// struct InProcess<S>(Box<dyn Fn() -> S + Send + Sync>);
///
/// impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Connector for InProcess<S> {
///     type Connection = MultiplexedConnection;
///
///     fn connect(&self) -> BoxFuture<'_, redis::RedisResult<Connected<Self::Connection>>> {
///         Box::pin(async {
///             let info = RedisConnectionInfo::default();
///             let config = AsyncConnectionConfig::new().set_response_timeout(None);
///             let (connection, driver) =
///                 MultiplexedConnection::new_with_config(&info, (self.0)(), config).await?;
///             Ok((connection, Some(Box::pin(driver) as BoxFuture<'static, ()>)))
///         })
///     }
/// }
/// ```
pub trait Connector: Send + Sync + 'static {
    /// The type of its connections.
    ///
    /// All clones share one stream, and requests are executed in the order in which they were
    /// first polled.
    type Connection: ConnectionLike + Clone + Send + Sync + 'static;

    /// Opens a connection.
    ///
    /// The second value is the connection's driver, if it has one that does not run yet: the task
    /// that moves its bytes. It is run through the [`Environment`](crate::Environment) and dropped
    /// when the connection is not needed any more. The future is dropped when the reply timeout is
    /// over, of which connecting is a part.
    fn connect(&self) -> BoxFuture<'_, RedisResult<Connected<Self::Connection>>>;

    /// Whether [`connect`](Self::connect) opens a new connection each time. If it does not, a
    /// connection stays in use although an answer stayed out.
    fn reconnects(&self) -> bool {
        true
    }
}

/// A connection with its driver.
pub type Connected<C> = (C, Option<BoxFuture<'static, ()>>);

/// Opens multiplexed connections, without a response timeout of their own.
impl Connector for redis::Client {
    type Connection = redis::aio::MultiplexedConnection;

    fn connect(&self) -> BoxFuture<'_, RedisResult<Connected<Self::Connection>>> {
        Box::pin(async {
            // The locks keep that time limit themselves, on the clock of their environment.
            let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
            let connection = self.get_multiplexed_async_connection_with_config(&config);
            Ok((connection.await?, None))
        })
    }
}

/// One connection that stays the same: the user's own.
///
/// See [`LockManager::new`](crate::LockManager::new) for what that means.
#[derive(Debug, Clone)]
pub struct Fixed<C>(pub C);

impl<C: ConnectionLike + Clone + Send + Sync + 'static> Connector for Fixed<C> {
    type Connection = C;

    fn connect(&self) -> BoxFuture<'_, RedisResult<Connected<C>>> {
        Box::pin(async { Ok((self.0.clone(), None)) })
    }

    fn reconnects(&self) -> bool {
        false
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
}

/// Gives a connection the shape that the core knows.
pub(crate) fn dialled<C>((connection, driver): Connected<C>) -> Dialled
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    let wire = Arc::new(Connection(connection));
    Dialled { wire, driver }
}

struct Connection<C>(C);

impl<C: ConnectionLike + Clone + Send + Sync + 'static> Wire for Connection<C> {
    fn call(&self, command: Command) -> BoxFuture<'static, Result<Reply, NodeError>> {
        let mut connection = self.0.clone();
        Box::pin(async move {
            let mut packed = redis::Cmd::new();
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
        Value::SimpleString(text) => Reply::Bytes(text.into_bytes()),
        Value::Array(items) => {
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
    Some(NodeErrorKind::Refused { code })
}
