//! B48: every client sets the counter of fencing tokens to 0 when it starts.

use super::{Held, Site, SoundLock, Specimen, exhibit, fenced};
use crate::{
    checker::Property::Fencing,
    subject::{BoxError, Expected::Convicted, Host, Row},
    vocabulary::{Fencing as Good, Promises},
};
use std::time::Duration;

/// The specimen with its id.
pub(in crate::subject) struct ResetOnStart(pub(in crate::subject) &'static str);

pub(super) const ROWS: &[Row] = &[Row {
    name: "counter-reset-on-start",
    make: || exhibit(ResetOnStart("B48")),
    expected: Convicted(&[Fencing]),
    summary: "each client that starts sets the counter of fencing tokens to 0",
}];

impl Specimen for ResetOnStart {
    fn id(&self) -> &'static str {
        self.0
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node()
            .with_deadline()
            .with_fencing(Good::Counter)
    }

    async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<Site, BoxError> {
        let site = <Site as SoundLock>::open(host, key, lease, host.request_timeout()).await?;
        let reset = ["SET", &fenced::counter(&site), "0"];
        site.ask::<()>(&reset).await?; // the mistake: other clients have incremented the counter
        Ok(site)
    }

    async fn acquire(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        fenced::acquire(site).await
    }
}
