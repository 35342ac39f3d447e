//! B09: taking a lock once more is counted at the server, and a request without an answer is sent
//! again. One release leaves one behind, and the watchdog keeps it.

use super::{Held, Site, Specimen, exhibit, hash};
use crate::{
    backend::View,
    history::Stored,
    subject::{BoxError, Expected::Convicted, Promises, Row},
};

struct DoubleCount;

pub(super) const ROWS: &[Row] = &[Row {
    make: || exhibit(DoubleCount),
    expected: Convicted(&[]),
    summary: "counts entries at the server, and sends again what was not answered",
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
            Err(_) => hash::enter(site, &owner).await?, // the mistake: the first may have been counted
        };
        if !entered {
            return Ok(None);
        }
        let held = Held::until(owner, sent + site.lease);
        let (site, kept) = (site.clone(), held.clone());
        site.host.clone().spawn(async move {
            // It stops when the server says that the owner is gone.
            loop {
                site.host.sleep(site.lease / 3).await;
                let sent = site.host.now();
                match hash::stay(&site, &kept.token).await {
                    Ok(true) => kept.set_deadline(sent + site.lease),
                    Ok(false) => return kept.lose(),
                    Err(_) => {}
                }
            }
        });
        Ok(Some(held))
    }

    async fn extend(&self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        hash::stay(site, &held.token).await
    }

    async fn release(&self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        Ok(hash::leave(site, &held.token).await?.is_some())
    }

    fn stored(&self, view: &dyn View, key: &str) -> Vec<Stored> {
        hash::owners(view, key)
    }
}
