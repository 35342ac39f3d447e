//! Partitions between clients and servers, in one direction or both. TCP retransmits: messages arrive when
//! the partition heals, unless the connection was closed before.

use super::{HOSTS_MAX, NODES_MAX, Nemesis, SPAN, Strike};
use crate::scenario::{Direction, Fault};
use proptest::{collection::vec, prelude::*};

/// Separates clients from nodes.
pub(super) struct Partition;

impl Nemesis for Partition {
    fn name(&self) -> &'static str {
        "partition"
    }

    fn summary(&self) -> &'static str {
        "clients and nodes are separated for up to two leases, one way or both"
    }

    fn strikes(&self) -> BoxedStrategy<Vec<Strike>> {
        let strike = (
            SPAN,
            5..240_u64,
            0..HOSTS_MAX,
            prop::option::of(0..NODES_MAX),
            prop_oneof![
                2 => Just(None),
                1 => Just(Some(Direction::Requests)),
                1 => Just(Some(Direction::Replies)),
            ],
        )
            .prop_map(|(at, length, host, node, direction)| Strike {
                at,
                length,
                fault: Fault::Partition {
                    host,
                    node,
                    direction,
                },
            });
        vec(strike, 1..4).boxed()
    }
}
