//! B22: the rest of a lease is computed without the drift of clocks, or in unsigned numbers that underflow.

use super::{Held, Site, Specimen, exhibit};
use crate::{
    checker::Property::{Exclusion, GroundedBelief, NoPanics},
    subject::{BoxError, Expected::Convicted, Host, Row},
    vocabulary::Promises,
};
use std::time::Duration;

/// Ways to compute the rest of a lease.
#[derive(Clone, Copy)]
enum Left {
    /// Lease minus elapsed time.
    WithoutDrift,
    /// Lease minus drift minus elapsed time, in unsigned numbers that wrap.
    Wrapping,
    /// The same, in numbers that panic.
    Panicking,
}

/// Relative error of clock rates that the lock claims to tolerate, in parts per million.
const DRIFT_PPM: u32 = 10_000;

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "no-clock-drift-allowance",
        make: || exhibit(Left::WithoutDrift),
        expected: Convicted(&[GroundedBelief]),
        summary: "claims to tolerate clock drift but does not subtract it",
    },
    Row {
        name: "remaining-lease-wraps",
        make: || exhibit(Left::Wrapping),
        expected: Convicted(&[Exclusion, GroundedBelief]),
        summary: "the rest of its lease wraps to a huge number",
    },
    Row {
        name: "remaining-lease-panics",
        make: || exhibit(Left::Panicking),
        expected: Convicted(&[NoPanics]),
        summary: "panics when nothing of its lease is left",
    },
];

impl Specimen for Left {
    fn id(&self) -> &'static str {
        match self {
            Self::WithoutDrift => "B22a",
            Self::Wrapping => "B22b",
            Self::Panicking => "B22c",
        }
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node()
            .with_deadline()
            .with_drift_ppm(DRIFT_PPM)
    }

    fn patience(&self, host: &Host) -> Duration {
        12 * host.request_timeout() // two leases: the lock waits for slow nodes
    }

    async fn acquire(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        let sent = site.host.now();
        let token = site.host.random_token();
        if !site.set_nx(&token).await? {
            return Ok(None);
        }
        let drift = site.lease * DRIFT_PPM / 1_000_000;
        let took = site.host.now().saturating_sub(sent);
        let left = match self {
            Self::WithoutDrift => site.lease.saturating_sub(took), // the mistake
            Self::Wrapping => {
                let ms = |duration: Duration| duration.as_millis() as u32;
                // The mistake: an expired lease becomes 49 days.
                let left = ms(site.lease)
                    .wrapping_sub(ms(drift))
                    .wrapping_sub(ms(took));
                Duration::from_millis(left.into())
            }
            Self::Panicking => site.lease - drift - took, // the mistake
        };
        Ok(Some(Held::until(token, site.host.now() + left)))
    }
}
