//! Slow links: messages of one direction arrive late, but in order.

use super::{HOSTS_MAX, NODES_MAX, Nemesis, SPAN, Strike};
use crate::scenario::{Direction, Fault};
use proptest::{collection::vec, prelude::*};

/// Delays requests or replies.
pub(super) struct Delay;

impl Nemesis for Delay {
    fn name(&self) -> &'static str {
        "delay"
    }

    fn summary(&self) -> &'static str {
        "requests or replies arrive late, some after the client's timeout"
    }

    fn strikes(&self) -> BoxedStrategy<Vec<Strike>> {
        let direction = prop_oneof![Just(Direction::Requests), Just(Direction::Replies)];
        let by = prop_oneof![3 => 1..20_u64, 2 => 20..150_u64];
        let node = prop::option::of(0..NODES_MAX);
        let strike = (SPAN, 5..120_u64, 0..HOSTS_MAX, node, direction, by);
        let strike = strike.prop_map(|(at, length, host, node, direction, by_ms)| Strike {
            at,
            length,
            fault: Fault::Delay {
                host,
                node,
                direction,
                by_ms,
            },
        });
        vec(strike, 1..5).boxed()
    }
}
