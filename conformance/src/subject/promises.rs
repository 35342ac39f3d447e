//! What a lock claims. The verdict depends on it: nobody is convicted of what it never promised.

use crate::{history::Kind, scenario::Topology};

/// The claims of a lock: what it is, what it runs on, what it bears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promises {
    /// What kind of lock it is. Decides what scenarios ask of it.
    pub kind: Kind,
    /// The servers that it wants.
    pub topology: Topology,
    /// Whether its holder may take it again, to release it as often.
    pub reentrant: bool,
    /// Grants carry a deadline (or are renewed), so exclusion is claimed past the lease as well.
    pub deadline: bool,
    /// The largest relative error between a client's and the server's clock that is tolerated, in
    /// parts per million.
    pub drift_ppm: u32,
    /// A failover to a replica is said to lose no grant.
    pub survives_failover: bool,
}

impl Promises {
    /// A mutex on one Redis node: at most one holder, leases of dead holders end, only the owner
    /// releases. Claims nothing for work that outlasts the lease.
    #[must_use]
    pub const fn mutex_on_one_node() -> Self {
        Self {
            kind: Kind::Mutex,
            topology: Topology::ONE,
            reentrant: false,
            deadline: false,
            drift_ppm: 0,
            survives_failover: false,
        }
    }

    /// The same of another kind: a semaphore, a read-write lock, a counter, a latch.
    #[must_use]
    pub const fn of(kind: Kind) -> Self {
        Self {
            kind,
            ..Self::mutex_on_one_node()
        }
    }

    /// It runs on these servers.
    #[must_use]
    pub const fn on(mut self, topology: Topology) -> Self {
        self.topology = topology;
        self
    }

    /// Its holder may take it again.
    #[must_use]
    pub const fn reentrant(mut self) -> Self {
        self.reentrant = true;
        self
    }

    /// The holder is told a deadline until which it holds, whatever happens.
    #[must_use]
    pub const fn with_deadline(mut self) -> Self {
        self.deadline = true;
        self
    }

    /// A failover to a replica loses no grant: what people say of it.
    #[must_use]
    pub const fn surviving_failover(mut self) -> Self {
        self.survives_failover = true;
        self
    }

    /// Clocks may differ in rate by this much.
    #[must_use]
    pub const fn with_drift_ppm(mut self, ppm: u32) -> Self {
        self.drift_ppm = ppm;
        self
    }
}
