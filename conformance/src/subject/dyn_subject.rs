//! A subject with erased types, as the simulation uses it.
//!
//! The simulation is compiled once, for boxed subjects; each further subject adds only the few functions
//! below.

use super::{BoxError, Counted, Host, Observed, Promises, Subject};
use crate::{
    backend::{Backend, Later, View},
    history::{Mode, OpId, Token},
    scenario::{Capability, Scenario},
    simulation::{Run, RunError},
};
use std::{sync::Arc, time::Duration};

/// A [`Subject`] as a trait object, so that subjects of different types fit into one list.
pub trait DynSubject: Send + Sync {
    /// Name in lists and reports.
    fn name(&self) -> &'static str;

    /// Promises of the lock.
    fn promises(&self) -> Promises;

    /// Makes the lock object of a client process.
    fn open<'a>(
        &'a self,
        host: &'a Host,
        key: &'a str,
        lease: Duration,
    ) -> Later<'a, Result<Arc<dyn AnyLock>, BoxError>>;

    /// Returns the lock's state on a node.
    fn observe(&self, view: &dyn View, key: &str) -> Observed;

    /// True if a key may stay while no client uses the lock.
    fn outlasts(&self, key: &[u8]) -> bool;

    /// True if a key that may stay must have a time to live.
    fn ends(&self, key: &[u8]) -> bool;

    /// True if reads carry the fencing token too, not only writes.
    fn fences_reads(&self) -> bool;

    /// True if the subject supports a capability that a scenario needs. Scenarios with unsupported
    /// capabilities are counted as unsupported.
    fn can(&self, capability: Capability) -> bool {
        let _ = capability;
        true
    }

    /// The lease, in milliseconds, to which scenarios are scaled in virtual time; `None` leaves their times
    /// unchanged.
    fn lease_ms(&self) -> Option<u64> {
        None
    }

    /// True if the subject was rehearsed when it was created, and drops unobservable state from histories by
    /// itself.
    fn is_rehearsed(&self) -> bool {
        false
    }

    /// Plays a scenario with this subject.
    ///
    /// # Errors
    /// If the backend cannot be reached, or lacks a capability that the scenario needs.
    fn play(&self, backend: &dyn Backend, scenario: &Scenario) -> Result<Run, RunError>;
}

/// A grant; `None` if the lock was not granted.
pub type Granted = Result<Option<Arc<dyn AnyGrant>>, BoxError>;

/// The lock object of a [`DynSubject`]: see [`Subject`] for what the methods do.
pub trait AnyLock: Send + Sync {
    /// [`Subject::of_task`].
    fn of_task(&self) -> Option<Arc<dyn AnyLock>>;
    /// [`Subject::try_mode`].
    fn try_mode(&self, mode: Mode) -> Later<'_, Granted>;
    /// [`Subject::lock_mode`].
    fn lock_mode(&self, mode: Mode, wait: Duration) -> Later<'_, Granted>;
    /// [`Subject::set_up`].
    fn set_up(&self) -> Later<'_, Result<bool, BoxError>>;
    /// [`Subject::admit_as`].
    fn admit_as(&self, name: OpId) -> Later<'_, Result<Counted, BoxError>>;
    /// [`Subject::count_one`].
    fn count_one(&self) -> Later<'_, Result<Counted, BoxError>>;
    /// [`Subject::await_zero`].
    fn await_zero(&self, wait: Duration) -> Later<'_, Result<bool, BoxError>>;
}

/// A grant of a [`DynSubject`]: see [`Subject`] for what the methods do.
pub trait AnyGrant: Send + Sync {
    /// [`Subject::extend`].
    fn extend(&self) -> Later<'_, Result<bool, BoxError>>;
    /// [`Subject::release`]; the caller must hold the only reference to the grant.
    fn release(self: Arc<Self>) -> Later<'static, Result<bool, BoxError>>;
    /// [`Subject::deadline`].
    fn deadline(&self) -> Option<Duration>;
    /// [`Subject::lost`].
    fn lost(&self) -> Later<'_, ()>;
    /// [`Subject::fencing_token`].
    fn fencing_token(&self) -> Option<u64>;
    /// [`Subject::token`].
    fn token(&self) -> Option<Token>;
}

struct Lock<S: Subject> {
    subject: Arc<S>,
    lock: Arc<S::Lock>,
}

struct Grant<S: Subject> {
    subject: Arc<S>,
    lock: Arc<S::Lock>,
    grant: S::Grant,
}

impl<S: Subject> DynSubject for Arc<S> {
    fn name(&self) -> &'static str {
        Subject::name(&**self)
    }

    fn promises(&self) -> Promises {
        Subject::promises(&**self)
    }

    fn open<'a>(
        &'a self,
        host: &'a Host,
        key: &'a str,
        lease: Duration,
    ) -> Later<'a, Result<Arc<dyn AnyLock>, BoxError>> {
        Box::pin(async move {
            let lock = Arc::new(Subject::open(&**self, host, key, lease).await?);
            let subject = Self::clone(self);
            Ok(Arc::new(Lock { subject, lock }) as Arc<dyn AnyLock>)
        })
    }

    fn observe(&self, view: &dyn View, key: &str) -> Observed {
        Subject::observe(&**self, view, key)
    }

    fn outlasts(&self, key: &[u8]) -> bool {
        Subject::outlasts(&**self, key)
    }

    fn ends(&self, key: &[u8]) -> bool {
        Subject::ends(&**self, key)
    }

    fn fences_reads(&self) -> bool {
        Subject::fences_reads(&**self)
    }

    fn play(&self, backend: &dyn Backend, scenario: &Scenario) -> Result<Run, RunError> {
        crate::simulation::run(Arc::new(Self::clone(self)), backend, scenario)
    }
}

impl<S: Subject> Lock<S> {
    fn granted(&self, grant: Result<Option<S::Grant>, BoxError>) -> Granted {
        Ok(grant?.map(|grant| {
            let (subject, lock) = (Arc::clone(&self.subject), Arc::clone(&self.lock));
            Arc::new(Grant {
                subject,
                lock,
                grant,
            }) as Arc<dyn AnyGrant>
        }))
    }
}

impl<S: Subject> AnyLock for Lock<S> {
    fn of_task(&self) -> Option<Arc<dyn AnyLock>> {
        let (subject, lock) = (Arc::clone(&self.subject), self.subject.of_task(&self.lock)?);
        let lock = Arc::new(lock);
        Some(Arc::new(Self { subject, lock }))
    }

    fn try_mode(&self, mode: Mode) -> Later<'_, Granted> {
        Box::pin(async move { self.granted(self.subject.try_mode(&self.lock, mode).await) })
    }

    fn lock_mode(&self, mode: Mode, wait: Duration) -> Later<'_, Granted> {
        Box::pin(async move { self.granted(self.subject.lock_mode(&self.lock, mode, wait).await) })
    }

    fn set_up(&self) -> Later<'_, Result<bool, BoxError>> {
        Box::pin(self.subject.set_up(&self.lock))
    }

    fn admit_as(&self, name: OpId) -> Later<'_, Result<Counted, BoxError>> {
        Box::pin(self.subject.admit_as(&self.lock, name))
    }

    fn count_one(&self) -> Later<'_, Result<Counted, BoxError>> {
        Box::pin(self.subject.count_one(&self.lock))
    }

    fn await_zero(&self, wait: Duration) -> Later<'_, Result<bool, BoxError>> {
        Box::pin(self.subject.await_zero(&self.lock, wait))
    }
}

impl<S: Subject> AnyGrant for Grant<S> {
    fn extend(&self) -> Later<'_, Result<bool, BoxError>> {
        Box::pin(self.subject.extend(&self.lock, &self.grant))
    }

    fn release(self: Arc<Self>) -> Later<'static, Result<bool, BoxError>> {
        Box::pin(async move {
            let Some(Self {
                subject,
                lock,
                grant,
            }) = Arc::into_inner(self)
            else {
                return Err("another reference to the grant exists".into());
            };
            subject.release(&lock, grant).await
        })
    }

    fn deadline(&self) -> Option<Duration> {
        self.subject.deadline(&self.grant)
    }

    fn lost(&self) -> Later<'_, ()> {
        Box::pin(self.subject.lost(&self.grant))
    }

    fn fencing_token(&self) -> Option<u64> {
        self.subject.fencing_token(&self.grant)
    }

    fn token(&self) -> Option<Token> {
        self.subject.token(&self.grant)
    }
}
