//! Servers that reach their memory limit and evict the key of a held lock.

use super::{NODES_MAX, Nemesis, SPAN, Strike};
use crate::scenario::Fault;
use proptest::{collection::vec, prelude::*};

/// Evicts the key.
pub(super) struct Eviction;

impl Nemesis for Eviction {
    fn name(&self) -> &'static str {
        "eviction"
    }

    fn summary(&self) -> &'static str {
        "nodes evict the key of the lock"
    }

    fn is_beyond(&self) -> bool {
        true
    }

    fn strikes(&self) -> BoxedStrategy<Vec<Strike>> {
        let strike = (SPAN, 0..NODES_MAX).prop_map(|(at, node)| Strike {
            at,
            length: 0,
            fault: Fault::Evict { node },
        });
        vec(strike, 1..5).boxed()
    }
}
