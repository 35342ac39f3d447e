//! Faults of a node: pauses, crashes, evictions, lazy expiry, forgotten scripts.

use super::Database;
use crate::disk::Loss;
use crate::fault::Stall;
use crate::fault_guard::FaultGuard;
use crate::node_handle::NodeHandle;
use crate::server::Server;
use std::sync::Arc;
use std::time::Duration;

impl Database<'_> {
    /// Takes a key away as if memory had run short: it is gone, `evicted` is notified, and
    /// `evicted_keys` counts it. False when it is not there.
    pub fn evict(&self, key: impl AsRef<[u8]>) -> bool {
        let mut was_there = false;
        self.server.handle.change(|engine, now| {
            was_there = engine.evict(self.index, key.as_ref(), now);
        });
        was_there
    }
}

impl Server {
    /// Stops the server from serving its clients until the guard is dropped, as SIGSTOP does to a real
    /// server: connections stay open, requests queue, nothing expires visibly. Afterwards the server
    /// executes what clients have sent, even requests of clients that gave up meanwhile.
    ///
    /// Several pauses may stand; the last guard to be dropped ends the standstill.
    /// [`Server::resume`], a crash and `REDOUBLE.NODE RESUME` end all of them.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use redis::AsyncTypedCommands;
    /// use redouble::{Clock, Server};
    ///
    /// let server = Server::builder().clock(Clock::Tokio).start().await?;
    /// let mut redis = server.connection().await?;
    /// let pause = server.pause();
    /// assert!(redis.set("k", "v").await.unwrap_err().is_timeout());
    /// server.assert_missing("k");
    /// pause.resume(); // or drop it
    /// server.assert_get("k", "v");
    /// # Ok(()) }
    /// ```
    pub fn pause(&self) -> PauseGuard {
        PauseGuard {
            handle: self.handle.clone(),
            number: self.handle.shared.node().pause(),
        }
    }

    /// Freezes the clients whose name (CLIENT SETNAME) matches a glob pattern until the guard is dropped: the server
    /// executes nothing that they send, and they receive nothing. All other clients are served. Their messages arrive
    /// afterwards, in order. The code of a client goes on; only its connection stands still.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use redis::AsyncTypedCommands;
    /// use redouble::{Clock, Server};
    ///
    /// let server = Server::builder().clock(Clock::Tokio).start().await?;
    /// let mut worker = server.connection_builder().client_name("worker-1").open().await?;
    /// let mut other = server.connection().await?;
    /// let frozen = server.freeze_client("worker-1");
    /// assert!(worker.set("k", "v").await.unwrap_err().is_timeout());
    /// assert_eq!(other.get("k").await?, None);
    /// drop(frozen);
    /// assert_eq!(other.get("k").await?.as_deref(), Some("v")); // what it had sent arrived
    /// # Ok(()) }
    /// ```
    #[must_use = "the clients are frozen until the guard is dropped"]
    pub fn freeze_client(&self, name: impl AsRef<[u8]>) -> FaultGuard {
        self.inject(Stall::new().client_name(name))
    }

    /// Ends all pauses of the server, also those by `REDOUBLE.NODE PAUSE`, and serves the queued
    /// requests first. A guard that is dropped later does nothing.
    pub fn resume(&self) {
        self.handle.resume();
    }

    /// True while a [`PauseGuard`] or `REDOUBLE.NODE PAUSE` keeps the server from serving its clients.
    pub fn is_paused(&self) -> bool {
        self.handle.shared.node().is_paused()
    }

    /// Kills the server as `kill -9` does: every connection is reset and everything in memory lost;
    /// its [`Persistence`](crate::Persistence) and `loss` decide which data it has when it is
    /// [restarted](Server::restart). Scripts, subscriptions, parameters that
    /// CONFIG SET has changed and the history of replication are lost in every case.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use redis::AsyncTypedCommands;
    /// use redouble::{Loss, Persistence, Server};
    ///
    /// let server = Server::builder().persistence(Persistence::EverySecond).start().await?;
    /// let mut redis = server.connection().await?;
    /// redis.set("lock", "first").await?;
    /// redis.set("lock", "second").await?;
    /// server.crash(Loss::Last(1));
    /// assert!(redis.get("lock").await.is_err());
    /// server.restart();
    /// assert_eq!(redis.get("lock").await?.as_deref(), Some("first"));
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// For [`Loss::Last`](crate::Loss::Last) when the server has no persistence.
    #[track_caller]
    pub fn crash(&self, loss: Loss) {
        self.handle.crash(loss);
    }

    /// Starts a server again that has crashed. One that runs goes on.
    pub fn restart(&self) {
        self.restart_in(Duration::ZERO);
    }

    /// Starts a server again that has crashed, after a delay of true time. Until then the server refuses
    /// connections.
    pub fn restart_in(&self, delay: Duration) {
        self.handle.restart_in(delay);
    }

    /// Takes a key of database 0 away as if memory had run short: [`Database::evict`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use redis::AsyncTypedCommands;
    ///
    /// let server = redouble::Server::start().await?;
    /// let mut redis = server.connection().await?;
    /// redis.set("lock", "me").await?;
    /// assert!(server.evict("lock") && !server.evict("lock"));
    /// assert_eq!(redis.get("lock").await?, None);
    /// # Ok(()) }
    /// ```
    pub fn evict(&self, key: impl AsRef<[u8]>) -> bool {
        self.db(0).evict(key)
    }

    /// Until the guard is dropped, the server removes keys past their deadline only when a command looks
    /// at them. Until then no `expired` event is published, and DBSIZE counts them.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use redis::AsyncTypedCommands;
    /// use redouble::{Clock, Server};
    /// use std::time::Duration;
    ///
    /// let server = Server::builder().clock(Clock::Manual).start().await?;
    /// let mut redis = server.connection().await?;
    /// redis.pset_ex("k", "v", 100).await?;
    /// let lazy = server.lazy_expiry();
    /// server.clock().advance(Duration::from_secs(1));
    /// let size = redis::cmd("DBSIZE");
    /// assert_eq!(size.query_async::<i64>(&mut redis).await?, 1);
    /// drop(lazy);
    /// assert_eq!(size.query_async::<i64>(&mut redis).await?, 0);
    /// # Ok(()) }
    /// ```
    pub fn lazy_expiry(&self) -> LazyExpiry {
        self.handle.change(|engine, _| engine.expire_lazily(true));
        LazyExpiry {
            handle: self.handle.clone(),
        }
    }

    /// Forgets all scripts, as SCRIPT FLUSH and a restart do: EVALSHA is answered NOSCRIPT.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = redouble::Server::start().await?;
    /// let mut redis = server.connection().await?;
    /// let script = redis::Script::new("return 1");
    /// script.load_async(&mut redis).await?;
    /// server.flush_scripts();
    /// let mut call = redis::cmd("EVALSHA");
    /// let lost = call.arg(script.get_hash()).arg(0).query_async::<i64>(&mut redis).await;
    /// assert_eq!(lost.unwrap_err().code(), Some("NOSCRIPT"));
    /// # Ok(()) }
    /// ```
    pub fn flush_scripts(&self) {
        self.handle.change(|engine, _| engine.flush_scripts());
    }
}

/// A standstill of a server; dropping it ends the standstill: [`Server::pause`].
#[must_use = "the server goes on when this is dropped"]
pub struct PauseGuard {
    handle: Arc<NodeHandle>,
    number: u64,
}

impl PauseGuard {
    /// Lets the server go on, if no other pause stands.
    pub fn resume(self) {}
}

impl std::fmt::Debug for PauseGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PauseGuard").finish_non_exhaustive()
    }
}

impl Drop for PauseGuard {
    fn drop(&mut self) {
        self.handle.end_pause(self.number);
    }
}

/// While it lives, keys past their deadline stay until a command looks at them: [`Server::lazy_expiry`].
#[derive(Debug)]
#[must_use = "keys expire by themselves again when this is dropped"]
pub struct LazyExpiry {
    handle: Arc<NodeHandle>,
}

impl Drop for LazyExpiry {
    fn drop(&mut self) {
        self.handle.change(|engine, _| engine.expire_lazily(false));
    }
}
