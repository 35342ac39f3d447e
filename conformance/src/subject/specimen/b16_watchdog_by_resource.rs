//! B16: watchdogs are registered by the name of the lock, not by the grant. The late release of one grant
//! stops the watchdog of the next.

use super::{Held, Site, SoundLock, Specimen, exhibit, watchdog};
use crate::{
    checker::Property::Renewal,
    subject::{BoxError, Expected::Convicted, Row},
    vocabulary::Promises,
};

struct ByResource;

pub(super) const ROWS: &[Row] = &[Row {
    name: "watchdog-per-resource",
    make: || exhibit(ByResource),
    expected: Convicted(&[Renewal]),
    summary: "keeps watchdogs by resource: a late release stops the watchdog of the next grant",
}];

impl Specimen for ByResource {
    fn id(&self) -> &'static str {
        "B16"
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node()
            .with_deadline()
            .renewing()
            .signalling()
    }

    async fn acquire(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        let held = site.acquire().await?;
        if let Some(held) = &held {
            watchdog::watch(site, held);
            *site.latest() = Some(held.clone());
        }
        Ok(held)
    }

    async fn release(&self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        end_watchdog(site);
        site.release(held).await
    }

    fn dropped(&self, site: &Site, held: &Held) {
        end_watchdog(site);
        site.sweep(held.token.clone());
    }
}

fn end_watchdog(site: &Site) {
    if let Some(running) = site.latest().take() {
        running.end(); // the mistake: it may belong to another grant
    }
}
