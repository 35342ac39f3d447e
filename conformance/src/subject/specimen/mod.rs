//! Locks that people wrote, each broken in exactly one way. The suite has to convict every one of
//! them of what it breaks.
//!
//! One file per kind of mistake, with a row per variant. What is right about them comes from
//! [`Site`], so that a specimen shows its mistake and little else.

mod b01_no_ttl_gap;
mod b02_blind_del;
mod b03_check_then_act;
mod b04_getset_client_clock;
mod b05_weak_token;
mod b06_token_per_object;
mod b07_finally_unlock;
mod held;
mod site;

pub(super) use held::Held;
pub(super) use site::Site;

use super::{BoxError, Host, Promises, Row, Subject, Suspect, boxed};
use crate::{backend::View, history::Stored};
use std::{future::Future, time::Duration};

/// All specimens, in the order of their ids.
pub const SPECIMENS: &[&[Row]] = &[
    b01_no_ttl_gap::ROWS,
    b02_blind_del::ROWS,
    b03_check_then_act::ROWS,
    b04_getset_client_clock::ROWS,
    b05_weak_token::ROWS,
    b06_token_per_object::ROWS,
    b07_finally_unlock::ROWS,
];

/// A lock on one key of one node. Unless it says otherwise, it does what is right: a random token
/// set with its lease in one command, compared and deleted by a script.
pub(super) trait Specimen: Send + Sync + 'static {
    /// The name under which it is listed.
    fn id(&self) -> &'static str;

    /// What its authors claim.
    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node()
    }

    /// Takes the lock if it is free.
    fn acquire(&self, site: &Site) -> impl Future<Output = Result<Option<Held>, BoxError>> + Send {
        site.acquire()
    }

    /// Extends the grant by the lease.
    fn extend(
        &self,
        site: &Site,
        held: &Held,
    ) -> impl Future<Output = Result<bool, BoxError>> + Send {
        site.extend(held)
    }

    /// Gives the grant back.
    fn release(
        &self,
        site: &Site,
        held: &Held,
    ) -> impl Future<Output = Result<bool, BoxError>> + Send {
        site.release(&held.token)
    }

    /// What a node stores for the lock.
    fn stored(&self, view: &dyn View, key: &str) -> Vec<Stored> {
        view.string(key).into_iter().collect()
    }
}

/// Puts a specimen on the list.
pub(super) fn exhibit(specimen: impl Specimen) -> Box<dyn Suspect> {
    boxed(Exhibit(specimen))
}

/// A specimen as a subject.
struct Exhibit<S>(S);

impl<S: Specimen> Subject for Exhibit<S> {
    type Lock = Site;
    type Grant = Held;

    fn name(&self) -> &'static str {
        self.0.id()
    }

    fn promises(&self) -> Promises {
        self.0.promises()
    }

    async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<Site, BoxError> {
        Site::open(host, key, lease).await
    }

    async fn try_lock(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        self.0.acquire(site).await
    }

    async fn extend(&self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        self.0.extend(site, held).await
    }

    async fn release(&self, site: &Site, held: Held) -> Result<bool, BoxError> {
        self.0.release(site, &held).await
    }

    fn deadline(&self, held: &Held) -> Option<Duration> {
        self.0.promises().deadline.then(|| held.deadline())
    }

    async fn lost(&self, held: &Held) {
        held.lost().await;
    }

    fn stored(&self, view: &dyn View, key: &str) -> Vec<Stored> {
        self.0.stored(view, key)
    }
}
