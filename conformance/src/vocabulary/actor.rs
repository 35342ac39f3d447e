//! The clients of a run and the numbers of their operations.

use serde::{Deserialize, Serialize};
use std::fmt;

/// One task of one client process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Actor {
    /// The client process; tasks of one process share its lock object, clock and fate.
    pub host: u8,
    /// The task within the process.
    #[serde(default)]
    pub task: u8,
}

impl Actor {
    /// Task 0 of a host.
    #[must_use]
    pub const fn on(host: u8) -> Self {
        Self { host, task: 0 }
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.host, self.task) {
            (PROBE_HOST, _) => f.write_str("probe"),
            (host, 0) => write!(f, "c{}", u32::from(host) + 1),
            (host, task) => write!(f, "c{}.{}", u32::from(host) + 1, u32::from(task) + 1),
        }
    }
}

/// The host of the probe that asks for the lock after everybody else has died.
pub const PROBE_HOST: u8 = u8::MAX;

/// Identifies an operation within a history; a grant has the id of the operation that won it.
pub type OpId = u32;

/// The operation by which the probe acquires the lock at the end of every run.
pub const PROBE_OP: OpId = OpId::MAX - 1;

/// The probe of a semaphore whose calls take one permit each has operations from this number on.
pub const FIRST_PROBE_OP: OpId = PROBE_OP - PROBES_MAX;

/// Most permits that the probe takes one by one.
pub(crate) const PROBES_MAX: u32 = 64;
