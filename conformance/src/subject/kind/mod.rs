//! The locks of `redouble-lock`, each behind the suite's trait: a file per kind says how it is made, what it
//! claims and what it stores. What they have in common is here.

mod admission;
mod client;
mod fair;
mod fenced;
mod grant;
mod latch;
mod multi;
mod mutex;
mod read_write;
mod redlock;
mod reentrant;
mod semaphore;
mod stored;

pub(super) use admission::{admission, admission_by_name, admission_that_expires, stock};
pub(super) use fair::{fair, fenced_fair};
pub(super) use fenced::fenced;
pub(super) use latch::latch;
pub(super) use multi::{fenced_multi, multi};
pub(super) use mutex::{mutex, mutex_with_watchdog};
pub(super) use read_write::{read_write, read_write_preferring};
pub(super) use redlock::{fenced_redlock, redlock, redlock_of_three, redlock_with_watchdog};
pub(super) use reentrant::{fenced_reentrant, reentrant};
pub(super) use semaphore::semaphore;

use super::{BoxError, Fencing, Host, Promises, Subject};
use crate::{
    backend::View,
    history::{Kind, Mode, Stored},
};
use client::Client;
use grant::{Grant, Takes};
use redouble_lock::{LockError, Release};
use std::time::Duration;

/// The relative clock rate error that `redouble-lock` allows for unless told otherwise.
const DRIFT_PPM: u32 = 10_000;

/// How often a waiter looks again at least during a lease.
const POLLS_PER_LEASE: u32 = 12;

/// What part of a lease it may take until those are skipped who died in front of others.
const SKIPS_PER_LEASE: u32 = 2;

/// What all kinds claim that give guards.
const fn promises(kind: Kind) -> Promises {
    Promises::of(kind)
        .with_deadline()
        .with_drift_ppm(DRIFT_PPM)
        .waiting(Some(POLLS_PER_LEASE))
        .signalling()
}

/// What the kinds claim whose grants are numbered.
const fn fenced_promises() -> Promises {
    promises(Kind::Mutex).with_fencing(Fencing::Lasting)
}

/// A kind of lock that gives guards, under test.
struct Ours<L> {
    name: &'static str,
    promises: Promises,
    open: fn(&Client, &str) -> Result<L, LockError>,
    stored: fn(&dyn View, &str) -> Vec<Stored>,
    queued: fn(&dyn View, &str) -> Vec<Vec<u8>>,
}

impl<L> Ours<L> {
    /// A kind that stores its token at the key.
    const fn new(
        name: &'static str,
        promises: Promises,
        open: fn(&Client, &str) -> Result<L, LockError>,
    ) -> Self {
        Self {
            name,
            promises,
            open,
            stored: stored::at_the_key,
            queued: |_, _| Vec::new(),
        }
    }

    /// A kind that stores its tokens elsewhere.
    const fn storing(mut self, stored: fn(&dyn View, &str) -> Vec<Stored>) -> Self {
        self.stored = stored;
        self
    }

    /// A kind that stores who goes first.
    const fn queueing(mut self, queued: fn(&dyn View, &str) -> Vec<Vec<u8>>) -> Self {
        self.queued = queued;
        self
    }
}

impl<L: Takes> Subject for Ours<L> {
    type Lock = (L, Duration);
    type Grant = L::Grant;

    fn name(&self) -> &'static str {
        self.name
    }

    fn promises(&self) -> Promises {
        self.promises
    }

    async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<Self::Lock, BoxError> {
        let client = Client::new(host, lease);
        Ok(((self.open)(&client, key)?, lease))
    }

    fn of_task(&self, (lock, lease): &Self::Lock) -> Option<Self::Lock> {
        Some((lock.of_task()?, *lease))
    }

    async fn try_lock(&self, lock: &Self::Lock) -> Result<Option<L::Grant>, BoxError> {
        self.try_mode(lock, Mode::Exclusive).await
    }

    async fn try_mode(
        &self,
        (lock, _): &Self::Lock,
        mode: Mode,
    ) -> Result<Option<L::Grant>, BoxError> {
        grant::granted(lock.take(mode, None).await?)
    }

    async fn lock_mode(
        &self,
        (lock, _): &Self::Lock,
        mode: Mode,
        wait: Duration,
    ) -> Result<Option<L::Grant>, BoxError> {
        grant::granted(lock.take(mode, Some(wait)).await?)
    }

    async fn extend(&self, (_, lease): &Self::Lock, grant: &L::Grant) -> Result<bool, BoxError> {
        match grant.guard().extend(*lease).await {
            Ok(()) => Ok(true),
            Err(error) if error.is_lost() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    async fn release(&self, _: &Self::Lock, grant: L::Grant) -> Result<bool, BoxError> {
        let outcome = grant.give_back().await;
        let given_back = matches!(outcome, Release::Released | Release::StillHeld);
        let known = given_back || outcome == Release::AlreadyLost;
        known
            .then_some(given_back)
            .ok_or_else(|| format!("{outcome:?}").into())
    }

    fn deadline(&self, grant: &L::Grant) -> Option<Duration> {
        grant.guard().deadline()
    }

    fn fencing_token(&self, grant: &L::Grant) -> Option<u64> {
        grant.fence()
    }

    fn stored(&self, view: &dyn View, key: &str) -> Vec<Stored> {
        (self.stored)(view, key)
    }

    fn queued(&self, view: &dyn View, key: &str) -> Vec<Vec<u8>> {
        (self.queued)(view, key)
    }

    async fn lost(&self, grant: &L::Grant) {
        grant.guard().lost().await;
    }
}
