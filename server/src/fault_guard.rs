//! The guard of a message fault.

use crate::fault::{MessageRule, Ruled};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A fault that is installed; dropping it removes the fault and lets go on what it still holds.
#[must_use = "the fault is removed when this is dropped"]
pub struct FaultGuard {
    owner: Arc<dyn Ruled>,
    id: u64,
    fired: Arc<AtomicU64>,
    /// The rule as it prints itself.
    name: String,
}

impl FaultGuard {
    pub(crate) fn install(owner: Arc<dyn Ruled>, rule: Box<dyn MessageRule>) -> Self {
        let name = format!("{rule:?}");
        let (id, fired) = owner.plan().install(rule);
        Self {
            owner,
            id,
            fired,
            name,
        }
    }

    /// How many messages it has hit.
    pub fn fired(&self) -> u64 {
        self.fired.load(Ordering::Acquire)
    }

    /// Asserts how many messages it has hit.
    ///
    /// # Panics
    /// If they were more or less, in the line of the test that called it.
    #[track_caller]
    pub fn expect_fired(&self, n: u64) {
        let fired = self.fired();
        assert!(
            fired == n,
            "the fault \"{}\" was expected to hit {n} messages and has hit {fired}",
            self.name
        );
    }

    /// Removes the fault. What it holds goes on, but for what waits for a gate of the caller's own.
    pub fn remove(self) {}

    /// The same, as one says of a partition.
    pub fn heal(self) {}
}

impl fmt::Debug for FaultGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (fired {} times)", self.name, self.fired())
    }
}

impl Drop for FaultGuard {
    fn drop(&mut self) {
        let _removed_otherwise = self.owner.plan().remove(self.id);
    }
}
