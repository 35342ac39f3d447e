//! Wall clocks of clients that are set, as by a time server or an operator. A lock should not depend on them.

use super::{HOSTS_MAX, Nemesis, SPAN, Strike};
use crate::scenario::Fault;
use proptest::{collection::vec, prelude::*};

/// Sets wall clocks of clients.
pub(super) struct WallClock;

impl Nemesis for WallClock {
    fn name(&self) -> &'static str {
        "wall-clock"
    }

    fn summary(&self) -> &'static str {
        "wall clocks of clients jump by up to two leases"
    }

    fn strikes(&self) -> BoxedStrategy<Vec<Strike>> {
        let strike =
            (SPAN, 0..HOSTS_MAX, 1..240_i64, any::<bool>()).prop_map(|(at, host, by, back)| {
                Strike {
                    at,
                    length: 0,
                    fault: Fault::WallClock {
                        host,
                        by_ms: if back { -by } else { by },
                    },
                }
            });
        vec(strike, 1..5).boxed()
    }
}
