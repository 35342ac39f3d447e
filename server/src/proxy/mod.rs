//! A proxy that applies the double's message faults in front of a real Redis.
//!
//! A proxy understands RESP and knows which frame answers which request. So it can lose a reply
//! after the request was executed, answer an error in the server's place, or delay a message and
//! everything behind it. The rules are the same objects as in [`crate::fault`].
//!
//! * [`Proxy::wrap`] applies the rules to any stream to a server: in process, TCP, TLS.
//! * [`ProxyServer`] listens, and connects each client to a server, for clients that open
//!   connections themselves.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use redis::AsyncTypedCommands;
//! use redouble::{Server, fault::Disconnect, proxy::ProxyServer};
//!
//! let redis = Server::start().await?; // or a real one
//! let proxy = ProxyServer::start(redis.addr().to_string()).await?;
//! let lost = proxy.inject(Disconnect::after_execution().command("SET").nth(1));
//! let mut client = redis::Client::open(proxy.url())?.get_multiplexed_async_connection().await?;
//! assert!(client.set("k", "v").await.unwrap_err().is_connection_dropped());
//! redis.assert_get("k", "v"); // executed, and its reply was lost
//! lost.assert_fired(1);
//! # Ok(()) }
//! ```
//!
//! Differences from the double: rules identify a connection by its number at the proxy, not by the
//! server's CLIENT ID. If a rule ends a connection after execution, the client sees the end when
//! the server's reply has arrived, because only then is the request known to be executed. The proxy
//! refuses replication (SYNC, PSYNC), and commands inside MULTI that change the order of replies
//! (SUBSCRIBE, CLIENT REPLY, HELLO, MONITOR). It assumes that CLIENT REPLY succeeds even before
//! AUTH.

mod frames;
mod listen;
mod pairing;
mod relay;
mod stream;
mod value;

pub use listen::{ProxyBuilder, ProxyServer};
pub use stream::Proxied;

use crate::engine::UnixMicros;
use crate::fault::{MessageRule, Plan, Rule, Ruled};
use crate::fault_guard::FaultGuard;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

/// The rules, and the state that all connections share.
#[derive(Debug)]
struct SharedProxy {
    plan: Plan,
    connections: AtomicU64,
    /// Origin of the time for delays.
    origin: Instant,
}

impl SharedProxy {
    fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self {
            plan: Plan::new(seed),
            connections: AtomicU64::new(0),
            origin: Instant::now(),
        })
    }

    fn now(&self) -> UnixMicros {
        UnixMicros(0).plus(Instant::now().saturating_duration_since(self.origin))
    }

    fn instant(&self, at: UnixMicros) -> Instant {
        let micros = u64::try_from(at.0).unwrap_or(0);
        self.origin + std::time::Duration::from_micros(micros)
    }
}

impl Ruled for SharedProxy {
    fn plan(&self) -> &Plan {
        &self.plan
    }
}

/// The rules for streams to servers. Clones are handles to the same proxy.
#[derive(Clone, Debug)]
pub struct Proxy(Arc<SharedProxy>);

impl Default for Proxy {
    fn default() -> Self {
        Self::new()
    }
}

impl Proxy {
    /// A proxy without rules.
    pub fn new() -> Self {
        Self::with_seed(0)
    }

    /// A proxy without rules, with a seed for rules with a probability.
    pub fn with_seed(seed: u64) -> Self {
        Self(SharedProxy::new(seed))
    }

    /// Installs a fault. Dropping the guard removes it.
    pub fn inject<F>(&self, rule: Rule<F>) -> FaultGuard
    where
        Rule<F>: MessageRule + 'static,
    {
        self.inject_rule(rule)
    }

    /// Installs a custom rule, or one that [`fault::parse`](crate::fault::parse) made.
    pub fn inject_rule(&self, rule: impl Into<Box<dyn MessageRule>>) -> FaultGuard {
        FaultGuard::install(self.0.clone(), rule.into())
    }

    /// Applies the rules to a stream to a server. The address of the client is `in-process:0`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use redouble::{Server, fault::AnswerError, proxy::Proxy};
    /// use tokio::io::{AsyncReadExt, AsyncWriteExt};
    ///
    /// let (server, proxy) = (Server::start().await?, Proxy::new());
    /// let _rule = proxy.inject(AnswerError::readonly().command("SET"));
    /// let mut stream = proxy.wrap(server.connect()); // or a tokio::net::TcpStream
    /// stream.write_all(b"GET k\r\nSET k v\r\n").await?;
    /// let mut replies = [0; 14];
    /// stream.read_exact(&mut replies).await?;
    /// assert_eq!(&replies, b"$-1\r\n-READONLY");
    /// # Ok(()) }
    /// ```
    pub fn wrap<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S) -> Proxied<S> {
        self.wrap_from("in-process:0", stream)
    }

    /// Applies the rules to the stream of a client with this address, for the conditions of rules.
    pub fn wrap_from<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        addr: &str,
        stream: S,
    ) -> Proxied<S> {
        let id = self.0.connections.fetch_add(1, Ordering::AcqRel) + 1;
        Proxied::new(self.0.clone(), id, addr.to_owned(), stream)
    }
}
