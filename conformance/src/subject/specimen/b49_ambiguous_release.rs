//! B49: the release of a reentrant lock returns 0 both when another client holds the lock and when a level is
//! left. This file also has the correct form, and one that always reports success.

use super::{Held, Site, Specimen, counted, exhibit, hash, watchdog};
use crate::{
    backend::View,
    checker::Property::Truth,
    subject::{BoxError, Expected::Convicted, Row},
    vocabulary::{Promises, Stored},
};

/// Result of the release.
pub(in crate::subject) enum Counts {
    /// The true outcome.
    Told(&'static str),
    /// Success also for a lock that was gone.
    OkWhenGone(&'static str),
    /// "Not held" both for another client's lock and while a level is left.
    Ambiguous(&'static str),
}

pub(super) const ROWS: &[Row] = &[Row {
    name: "release-not-held-when-nested",
    make: || exhibit(Counts::Ambiguous("B49")),
    expected: Convicted(&[Truth]),
    summary: "reentrant: its release reports \"not held\" while a level is left",
}];

impl Specimen for Counts {
    fn id(&self) -> &'static str {
        match self {
            Self::Told(id) | Self::OkWhenGone(id) | Self::Ambiguous(id) => id,
        }
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node()
            .reentrant()
            .with_deadline()
            .renewing()
            .signalling()
            .untidy()
    }

    fn is_per_task(&self) -> bool {
        true
    }

    async fn acquire(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        let Some(held) = counted::enter(site).await? else {
            return Ok(None);
        };
        watchdog::watch_by(site, &held, hash::extend);
        Ok(Some(held))
    }

    async fn extend(&self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        hash::extend(site.clone(), held.clone()).await
    }

    async fn release(&self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        held.end();
        let left = counted::leave(site).await?;
        Ok(match self {
            Self::Told(_) => left.is_some(),
            Self::OkWhenGone(_) => true, // the mistake: the lock may have been gone
            Self::Ambiguous(_) => left == Some(0), // the mistake: the call released a level
        })
    }

    fn dropped(&self, site: &Site, held: &Held) {
        held.end();
        counted::forget(site);
    }

    fn stored(&self, view: &dyn View, key: &str) -> Vec<Stored> {
        hash::owners(view, key)
    }
}
