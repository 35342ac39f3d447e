//! A sentinel's view: the master that it watches, the replicas and the other sentinels. `topology/`
//! decides which nodes are down and which replica takes over; the sentinel reports it.

use crate::engine::peers::replication::Address;
use std::time::Duration;

/// A node in the sentinels' view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) address: Address,
    pub(crate) run_id: String,
    pub(crate) is_down: bool,
    /// Replication offset, bytes.
    pub(crate) offset: u64,
}

/// A watched master with its replicas and sentinels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Watched {
    /// The name for clients.
    pub(crate) name: String,
    pub(crate) master: Seen,
    pub(crate) replicas: Vec<Seen>,
    /// The sentinels with their ids, including this one.
    pub(crate) sentinels: Vec<(Address, String)>,
    /// Number of failovers (`config-epoch`).
    pub(crate) epoch: u64,
    pub(crate) quorum: usize,
    /// `down-after-milliseconds`.
    pub(crate) down_after: Duration,
}

/// The state of a sentinel.
#[derive(Clone, Debug)]
pub(crate) struct Sentinel {
    pub(crate) id: String,
    pub(crate) watched: Option<Watched>,
}
