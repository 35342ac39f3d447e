//! Servers that stand still, as a stopped process does: requests queue and are executed later,
//! whatever their senders think by then.

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
        "nodes stand still for up to a lease, and execute their requests afterwards"
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
