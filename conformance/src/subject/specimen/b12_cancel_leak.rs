//! B12: a future or a guard is dropped, and what it had at the server stays there for a lease.

use super::{Held, Site, Specimen, exhibit};
use crate::subject::{BoxError, Expected::Convicted, Row};

/// What is dropped without a trace.
enum Leak {
    /// The future of an acquisition whose request is under way.
    Acquisition,
    /// The guard.
    Guard,
}

pub(super) const ROWS: &[Row] = &[
    Row {
        make: || exhibit(Leak::Acquisition),
        expected: Convicted(&[]),
        summary: "an acquisition that is given up leaves its token there",
    },
    Row {
        make: || exhibit(Leak::Guard),
        expected: Convicted(&[]),
        summary: "a guard that is dropped leaves its token there",
    },
];

/// Releases in the background when it is dropped, unless it is told not to.
struct Tidy {
    site: Site,
    token: String,
    armed: bool,
}

impl Drop for Tidy {
    fn drop(&mut self) {
        if self.armed {
            let (site, token) = (self.site.clone(), std::mem::take(&mut self.token));
            let host = site.host.clone();
            host.spawn(async move { drop(site.release_as(&token).await) });
        }
    }
}

impl Specimen for Leak {
    fn id(&self) -> &'static str {
        match self {
            Self::Acquisition => "B12a",
            Self::Guard => "B12b",
        }
    }

    async fn acquire(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        let token = site.host.random_token();
        let mut tidy = Tidy {
            site: site.clone(),
            token: token.clone(),
            armed: matches!(self, Self::Guard), // the mistake of the other: nothing cleans up
        };
        let held = site.acquire_as(token).await?;
        tidy.armed = false;
        Ok(held)
    }

    fn dropped(&self, site: &Site, held: &Held) {
        drop(Tidy {
            site: site.clone(),
            token: held.token.clone(),
            armed: matches!(self, Self::Acquisition), // the mistake of the other
        });
    }
}
