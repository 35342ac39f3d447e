//! The grant of a specimen: its token, and what its holder believes.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::watch;

/// A grant. Clones are the same grant.
#[derive(Clone)]
pub(in crate::subject) struct Held {
    /// What was stored for it.
    pub(in crate::subject) token: String,
    deadline: Arc<Mutex<Duration>>,
    lost: watch::Sender<bool>,
}

impl Held {
    /// A grant that is believed in until a time on the host's clock.
    pub(in crate::subject) fn until(token: String, deadline: Duration) -> Self {
        Self {
            token,
            deadline: Arc::new(Mutex::new(deadline)),
            lost: watch::Sender::new(false),
        }
    }

    /// Until when it is believed in, on the host's clock.
    pub(in crate::subject) fn deadline(&self) -> Duration {
        *self.deadline.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves the deadline.
    pub(in crate::subject) fn set_deadline(&self, to: Duration) {
        *self.deadline.lock().unwrap_or_else(PoisonError::into_inner) = to;
    }

    /// Completes when the holder is told of the loss.
    pub(in crate::subject) async fn lost(&self) {
        let mut lost = self.lost.subscribe();
        if lost.wait_for(|&lost| lost).await.is_err() {
            std::future::pending().await
        }
    }
}
