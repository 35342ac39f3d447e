//! Servers that crash and come back with all their data.

use super::{NODES_MAX, Nemesis, SPAN, Strike};
use crate::scenario::Fault;
use proptest::{collection::vec, prelude::*};

/// Crashes nodes that keep their data.
pub(super) struct NodeCrash;

impl Nemesis for NodeCrash {
    fn name(&self) -> &'static str {
        "node-crash"
    }

    fn summary(&self) -> &'static str {
        "nodes crash and come back with their data"
    }

    fn strikes(&self) -> BoxedStrategy<Vec<Strike>> {
        // A server that stays away shows which locks need each one of several.
        let length = prop_oneof![4 => 2..120_u64, 1 => 240..480_u64];
        let strike = (SPAN, length, 0..NODES_MAX).prop_map(|(at, length, node)| Strike {
            at,
            length,
            fault: Fault::NodeCrash { node, keeps: true },
        });
        vec(strike, 1..4).boxed()
    }
}
