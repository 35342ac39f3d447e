//! True time: how long a run has taken so far, on the clock of its runtime.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

/// The clock of a run. Cheap to clone; all clones are the same clock.
#[derive(Clone)]
pub(crate) struct TrueTime {
    started: Instant,
    /// Virtual time stands still while tasks run, so it is read once a turn: nanoseconds.
    turn: Option<Arc<AtomicU64>>,
}

impl TrueTime {
    /// A clock that starts now, in virtual time or on the wall clock.
    pub(crate) fn start(is_virtual: bool) -> Self {
        Self {
            started: Instant::now(),
            turn: is_virtual.then(Arc::default),
        }
    }

    /// Tasks begin to run: time may have gone on since the last turn.
    pub(crate) fn begin_turn(&self) {
        if let Some(turn) = &self.turn {
            let nanos = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
            turn.store(nanos, Ordering::Relaxed);
        }
    }

    /// The time since the start.
    pub(crate) fn now(&self) -> Duration {
        match &self.turn {
            Some(turn) => Duration::from_nanos(turn.load(Ordering::Relaxed)),
            None => self.started.elapsed(),
        }
    }

    /// The true time of an instant.
    pub(crate) fn of(&self, instant: Instant) -> Duration {
        instant.saturating_duration_since(self.started)
    }

    /// The instant of a true time.
    pub(crate) fn instant(&self, at: Duration) -> Instant {
        self.started + at
    }
}
