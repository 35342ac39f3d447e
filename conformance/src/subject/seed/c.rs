//! C: more than one node. Redlock, and a master with a replica that is mistaken for Redlock.

use crate::{
    backend::View,
    checker::Property::{Exclusion, Fencing, GroundedBelief},
    subject::{
        BoxError,
        Expected::{Convicted, Sound},
        Row,
        specimen::{
            Held, Quorum, ResetOnStart, Right, Site, Specimen, counted, exhibit, hash, replicated,
            watchdog,
        },
    },
    vocabulary::{Promises, Stored, Topology},
};

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "redlock-five-masters",
        make: || exhibit::<Quorum>(Right("seed-C1", redlock())),
        expected: Sound,
        summary: "Redlock on five independent masters",
    },
    Row {
        name: "master-replica-failover",
        make: || exhibit::<Site>(Right("seed-C2", replicated())),
        expected: Convicted(&[Exclusion, GroundedBelief]),
        summary: "a lock on a master with a replica, claimed to survive a failover",
    },
    Row {
        name: "cluster-reentrant-as-redlock",
        make: || exhibit(Clustered),
        expected: Convicted(&[Exclusion, GroundedBelief]),
        summary: "a reentrant lock with a watchdog on a master with a replica, claimed to be Redlock",
    },
    Row {
        name: "cluster-counter-reset-by-clients",
        make: || exhibit(ResetOnStart("seed-C3a")),
        expected: Convicted(&[Fencing]),
        summary: "an atomic counter that every client sets to 0 when it starts",
    },
];

fn redlock() -> Promises {
    Promises::mutex_on_one_node()
        .on(Topology::Nodes(5))
        .with_deadline()
        .with_drift_ppm(10_000)
        .untidy()
}

/// C3.
struct Clustered;

impl Specimen for Clustered {
    fn id(&self) -> &'static str {
        "seed-C3"
    }

    fn promises(&self) -> Promises {
        replicated().reentrant().with_deadline()
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
