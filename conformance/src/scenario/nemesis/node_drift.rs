//! Clocks of servers that run fast or slow. The error stays within half of the 1 % that locks usually
//! tolerate, because the client's clock may take the other half.

use super::{NODES_MAX, Nemesis, SPAN, Strike};
use crate::scenario::fault::{DRIFT_PPM_MAX, Fault};
use proptest::prelude::*;

/// Makes the clocks of nodes drift.
pub(super) struct NodeDrift;

impl Nemesis for NodeDrift {
    fn name(&self) -> &'static str {
        "node-drift"
    }

    fn summary(&self) -> &'static str {
        "clocks of nodes are off by up to 5000 ppm"
    }

    fn strikes(&self) -> BoxedStrategy<Vec<Strike>> {
        // One interval per node: overlapping drifts would add up past the bound.
        let clock = |node| {
            (SPAN, 60..600_u64, -DRIFT_PPM_MAX..=DRIFT_PPM_MAX).prop_map(
                move |(at, length, ppm)| Strike {
                    at,
                    length,
                    fault: Fault::NodeDrift { node, ppm },
                },
            )
        };
        (0..NODES_MAX).map(clock).collect::<Vec<_>>().boxed()
    }
}
