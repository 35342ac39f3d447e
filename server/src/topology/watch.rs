//! Watches of the sentinels and their findings. Knows no node.

use crate::engine::UnixMicros;
use std::collections::BTreeSet;
use std::time::Duration;

/// The view of the sentinels.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) sentinels: Vec<usize>,
    pub(super) data: Vec<usize>,
    pub(super) master: usize,
    pub(super) epoch: u64,
    pub(super) down_after: Duration,
    /// Nodes that have crashed or were shut down: they have no connections.
    pub(super) absent: BTreeSet<usize>,
    /// Time since which the master is down and enough sentinels run to replace it.
    pub(super) down_since: Option<UnixMicros>,
    /// The nodes that were down when the sentinels were last updated.
    pub(super) reported_down: Vec<usize>,
    /// The sentinels have to be updated.
    pub(super) is_stale: bool,
    /// The failover that a client of a sentinel has asked for.
    pub(super) by_hand: Option<ByHand>,
    /// A former master that still takes itself for one, and the time at which it follows the new one.
    pub(super) demotion: Option<(usize, UnixMicros)>,
}

/// A failover by SENTINEL FAILOVER.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ByHand {
    /// The sentinel that runs it.
    pub(super) by: usize,
    /// The replica that becomes the master.
    pub(super) to: usize,
    pub(super) stage: Stage,
    /// Time of the next stage.
    pub(super) due: UnixMicros,
}

/// The next stage of a failover by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The replica becomes a master (`SENTINEL_FAILOVER_STATE_SEND_SLAVEOF_NOONE`).
    Promotion,
    /// The sentinel sees that it is one, and the other replicas follow it.
    Switch,
}

impl Watch {
    /// Sentinels without a view yet. The first data node is the master.
    pub(super) fn new(sentinels: Vec<usize>, data: Vec<usize>, down_after: Duration) -> Self {
        Self {
            sentinels,
            master: data.first().copied().unwrap_or(0),
            data,
            epoch: 0,
            down_after,
            absent: BTreeSet::new(),
            down_since: None,
            reported_down: Vec::new(),
            is_stale: true,
            by_hand: None,
            demotion: None,
        }
    }

    /// Restores the state at the start.
    pub(super) fn reset(&mut self) {
        let (sentinels, data) = (self.sentinels.clone(), self.data.clone());
        *self = Self::new(sentinels, data, self.down_after);
    }

    /// The sentinels that run.
    pub(super) fn present(&self) -> impl Iterator<Item = usize> {
        let all = self.sentinels.iter().copied();
        all.filter(|sentinel| !self.absent.contains(sentinel))
    }

    pub(super) fn is_sentinel(&self, node: usize) -> bool {
        self.sentinels.contains(&node)
    }

    /// Makes this node the master after a failover.
    pub(super) fn switch(&mut self, master: usize) {
        self.master = master;
        self.epoch += 1;
        self.down_since = None;
        self.is_stale = true;
        (self.by_hand, self.demotion) = (None, None);
    }
}
