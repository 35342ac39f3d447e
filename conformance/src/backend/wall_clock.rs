//! Another backend in real time, for clients in processes of their own.

use super::{Backend, Later, Opened};
use crate::{scenario::Scenario, vocabulary::Capability};
use redouble::TimeSource;
use std::{io, sync::Arc, time::Duration};

/// Plays the scenarios of another backend in real time. Clients use the machine's clocks, so scenarios that
/// change these are unsupported.
#[derive(Clone, Copy, Debug)]
pub struct WallClock<B> {
    backend: B,
    lease_ms: u64,
}

impl<B: Backend> WallClock<B> {
    /// Makes the backend, with leases of this many milliseconds.
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
        epoch: Duration,
    ) -> Later<'a, io::Result<Opened>> {
        self.backend.open(scenario, time, epoch)
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
        epoch: Duration,
    ) -> Later<'a, io::Result<Opened>> {
        (**self).open(scenario, time, epoch)
    }
}
