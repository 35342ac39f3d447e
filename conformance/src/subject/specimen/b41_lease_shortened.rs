//! B41: a plain PEXPIRE shortens a longer lease on which its holder still relies.

use super::{Held, Site, SoundLock, Specimen, counted, exhibit, hash, watchdog};
use crate::{
    backend::View,
    checker::Property::{Exclusion, GroundedBelief},
    subject::{
        BoxError,
        Expected::{self, Convicted},
        Row,
    },
    vocabulary::{Promises, Stored},
};

/// Part of a lease that a short lease takes: 6 means a sixth.
const SHORT: u32 = 6;

const BREAKS: Expected = Convicted(&[Exclusion, GroundedBelief]);

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "inner-lease-shortens-outer",
        make: || exhibit(Within::Entry),
        expected: BREAKS,
        summary: "reentrant: the short lease of an inner entry shortens the outer one",
    },
    Row {
        name: "inner-release-shortens-lease",
        make: || exhibit(Within::Release),
        expected: BREAKS,
        summary: "reentrant: an inner release sets a short lease",
    },
    Row {
        name: "watchdog-shortens-lease",
        make: || exhibit(LateRenewal),
        expected: BREAKS,
        summary: "its watchdog sets half a lease, also where a whole one was granted",
    },
];

/// Call that sets the short lease.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    Entry,
    Release,
}

impl Specimen for Within {
    fn id(&self) -> &'static str {
        match self {
            Self::Entry => "B41a",
            Self::Release => "B41b",
        }
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node().reentrant().with_deadline()
    }

    fn is_per_task(&self) -> bool {
        true
    }

    async fn acquire(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        let inner = *site.depth.lock().await > 0;
        if inner && *self == Self::Entry {
            let short = site.leasing(site.lease / SHORT); // the mistake: the present lease may be longer
            return counted::enter(&short).await;
        }
        counted::enter(site).await
    }

    async fn extend(&self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        hash::extend(site.clone(), held.clone()).await
    }

    async fn release(&self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        held.end();
        let left = counted::leave(site).await?;
        if *self == Self::Release && left > Some(0) {
            // The mistake: more of the lease may be left.
            hash::stay(&site.leasing(site.lease / SHORT), &site.me).await?;
        }
        Ok(left.is_some())
    }

    fn dropped(&self, site: &Site, held: &Held) {
        held.end();
        counted::forget(site);
    }

    fn stored(&self, view: &dyn View, key: &str) -> Vec<Stored> {
        hash::owners(view, key)
    }
}

/// A watchdog with a shorter lease of its own.
struct LateRenewal;

impl Specimen for LateRenewal {
    fn id(&self) -> &'static str {
        "B41c"
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node().with_deadline()
    }

    async fn acquire(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        let held = site.acquire().await?;
        if let Some(held) = &held {
            watchdog::watch_by(site, held, renew);
        }
        Ok(held)
    }
}

async fn renew(site: Site, held: Held) -> Result<bool, BoxError> {
    let (half, sent) = (site.leasing(site.lease / 2), site.host.now());
    let extended = half.extend_as(&held.token).await?; // the mistake: more of the lease may be left
    let until = held.deadline().max(sent + half.lease);
    Ok(extended && held.prolong(site.host.now(), until))
}
