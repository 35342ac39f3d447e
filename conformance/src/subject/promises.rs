//! What a lock claims. The verdict depends on it: nobody is convicted of what it never promised.

/// The claims of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promises {
    /// Grants carry a deadline (or are renewed), so exclusion is claimed past the lease as well.
    pub deadline: bool,
    /// The largest relative error between a client's and the server's clock that is tolerated, in
    /// parts per million.
    pub drift_ppm: u32,
}

impl Promises {
    /// A mutex on one Redis node: at most one holder, leases of dead holders end, only the owner
    /// releases. Claims nothing for work that outlasts the lease.
    #[must_use]
    pub const fn mutex_on_one_node() -> Self {
        Self {
            deadline: false,
            drift_ppm: 0,
        }
    }

    /// The holder is told a deadline until which it holds, whatever happens.
    #[must_use]
    pub const fn with_deadline(mut self) -> Self {
        self.deadline = true;
        self
    }

    /// Clocks may differ in rate by this much.
    #[must_use]
    pub const fn with_drift_ppm(mut self, ppm: u32) -> Self {
        self.drift_ppm = ppm;
        self
    }
}
