//! Clocks of servers that run slower than locks tolerate: leases end late.

use super::{NODES_MAX, Nemesis, SPAN, Strike};
use crate::scenario::Fault;
use proptest::{collection::vec, prelude::*};

/// Makes clocks of nodes run at down to half their rate.
pub(super) struct NodeSlow;

impl Nemesis for NodeSlow {
    fn name(&self) -> &'static str {
        "node-slow"
    }

    fn summary(&self) -> &'static str {
        "clocks of nodes run at down to half their rate"
    }

    fn is_beyond(&self) -> bool {
        true
    }

    fn strikes(&self) -> BoxedStrategy<Vec<Strike>> {
        let strike = (SPAN, 60..600_u64, 0..NODES_MAX, -500_000..-20_000_i64).prop_map(
            |(at, length, node, ppm)| Strike {
                at,
                length,
                fault: Fault::NodeDrift { node, ppm },
            },
        );
        vec(strike, 1..3).boxed()
    }
}
