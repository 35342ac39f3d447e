//! The background task that opens a connection. It knows no lock and no request: neither the time limit of the call that needs the
//! connection nor the end of that call cuts it off.

use super::dial::{Attempt, Dialling, Outcome};
use crate::{
    environment::{Environment, within},
    error::{NodeError, NodeErrorKind},
    retry,
    wire::{Dialled, Endpoint},
};
use std::{sync::Arc, time::Duration};

/// An owner of connections that it opens in the background, one attempt at a time.
pub(super) trait Dialler: Send + Sync + 'static {
    fn endpoint(&self) -> &dyn Endpoint;

    fn env(&self) -> &Arc<dyn Environment>;

    /// The longest time that one attempt may take.
    fn connect_timeout(&self) -> Duration;

    fn dialling(&self) -> &Dialling;

    /// Takes a new connection.
    fn take(&self, dialled: Dialled) -> Outcome;
}

/// Waits for the attempt of `dialler` that is under way, or for a new one, at most until `until`. Soon after an attempt that failed,
/// returns its error.
pub(super) async fn dial<D: Dialler>(dialler: &Arc<D>, until: Duration) -> Outcome {
    let (attempt, is_new) = dialler.dialling().attempt(dialler.env().now())?;
    if is_new {
        let task = DialTask(Arc::clone(dialler), Arc::clone(&attempt));
        // An environment that refuses the task drops it, which ends the attempt.
        let _ = dialler.env().spawn(Box::pin(task.run()));
    }
    let outcome = within(&**dialler.env(), until, attempt.outcome()).await;
    outcome.unwrap_or_else(|| Err(NodeError::new(NodeErrorKind::Unreachable)))
}

/// The task of one attempt. If it is dropped earlier, for instance because its runtime ends, it ends the attempt.
struct DialTask<D: Dialler>(Arc<D>, Arc<Attempt>);

impl<D: Dialler> DialTask<D> {
    async fn run(self) {
        let dialler = &self.0;
        let limit = dialler
            .env()
            .now()
            .saturating_add(dialler.connect_timeout());
        let dialled = within(&**dialler.env(), limit, dialler.endpoint().dial()).await;
        let dialled = dialled.unwrap_or_else(|| Err(NodeError::new(NodeErrorKind::Unreachable)));
        self.ends(dialled.and_then(|dialled| dialler.take(dialled)));
    }

    fn ends(&self, outcome: Outcome) {
        let env = self.0.env();
        let (now, random) = (env.now(), retry::draw(env.random()));
        self.0.dialling().ends(&self.1, outcome, now, random);
    }
}

impl<D: Dialler> Drop for DialTask<D> {
    fn drop(&mut self) {
        if !self.1.has_ended() {
            self.ends(Err(NodeError::new(NodeErrorKind::Unreachable)));
        }
    }
}
