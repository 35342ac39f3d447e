//! Telling several listeners that something has happened: they wake in the order in which they came, which
//! tokio's `watch` does not promise.

use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Notify;

#[derive(Default)]
pub(crate) struct Signal {
    raised: AtomicU64,
    listeners: Notify,
}

impl Signal {
    pub(crate) fn raise(&self) {
        self.raised.fetch_add(1, Ordering::AcqRel);
        self.listeners.notify_waiters();
    }

    /// How often it has been raised.
    pub(crate) fn count(&self) -> u64 {
        self.raised.load(Ordering::Acquire)
    }

    /// Waits until it has been raised more than `count` times.
    ///
    /// Cancel safety: nothing is lost.
    pub(crate) async fn after(&self, count: u64) {
        loop {
            // It receives every signal that is raised from here on, also before it is polled.
            let told = self.listeners.notified();
            if self.count() > count {
                return;
            }
            told.await;
        }
    }
}
