//! How a node gets its connection: by one attempt at a time, in a task of its own. So neither the limit of the call that needs the
//! connection nor its end cuts the attempt off, and all calls that need it wait for the same one.

use super::Node;
use crate::{
    connection::Connection,
    environment::within,
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

type Outcome = Result<Arc<Connection>, NodeError>;

/// The attempts of a node to connect.
#[derive(Default)]
pub(super) struct Dialling {
    state: Mutex<State>,
    /// Held while a call asks for the user's own connection.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    running: Option<Arc<Attempt>>,
    /// How many attempts have failed in a row.
    failures: u32,
    /// Why the latest one failed, and when the next one may begin.
    failed: Option<(NodeError, Duration)>,
}

#[derive(Default)]
struct Attempt {
    outcome: OnceLock<Outcome>,
    ended: Signal,
}

impl Dialling {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attempt {
    async fn outcome(&self) -> Outcome {
        self.ended.after(0).await;
        let unreachable = || Err(NodeError::new(NodeErrorKind::Unreachable));
        self.outcome.get().cloned().unwrap_or_else(unreachable)
    }
}

impl Node {
    /// Waits for a new connection, at most until `until`.
    pub(super) async fn connected(self: &Arc<Self>, until: Duration) -> Outcome {
        let outcome = if self.endpoint.redials() {
            let attempt = self.attempt()?;
            within(&**self.env(), until, attempt.outcome()).await
        } else {
            // It is there already.
            within(&**self.env(), until, self.given()).await
        };
        outcome.unwrap_or_else(|| Err(NodeError::new(NodeErrorKind::Unreachable)))
    }

    /// The user's own connection.
    async fn given(self: &Arc<Self>) -> Outcome {
        let _turn = self.dialling.turn.lock().await;
        match self.live() {
            Some(connection) => Ok(connection),
            None => self.adopt(self.endpoint.dial().await?),
        }
    }

    /// The attempt that is under way; begins one if there is none. Soon after one that failed, returns its error.
    fn attempt(self: &Arc<Self>) -> Result<Arc<Attempt>, NodeError> {
        let now = self.env().now();
        let mut state = self.dialling.lock();
        if let Some(running) = &state.running {
            return Ok(Arc::clone(running));
        }
        match &state.failed {
            Some((error, until)) if now < *until => return Err(error.clone()),
            Some(_) | None => {}
        }
        let attempt = Arc::new(Attempt::default());
        state.running = Some(Arc::clone(&attempt));
        drop(state);
        let task = Task(Arc::clone(self), Arc::clone(&attempt));
        // Dropped, it ends the attempt.
        let _ = self.env().spawn(Box::pin(task.run()));
        Ok(attempt)
    }

    fn ends(&self, attempt: &Attempt, outcome: Outcome) {
        let now = self.env().now();
        let random = retry::draw(self.env().random());
        let mut state = self.dialling.lock();
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
}

/// The task of an attempt. Dropped before it is done, as when its runtime ends, it ends the attempt.
struct Task(Arc<Node>, Arc<Attempt>);

impl Task {
    async fn run(self) {
        let node = &self.0;
        let limit = node.env().now().saturating_add(node.connect_timeout);
        let dialled = within(&**node.env(), limit, node.endpoint.dial()).await;
        let dialled = dialled.unwrap_or_else(|| Err(NodeError::new(NodeErrorKind::Unreachable)));
        node.ends(&self.1, dialled.and_then(|dialled| node.adopt(dialled)));
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if self.1.outcome.get().is_none() {
            let unreachable = NodeError::new(NodeErrorKind::Unreachable);
            self.0.ends(&self.1, Err(unreachable));
        }
    }
}
