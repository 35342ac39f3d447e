//! Suspended machines of clients: no code runs there, and even the monotonic clock stands still. After the
//! suspension a client relies on a deadline that has passed on all other clocks.

use super::{HOSTS_MAX, Nemesis, SPAN, Strike};
use crate::scenario::Fault;
use proptest::{collection::vec, prelude::*};

/// Suspends the machines of clients.
pub(super) struct Suspend;

impl Nemesis for Suspend {
    fn name(&self) -> &'static str {
        "suspend"
    }

    fn summary(&self) -> &'static str {
        "machines of clients are suspended, including their monotonic clocks"
    }

    fn is_beyond(&self) -> bool {
        true
    }

    fn strikes(&self) -> BoxedStrategy<Vec<Strike>> {
        let strike = (SPAN, 5..240_u64, 0..HOSTS_MAX).prop_map(|(at, length, host)| Strike {
            at,
            length,
            fault: Fault::Suspend { host },
        });
        vec(strike, 1..3).boxed()
    }
}
