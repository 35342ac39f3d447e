//! Work that ends with its lock.

use crate::{guard::Held, lease::LeaseState};
use std::{fmt, sync::Arc};

/// Tells tasks that a lock is not held any more: made by
/// [`Guard::cancellation_token`](crate::Guard::cancellation_token).
///
/// It is cancelled as soon as the lock is lost, at the latest at its deadline, or when the guard is released or
/// dropped. Cheap to clone, and can be moved to other tasks; it does not keep the lock.
#[derive(Clone)]
pub struct CancellationToken {
    held: Arc<Held>,
}

impl CancellationToken {
    pub(crate) fn new(held: Arc<Held>) -> Self {
        Self { held }
    }

    /// Returns true if the lock is not held any more. Once true, it stays true.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        !matches!(self.held.state(), LeaseState::HeldUntil(_))
    }

    /// Waits until the lock is not held any more.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. May be awaited by several tasks, any number of times.
    pub async fn cancelled(&self) {
        self.held.ended().await;
    }
}

impl fmt::Debug for CancellationToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancellationToken")
            .field("is_cancelled", &self.is_cancelled())
            .finish_non_exhaustive()
    }
}
