//! The terms that scenarios, subjects, histories and checkers share: clients and their operations, kinds of locks, servers,
//! stored holders, promises.
//!
//! It knows no other folder, so that each of the others can import it.

mod actor;
mod holder;
mod kind;
mod promises;
mod refusal;
mod topology;

use std::time::Duration;

/// A time that never comes: the end of a fault that lasts, of a call without a result. Checkers add other times to it, so it is far
/// below the largest `Duration`.
pub const NEVER: Duration = Duration::from_secs(1 << 54);

pub(crate) use actor::PROBES_MAX;
pub use actor::{Actor, FIRST_PROBE_OP, OpId, PROBE_HOST, PROBE_OP};
pub use holder::{Holder, Scope, Stored, Token};
pub(crate) use kind::CLEAN_UPS_PER_LEASE;
pub use kind::{Kind, Mode, POLLS_PER_LEASE, REQUESTS_PER_LEASE};
pub use promises::{Fencing, LINGER, Promises};
pub use refusal::Refusal;
pub use topology::{Capability, Topology};
