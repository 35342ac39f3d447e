//! Another backend on the wall clock, for clients that are processes of their own.

use super::{Backend, Later, Opened};
use crate::scenario::{Capability, Scenario};
use redouble::TimeSource;
use std::{io, sync::Arc};

/// Runs what another backend offers in real time, whatever kind of time it has by itself. The clocks
/// of clients cannot be moved: they are the machine's.
#[derive(Clone, Copy, Debug)]
pub struct WallClock<B> {
    backend: B,
    lease_ms: u64,
}

impl<B: Backend> WallClock<B> {
    /// The backend in real time, with leases of so many milliseconds.
    #[must_use]
    pub const fn new(backend: B, lease_ms: u64) -> Self {
        Self { backend, lease_ms }
    }
}

impl<B: Backend> Backend for WallClock<B> {
    fn name(&self) -> String {
        format!("{}, real time", self.backend.name())
    }

    fn virtual_time(&self) -> bool {
        false
    }

    fn lease_ms(&self) -> Option<u64> {
        Some(self.lease_ms)
    }

    fn observes(&self) -> bool {
        self.backend.observes()
    }

    fn can(&self, capability: Capability) -> bool {
        let of_the_machine = matches!(
            capability,
            Capability::ClientClock | Capability::ClientWallClock
        );
        !of_the_machine && self.backend.can(capability)
    }

    fn open<'a>(
        &'a self,
        scenario: &'a Scenario,
        time: Arc<dyn TimeSource>,
    ) -> Later<'a, io::Result<Opened>> {
        self.backend.open(scenario, time)
    }
}

impl Backend for Box<dyn Backend> {
    fn name(&self) -> String {
        (**self).name()
    }

    fn virtual_time(&self) -> bool {
        (**self).virtual_time()
    }

    fn lease_ms(&self) -> Option<u64> {
        (**self).lease_ms()
    }

    fn observes(&self) -> bool {
        (**self).observes()
    }

    fn can(&self, capability: Capability) -> bool {
        (**self).can(capability)
    }

    fn open<'a>(
        &'a self,
        scenario: &'a Scenario,
        time: Arc<dyn TimeSource>,
    ) -> Later<'a, io::Result<Opened>> {
        (**self).open(scenario, time)
    }
}
