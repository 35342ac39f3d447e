//! B09: the server counts the owner's acquisitions, and the client resends a request without a reply. After
//! one release a count is left, and the watchdog keeps extending it.

use super::{Held, Site, Specimen, exhibit, hash, watchdog};
use crate::{
    backend::View,
    checker::Property::CleanUp,
    subject::{BoxError, Expected::Convicted, Row},
    vocabulary::{Promises, Stored},
};

struct DoubleCount;

pub(super) const ROWS: &[Row] = &[Row {
    name: "resent-entry-counted-twice",
    make: || exhibit(DoubleCount),
    expected: Convicted(&[CleanUp]),
    summary: "counts entries at the server and resends an entry that got no reply",
}];

impl Specimen for DoubleCount {
    fn id(&self) -> &'static str {
        "B09"
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node().with_deadline()
    }

    async fn acquire(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        let (owner, sent) = (site.host.random_token(), site.host.now());
        let entered = match hash::enter(site, &owner).await {
            Ok(entered) => entered,
            Err(_) => hash::enter(site, &owner).await?, // the mistake: the server may have counted the first
        };
        if !entered {
            return Ok(None);
        }
        let held = Held::until(owner, sent + site.lease);
        watchdog::watch_by(site, &held, hash::extend);
        Ok(Some(held))
    }

    async fn extend(&self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        hash::extend(site.clone(), held.clone()).await
    }

    async fn release(&self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        Ok(hash::leave(site, &held.token).await?.is_some())
    }

    fn dropped(&self, site: &Site, held: &Held) {
        held.end();
        hash::forget(site, held.token.clone());
    }

    fn stored(&self, view: &dyn View, key: &str) -> Vec<Stored> {
        hash::owners(view, key)
    }
}
