//! Locks under load, in real time: their cost and fairness, as `redouble-check bench` reports them.
//!
//! Every client is a task with connections of its own, or several tasks that share them; the tasks run on as many threads as
//! there are cores.
//! In a closed loop a client asks again as soon as it has released. In an open loop it starts at
//! predetermined times, and latencies count from them, so a cycle that starts late because the one before
//! took long counts as late.
//!
//! ```text
//! LockBackend -> servers -> Machine -> Host -> DynSubject::open -> client loops -> ContendedKey (its holders), Tally -> Measured
//! ```

mod chart;
mod client;
mod contended_key;
mod json;
mod latencies;
mod load;
mod lock_backend;
mod measure;
mod measured;
mod metronome;
mod page;
mod rounds;
mod server_work;
mod table;

pub use json::text as json;
pub use latencies::Latencies;
pub use load::Load;
pub use lock_backend::LockBackend;
pub use measure::{BenchError, measure};
pub use measured::{Failure, Measured, Overlaps, Round};
pub use page::page;
pub use rounds::median;
pub use server_work::ServerWork;
pub use table::table;
