//! B42: a mutex inside the process is used as the distributed lock. Other processes do not see it.

use crate::{
    backend::View,
    checker::Property::Exclusion,
    subject::{BoxError, Expected::Convicted, Host, Row, Subject, boxed},
    vocabulary::{Promises, Stored},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// The specimen with its id.
pub(in crate::subject) struct ProcessLocal(pub(in crate::subject) &'static str);

pub(super) const ROWS: &[Row] = &[Row {
    name: "process-local-mutex",
    make: || boxed(ProcessLocal("B42")),
    expected: Convicted(&[Exclusion]),
    summary: "a mutex inside the process",
}];

/// Frees the mutex when it is dropped.
pub(in crate::subject) struct Locked(Arc<AtomicBool>);

impl Drop for Locked {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl Subject for ProcessLocal {
    type Lock = Arc<AtomicBool>;
    type Grant = Locked;

    fn name(&self) -> &'static str {
        self.0
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node()
    }

    async fn open(&self, _: &Host, _: &str, _: Duration) -> Result<Self::Lock, BoxError> {
        Ok(Arc::default())
    }

    async fn try_lock(&self, lock: &Self::Lock) -> Result<Option<Locked>, BoxError> {
        let taken = lock.swap(true, Ordering::Relaxed);
        Ok((!taken).then(|| Locked(Arc::clone(lock))))
    }

    async fn release(&self, _: &Self::Lock, _: Locked) -> Result<bool, BoxError> {
        Ok(true)
    }

    fn stored(&self, _: &dyn View, _: &str) -> Vec<Stored> {
        Vec::new()
    }
}
