//! B15: the release does not end the task that extends the lease. It goes on with whatever grant the
//! owner has next.

use super::{Held, Site, Specimen, exhibit};
use crate::subject::{BoxError, Expected::Convicted, Promises, Row};

/// Why the task goes on.
enum Outlives {
    /// It is ended before it is registered.
    Unregistered,
    /// Nobody ends it.
    NeverEnded,
}

pub(super) const ROWS: &[Row] = &[
    Row {
        make: || exhibit(Outlives::Unregistered),
        expected: Convicted(&[]),
        summary: "ends its watchdog only if that has begun already",
    },
    Row {
        make: || exhibit(Outlives::NeverEnded),
        expected: Convicted(&[]),
        summary: "does not end its watchdog at the release",
    },
];

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
        self.dropped(site, held);
        site.release_as(&held.token).await
    }

    fn dropped(&self, site: &Site, _: &Held) {
        if let Self::Unregistered = self
            && let Some(running) = site.latest().take()
        {
            running.end(); // the mistake: there may be none yet
        }
    }
}

/// Goes on until the server says no.
async fn renew(site: &Site, held: &Held) {
    while held.stands() {
        site.host.sleep(site.lease / 3).await;
        let sent = site.host.now();
        match site.extend_as(&held.token).await {
            Ok(true) => held.set_deadline(sent + site.lease),
            Ok(false) => return held.lose(),
            Err(_) => {}
        }
    }
}
