//! B23: deadlines use the client's wall clock. Wall clocks jump, and differ between machines.

use super::{Held, Site, Specimen, exhibit, wall_clock_queue::WallClockQueue};
use crate::{
    checker::Property::{Exclusion, Fairness, GroundedBelief, Truth},
    subject::{BoxError, Expected::Convicted, Row, boxed},
    vocabulary::Promises,
};
use std::time::Duration;

/// Use of the wall clock.
enum WallClock {
    /// For the holder's own deadline.
    Deadline,
    /// For the expiry that is sent to the server.
    Expiry,
}

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "wall-clock-deadline",
        make: || exhibit(WallClock::Deadline),
        expected: Convicted(&[Truth]),
        summary: "the holder's deadline is a time of the wall clock",
    },
    Row {
        name: "wall-clock-queue",
        make: || boxed(WallClockQueue),
        expected: Convicted(&[Fairness]),
        summary: "waiters are served by the times of their own wall clocks",
    },
    Row {
        name: "wall-clock-pxat",
        make: || exhibit(WallClock::Expiry),
        expected: Convicted(&[Exclusion, GroundedBelief]),
        summary: "sends the server a time of the client's wall clock (PXAT)",
    },
];

impl Specimen for WallClock {
    fn id(&self) -> &'static str {
        match self {
            Self::Deadline => "B23a",
            Self::Expiry => "B23c",
        }
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node().with_deadline()
    }

    async fn acquire(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        let (token, sent) = (site.host.random_token(), site.host.now());
        let ends = site.host.wall_clock() + site.lease;
        if let Self::Deadline = self {
            let set = site.set_nx(&token).await?;
            return Ok(set.then(|| Held::until(token, ends)));
        }
        let at = ends.as_millis().to_string(); // the mistake
        let words = ["SET", &site.key, &token, "NX", "PXAT", &at];
        let set: Option<String> = site.ask(&words).await?;
        Ok(set.map(|_| Held::until(token, sent + site.lease)))
    }

    async fn extend(&self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        let (sent, ends) = (site.host.now(), site.host.wall_clock() + site.lease);
        let extended = site.extend_as(&held.token).await?;
        if extended {
            held.set_deadline(match self {
                Self::Deadline => ends,
                Self::Expiry => sent + site.lease,
            });
        }
        Ok(extended)
    }

    fn deadline(&self, site: &Site, held: &Held) -> Duration {
        match self {
            Self::Expiry => held.deadline(),
            Self::Deadline => {
                // The mistake: the rest of the lease depends on the wall clock.
                let left = held.deadline().saturating_sub(site.host.wall_clock());
                site.host.now() + left
            }
        }
    }
}
