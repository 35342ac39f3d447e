//! Clocks of servers that run faster than locks tolerate: leases end early.

use super::{NODES_MAX, Nemesis, SPAN, Strike};
use crate::scenario::Fault;
use proptest::{collection::vec, prelude::*};

/// Makes clocks of nodes run up to twice as fast.
pub(super) struct NodeFast;

impl Nemesis for NodeFast {
    fn name(&self) -> &'static str {
        "node-fast"
    }

    fn summary(&self) -> &'static str {
        "clocks of nodes run up to twice as fast"
    }

    fn is_beyond(&self) -> bool {
        true
    }

    fn strikes(&self) -> BoxedStrategy<Vec<Strike>> {
        let strike = (SPAN, 60..600_u64, 0..NODES_MAX, 20_000..1_000_000_i64).prop_map(
            |(at, length, node, ppm)| Strike {
                at,
                length,
                fault: Fault::NodeDrift { node, ppm },
            },
        );
        vec(strike, 1..3).boxed()
    }
}
