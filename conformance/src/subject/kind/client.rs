//! A client process that uses `redouble-lock`: connections over the host's links, and the host's clock, tasks
//! and randomness.

use crate::subject::Host;
use redis::{RedisResult, aio::MultiplexedConnection};
use redouble_lock::{
    BoxFuture, Connected, Connector, Environment, LockBuilder, LockManager, NoRuntime,
};
use std::time::Duration;

/// Fewest checks of a waiter per lease.
pub(super) const POLLS_PER_LEASE: u32 = 12;

/// Makes managers and sets options, the same for all kinds.
pub(super) struct Client {
    host: Host,
    lease: Duration,
    hold: Duration,
}

impl Client {
    pub(super) fn new(host: &Host, lease: Duration) -> Self {
        let (host, hold) = (host.clone(), Duration::ZERO);
        Self { host, lease, hold }
    }

    /// Sets the shortest time for which a grant keeps other clients out.
    pub(super) fn holding(self, hold: Duration) -> Self {
        Self { hold, ..self }
    }

    /// Returns the client process.
    pub(super) fn host(&self) -> &Host {
        &self.host
    }

    /// Returns the number of the client process.
    pub(super) fn number(&self) -> u8 {
        self.host.id()
    }

    /// Returns the manager of the first node.
    pub(super) fn locks(&self) -> LockManager {
        self.locks_on(0)
    }

    /// Returns a manager for each node.
    pub(super) fn all(&self) -> impl Iterator<Item = LockManager> {
        (0..self.host.nodes()).map(|node| self.locks_on(node))
    }

    fn locks_on(&self, node: u8) -> LockManager {
        let host = self.host.clone();
        LockManager::builder(Dialler { host, node })
            .connect_timeout(self.reply_timeout())
            .environment(Simulated(self.host.clone()))
            .build()
    }

    /// Returns a part of the lease: a `share` of 12 means a twelfth.
    pub(super) fn part_of_lease(&self, share: u32) -> Duration {
        self.lease / share
    }

    /// Returns the time limit of a request.
    pub(super) fn reply_timeout(&self) -> Duration {
        self.host.request_timeout()
    }

    /// Sets the options that suit leases of any length.
    pub(super) fn options<K>(&self, lock: LockBuilder<K>) -> LockBuilder<K> {
        lock.lease(self.lease)
            .reply_timeout(self.reply_timeout())
            .max_poll_interval(self.lease / POLLS_PER_LEASE)
            .hold_at_least(self.hold)
    }
}

/// Connects to a node over the host's link.
struct Dialler {
    host: Host,
    node: u8,
}

impl Connector for Dialler {
    type Connection = MultiplexedConnection;

    fn connect(&self) -> BoxFuture<'_, RedisResult<Connected<Self::Connection>>> {
        Box::pin(async {
            // The lock applies its own time limits, on the host's clock.
            let (connection, driver, pushes) = self.host.dial_resp3(self.node).await?;
            Ok(Connected::new(connection).driver(driver).pushes(pushes))
        })
    }
}

/// Gives the lock the host's clock, tasks and randomness.
struct Simulated(Host);

impl Environment for Simulated {
    fn now(&self) -> Duration {
        self.0.now()
    }

    fn sleep_until(&self, deadline: Duration) -> BoxFuture<'static, ()> {
        Box::pin(self.0.sleep_until(deadline))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) -> Result<(), NoRuntime> {
        self.0.spawn_task(task).map(drop).ok_or(NoRuntime)
    }

    fn random(&self) -> [u8; 16] {
        self.0.random()
    }
}
