//! Where scenarios run: on the embedded double, or on a real Redis.
//!
//! A backend gives a runtime's kind of time and a [`Node`] to dial. Network faults and pauses do
//! not live here: they are made on the client side, the same for all backends.

mod double;
mod real;
pub mod redis_server;

pub use double::Double;
pub use real::Real;

use crate::{
    history::Stored,
    simulation::{Task, Transport},
};
use redis::RedisConnectionInfo;
use std::{future::Future, io, pin::Pin, sync::Arc};

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

    /// Prepares a server, or a key of its own, for one run.
    fn open(&self, seed: u64) -> Later<'_, io::Result<Opened>>;
}

/// What a backend prepares for a run.
pub struct Opened {
    /// The server.
    pub node: Arc<dyn Node>,
    /// Drives the server's own timers, where that is our business.
    pub driver: Option<Task>,
}

/// A server during a run.
pub trait Node: Send + Sync {
    /// The key of the lock under test.
    fn key(&self) -> &str;

    /// Opens a byte stream to the server.
    fn dial(&self) -> Later<'_, io::Result<Box<dyn Transport>>>;

    /// Who logs in, and to which database.
    fn login(&self) -> &RedisConnectionInfo;

    /// Removes what the run may have left behind, where others would be bothered by it.
    fn clean_up(&self) -> Later<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Whether [`peek`](Self::peek) works.
    fn observes(&self) -> bool {
        false
    }

    /// What the server stores under the key at this instant, expired keys left out.
    fn peek(&self) -> Option<Stored> {
        None
    }
}
