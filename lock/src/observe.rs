//! Hooks that tell a program of its locks, to count and to measure.

use crate::{
    error::{LockError, LossReason, NodeError},
    release::Release,
};
use std::{fmt, sync::Arc, time::Duration};

/// Hooks that are called at each change of a lock of a manager: given to
/// [`LockManagerBuilder::metrics`](crate::LockManagerBuilder::metrics). The [crate](crate) proposes names of metrics.
///
/// Each method does nothing by default. A method runs on the path of the lock, sometimes while mutexes of this crate are
/// locked: count and return.
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
    /// A call got its lock; it waited for `waited`.
    fn granted(&self, key: &[u8], waited: Duration) {
        let _ = (key, waited);
    }

    /// A call ended without its lock after `waited`: other clients held it, or Redis failed.
    fn not_granted(&self, key: &[u8], waited: Duration, error: &LockError) {
        let _ = (key, waited, error);
    }

    /// A request failed. It is repeated if there is time.
    fn failed(&self, key: &[u8], error: &NodeError) {
        let _ = (key, error);
    }

    /// A watchdog extended a lease.
    fn renewed(&self, key: &[u8]) {
        let _ = key;
    }

    /// A lock was lost; it was held for `held`. Called when the loss is first seen: by the deadline if there is a
    /// watchdog or a task waits for the loss.
    fn lost(&self, key: &[u8], held: Duration, reason: LossReason) {
        let _ = (key, held, reason);
    }

    /// A lock was released; it was held for `held`.
    fn released(&self, key: &[u8], held: Duration, outcome: &Release) {
        let _ = (key, held, outcome);
    }

    /// A guard was dropped; its lock was held for `held` and is released in the background.
    fn dropped(&self, key: &[u8], held: Duration) {
        let _ = (key, held);
    }
}

/// The hooks of a manager, if it has any.
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
        f.write_str(if self.0.is_some() { "hooks" } else { "none" })
    }
}
