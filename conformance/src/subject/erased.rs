//! Each [`Subject`] as a [`DynSubject`]: the code that the compiler adds for each further subject.

use super::{AnyGrant, AnyLock, BoxError, Counted, DynSubject, Granted, Host, Observed, Subject};
use crate::{
    backend::{Backend, Later, View},
    scenario::Scenario,
    simulation::{self, Run, RunError},
    vocabulary::{Mode, OpId, Promises, Token},
};
use std::{sync::Arc, time::Duration};

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
        simulation::run(Arc::new(Self::clone(self)), backend, scenario)
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
