//! A connection that the code under test can keep: it reconnects after an error.

use super::host::{Host, Running};
use redis::{
    Cmd, Pipeline, RedisError, RedisFuture, RedisResult, Value,
    aio::{ConnectionLike, MultiplexedConnection},
};
use std::{future::Future, io, sync::Arc, time::Duration};
use tokio::sync::Mutex;

/// A `redis` connection of a [`Host`]. Clones share one link. After an error that leaves the link in doubt
/// (it broke, or a reply timed out) the next request connects again.
#[derive(Clone)]
pub struct Connection {
    host: Host,
    node: u8,
    patience: Duration,
    current: Arc<Mutex<Option<Arc<Dialled>>>>,
}

/// A live link. Dropping it ends its driver and closes the link.
struct Dialled {
    connection: MultiplexedConnection,
    driver: Option<Running>,
}

impl Drop for Dialled {
    fn drop(&mut self) {
        if let Some(driver) = &self.driver {
            driver.abort();
        }
    }
}

impl Host {
    /// Opens a connection to the first server, or to the master of its replicas. It connects again after it
    /// broke or a reply timed out.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub async fn connection(&self) -> RedisResult<Connection> {
        self.connect_to(0).await
    }

    /// Opens a connection like [`connection`](Self::connection) to another server, numbered from 0.
    ///
    /// # Errors
    /// If the server cannot be reached, or there is no server of this number.
    pub async fn connect_to(&self, node: u8) -> RedisResult<Connection> {
        self.patient_connection(node, self.request_timeout()).await
    }

    /// Opens a connection like [`connect_to`](Self::connect_to) with another timeout of replies.
    ///
    /// # Errors
    /// If the server cannot be reached, or there is no server of this number.
    pub async fn patient_connection(
        &self,
        node: u8,
        patience: Duration,
    ) -> RedisResult<Connection> {
        Connection::open(self.clone(), node, patience).await
    }
}

impl Connection {
    async fn open(host: Host, node: u8, patience: Duration) -> RedisResult<Self> {
        let connection = Self {
            host,
            node,
            patience,
            current: Arc::default(),
        };
        connection.dialled().await?;
        Ok(connection)
    }

    async fn dialled(&self) -> RedisResult<Arc<Dialled>> {
        let mut current = self.current.lock().await;
        if let Some(dialled) = &*current {
            return Ok(Arc::clone(dialled));
        }
        let dialling = self.host.dial(self.node);
        let (connection, driver) = self.in_time(dialling).await?;
        let driver = self.host.spawn_task(driver);
        let dialled = Arc::new(Dialled { connection, driver });
        *current = Some(Arc::clone(&dialled));
        Ok(dialled)
    }

    /// Waits for a reply up to the timeout.
    async fn in_time<T>(&self, reply: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
        let reply = self.host.timeout(self.patience, reply).await;
        reply.unwrap_or_else(|| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
    }

    async fn replace_if_in_doubt(&self, dialled: &Arc<Dialled>, error: &RedisError) {
        if error.is_timeout() || error.is_io_error() || error.is_connection_dropped() {
            let mut current = self.current.lock().await;
            if current
                .as_ref()
                .is_some_and(|current| Arc::ptr_eq(current, dialled))
            {
                *current = None;
            }
        }
    }
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            let dialled = self.dialled().await?;
            let mut connection = dialled.connection.clone();
            let reply = self.in_time(connection.send_packed_command(cmd)).await;
            if let Err(error) = &reply {
                self.replace_if_in_doubt(&dialled, error).await;
            }
            reply
        })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async move {
            let dialled = self.dialled().await?;
            let mut connection = dialled.connection.clone();
            let replies = connection.send_packed_commands(pipeline, offset, count);
            let reply = self.in_time(replies).await;
            if let Err(error) = &reply {
                self.replace_if_in_doubt(&dialled, error).await;
            }
            reply
        })
    }

    fn get_db(&self) -> i64 {
        0
    }
}
