//! Clocks of servers that are set back: leases end late. Holders keep their locks, but waiters wait longer.

use super::{NODES_MAX, Nemesis, SPAN, Strike};
use crate::scenario::Fault;
use proptest::{collection::vec, prelude::*};

/// Sets clocks of nodes back.
pub(super) struct NodeClockBack;

impl Nemesis for NodeClockBack {
    fn name(&self) -> &'static str {
        "node-clock-back"
    }

    fn summary(&self) -> &'static str {
        "clocks of nodes jump back by up to a lease"
    }

    fn is_beyond(&self) -> bool {
        true
    }

    fn strikes(&self) -> BoxedStrategy<Vec<Strike>> {
        let strike = (SPAN, 0..NODES_MAX, 1..120_i64).prop_map(|(at, node, by)| Strike {
            at,
            length: 0,
            fault: Fault::NodeClock { node, by_ms: -by },
        });
        vec(strike, 1..3).boxed()
    }
}
