//! The pure, invertible map between true time (the clock source's) and a node's own clock.

use crate::engine::UnixMicros;

/// How far a node's clock is ahead of true time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NodeClock {
    offset_us: i64,
}

impl NodeClock {
    /// What the node's clock shows at a point of true time.
    pub(crate) fn at(self, true_time: UnixMicros) -> UnixMicros {
        UnixMicros(true_time.0.saturating_add(self.offset_us))
    }

    /// When, in true time, the node's clock shows `node_time`.
    pub(crate) fn when(self, node_time: UnixMicros) -> UnixMicros {
        UnixMicros(node_time.0.saturating_sub(self.offset_us))
    }

    /// Moves the node's clock by `by_us` microseconds against true time.
    pub(crate) fn jump(&mut self, by_us: i64) {
        self.offset_us = self.offset_us.saturating_add(by_us);
    }
}
