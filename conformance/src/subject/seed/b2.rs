//! B2: as B1, with a hash that counts how often its owner has taken it.

use crate::{
    backend::View,
    checker::Property::{Exclusion, Honesty},
    history::Stored,
    subject::{
        BoxError,
        Expected::Convicted,
        Promises, Row,
        specimen::{Held, SharedIdentity, Site, Specimen, counted, exhibit, hash, watchdog},
    },
};

/// What the release says.
enum Counts {
    /// What came of it.
    Told,
    /// 1 for a lock that was gone.
    OkWhenGone,
    /// 0 for a lock that is another's, and for one of which a level is left.
    Ambiguous,
}

pub(super) const ROWS: &[Row] = &[
    // Counting is not idempotent: after an answer that was lost one level too many is left.
    Row {
        make: || exhibit(Counts::Told),
        expected: Convicted(&[Honesty]),
        summary: "a hash that counts how often its owner took it, and a watchdog",
    },
    Row {
        make: || exhibit(Counts::OkWhenGone),
        expected: Convicted(&[Honesty]),
        summary: "the same, whose release answers 1 for a lock that is gone",
    },
    Row {
        make: || exhibit(Counts::Ambiguous),
        expected: Convicted(&[Honesty]),
        summary: "the same, whose release answers 0 when a level is left",
    },
    Row {
        make: || exhibit(SharedIdentity::Object("seed-B2c")),
        expected: Convicted(&[Exclusion]),
        summary: "the same, whose owner is the lock object: two tasks that share it enter",
    },
];

impl Specimen for Counts {
    fn id(&self) -> &'static str {
        match self {
            Self::Told => "seed-B2",
            Self::OkWhenGone => "seed-B2a",
            Self::Ambiguous => "seed-B2b",
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
            Self::Told => left.is_some(),
            Self::OkWhenGone => true, // the mistake: it may have been gone
            Self::Ambiguous => left == Some(0), // the mistake: a level was given back all the same
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
