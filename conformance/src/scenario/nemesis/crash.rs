//! Client processes that crash and start again with empty memory.

use super::{HOSTS_MAX, Nemesis, SPAN, Strike};
use crate::scenario::Fault;
use proptest::{collection::vec, prelude::*};

/// Crashes client processes.
pub(super) struct Crash;

impl Nemesis for Crash {
    fn name(&self) -> &'static str {
        "crash"
    }

    fn summary(&self) -> &'static str {
        "client processes crash and start again"
    }

    fn strikes(&self) -> BoxedStrategy<Vec<Strike>> {
        let strike = (SPAN, 2..120_u64, 0..HOSTS_MAX).prop_map(|(at, length, host)| Strike {
            at,
            length,
            fault: Fault::Crash { host },
        });
        vec(strike, 1..4).boxed()
    }
}
