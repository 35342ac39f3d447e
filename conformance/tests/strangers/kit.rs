//! Code that these locks share: a connection to each node, and short ways to send a request.

use redis::{FromRedisValue, RedisResult};
use redouble_conformance::{BoxError, Connection, Host};
use std::{sync::Arc, time::Duration};
use tokio::sync::OnceCell;

/// The lock object of a process.
#[derive(Clone)]
pub(crate) struct Handle {
    /// Connections to the nodes; the first request to a node opens its connection.
    nodes: Arc<Vec<OnceCell<Connection>>>,
    pub(crate) host: Host,
    /// Name of this process, different from that of any other process.
    pub(crate) me: String,
    pub(crate) key: String,
    pub(crate) lease: Duration,
}

impl Handle {
    /// Makes the lock object.
    #[expect(clippy::unused_async, reason = "the form of a subject")]
    pub(crate) async fn open(host: &Host, key: &str, lease: Duration) -> Result<Self, BoxError> {
        let nodes = (0..host.nodes()).map(|_| OnceCell::new());
        Ok(Self {
            nodes: Arc::new(nodes.collect()),
            host: host.clone(),
            me: host.random_token(),
            key: key.to_owned(),
            lease,
        })
    }

    /// Sends a command to a node.
    pub(crate) async fn ask_node<T: FromRedisValue>(
        &self,
        node: u8,
        words: &[&str],
    ) -> RedisResult<T> {
        let mut command = redis::Cmd::new();
        command.arg(words);
        let open = || self.host.connect_to(node);
        let redis = self.nodes[usize::from(node)].get_or_try_init(open).await?;
        command.query_async(&mut redis.clone()).await
    }

    /// Sends a command to the first node.
    pub(crate) async fn ask<T: FromRedisValue>(&self, words: &[&str]) -> RedisResult<T> {
        self.ask_node(0, words).await
    }

    /// Runs a script on the keys of the first node.
    pub(crate) async fn eval<T: FromRedisValue>(
        &self,
        script: &str,
        keys: &[&str],
        args: &[&str],
    ) -> RedisResult<T> {
        let count = keys.len().to_string();
        self.ask(&[&["EVAL", script, &count], keys, args].concat())
            .await
    }

    /// Returns the lease in milliseconds, as an argument.
    pub(crate) fn lease_ms(&self) -> String {
        self.lease.as_millis().to_string()
    }

    /// Returns the name of another key beside the key of the lock.
    pub(crate) fn beside(&self, name: &str) -> String {
        format!("{}:{name}", self.key)
    }
}

/// A grant that consists of its token.
pub(crate) struct Token(pub(crate) String);

/// The methods of a subject that are the same for all of these locks.
#[macro_export]
macro_rules! opens_a_handle {
    ($grant:ty) => {
        type Lock = $crate::kit::Handle;
        type Grant = $grant;

        async fn open(
            &self,
            host: &redouble_conformance::Host,
            key: &str,
            lease: std::time::Duration,
        ) -> Result<$crate::kit::Handle, redouble_conformance::BoxError> {
            $crate::kit::Handle::open(host, key, lease).await
        }
    };
}
