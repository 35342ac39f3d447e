//! What a program can be told about its locks, to count and to measure.

use crate::{
    error::{LockError, LossReason, NodeError},
    release::Release,
};
use std::{fmt, sync::Arc, time::Duration};

/// Is told what becomes of the locks of a manager: given to
/// [`LockManagerBuilder::metrics`](crate::LockManagerBuilder::metrics).
///
/// Every method does nothing unless it is written. They are called on the path of the lock, sometimes with
/// locks of this crate held: count and return.
///
/// ```
/// use redouble_lock::Metrics;
/// use std::{sync::atomic::{AtomicU64, Ordering}, time::Duration};
///
/// #[derive(Default)]
/// struct Counted {
///     grants: AtomicU64,
///     waited_ms: AtomicU64,
/// }
///
/// impl Metrics for Counted {
///     fn granted(&self, _key: &[u8], waited: Duration) {
///         self.grants.fetch_add(1, Ordering::Relaxed);
///         self.waited_ms.fetch_add(waited.as_millis() as u64, Ordering::Relaxed);
///     }
/// }
/// ```
pub trait Metrics: Send + Sync + 'static {
    /// A call was granted its lock after so much time.
    fn granted(&self, key: &[u8], waited: Duration) {
        let _ = (key, waited);
    }

    /// A call ended without its lock after so much time: others had it, or Redis failed.
    fn not_granted(&self, key: &[u8], waited: Duration, error: &LockError) {
        let _ = (key, waited, error);
    }

    /// A request failed that is repeated if there is time for it.
    fn failed(&self, key: &[u8], error: &NodeError) {
        let _ = (key, error);
    }

    /// A watchdog extended a lease.
    fn renewed(&self, key: &[u8]) {
        let _ = key;
    }

    /// A lock was lost after so much time. Told when the loss is first seen: by the deadline if there is a
    /// watchdog or somebody waits for it.
    fn lost(&self, key: &[u8], held: Duration, reason: LossReason) {
        let _ = (key, held, reason);
    }

    /// A lock was given back after so much time, with this outcome.
    fn released(&self, key: &[u8], held: Duration, outcome: &Release) {
        let _ = (key, held, outcome);
    }

    /// A guard was dropped after so much time; its lock is given back in the background.
    fn dropped(&self, key: &[u8], held: Duration) {
        let _ = (key, held);
    }
}

/// Nobody, or who is told.
#[derive(Clone, Default)]
pub(crate) struct Observer(Option<Arc<dyn Metrics>>);

impl Observer {
    pub(crate) fn new(metrics: impl Metrics) -> Self {
        Self(Some(Arc::new(metrics)))
    }

    pub(crate) fn tell(&self, what: impl FnOnce(&dyn Metrics)) {
        if let Some(metrics) = &self.0 {
            what(&**metrics);
        }
    }

    pub(crate) fn renewed(&self, key: &[u8]) {
        self.tell(|metrics| metrics.renewed(key));
    }

    pub(crate) fn failed(&self, key: &[u8], error: &NodeError) {
        self.tell(|metrics| metrics.failed(key, error));
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "told" } else { "nobody" })
    }
}
