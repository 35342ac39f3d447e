//! The adapter for sentinels: each connection is one to the master of that moment.

use super::{Connected, ConnectionSource, Connector};
use crate::environment::BoxFuture;
use redis::{
    Client, RedisResult,
    aio::{MultiplexedConnection, PubSub},
    sentinel::SentinelClient,
};
use tokio::sync::Mutex;

/// A source that is a `SentinelClient`.
#[derive(Debug)]
pub struct BySentinel;

impl ConnectionSource<BySentinel> for SentinelClient {
    fn connector(self) -> impl Connector {
        Sentinels(Mutex::new(self))
    }
}

struct Sentinels(Mutex<SentinelClient>);

impl Sentinels {
    /// Asks the sentinels for the master.
    async fn master(&self) -> RedisResult<Client> {
        self.0.lock().await.async_get_client().await
    }
}

impl Connector for Sentinels {
    type Connection = MultiplexedConnection;

    fn connect(&self) -> BoxFuture<'_, RedisResult<Connected<Self::Connection>>> {
        Box::pin(async { self.master().await?.connect().await })
    }

    fn subscriber(&self) -> BoxFuture<'_, RedisResult<Option<PubSub>>> {
        Box::pin(async { self.master().await?.subscriber().await })
    }
}
