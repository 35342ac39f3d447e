//! A subject with erased types, as the simulation uses it.
//!
//! The simulation is compiled once, for boxed subjects; each further subject adds only the few functions
//! below.

use super::{BoxError, Counted, Host, Observed};
use crate::{
    backend::{Backend, Later, View},
    scenario::Scenario,
    simulation::{Run, RunError},
    vocabulary::{Capability, Mode, OpId, Promises, Token},
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
