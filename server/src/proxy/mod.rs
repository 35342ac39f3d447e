//! The message faults of the double in front of a real Redis.
//!
//! A proxy understands RESP: it knows which frame answers which request, so that a reply can be lost
//! after the request was executed, an error answered in the server's place, a message delayed while
//! what follows it waits. The rules are those of [`crate::fault`], the very same objects.
//!
//! * [`Proxy::wrap`] puts the rules around any stream to a server: an in-process one, TCP, TLS.
//! * [`ProxyServer`] listens and connects each client to a server: for clients that dial by themselves.
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
//! What differs from the double: a rule knows a connection by its number at the proxy, not by what
//! CLIENT ID answers; a request that a rule ends after execution is only known to be executed when
//! the server's reply has come, so the client sees the end then. Replication (SYNC, PSYNC) and what
//! changes the order of replies inside MULTI (SUBSCRIBE, CLIENT REPLY, HELLO, MONITOR) is refused with
//! an error. CLIENT REPLY before AUTH is taken as if it were obeyed.

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

/// Rules, and what the connections that they are for have in common.
#[derive(Debug)]
struct SharedProxy {
    plan: Plan,
    connections: AtomicU64,
    /// Delays are counted from here.
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

/// The rules for streams to servers. Clones are the same proxy.
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

    /// The same with a seed for rules with a probability.
    pub fn with_seed(seed: u64) -> Self {
        Self(SharedProxy::new(seed))
    }

    /// Installs a fault; it goes away with the guard.
    pub fn inject<F>(&self, rule: Rule<F>) -> FaultGuard
    where
        Rule<F>: MessageRule + 'static,
    {
        self.inject_rule(rule)
    }

    /// Installs a rule of the caller's own, or one that [`fault::parse`](crate::fault::parse) made.
    pub fn inject_rule(&self, rule: impl Into<Box<dyn MessageRule>>) -> FaultGuard {
        FaultGuard::install(self.0.clone(), rule.into())
    }

    /// Puts the rules around a stream to a server. The client is at `in-process:0`.
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

    /// The same for a client at an address, as the conditions of rules see it.
    pub fn wrap_from<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        addr: &str,
        stream: S,
    ) -> Proxied<S> {
        let id = self.0.connections.fetch_add(1, Ordering::AcqRel) + 1;
        Proxied::new(self.0.clone(), id, addr.to_owned(), stream)
    }
}
