//! Blocking locks: they are played in real time, on threads.

use super::{
    AnyLock, BoxError, DynSubject, Host, Observed, Promises, Subject,
    foreign::{REACTION, playable},
    proxy,
};
use crate::{
    backend::{Backend, Later, View},
    scenario::Scenario,
    simulation::{self, Run, RunError, threads::Crew},
    vocabulary::Capability,
};
use std::{io, sync::Arc, time::Duration};

/// A lock whose code blocks, on sockets, sleeps and clocks of the standard library.
///
/// The [`Subject`] asks its [`Host`] for the [`url`](Host::url) of each server. The URL leads over the links
/// of the scenario, so delays, cuts and partitions affect it. The methods may block: each call runs on a
/// thread of its own. Time is real time, so these locks need [`WallClock`](crate::backend::WallClock) and
/// short leases.
///
/// Threads cannot be paused and share the machine's clock, so such scenarios are
/// [unsupported](Capability::ClientPause). Threads cannot be killed either: a crashed process loses its
/// connections and gets no new ones, so nothing that its threads still send reaches a server. Cancelled calls
/// and dropped guards are played as complete calls and releases. A panic in a call is a finding; a panic in
/// another thread is not seen.
#[derive(Clone)]
pub struct Threads(Arc<dyn DynSubject>);

impl Threads {
    /// Makes the form of a lock that runs on threads.
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
            let text = "blocking code needs real time";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text).into());
        }
        let scenario = playable(scenario);
        let mut played = simulation::run(Arc::new(self.clone()), backend, &scenario)?;
        // The threads also compete for the machine's processors, and nothing measures how long they wait for
        // one.
        played.history.terms.slack += scenario.lease() / REACTION;
        Ok(played)
    }
}
