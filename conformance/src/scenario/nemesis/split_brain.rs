//! A replica that is promoted while its old master still serves: both grant the lock.

use super::{HOSTS_MAX, Nemesis, SPAN, Strike};
use crate::{scenario::Fault, vocabulary::Topology};
use proptest::{collection::vec, prelude::*};

/// Promotes a replica beside its master.
pub(super) struct SplitBrain;

impl Nemesis for SplitBrain {
    fn name(&self) -> &'static str {
        "split-brain"
    }

    fn summary(&self) -> &'static str {
        "a replica is promoted for one client while the old master serves the others"
    }

    fn is_beyond(&self) -> bool {
        true
    }

    fn applies(&self, topology: Topology) -> bool {
        matches!(topology, Topology::Replicated { .. })
    }

    fn strikes(&self) -> BoxedStrategy<Vec<Strike>> {
        let strike = (SPAN, 10..120_u64, 0..HOSTS_MAX).prop_map(|(at, length, host)| Strike {
            at,
            length,
            fault: Fault::SplitBrain { host },
        });
        vec(strike, 1..2).boxed()
    }
}
