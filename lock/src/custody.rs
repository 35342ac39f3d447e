//! The duty to give back what was asked for, whichever way a call or a guard ends.

use crate::{
    algorithm::Claim,
    environment::{BoxFuture, Environment, Spawner},
};
use std::sync::Arc;

/// Owns a claim on behalf of a running call or of a guard. When it is dropped before the claim is
/// settled (cancelled, given up, panicked, forgotten to release), it leaves that to a background
/// task, which tries for as long as the longest lease: after that nothing can be left.
pub(crate) struct Custody {
    claim: Arc<dyn Claim>,
    env: Arc<dyn Environment>,
    /// Where to release it if the thread that drops it belongs to no runtime.
    home: Option<Spawner>,
    handed_over: bool,
}

impl Custody {
    pub(crate) fn new(claim: Arc<dyn Claim>, env: Arc<dyn Environment>) -> Self {
        Self {
            claim,
            home: env.spawner(),
            env,
            handed_over: false,
        }
    }

    /// Ends the duty: somebody else has it now.
    pub(crate) fn hand_over(&mut self) {
        self.handed_over = true;
        self.claim.let_go();
    }

    /// The task that sees to what is left.
    fn release(&self) -> BoxFuture<'static, ()> {
        let claim = Arc::clone(&self.claim);
        let until = self.env.now().saturating_add(claim.longest_lease());
        Box::pin(async move {
            if !claim.settle(until).await {
                let key = claim.key().escape_ascii();
                tracing::debug!(%key, "left a lock to the end of its lease");
            }
        })
    }

    pub(crate) fn claim(&self) -> &Arc<dyn Claim> {
        &self.claim
    }
}

impl Drop for Custody {
    fn drop(&mut self) {
        if self.handed_over || self.claim.is_settled() {
            return;
        }
        if self.env.spawn(self.release()).is_ok() {
            return;
        }
        if let Some(home) = &self.home {
            home(self.release());
        } else {
            tracing::warn!(
                key = %self.claim.key().escape_ascii(),
                "no runtime to release a lock on: it stands until its lease is over"
            );
        }
    }
}
