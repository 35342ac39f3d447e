//! The simulation: hosts with clocks, links with faults, and a scheduler drawn from a seed.
//!
//! Both backends use it. On the double time is virtual and passes only when no task is ready; on a real
//! server it is real time.

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
pub use world::{FIRST_PROBE_OP, PROBE_OP, Run, RunError, run};

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
