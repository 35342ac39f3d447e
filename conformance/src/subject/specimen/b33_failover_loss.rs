//! B33: a replica that did not receive the lock's key becomes the master. WAIT returns the number of replicas
//! that received it; a client that ignores this number gains nothing, and WAIT undoes nothing.

use super::{Held, Right, Site, SoundLock, Specimen, Sweep, counted, exhibit, hash};
use crate::{
    backend::View,
    checker::Property::{CleanUp, Exclusion, GroundedBelief},
    subject::{BoxError, Expected::Convicted, Row},
    vocabulary::{Promises, Stored, Topology},
};

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "failover-loses-lock",
        make: || exhibit::<Site>(Right("B33a", replicated())),
        expected: Convicted(&[Exclusion, GroundedBelief]),
        summary: "a lock on a master with a replica, claimed to survive a failover",
    },
    Row {
        name: "wait-count-ignored",
        make: || exhibit(CountIgnored),
        expected: Convicted(&[Exclusion, GroundedBelief]),
        summary: "the same with WAIT, whose count is ignored",
    },
    Row {
        name: "failed-wait-stays-counted",
        make: || exhibit(CountStaysRaised),
        expected: Convicted(&[CleanUp]),
        summary: "reentrant: if WAIT fails, the entry fails too but stays counted",
    },
];

/// Promises of a lock on one master with a replica.
pub(in crate::subject) const fn replicated() -> Promises {
    Promises::mutex_on_one_node()
        .on(Topology::Replicated { replicas: 1 })
        .surviving_failover()
}

/// Returns the number of replicas that received all writes of this connection.
async fn synced(site: &Site) -> Result<u64, BoxError> {
    let patience = (site.lease / 30).as_millis().to_string();
    site.ask(&["WAIT", "1", &patience]).await
}

struct CountIgnored;

impl Specimen for CountIgnored {
    fn id(&self) -> &'static str {
        "B33b"
    }

    fn promises(&self) -> Promises {
        replicated()
    }

    async fn acquire(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        let Some(held) = site.acquire().await? else {
            return Ok(None);
        };
        let sweep = Sweep::over(site, &held.token);
        synced(site).await?; // the mistake: it may be 0
        sweep.done();
        Ok(Some(held))
    }
}

struct CountStaysRaised;

impl Specimen for CountStaysRaised {
    fn id(&self) -> &'static str {
        "B33c"
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node()
            .on(Topology::Replicated { replicas: 1 })
            .reentrant()
    }

    fn is_per_task(&self) -> bool {
        true
    }

    async fn acquire(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        let Some(held) = counted::enter(site).await? else {
            return Ok(None);
        };
        if synced(site).await? == 0 {
            return Err("no replica has received it".into()); // the mistake: the entry is not undone
        }
        Ok(Some(held))
    }

    async fn extend(&self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        hash::extend(site.clone(), held.clone()).await
    }

    async fn release(&self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        held.end();
        Ok(counted::leave(site).await?.is_some())
    }

    fn dropped(&self, site: &Site, held: &Held) {
        held.end();
        counted::forget(site);
    }

    fn stored(&self, view: &dyn View, key: &str) -> Vec<Stored> {
        hash::owners(view, key)
    }
}
