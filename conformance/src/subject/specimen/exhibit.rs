//! Specimens as subjects.

use super::{Held, SoundLock, Specimen};
use crate::{
    backend::{Later, View},
    history::Mode,
    subject::{BoxError, DynSubject, Host, Observed, Promises, Subject, boxed},
};
use std::{sync::Arc, time::Duration};

/// Makes a subject of a specimen.
pub(in crate::subject) fn exhibit<P: SoundLock>(specimen: impl Specimen<P>) -> Box<dyn DynSubject> {
    boxed(Exhibit(Arc::new(specimen)))
}

/// A [`Specimen`] behind a pointer: what all specimens have in common is compiled once for all of them.
trait DynSpecimen<P>: Send + Sync {
    fn id(&self) -> &'static str;
    fn promises(&self) -> Promises;
    fn is_per_task(&self) -> bool;
    fn open<'a>(
        &'a self,
        host: &'a Host,
        key: &'a str,
        lease: Duration,
    ) -> Later<'a, Result<P, BoxError>>;
    fn take<'a>(&'a self, place: &'a P, mode: Mode) -> Later<'a, Result<Option<Held>, BoxError>>;
    fn wait<'a>(
        &'a self,
        place: &'a P,
        wait: Duration,
    ) -> Later<'a, Result<Option<Held>, BoxError>>;
    fn extend<'a>(&'a self, place: &'a P, held: &'a Held) -> Later<'a, Result<bool, BoxError>>;
    fn release<'a>(&'a self, place: &'a P, held: &'a Held) -> Later<'a, Result<bool, BoxError>>;
    fn dropped(&self, place: &P, held: &Held);
    fn deadline(&self, place: &P, held: &Held) -> Duration;
    fn observe(&self, view: &dyn View, key: &str) -> Observed;
    fn outlasts(&self, key: &[u8]) -> bool;
    fn fences_reads(&self) -> bool;
}

impl<S: Specimen<P>, P: SoundLock> DynSpecimen<P> for S {
    fn id(&self) -> &'static str {
        Specimen::id(self)
    }

    fn promises(&self) -> Promises {
        Specimen::promises(self)
    }

    fn is_per_task(&self) -> bool {
        Specimen::is_per_task(self)
    }

    fn open<'a>(
        &'a self,
        host: &'a Host,
        key: &'a str,
        lease: Duration,
    ) -> Later<'a, Result<P, BoxError>> {
        Box::pin(Specimen::open(self, host, key, lease))
    }

    fn take<'a>(&'a self, place: &'a P, mode: Mode) -> Later<'a, Result<Option<Held>, BoxError>> {
        Box::pin(Specimen::take(self, place, mode))
    }

    fn wait<'a>(
        &'a self,
        place: &'a P,
        wait: Duration,
    ) -> Later<'a, Result<Option<Held>, BoxError>> {
        Box::pin(Specimen::wait(self, place, wait))
    }

    fn extend<'a>(&'a self, place: &'a P, held: &'a Held) -> Later<'a, Result<bool, BoxError>> {
        Box::pin(Specimen::extend(self, place, held))
    }

    fn release<'a>(&'a self, place: &'a P, held: &'a Held) -> Later<'a, Result<bool, BoxError>> {
        Box::pin(Specimen::release(self, place, held))
    }

    fn dropped(&self, place: &P, held: &Held) {
        Specimen::dropped(self, place, held);
    }

    fn deadline(&self, place: &P, held: &Held) -> Duration {
        Specimen::deadline(self, place, held)
    }

    fn observe(&self, view: &dyn View, key: &str) -> Observed {
        Specimen::observe(self, view, key)
    }

    fn outlasts(&self, key: &[u8]) -> bool {
        Specimen::outlasts(self, key)
    }

    fn fences_reads(&self) -> bool {
        Specimen::fences_reads(self)
    }
}

/// A specimen as a subject.
struct Exhibit<P>(Arc<dyn DynSpecimen<P>>);

/// A grant of a specimen.
struct Guard<P: SoundLock> {
    specimen: Arc<dyn DynSpecimen<P>>,
    place: P,
    held: Held,
    released: bool,
}

impl<P: SoundLock> Drop for Guard<P> {
    fn drop(&mut self) {
        if !self.released {
            self.specimen.dropped(&self.place, &self.held);
        }
    }
}

impl<P: SoundLock> Exhibit<P> {
    fn guard(&self, place: &P, held: Held) -> Guard<P> {
        Guard {
            specimen: Arc::clone(&self.0),
            place: place.clone(),
            held,
            released: false,
        }
    }
}

impl<P: SoundLock> Subject for Exhibit<P> {
    type Lock = P;
    type Grant = Guard<P>;

    fn name(&self) -> &'static str {
        self.0.id()
    }

    fn promises(&self) -> Promises {
        self.0.promises()
    }

    async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<P, BoxError> {
        self.0.open(host, key, lease).await
    }

    fn of_task(&self, place: &P) -> Option<P> {
        self.0.is_per_task().then(|| place.of_task())
    }

    async fn try_lock(&self, place: &P) -> Result<Option<Self::Grant>, BoxError> {
        self.try_mode(place, Mode::Exclusive).await
    }

    async fn try_mode(&self, place: &P, mode: Mode) -> Result<Option<Self::Grant>, BoxError> {
        let held = self.0.take(place, mode).await?;
        Ok(held.map(|held| self.guard(place, held)))
    }

    async fn lock_timeout(
        &self,
        place: &P,
        wait: Duration,
    ) -> Result<Option<Self::Grant>, BoxError> {
        let held = self.0.wait(place, wait).await?;
        Ok(held.map(|held| self.guard(place, held)))
    }

    async fn extend(&self, place: &P, guard: &Self::Grant) -> Result<bool, BoxError> {
        self.0.extend(place, &guard.held).await
    }

    async fn release(&self, place: &P, mut guard: Self::Grant) -> Result<bool, BoxError> {
        guard.released = true;
        self.0.release(place, &guard.held).await
    }

    fn deadline(&self, guard: &Self::Grant) -> Option<Duration> {
        let promised = self.0.promises().deadline;
        promised.then(|| self.0.deadline(&guard.place, &guard.held))
    }

    async fn lost(&self, guard: &Self::Grant) {
        guard.held.lost().await;
    }

    fn fencing_token(&self, guard: &Self::Grant) -> Option<u64> {
        guard.held.number
    }

    fn fences_reads(&self) -> bool {
        self.0.fences_reads()
    }

    fn observe(&self, view: &dyn View, key: &str) -> Observed {
        self.0.observe(view, key)
    }

    fn outlasts(&self, key: &[u8]) -> bool {
        self.0.outlasts(key)
    }
}
