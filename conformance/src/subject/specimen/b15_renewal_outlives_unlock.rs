//! B15: the release does not stop the watchdog, which then extends the owner's next grant.

use super::{Held, Site, SoundLock, Specimen, counted, exhibit, hash, watchdog};
use crate::{
    backend::View,
    checker::Property::CleanUp,
    subject::{BoxError, Expected::Convicted, Row},
    vocabulary::{Promises, Stored},
};

/// Reason why the watchdog continues.
enum Outlives {
    /// The release stops it before it is registered.
    Unregistered,
    /// No call stops it.
    NeverEnded,
}

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "watchdog-stopped-before-start",
        make: || exhibit(Outlives::Unregistered),
        expected: Convicted(&[CleanUp]),
        summary: "stops its watchdog only if the watchdog has already started",
    },
    Row {
        name: "second-watchdog-on-reentry",
        make: || exhibit(SecondRenewer),
        expected: Convicted(&[CleanUp]),
        summary: "reentrant: the second entry starts a second watchdog, and the release stops one",
    },
    Row {
        name: "watchdog-survives-release",
        make: || exhibit(Outlives::NeverEnded),
        expected: Convicted(&[CleanUp]),
        summary: "does not stop its watchdog at the release",
    },
];

impl Outlives {
    fn end_watchdog(&self, site: &Site) {
        if let Self::Unregistered = self {
            end_latest(site); // the mistake: the watchdog may not be registered yet
        }
    }
}

impl Specimen for Outlives {
    fn id(&self) -> &'static str {
        match self {
            Self::Unregistered => "B15a",
            Self::NeverEnded => "B15c",
        }
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node().with_deadline()
    }

    async fn acquire(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        let held = site.acquire_as(site.me.clone()).await?;
        if let Some(held) = &held {
            let (site, held) = (site.clone(), held.clone());
            let host = site.host.clone();
            host.spawn(async move {
                *site.latest() = Some(held.clone());
                renew(&site, &held).await;
            });
        }
        Ok(held)
    }

    async fn release(&self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        self.end_watchdog(site);
        site.release(held).await
    }

    fn dropped(&self, site: &Site, held: &Held) {
        self.end_watchdog(site);
        site.sweep(held.token.clone());
    }
}

/// Extends the grant until the server refuses.
async fn renew(site: &Site, held: &Held) {
    while held.stands() {
        site.host.sleep(site.lease / 3).await;
        let sent = site.host.now();
        match site.extend_as(&held.token).await {
            Ok(true) if held.stands() => {
                held.prolong(site.host.now(), sent + site.lease);
            }
            Ok(true) => {}
            Ok(false) => return held.lose(),
            Err(_) => {}
        }
    }
}

/// Starts a watchdog per entry, but the object remembers only the latest one.
struct SecondRenewer;

impl Specimen for SecondRenewer {
    fn id(&self) -> &'static str {
        "B15b"
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node().reentrant().with_deadline()
    }

    fn is_per_task(&self) -> bool {
        true
    }

    async fn acquire(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        let held = counted::enter(site).await?;
        if let Some(held) = &held {
            watchdog::watch_by(site, held, hash::extend);
            *site.latest() = Some(held.clone()); // the mistake: there may be a watchdog already
        }
        Ok(held)
    }

    async fn extend(&self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        hash::extend(site.clone(), held.clone()).await
    }

    async fn release(&self, site: &Site, _: &Held) -> Result<bool, BoxError> {
        end_latest(site);
        Ok(counted::leave(site).await?.is_some())
    }

    fn dropped(&self, site: &Site, _: &Held) {
        end_latest(site);
        counted::forget(site);
    }

    fn stored(&self, view: &dyn View, key: &str) -> Vec<Stored> {
        hash::owners(view, key)
    }
}

fn end_latest(site: &Site) {
    if let Some(running) = site.latest().take() {
        running.end();
    }
}
