//! Clocks of client processes whose error exceeds what locks tolerate. A client with a slow clock relies on
//! its lease after the server has ended it.

use super::{HOSTS_MAX, Nemesis, SPAN, Strike};
use crate::scenario::Fault;
use proptest::{collection::vec, prelude::*};

/// Makes clocks of client processes drift past the bound.
pub(super) struct DriftBeyond;

impl Nemesis for DriftBeyond {
    fn name(&self) -> &'static str {
        "drift-beyond"
    }

    fn summary(&self) -> &'static str {
        "clocks of client processes are off by 2 to 50 percent"
    }

    fn is_beyond(&self) -> bool {
        true
    }

    fn strikes(&self) -> BoxedStrategy<Vec<Strike>> {
        let strike = (
            SPAN,
            60..600_u64,
            0..HOSTS_MAX,
            20_000..500_000_i64,
            any::<bool>(),
        )
            .prop_map(|(at, length, host, ppm, slow)| Strike {
                at,
                length,
                fault: Fault::Drift {
                    host,
                    ppm: if slow { -ppm } else { ppm },
                },
            });
        vec(strike, 1..3).boxed()
    }
}
