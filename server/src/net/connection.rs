//! A connection of the `redis` crate to a server in this process.

use super::InProcess;
use crate::node_handle::NodeHandle;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{
    AsyncConnectionConfig, Cmd, Pipeline, RedisConnectionInfo, RedisFuture, RedisResult, Value,
};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a greeting may take, as with connections that the crate dials by itself.
const GREETING: Duration = Duration::from_secs(1);

/// How a connection's driver is run: `tokio::spawn` unless told otherwise.
pub type Spawn = Arc<dyn Fn(Pin<Box<dyn Future<Output = ()> + Send>>) + Send + Sync>;

/// A connection of the `redis` crate that needs no socket, so that it works under a paused tokio
/// clock. Cloning shares it; after a disconnect or a timeout the next command dials anew, for which
/// it waits a second at most. Its driver ends with the last clone.
///
/// # Cancel safety
/// A command whose future is dropped may still be executed, as on every connection.
#[derive(Clone)]
pub struct Connection {
    inner: Arc<Inner>,
    /// The dialled connection this clone used last; good as long as its number is.
    last: Option<Dialled>,
}

struct Inner {
    handle: Arc<NodeHandle>,
    /// Where it comes from, if that matters.
    addr: Option<String>,
    info: RedisConnectionInfo,
    config: AsyncConnectionConfig,
    spawn: Spawn,
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
        f.debug_struct("Connection")
            .field("info", &self.inner.info)
            .finish_non_exhaustive()
    }
}

impl Connection {
    pub(crate) async fn open(
        handle: Arc<NodeHandle>,
        addr: Option<&str>,
        info: RedisConnectionInfo,
        config: AsyncConnectionConfig,
        spawn: Spawn,
    ) -> RedisResult<Self> {
        let mut connection = Self {
            inner: Arc::new(Inner {
                handle,
                addr: addr.map(str::to_owned),
                info,
                config,
                spawn,
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

impl Inner {
    fn current(&self) -> MutexGuard<'_, Option<Dialled>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection in use, dialled anew if there is none.
    async fn dial(&self) -> RedisResult<Dialled> {
        if let Some(dialled) = self.current().clone() {
            return Ok(dialled);
        }
        let stream = InProcess::open(self.handle.clone(), self.addr.as_deref());
        let greeting =
            MultiplexedConnection::new_with_config(&self.info, stream, self.config.clone());
        let (connection, driver) = tokio::time::timeout(GREETING, greeting)
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        (self.spawn)(Box::pin(driver));
        let mut current = self.current();
        let number = self.dials.fetch_add(1, Ordering::AcqRel) + 1;
        self.number.store(number, Ordering::Release);
        Ok(current.insert(Dialled { connection, number }).clone())
    }

    /// Forgets a connection that broke, so that the next command dials.
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
        self.inner.info.db()
    }
}
