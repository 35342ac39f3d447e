//! Clocks of servers that stand still for a while: no key expires there.

use super::{NODES_MAX, Nemesis, SPAN, Strike};
use crate::scenario::Fault;
use proptest::{collection::vec, prelude::*};

/// Stops clocks of nodes.
pub(super) struct NodeFreeze;

impl Nemesis for NodeFreeze {
    fn name(&self) -> &'static str {
        "node-freeze"
    }

    fn summary(&self) -> &'static str {
        "clocks of nodes stand still for up to a lease"
    }

    fn is_beyond(&self) -> bool {
        true
    }

    fn strikes(&self) -> BoxedStrategy<Vec<Strike>> {
        let strike = (SPAN, 5..120_u64, 0..NODES_MAX).prop_map(|(at, length, node)| Strike {
            at,
            length,
            fault: Fault::NodeFreeze { node },
        });
        vec(strike, 1..3).boxed()
    }
}
