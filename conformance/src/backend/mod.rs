//! Where scenarios run: on the embedded double, or on a real Redis.
//!
//! A backend gives a runtime's kind of time and [`Servers`] to dial. Faults of client processes and
//! of the network do not live here: they are made on the client side, the same for all backends.

mod blind;
mod double;
mod real;
pub mod redis_server;
mod wall_clock;

pub use blind::Blind;
pub use double::Double;
pub use real::Real;
pub use wall_clock::WallClock;

use crate::{
    history::Stored,
    scenario::{Capability, Fault, Scenario},
    simulation::{Task, Transport},
};
use redis::RedisConnectionInfo;
use redouble::TimeSource;
use std::{future::Future, io, pin::Pin, sync::Arc, time::Duration};

/// A boxed future.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A place to run scenarios.
pub trait Backend: Send + Sync {
    /// How reports call it.
    fn name(&self) -> String;

    /// Whether time is virtual: it then moves only when nothing can run.
    fn virtual_time(&self) -> bool;

    /// The lease, in milliseconds, to which scenarios are scaled; `None` to leave them alone.
    fn lease_ms(&self) -> Option<u64>;

    /// True if its servers can be looked into.
    fn observes(&self) -> bool {
        true
    }

    /// Whether it can do what a scenario needs.
    fn can(&self, capability: Capability) -> bool;

    /// Prepares servers, or a key of its own, for one run of a scenario. Servers whose clock is ours follow `time`,
    /// the true time of the run.
    fn open<'a>(
        &'a self,
        scenario: &'a Scenario,
        time: Arc<dyn TimeSource>,
    ) -> Later<'a, io::Result<Opened>>;
}

/// What a backend prepares for a run.
pub struct Opened {
    /// The servers.
    pub servers: Arc<dyn Servers>,
    /// Drive the servers' own timers, one per server, where that is our business.
    pub drivers: Vec<Task>,
}

/// The servers of a run, numbered from 0.
pub trait Servers: Send + Sync {
    /// The key of the lock under test.
    fn key(&self) -> &str;

    /// Who logs in, and to which database.
    fn login(&self) -> &RedisConnectionInfo;

    /// Opens a byte stream to a server.
    fn dial(&self, node: u8) -> Later<'_, io::Result<Box<dyn Transport>>>;

    /// Removes what the run may have left behind, where others would be bothered by it.
    fn clean_up(&self) -> Later<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Whether [`view`](Self::view) works.
    fn observes(&self) -> bool {
        false
    }

    /// Looks into a server.
    fn view(&self, node: u8) -> Option<&dyn View> {
        let _ = node;
        None
    }

    /// The server that clients are led to who ask for the master.
    fn master(&self) -> u8 {
        0
    }

    /// Whether it makes servers stand still by itself. Else that is done in the links.
    fn pauses(&self) -> bool {
        false
    }

    /// A fault of servers begins. Only called for what the backend can do.
    fn strike(&self, fault: Fault) {
        let _ = fault;
    }

    /// A fault of servers ends.
    fn heal(&self, fault: Fault) {
        let _ = fault;
    }

    /// For how long a server was longest away that a fault was over for: it has to start first.
    fn gap(&self) -> Duration {
        Duration::ZERO
    }

    /// Why a fault could not be made as it should; the run then says nothing.
    fn failure(&self) -> Option<io::Error> {
        None
    }
}

/// What there is to see in a server, without a trace.
pub trait View {
    /// The string at a key, expired ones left out, with its expiry in true time.
    fn string(&self, key: &str) -> Option<Stored>;

    /// Whatever is at a key, with its expiry in true time.
    fn data(&self, key: &str) -> Option<(redouble::Data, Option<Duration>)>;

    /// All keys, sorted.
    fn keys(&self) -> Vec<Vec<u8>>;

    /// Number of channels and patterns with a subscriber.
    fn subscriptions(&self) -> usize;

    /// The true time at which the server's clock shows so many milliseconds since 1970; `None` if it
    /// never will. For deadlines that a lock keeps within its values.
    fn true_time(&self, unix_ms: i64) -> Option<Duration>;
}
