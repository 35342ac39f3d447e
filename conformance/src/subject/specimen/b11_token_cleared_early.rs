//! B11: the object forgets its token before the release is complete. If the release fails, no token is left
//! to retry it.

use super::{Held, Site, SoundLock, Specimen, exhibit};
use crate::{
    checker::Property::{CleanUp, Progress},
    subject::{BoxError, Expected::Convicted, Row},
};

/// Expiry of the lock.
enum ClearedEarly {
    /// After its lease.
    Leased,
    /// Never.
    Unleased,
}

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "token-cleared-before-release",
        make: || exhibit(ClearedEarly::Leased),
        expected: Convicted(&[CleanUp]),
        summary: "forgets its token before the release is done",
    },
    Row {
        name: "token-cleared-before-release-no-expiry",
        make: || exhibit(ClearedEarly::Unleased),
        expected: Convicted(&[Progress]),
        summary: "forgets its token before the release is done; the key has no expiry",
    },
];

impl Specimen for ClearedEarly {
    fn id(&self) -> &'static str {
        match self {
            Self::Leased => "B11a",
            Self::Unleased => "B11b",
        }
    }

    async fn acquire(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        let held = match self {
            Self::Leased => site.acquire().await?,
            Self::Unleased => {
                let (token, sent) = (site.host.random_token(), site.host.now());
                let set = site.ask(&["SETNX", &site.key, &token]).await?;
                bool::then(set, || Held::until(token, sent + site.lease))
            }
        };
        if let Some(held) = &held {
            *site.latest() = Some(held.clone());
        }
        Ok(held)
    }

    async fn release(&self, site: &Site, _: &Held) -> Result<bool, BoxError> {
        let mut outcome = Err("not locked".into());
        for _ in 0..3 {
            let held = site.latest().take(); // the mistake: the lock is not released yet
            let Some(held) = held else { break };
            outcome = site.release_as(&held.token).await;
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }
}
