//! Writes the history, and is the one source of true time.

use super::held;
use crate::history::{History, What};
use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::time::Instant;

#[derive(Clone)]
pub(crate) struct Recorder {
    started: Instant,
    history: Arc<Mutex<History>>,
}

impl Recorder {
    pub(crate) fn new(started: Instant, history: History) -> Self {
        Self {
            started,
            history: Arc::new(Mutex::new(history)),
        }
    }

    /// True time since the start of the run.
    pub(crate) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// The instant of a true time.
    pub(crate) fn instant(&self, at: Duration) -> Instant {
        self.started + at
    }

    pub(crate) fn record(&self, what: What) {
        let now = self.now();
        self.history().push(now, what);
    }

    pub(crate) fn history(&self) -> MutexGuard<'_, History> {
        held(&self.history)
    }
}
