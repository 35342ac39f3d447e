//! Servers that crash and come back empty, as servers without persistence do.

use super::{NODES_MAX, Nemesis, SPAN, Strike};
use crate::scenario::Fault;
use proptest::{collection::vec, prelude::*};

/// Crashes nodes that lose their data.
pub(super) struct NodeAmnesia;

impl Nemesis for NodeAmnesia {
    fn name(&self) -> &'static str {
        "node-amnesia"
    }

    fn summary(&self) -> &'static str {
        "nodes crash and come back empty"
    }

    fn is_beyond(&self) -> bool {
        true
    }

    fn strikes(&self) -> BoxedStrategy<Vec<Strike>> {
        // A holder notices nothing of a restart between two of its requests.
        let length = prop_oneof![1..6_u64, 2..60_u64];
        let strike = (SPAN, length, 0..NODES_MAX).prop_map(|(at, length, node)| Strike {
            at,
            length,
            fault: Fault::NodeCrash { node, keeps: false },
        });
        vec(strike, 1..3).boxed()
    }
}
