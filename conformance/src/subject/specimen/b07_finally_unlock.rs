//! B07: a `finally` block unlocks also when the acquisition failed.

use super::{Held, Site, Specimen, exhibit};
use crate::{
    checker::Property::{Exclusion, Ownership},
    subject::{BoxError, Expected::Convicted, Row},
};

struct FinallyUnlock;

pub(super) const ROWS: &[Row] = &[Row {
    name: "unlock-in-finally",
    make: || exhibit(FinallyUnlock),
    expected: Convicted(&[Exclusion, Ownership]),
    summary: "unlocks in `finally`, also if it did not get the lock",
}];

impl Specimen for FinallyUnlock {
    fn id(&self) -> &'static str {
        "B07"
    }

    async fn acquire(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        let held = site.acquire_as(site.me.clone()).await?;
        if held.is_none() {
            site.release_as(&site.me).await?; // the mistake: another task of the process may hold it
        }
        Ok(held)
    }
}
