//! Servers that are paused like a stopped process. They execute queued requests later, even if the senders
//! have given up.

use super::{NODES_MAX, Nemesis, SPAN, Strike};
use crate::scenario::Fault;
use proptest::{collection::vec, prelude::*};

/// Pauses nodes.
pub(super) struct NodePause;

impl Nemesis for NodePause {
    fn name(&self) -> &'static str {
        "node-pause"
    }

    fn summary(&self) -> &'static str {
        "nodes are paused for up to a lease, and execute their requests afterwards"
    }

    fn strikes(&self) -> BoxedStrategy<Vec<Strike>> {
        let strike = (SPAN, 5..120_u64, 0..NODES_MAX).prop_map(|(at, length, node)| Strike {
            at,
            length,
            fault: Fault::NodePause { node },
        });
        vec(strike, 1..4).boxed()
    }
}
