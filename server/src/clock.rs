//! The pure, invertible map between true time (the clock source's) and a node's own clock.

use crate::engine::UnixMicros;
use std::sync::atomic::{AtomicI64, Ordering};

/// How far a node's clock is ahead of true time, in microseconds.
#[derive(Debug, Default)]
pub(crate) struct NodeClock(AtomicI64);

impl NodeClock {
    /// What the node's clock shows at a point of true time.
    pub(crate) fn at(&self, true_time: UnixMicros) -> UnixMicros {
        UnixMicros(true_time.0.saturating_add(self.0.load(Ordering::Acquire)))
    }

    /// When, in true time, the node's clock shows `node_time`.
    pub(crate) fn when(&self, node_time: UnixMicros) -> UnixMicros {
        UnixMicros(node_time.0.saturating_sub(self.0.load(Ordering::Acquire)))
    }

    /// Moves the node's clock by `by_us` microseconds against true time.
    pub(crate) fn jump(&self, by_us: i64) {
        let offset = self.0.load(Ordering::Acquire);
        self.0
            .store(offset.saturating_add(by_us), Ordering::Release);
    }
}
