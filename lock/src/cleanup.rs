//! The release of whatever was asked for, however a call or a guard ends.

use crate::{
    algorithm::Acquisition,
    environment::{BoxFuture, Environment, Spawner},
};
use std::sync::Arc;

/// Owns an acquisition on behalf of a running call or of a guard. When it is dropped before the acquisition is
/// settled (cancelled, given up, panicked, forgotten to release), it leaves that to a background
/// task, which tries for as long as the longest lease: after that nothing can be left.
pub(crate) struct Cleanup {
    acquisition: Arc<dyn Acquisition>,
    env: Arc<dyn Environment>,
    /// Where to release it if the thread that drops it belongs to no runtime.
    home: Option<Spawner>,
    handed_over: bool,
}

impl Cleanup {
    pub(crate) fn new(acquisition: Arc<dyn Acquisition>, env: Arc<dyn Environment>) -> Self {
        Self {
            acquisition,
            home: env.spawner(),
            env,
            handed_over: false,
        }
    }

    /// Leaves the lock to another owner: nothing more is sent for it.
    pub(crate) fn hand_over(&mut self) {
        self.handed_over = true;
        self.acquisition.let_go();
    }

    /// The task that removes leftover keys.
    fn release(&self) -> BoxFuture<'static, ()> {
        let acquisition = Arc::clone(&self.acquisition);
        let until = self.env.now().saturating_add(acquisition.longest_lease());
        Box::pin(async move {
            if !acquisition.settle(until).await {
                let key = acquisition.key().escape_ascii();
                tracing::debug!(name: "lock.left", target: "redouble_lock", %key, "left a lock to the end of its lease");
            }
        })
    }

    pub(crate) fn acquisition(&self) -> &Arc<dyn Acquisition> {
        &self.acquisition
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        if self.handed_over || self.acquisition.is_settled() {
            return;
        }
        if self.env.spawn(self.release()).is_ok() {
            return;
        }
        if let Some(home) = &self.home {
            home(self.release());
        } else {
            tracing::warn!(
                name: "lock.no_runtime",
                target: "redouble_lock",
                key = %self.acquisition.key().escape_ascii(),
                "no runtime to release a lock on: it stands until its lease is over"
            );
        }
    }
}
