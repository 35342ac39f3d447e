//! Locks under load, in real time: what they cost and how they share, as `redouble-check bench` shows it.
//!
//! Every client is a task with connections of its own, on as many threads as there are cores. A closed loop
//! asks again as soon as it has given back; an open loop begins at times that are laid down beforehand, and
//! counts from them, so that a cycle that begins late because the one before took long is counted as late.
//!
//! ```text
//! Place -> servers -> Machine -> Host -> Suspect::open -> client loops -> Spot (its holders), Tally -> Measured
//! ```

mod chart;
mod client;
mod commands;
mod json;
mod latencies;
mod load;
mod measure;
mod measured;
mod metronome;
mod page;
mod place;
mod spot;
mod table;

pub use json::text as json;
pub use latencies::Latencies;
pub use load::Load;
pub use measure::{BenchError, measure};
pub use measured::{Failure, Measured, Overlaps};
pub use page::page;
pub use place::Place;
pub use table::table;
