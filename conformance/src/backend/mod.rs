//! Backends that play scenarios: the embedded double, or a real Redis.
//!
//! A backend has virtual or real time, and offers [`Servers`] to connect to. Faults of client processes and
//! of the network are applied on the client side, in the same way for all backends.

mod blind;
mod double;
mod real;
pub mod redis_server;
mod wall_clock;

pub use blind::Blind;
pub use double::Double;
pub(crate) use double::DoubleOf;
pub use real::Real;
/// The value of a key, as [`View::data`] reads it.
pub use redouble::{Data, PendingEntry};
pub use wall_clock::WallClock;

use crate::{
    scenario::{Fault, Scenario},
    vocabulary::{Capability, Stored},
};
use redis::RedisConnectionInfo;
use redouble::TimeSource;
use std::{collections::BTreeMap, future::Future, io, pin::Pin, sync::Arc, time::Duration};
use tokio::io::{AsyncRead, AsyncWrite};

/// A boxed future.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A byte stream to a server.
pub trait Transport: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Transport for T {}

/// A backend that plays scenarios.
pub trait Backend: Send + Sync {
    /// Name in reports.
    fn name(&self) -> String;

    /// True if time is virtual: it passes only when no task is ready.
    fn virtual_time(&self) -> bool;

    /// Lease, in milliseconds, to which scenarios are scaled; `None` leaves their times unchanged.
    fn lease_ms(&self) -> Option<u64>;

    /// True if the suite can observe the servers' data.
    fn observes(&self) -> bool {
        true
    }

    /// True if the backend has a capability that a scenario needs.
    fn can(&self, capability: Capability) -> bool;

    /// Prepares servers for one run of a scenario, or a key of its own on a shared server. Doubles follow
    /// `time`, the true time of the run; their wall clocks show `epoch`, the time since 1970, when it begins.
    fn open<'a>(
        &'a self,
        scenario: &'a Scenario,
        time: Arc<dyn TimeSource>,
        epoch: Duration,
    ) -> Later<'a, io::Result<Opened>>;
}

/// Servers that are ready for a run.
pub struct Opened {
    /// The servers.
    pub servers: Arc<dyn Servers>,
    /// Timers of the servers, one per server, if the run has to drive them.
    pub drivers: Vec<Later<'static, ()>>,
}

/// The servers of a run, numbered from 0.
pub trait Servers: Send + Sync {
    /// The key of the lock under test.
    fn key(&self) -> &str;

    /// Credentials and database.
    fn login(&self) -> &RedisConnectionInfo;

    /// Opens a byte stream to a server.
    fn dial(&self, node: u8) -> Later<'_, io::Result<Box<dyn Transport>>>;

    /// Removes leftovers of the run if other users share the server.
    fn clean_up(&self) -> Later<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// True if [`view`](Self::view) works.
    fn observes(&self) -> bool {
        false
    }

    /// Returns a view of a server's data.
    fn view(&self, node: u8) -> Option<&dyn View> {
        let _ = node;
        None
    }

    /// Returns the server to which clients of the master are led.
    fn master(&self) -> u8 {
        0
    }

    /// True if the backend pauses servers itself; otherwise the links play the pauses.
    fn pauses(&self) -> bool {
        false
    }

    /// Starts a fault of servers that the backend supports.
    fn strike(&self, fault: Fault) {
        let _ = fault;
    }

    /// Ends a fault of servers.
    fn heal(&self, fault: Fault) {
        let _ = fault;
    }

    /// Returns the longest time that a server needed to start after a fault was over.
    fn gap(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns the error of a fault that could not be applied. The run then counts for nothing.
    fn failure(&self) -> Option<io::Error> {
        None
    }
}

/// Read access to a server's data, without side effects.
pub trait View {
    /// Returns the string at a key with its expiry in true time, unless it has expired.
    fn string(&self, key: &str) -> Option<Stored>;

    /// Returns the value at a key with its expiry in true time.
    fn data(&self, key: &str) -> Option<(Data, Option<Duration>)>;

    /// Returns the fields of the hash at a key that have a deadline of their own (`HPEXPIRE`), with their expiry in true time; `None`
    /// if that instant cannot be told, as the clock will be set. Other fields expire with the key.
    fn field_expiries(&self, _key: &str) -> BTreeMap<Vec<u8>, Option<Duration>> {
        BTreeMap::new()
    }

    /// Returns the pending entries of a consumer group of the stream at a key, by id. The time of a delivery is one of the server's
    /// clock.
    fn pending_entries(&self, _key: &str, _group: &str) -> Vec<PendingEntry> {
        Vec::new()
    }

    /// Returns all keys, sorted.
    fn keys(&self) -> Vec<Vec<u8>>;

    /// Returns the number of subscriptions to channels and patterns: two connections with the same channel have two.
    fn subscriptions(&self) -> usize;

    /// Returns the true time at which the server's clock shows `unix_ms` milliseconds since 1970; `None` if
    /// it never does. For deadlines that a lock stores in its values.
    fn true_time(&self, unix_ms: i64) -> Option<Duration>;

    /// Returns the lease of the scenario, with which the lock was opened. For locks that store when a grant began.
    fn lease(&self) -> Duration;
}
