//! What a run is made of: events, the strategies that generate them, the passes that shrink them.

mod event;
pub mod generate;
pub mod nemesis;
mod shrink;

pub use event::{Direction, Event, Fault, Happening, Lost, Op, Scenario, Schedule};
pub use shrink::{Shrunk, shrink};
