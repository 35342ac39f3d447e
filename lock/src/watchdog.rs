//! The background task that extends the lease of a guard. It belongs to one grant, and ends with it.

use crate::{error::LockError, guard::Held, lease::Belief, retry};
use std::{sync::Arc, time::Duration};

/// Extends the lease after each third of it, until the guard is released or the lock is lost.
///
/// A failure is not a loss: until the deadline it tries again, at once after the first one and then
/// with pauses. One silent request takes at most a sixth of the lease, so that several fit in.
pub(crate) async fn watch(held: Arc<Held>) {
    let validity = held.lease.validity();
    let patience = held.options.reply_timeout.min(validity / 6);
    let mut failures = 0;
    let mut retry_at = Duration::ZERO;
    loop {
        let deadline = match held.belief() {
            Belief::HeldUntil(deadline) => deadline,
            Belief::Lost(reason) => {
                let key = held.claim.key().escape_ascii();
                return tracing::warn!(%key, %reason, "lost a lock");
            }
            Belief::Released => return,
        };
        let now = held.env.now();
        let due = held.lease.renew_at(deadline).max(retry_at);
        if now < due {
            // Then look again: the holder may have extended the lease itself meanwhile.
            or_end(&held, held.env.sleep_until(due)).await;
            continue;
        }
        let renewal = held.extend(held.lease, now.saturating_add(patience));
        match or_end(&held, renewal).await {
            Some(Ok(())) => failures = 0,
            Some(Err(
                LockError::Unknown(error) | LockError::NoQuorum(error) | LockError::Redis(error),
            )) => {
                tracing::debug!(%error, "could not extend a lease");
                let random = retry::draw(held.env.random());
                if failures > 0 {
                    let pause = retry::back_off(failures, validity / 12, random);
                    retry_at = held.env.now().saturating_add(pause);
                }
                failures += 1;
            }
            // The end; the next look tells which.
            Some(Err(_)) | None => {}
        }
    }
}

/// Waits for `future`, unless the grant ends first; then the future is dropped.
async fn or_end<T>(held: &Held, future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    let mut ended = std::pin::pin!(held.ended());
    tokio::select! {
        biased;
        _ = &mut ended => None,
        value = &mut future => Some(value),
    }
}
