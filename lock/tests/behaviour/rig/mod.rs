//! A double in virtual time, and connections to it that the lock crate makes and replaces by itself.

#![allow(dead_code, reason = "no test needs all of it")]

pub(crate) mod real;

use redis::{
    AsyncConnectionConfig, ProtocolVersion, RedisConnectionInfo, RedisResult,
    aio::MultiplexedConnection,
};
use redouble::{Clock, Server};
use redouble_lock::{BoxFuture, Connected, Connector, LockManager};
use std::{sync::Arc, time::Duration};
use tokio::sync::mpsc::unbounded_channel;

pub(crate) type Test = Result<(), Box<dyn std::error::Error>>;

pub(crate) const KEY: &str = "coupon:7";
pub(crate) const LEASE: Duration = Duration::from_secs(30);
pub(crate) const REPLY_TIMEOUT: Duration = Duration::from_millis(500);

pub(crate) async fn server() -> Arc<Server> {
    let server = Server::builder().clock(Clock::Tokio).history(1_000);
    Arc::new(server.start().await.unwrap())
}

pub(crate) struct InProcess(pub(crate) Arc<Server>);

impl Connector for InProcess {
    type Connection = MultiplexedConnection;

    fn connect(&self) -> BoxFuture<'_, RedisResult<Connected<Self::Connection>>> {
        Box::pin(async {
            let (sender, pushes) = unbounded_channel();
            let config = AsyncConnectionConfig::new()
                .set_response_timeout(None)
                .set_push_sender(sender);
            let info = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3);
            let stream = self.0.connect();
            let made = MultiplexedConnection::new_with_config(&info, stream, config).await?;
            Ok(Connected::new(made.0).driver(made.1).pushes(pushes))
        })
    }
}

pub(crate) fn locks(server: &Arc<Server>) -> LockManager {
    LockManager::builder(InProcess(Arc::clone(server))).build()
}

pub(crate) async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Runs a command as another client.
pub(crate) async fn ask<T: redis::FromRedisValue>(server: &Server, words: &[&str]) -> T {
    let mut redis = server.connection().await.unwrap();
    let mut command = redis::cmd(words[0]);
    words[1..].iter().for_each(|word| {
        command.arg(word);
    });
    command.query_async(&mut redis).await.unwrap()
}

/// The names of all keys.
pub(crate) async fn keys(server: &Server) -> Vec<String> {
    ask(server, &["KEYS", "*"]).await
}
