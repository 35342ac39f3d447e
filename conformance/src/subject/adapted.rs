//! A subject with a different lease, or without observation of its servers.

use super::{AnyLock, BoxError, DynSubject, Host, Observed, Promises};
use crate::{
    backend::{Backend, Later, View},
    scenario::Scenario,
    simulation::{Run, RunError},
    vocabulary::Capability,
};
use std::{sync::Arc, time::Duration};

/// A wrapper that changes a subject's lease or hides the servers' state.
pub(crate) struct Adapted<'s> {
    kept: Kept<'s>,
    lease_ms: Option<u64>,
    unobserved: bool,
}

enum Kept<'s> {
    Owned(Box<dyn DynSubject>),
    Borrowed(&'s dyn DynSubject),
}

impl Adapted<'static> {
    /// Scales scenarios to this lease in virtual time.
    pub(crate) const fn leased(subject: Box<dyn DynSubject>, lease_ms: u64) -> Self {
        Self {
            kept: Kept::Owned(subject),
            lease_ms: Some(lease_ms),
            unobserved: false,
        }
    }
}

impl<'s> Adapted<'s> {
    /// Judges the subject as on servers whose data the suite cannot read.
    pub(crate) const fn unobserved(subject: &'s dyn DynSubject) -> Self {
        Self {
            kept: Kept::Borrowed(subject),
            lease_ms: None,
            unobserved: true,
        }
    }

    fn subject(&self) -> &(dyn DynSubject + 's) {
        match &self.kept {
            Kept::Owned(subject) => &**subject,
            Kept::Borrowed(subject) => *subject,
        }
    }
}

impl DynSubject for Adapted<'_> {
    fn name(&self) -> &'static str {
        self.subject().name()
    }

    fn promises(&self) -> Promises {
        self.subject().promises()
    }

    fn open<'a>(
        &'a self,
        host: &'a Host,
        key: &'a str,
        lease: Duration,
    ) -> Later<'a, Result<Arc<dyn AnyLock>, BoxError>> {
        self.subject().open(host, key, lease)
    }

    fn observe(&self, view: &dyn View, key: &str) -> Observed {
        self.subject().observe(view, key)
    }

    fn outlasts(&self, key: &[u8]) -> bool {
        self.subject().outlasts(key)
    }

    fn ends(&self, key: &[u8]) -> bool {
        self.subject().ends(key)
    }

    fn fences_reads(&self) -> bool {
        self.subject().fences_reads()
    }

    fn can(&self, capability: Capability) -> bool {
        self.subject().can(capability)
    }

    fn lease_ms(&self) -> Option<u64> {
        self.lease_ms.or_else(|| self.subject().lease_ms())
    }

    fn is_rehearsed(&self) -> bool {
        self.subject().is_rehearsed()
    }

    fn play(&self, backend: &dyn Backend, scenario: &Scenario) -> Result<Run, RunError> {
        let mut run = self.subject().play(backend, scenario)?;
        if self.unobserved {
            run.history.forget_servers();
        }
        Ok(run)
    }
}
