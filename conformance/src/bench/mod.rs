//! Locks under load, in real time: what they cost and how they share, as `redouble-check bench` shows it.
//!
//! Every client is a task with connections of its own, on as many threads as there are cores. A closed loop
//! asks again as soon as it has given back; an open loop begins at times that are laid down beforehand, and
//! counts from them, so that a cycle that begins late because the one before took long is counted as late.
//!
//! ```text
//! LockBackend -> servers -> Machine -> Host -> DynSubject::open -> client loops -> ContendedKey (its holders), Tally -> Measured
//! ```

mod chart;
mod client;
mod commands;
mod contended_key;
mod json;
mod latencies;
mod load;
mod lock_backend;
mod measure;
mod measured;
mod metronome;
mod page;
mod table;

pub use json::text as json;
pub use latencies::Latencies;
pub use load::Load;
pub use lock_backend::LockBackend;
pub use measure::{BenchError, measure};
pub use measured::{Failure, Measured, Overlaps};
pub use page::page;
pub use table::table;
