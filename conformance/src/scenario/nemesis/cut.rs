//! Connections that break during a message. The client cannot tell the three cases apart: the request is
//! lost, its reply is lost, or the request is still in flight.

use super::{HOSTS_MAX, NODES_MAX, Nemesis, SPAN, Strike};
use crate::scenario::{Fault, Lost};
use proptest::{collection::vec, prelude::*};

/// Cuts connections.
pub(super) struct Cut;

impl Nemesis for Cut {
    fn name(&self) -> &'static str {
        "cut"
    }

    fn summary(&self) -> &'static str {
        "connections break: request lost, reply lost, or request late"
    }

    fn strikes(&self) -> BoxedStrategy<Vec<Strike>> {
        let lost = prop_oneof![Just(Lost::Request), Just(Lost::Reply), Just(Lost::Late)];
        let strike = (
            SPAN,
            5..120_u64,
            0..HOSTS_MAX,
            prop::option::of(0..NODES_MAX),
            lost,
        )
            .prop_map(|(at, length, host, node, lost)| Strike {
                at,
                length,
                fault: Fault::Cut { host, node, lost },
            });
        vec(strike, 1..6).boxed()
    }
}
