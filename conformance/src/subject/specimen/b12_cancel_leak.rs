//! B12: dropping a future or a guard leaves the token on the server until the lease ends.

use super::{Held, Site, SoundLock, Specimen, exhibit};
use crate::{
    checker::Property::Cancellation,
    subject::{BoxError, Expected::Convicted, Row},
};

/// Value that is dropped without a clean-up.
enum Leak {
    /// The future of an acquisition with a request in flight.
    Acquisition,
    /// The guard.
    Guard,
}

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "cancelled-acquire-leaks",
        make: || exhibit(Leak::Acquisition),
        expected: Convicted(&[Cancellation]),
        summary: "a cancelled acquisition leaves its token in the key",
    },
    Row {
        name: "dropped-guard-leaks",
        make: || exhibit(Leak::Guard),
        expected: Convicted(&[Cancellation]),
        summary: "a dropped guard leaves its token in the key",
    },
];

impl Specimen for Leak {
    fn id(&self) -> &'static str {
        match self {
            Self::Acquisition => "B12a",
            Self::Guard => "B12b",
        }
    }

    async fn acquire(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        match self {
            Self::Acquisition => {
                let (token, sent) = (site.host.random_token(), site.host.now());
                let set = site.set_nx(&token).await?; // the mistake: no task cleans the token up
                Ok(set.then(|| Held::until(token, sent + site.lease)))
            }
            Self::Guard => site.acquire().await,
        }
    }

    fn dropped(&self, site: &Site, held: &Held) {
        match self {
            Self::Acquisition => site.sweep(held.token.clone()),
            Self::Guard => {} // the mistake
        }
    }
}
