//! Clocks of servers that are set forward: all leases end early.

use super::{NODES_MAX, Nemesis, SPAN, Strike};
use crate::scenario::Fault;
use proptest::{collection::vec, prelude::*};

/// Sets clocks of nodes forward.
pub(super) struct NodeClockForward;

impl Nemesis for NodeClockForward {
    fn name(&self) -> &'static str {
        "node-clock-forward"
    }

    fn summary(&self) -> &'static str {
        "clocks of nodes jump forward by up to two leases"
    }

    fn is_beyond(&self) -> bool {
        true
    }

    fn strikes(&self) -> BoxedStrategy<Vec<Strike>> {
        let strike = (SPAN, 0..NODES_MAX, 1..240_i64).prop_map(|(at, node, by_ms)| Strike {
            at,
            length: 0,
            fault: Fault::NodeClock { node, by_ms },
        });
        vec(strike, 1..3).boxed()
    }
}
