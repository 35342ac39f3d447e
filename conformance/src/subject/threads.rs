//! Locks whose code blocks: they are played in real time, on threads of their own.

use super::{
    AnyLock, BoxError, DynSubject, Host, Observed, Promises, Subject,
    foreign::{REACTION, playable},
    proxy,
};
use crate::{
    backend::{Backend, Later, View},
    scenario::{Capability, Scenario},
    simulation::{self, Run, RunError, threads::Crew},
};
use std::{io, sync::Arc, time::Duration};

/// A lock whose code blocks: it has sockets, sleeps and clocks of the standard library.
///
/// The [`Subject`] asks its [`Host`] for the [`url`](Host::url) of each server, which leads over the links of the
/// scenario; so delays, cuts and partitions strike it as they strike everybody. Its methods may block: each call is
/// made on a thread of its own. Time is the machine's, so this is played on [`WallClock`](crate::backend::WallClock),
/// with short leases.
///
/// A thread can be neither paused nor given another clock: such scenarios are
/// [unsupported](Capability::ClientPause). Nor can it be ended: a process that dies loses its connections and
/// gets no others, and what its threads still do reaches nobody. Cancelled calls and dropped guards are
/// played as whole calls and releases. A panic of a call is a finding; that of another thread is not seen.
#[derive(Clone)]
pub struct Threads(Arc<dyn DynSubject>);

impl Threads {
    /// The lock on threads of its own.
    #[must_use]
    pub fn new(subject: impl Subject) -> Self {
        Self(Arc::new(Arc::new(subject)))
    }
}

impl From<Box<dyn DynSubject>> for Threads {
    fn from(subject: Box<dyn DynSubject>) -> Self {
        Self(Arc::from(subject))
    }
}

impl DynSubject for Threads {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn promises(&self) -> Promises {
        self.0.promises()
    }

    fn open<'a>(
        &'a self,
        host: &'a Host,
        key: &'a str,
        lease: Duration,
    ) -> Later<'a, Result<Arc<dyn AnyLock>, BoxError>> {
        Box::pin(async move {
            let (crew, inside) = Crew::start(host).await?;
            proxy::open(crew, Arc::clone(&self.0), inside, key, lease).await
        })
    }

    fn observe(&self, view: &dyn View, key: &str) -> Observed {
        self.0.observe(view, key)
    }

    fn outlasts(&self, key: &[u8]) -> bool {
        self.0.outlasts(key)
    }

    fn ends(&self, key: &[u8]) -> bool {
        self.0.ends(key)
    }

    fn fences_reads(&self) -> bool {
        self.0.fences_reads()
    }

    fn can(&self, capability: Capability) -> bool {
        let beyond = matches!(
            capability,
            Capability::ClientPause | Capability::ClientClock | Capability::ClientWallClock
        );
        !beyond && self.0.can(capability)
    }

    fn play(&self, backend: &dyn Backend, scenario: &Scenario) -> Result<Run, RunError> {
        if backend.virtual_time() {
            let text = "code that blocks cannot run in virtual time";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text).into());
        }
        let scenario = playable(scenario);
        let mut played = simulation::run(Arc::new(self.clone()), backend, &scenario)?;
        // The machine has to let the threads run as well, and nobody measures for how long it does not.
        played.history.terms.slack += scenario.lease() / REACTION;
        Ok(played)
    }
}
