//! The reentrant mutex, with and without fencing tokens. Each task is an owner.

use super::{
    Ours, fenced_promises,
    grant::{Grant, Taken, Takes},
    promises,
};
use crate::{
    subject::{DynSubject, NotOffered, boxed},
    vocabulary::{Kind, Mode},
};
use redouble_lock::{Kind as LockKind, Lock, Owner, ReentrantGuard};
use std::time::Duration;

/// A lock, and the owner handle of one task.
struct Entered<K: LockKind> {
    lock: Lock<K>,
    owner: Owner<K>,
}

impl<K: LockKind> From<Lock<K>> for Entered<K> {
    fn from(lock: Lock<K>) -> Self {
        let owner = lock.owner();
        Self { lock, owner }
    }
}

impl<K: LockKind<Guard: Grant>> Takes for Entered<K> {
    type Grant = ReentrantGuard<K>;

    async fn take(&self, mode: Mode, wait: Option<Duration>) -> Taken<Self::Grant> {
        match (mode, wait) {
            (Mode::Exclusive, Some(wait)) => Ok(self.owner.lock_timeout(wait).await),
            (Mode::Exclusive, None) => Ok(self.owner.try_lock().await),
            (Mode::Shared | Mode::Permits(_), _) => Err(NotOffered),
        }
    }

    fn of_task(&self) -> Option<Self> {
        Some(self.lock.clone().into())
    }
}

pub(in crate::subject) fn reentrant() -> Box<dyn DynSubject> {
    let promises = promises(Kind::Mutex).reentrant();
    boxed(Ours::new("reentrant", promises, |client, key| {
        let lock = client.options(client.locks().mutex(key)).build()?;
        Ok(Entered::from(lock))
    }))
}

pub(in crate::subject) fn fenced_reentrant() -> Box<dyn DynSubject> {
    let promises = fenced_promises().reentrant();
    boxed(Ours::new("fenced-reentrant", promises, |client, key| {
        let lock = client.options(client.locks().mutex(key).fenced()).build()?;
        Ok(Entered::from(lock))
    }))
}
