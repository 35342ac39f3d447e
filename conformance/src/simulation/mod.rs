//! The simulated world: hosts with clocks, links that misbehave, and a scheduler drawn from a seed.
//!
//! The same world runs on both backends. On the double its runtime's clock is paused and moves
//! only when nobody can run; on a real server it is the wall clock.

pub(crate) mod chance;
mod clock;
mod connection;
mod director;
mod gate;
mod host;
mod listener;
mod machine;
mod network;
pub(crate) mod off_scheduler_process;
mod pairing;
#[cfg(unix)]
pub(crate) mod plain;
mod player;
mod port;
mod recorder;
mod resource;
mod scheduler;
mod sim_env;
mod stream;
pub(crate) mod threads;
mod true_time;
mod world;

pub use clock::HostClock;
pub use connection::Connection;
pub use host::Host;
pub use listener::Listener;
#[cfg(feature = "bench")]
pub(crate) use machine::Machine;
pub(crate) use port::Port;
pub use scheduler::is_playing;
pub(crate) use scheduler::{Outside, Task};
pub use stream::Transport;
pub use world::{PROBE_OP, Run, RunError, run};

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
