//! Clocks of client processes that run fast or slow. The error stays within half of the 1 % that locks
//! usually tolerate, because the server's clock may take the other half.

use super::{HOSTS_MAX, Nemesis, SPAN, Strike};
use crate::scenario::fault::{DRIFT_PPM_MAX, Fault};
use proptest::prelude::*;

/// Makes the clocks of client processes drift.
pub(super) struct Drift;

impl Nemesis for Drift {
    fn name(&self) -> &'static str {
        "drift"
    }

    fn summary(&self) -> &'static str {
        "clocks of client processes are off by up to 5000 ppm"
    }

    fn strikes(&self) -> BoxedStrategy<Vec<Strike>> {
        let ppm = -DRIFT_PPM_MAX..=DRIFT_PPM_MAX;
        let clock = move |host| {
            (SPAN, 60..600_u64, ppm.clone()).prop_map(move |(at, length, ppm)| Strike {
                at,
                length,
                fault: Fault::Drift { host, ppm },
            })
        };
        // One interval per host: overlapping drifts would add up past the bound.
        (0..HOSTS_MAX).map(clock).collect::<Vec<_>>().boxed()
    }
}
