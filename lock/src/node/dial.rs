//! The attempts of a node to connect: one at a time, with pauses after failures. There is no connection, clock or task here.

use crate::{
    connection::Connection,
    error::{NodeError, NodeErrorKind},
    retry,
    signal::Signal,
};
use std::{
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

/// For how long one attempt may take, unless told otherwise.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest pause after an attempt that failed.
const PAUSE_MAX: Duration = Duration::from_millis(100);

pub(super) type Outcome = Result<Arc<Connection>, NodeError>;

/// The attempts of a node to connect.
#[derive(Default)]
pub(super) struct Dialling {
    state: Mutex<State>,
    /// Held while a call asks for the user's own connection.
    pub(super) turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    running: Option<Arc<Attempt>>,
    /// How many attempts have failed in a row.
    failures: u32,
    /// Why the latest one failed, and when the next one may begin.
    failed: Option<(NodeError, Duration)>,
}

/// One attempt, for which several calls may wait.
#[derive(Default)]
pub(super) struct Attempt {
    outcome: OnceLock<Outcome>,
    ended: Signal,
}

impl Dialling {
    /// The attempt that is under way at `now`, or a new one, for which the caller has to start a task. Soon after one that failed,
    /// returns its error.
    pub(super) fn attempt(&self, now: Duration) -> Result<(Arc<Attempt>, bool), NodeError> {
        let mut state = self.lock();
        if let Some(running) = &state.running {
            return Ok((Arc::clone(running), false));
        }
        match &state.failed {
            Some((error, until)) if now < *until => return Err(error.clone()),
            Some(_) | None => {}
        }
        let attempt = Arc::new(Attempt::default());
        state.running = Some(Arc::clone(&attempt));
        Ok((attempt, true))
    }

    /// Notes the outcome of an attempt at `now`.
    pub(super) fn ends(&self, attempt: &Attempt, outcome: Outcome, now: Duration, random: u64) {
        let mut state = self.lock();
        state.running = None;
        match &outcome {
            Ok(_) => (state.failures, state.failed) = (0, None),
            Err(error) => {
                let pause = retry::back_off(state.failures, PAUSE_MAX, random);
                state.failures = state.failures.saturating_add(1);
                state.failed = Some((error.clone(), now.saturating_add(pause)));
            }
        }
        drop(state);
        let _ = attempt.outcome.set(outcome);
        attempt.ended.raise();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attempt {
    pub(super) fn has_ended(&self) -> bool {
        self.outcome.get().is_some()
    }

    pub(super) async fn outcome(&self) -> Outcome {
        self.ended.after(0).await;
        let unreachable = || Err(NodeError::new(NodeErrorKind::Unreachable));
        self.outcome.get().cloned().unwrap_or_else(unreachable)
    }
}
