//! The simulation: hosts with clocks, links with faults, and a scheduler drawn from a seed.
//!
//! Both backends use it. On the double time is virtual and passes only when no task is ready; on a real
//! server it is real time.

mod awaited_pauses;
mod blocking;
mod clock;
mod connection;
mod director;
mod gate;
mod host;
mod listener;
mod machine;
mod network;
pub(crate) mod off_scheduler_process;
mod outcome;
mod pairing;
#[cfg(unix)]
pub(crate) mod plain;
mod player;
mod port;
mod processes;
mod recorder;
mod resource;
mod run;
mod scheduler;
mod sim_env;
mod stream;
pub(crate) mod threads;
mod true_time;
mod world;

pub use crate::backend::Transport;
pub use crate::vocabulary::{FIRST_PROBE_OP, PROBE_OP};
pub use clock::HostClock;
pub use connection::Connection;
pub use host::Host;
pub use listener::Listener;
#[cfg(feature = "bench")]
pub(crate) use machine::Machine;
pub use outcome::{Run, RunError};
pub(crate) use port::Port;
pub use run::run;
pub(crate) use scheduler::Outside;
pub use scheduler::is_playing;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
