//! Stop-the-world pauses of a client process, as by a garbage collector or a busy machine: no code of it
//! runs, but its clock goes on.

use super::{HOSTS_MAX, Nemesis, SPAN, Strike};
use crate::scenario::Fault;
use proptest::{collection::vec, prelude::*};

/// Pauses client processes.
pub(super) struct Pause;

impl Nemesis for Pause {
    fn name(&self) -> &'static str {
        "pause"
    }

    fn summary(&self) -> &'static str {
        "client processes are paused for up to two leases"
    }

    fn strikes_accesses(&self) -> bool {
        true
    }

    fn strikes(&self) -> BoxedStrategy<Vec<Strike>> {
        let strike = (SPAN, 5..240_u64, 0..HOSTS_MAX).prop_map(|(at, length, host)| Strike {
            at,
            length,
            fault: Fault::Pause { host, after: 0 },
        });
        vec(strike, 1..4).boxed()
    }
}
