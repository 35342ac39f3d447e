//! A subject that is played otherwise than it asks for.

use super::{AnyLock, BoxError, Host, Observed, Promises, Suspect};
use crate::{
    backend::{Backend, Later, View},
    scenario::{Capability, Scenario},
    simulation::{Run, RunError},
};
use std::{sync::Arc, time::Duration};

/// A subject with another lease, or without a view of its servers.
pub(crate) struct Adapted<'s> {
    kept: Kept<'s>,
    lease_ms: Option<u64>,
    unobserved: bool,
}

enum Kept<'s> {
    Owned(Box<dyn Suspect>),
    Borrowed(&'s dyn Suspect),
}

impl Adapted<'static> {
    /// Scenarios are scaled to this lease in virtual time.
    pub(crate) const fn leased(suspect: Box<dyn Suspect>, lease_ms: u64) -> Self {
        Self {
            kept: Kept::Owned(suspect),
            lease_ms: Some(lease_ms),
            unobserved: false,
        }
    }
}

impl<'s> Adapted<'s> {
    /// It is judged as on servers that cannot be looked into.
    pub(crate) const fn unobserved(suspect: &'s dyn Suspect) -> Self {
        Self {
            kept: Kept::Borrowed(suspect),
            lease_ms: None,
            unobserved: true,
        }
    }

    fn suspect(&self) -> &(dyn Suspect + 's) {
        match &self.kept {
            Kept::Owned(suspect) => &**suspect,
            Kept::Borrowed(suspect) => *suspect,
        }
    }
}

impl Suspect for Adapted<'_> {
    fn name(&self) -> &'static str {
        self.suspect().name()
    }

    fn promises(&self) -> Promises {
        self.suspect().promises()
    }

    fn open<'a>(
        &'a self,
        host: &'a Host,
        key: &'a str,
        lease: Duration,
    ) -> Later<'a, Result<Arc<dyn AnyLock>, BoxError>> {
        self.suspect().open(host, key, lease)
    }

    fn observe(&self, view: &dyn View, key: &str) -> Observed {
        self.suspect().observe(view, key)
    }

    fn outlasts(&self, key: &[u8]) -> bool {
        self.suspect().outlasts(key)
    }

    fn ends(&self, key: &[u8]) -> bool {
        self.suspect().ends(key)
    }

    fn fences_reads(&self) -> bool {
        self.suspect().fences_reads()
    }

    fn can(&self, capability: Capability) -> bool {
        self.suspect().can(capability)
    }

    fn lease_ms(&self) -> Option<u64> {
        self.lease_ms.or_else(|| self.suspect().lease_ms())
    }

    fn is_rehearsed(&self) -> bool {
        self.suspect().is_rehearsed()
    }

    fn play(&self, backend: &dyn Backend, scenario: &Scenario) -> Result<Run, RunError> {
        let mut run = self.suspect().play(backend, scenario)?;
        if self.unobserved {
            run.history.forget_servers();
        }
        Ok(run)
    }
}
