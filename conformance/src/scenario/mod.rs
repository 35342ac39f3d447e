//! Scenarios: their events, the strategies that generate them, the passes that shrink them.

mod aim;
pub(crate) mod chance;
mod event;
mod fault;
pub mod fixed;
pub mod generate;
pub mod nemesis;
mod op;
mod shrink;
mod times;
mod valid;
mod words;
mod workload;

pub use crate::vocabulary::{Capability, Topology};
pub use event::{Event, Happening, Scenario, Schedule};
pub use fault::{Direction, Fault, Lost, ServerError};
pub use op::Op;
pub(crate) use shrink::EVENTS_READABLE;
pub use shrink::{Shrunk, shrink};
pub(crate) use words::{How, Node};
