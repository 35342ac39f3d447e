//! Failovers to a lagging replica: writes that it did not receive are lost.

use super::{Nemesis, SPAN, Strike};
use crate::{scenario::Fault, vocabulary::Topology};
use proptest::{collection::vec, prelude::*};

/// Promotes a lagging replica.
pub(super) struct FailOver;

impl Nemesis for FailOver {
    fn name(&self) -> &'static str {
        "failover"
    }

    fn summary(&self) -> &'static str {
        "the master crashes and a replica that lags up to half a lease takes over"
    }

    fn is_beyond(&self) -> bool {
        true
    }

    fn applies(&self, topology: Topology) -> bool {
        matches!(topology, Topology::Replicated { .. })
    }

    fn strikes(&self) -> BoxedStrategy<Vec<Strike>> {
        let strike = (SPAN, 1..60_u64).prop_map(|(at, length)| Strike {
            at,
            length,
            fault: Fault::FailOver,
        });
        vec(strike, 1..3).boxed()
    }
}
