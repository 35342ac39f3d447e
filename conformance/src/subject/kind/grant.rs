//! The common operations of all lock kinds and their guards.

use crate::{
    checker::is_nonsense,
    subject::{BoxError, NotOffered, Refusal},
    vocabulary::Mode,
};
use redouble_lock::{FencedGuard, Guard, Kind, Lock, LockError, ReentrantGuard, Release};
use std::{error::Error, future::Future, time::Duration};

/// A lock object whose grants are guards.
pub(super) trait Takes: Sized + Send + Sync + 'static {
    type Grant: Grant;

    /// Acquires the lock, waiting up to `wait`, or not at all.
    fn take(
        &self,
        mode: Mode,
        wait: Option<Duration>,
    ) -> impl Future<Output = Taken<Self::Grant>> + Send;

    /// Makes the object of another task, if tasks must not share this one.
    fn of_task(&self) -> Option<Self> {
        None
    }
}

/// Outcome of an acquisition; the outer error means that the kind does not support the mode.
pub(super) type Taken<G> = Result<Result<G, LockError>, NotOffered>;

/// A guard of any kind.
pub(super) trait Grant: Send + Sync + 'static {
    fn guard(&self) -> &Guard;

    fn give_back(self) -> impl Future<Output = Release> + Send;

    fn fence(&self) -> Option<u64> {
        None
    }
}

impl Grant for Guard {
    fn guard(&self) -> &Guard {
        self
    }

    async fn give_back(self) -> Release {
        self.release().await
    }
}

impl Grant for FencedGuard {
    fn guard(&self) -> &Guard {
        self
    }

    async fn give_back(self) -> Release {
        self.release().await
    }

    fn fence(&self) -> Option<u64> {
        Some(self.fencing_token().get())
    }
}

impl<K: Kind<Guard: Grant>> Grant for ReentrantGuard<K> {
    fn guard(&self) -> &Guard {
        Grant::guard(&**self)
    }

    async fn give_back(self) -> Release {
        self.release().await
    }

    fn fence(&self) -> Option<u64> {
        Grant::fence(&**self)
    }
}

impl<K: Kind<Guard: Grant>> Takes for Lock<K> {
    type Grant = K::Guard;

    async fn take(&self, mode: Mode, wait: Option<Duration>) -> Taken<K::Guard> {
        match mode {
            Mode::Exclusive => Ok(take(self, wait).await),
            Mode::Shared | Mode::Permits(_) => Err(NotOffered),
        }
    }
}

/// Acquires a lock, waiting up to `wait`, or not at all.
pub(super) async fn take<K: Kind>(
    lock: &Lock<K>,
    wait: Option<Duration>,
) -> Result<K::Guard, LockError> {
    match wait {
        Some(wait) => lock.lock_timeout(wait).await,
        None => lock.try_lock().await,
    }
}

/// Converts an outcome for the suite.
pub(super) fn granted<G>(outcome: Result<G, LockError>) -> Result<Option<G>, BoxError> {
    match outcome {
        Ok(grant) => Ok(Some(grant)),
        Err(error) if error.is_contended() => Ok(None),
        Err(error) => Err(refused(error)),
    }
}

/// Converts an error: a definite refusal, or an unknown outcome.
pub(super) fn refused(error: LockError) -> BoxError {
    let words = words(&error);
    if error.is_lost() {
        Refusal::Lost.into()
    } else if error.is_unknown() || is_nonsense(&words) {
        words.into()
    } else {
        // The request was not sent, or was refused, or was undone: the lock is not held.
        Refusal::Other.into()
    }
}

/// Returns the text of an error and of its sources.
fn words(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words.push_str(": ");
        words.push_str(&error.to_string());
        cause = error.source();
    }
    words
}
