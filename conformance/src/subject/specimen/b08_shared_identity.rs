//! B08: a reentrant lock identifies its owner by something that several tasks share: the thread or the
//! process.

use super::{Held, Site, Specimen, exhibit, hash};
use crate::{
    backend::View,
    checker::Property::{Exclusion, Truth},
    subject::{BoxError, Expected::Convicted, Row},
    vocabulary::{Promises, Stored},
};

/// Identity of the owner.
pub(in crate::subject) enum SharedIdentity {
    /// The thread that acquired the lock; the lock is reentrant.
    Thread(&'static str),
    /// The lock object of the process; the lock is reentrant.
    Object(&'static str),
}

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "reentrant-for-thread",
        make: || exhibit(SharedIdentity::Thread("B08a")),
        expected: Convicted(&[Exclusion]),
        summary: "reentrant per thread: two tasks on one thread both enter",
    },
    Row {
        name: "reentrant-for-object",
        make: || exhibit(SharedIdentity::Object("B08b")),
        expected: Convicted(&[Exclusion]),
        summary: "reentrant per lock object: two tasks that share it both enter",
    },
    Row {
        name: "owner-is-calling-thread",
        make: || exhibit(OtherThread("B08c")),
        expected: Convicted(&[Truth]),
        summary: "the token is the calling thread: another thread cannot release",
    },
];

impl Specimen for SharedIdentity {
    fn id(&self) -> &'static str {
        match self {
            Self::Thread(id) | Self::Object(id) => id,
        }
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node().reentrant()
    }

    async fn acquire(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        let sent = site.host.now();
        let owner = match self {
            Self::Thread(_) => format!("{}:{}", site.me, site.host.worker_id()),
            Self::Object(_) => site.me.clone(), // the mistake: all tasks have the same identity
        };
        let entered = hash::enter(site, &owner).await?;
        Ok(entered.then(|| Held::until(owner, sent + site.lease)))
    }

    async fn extend(&self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        hash::stay(site, &held.token).await
    }

    async fn release(&self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        Ok(hash::leave(site, &held.token).await?.is_some())
    }

    fn dropped(&self, site: &Site, held: &Held) {
        held.end();
        hash::forget(site, held.token.clone());
    }

    fn stored(&self, view: &dyn View, key: &str) -> Vec<Stored> {
        hash::owners(view, key)
    }
}

/// The token is the process and the thread, looked up at each call.
pub(in crate::subject) struct OtherThread(pub(in crate::subject) &'static str);

fn current(site: &Site) -> String {
    format!("{}:{}", site.me, site.host.worker_id())
}

impl Specimen for OtherThread {
    fn id(&self) -> &'static str {
        self.0
    }

    async fn acquire(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        site.acquire_as(current(site)).await
    }

    async fn extend(&self, site: &Site, _: &Held) -> Result<bool, BoxError> {
        site.extend_as(&current(site)).await
    }

    async fn release(&self, site: &Site, _: &Held) -> Result<bool, BoxError> {
        site.release_as(&current(site)).await // the mistake: the task may have moved to another thread
    }
}
