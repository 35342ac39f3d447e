//! What a watchdog does for its grant: extends the lease after each third of it, until the guard is released, the lock is
//! lost, or it was held for long enough; and sees to it that the loss is told in time, also if nobody looks. When
//! it does so is the matter of the [`caretaker`](crate::caretaker).

use crate::{
    error::LockError,
    guard::Held,
    lease::{Lease, LeaseState},
    retry,
};
use std::{sync::Arc, time::Duration};
use tracing::Instrument as _;

/// How the extensions of a grant have gone lately.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Record {
    /// In a row.
    failures: u32,
    retry_at: Duration,
}

/// Does what is due for a grant. Tells when to do so next, at the latest at its deadline; nothing once it has ended.
///
/// A failure is not a loss: until the deadline it tries again, at once after the first one and then
/// with pauses. One silent request takes at most a sixth of the lease, so that several fit in.
pub(crate) async fn see_to(held: Arc<Held>, mut record: Record) -> Option<(Duration, Record)> {
    let validity = held.lease.validity();
    let patience = held.options.reply_timeout.min(validity / 6);
    while let LeaseState::HeldUntil(deadline) = held.state() {
        if held.is_held_no_longer() {
            return Some((deadline, record));
        }
        let now = held.env.now();
        // The holder may have extended the lease itself meanwhile.
        let due = held.lease.renew_at(deadline).max(record.retry_at);
        if now < due {
            return Some((due.min(deadline), record));
        }
        let Some(lease) = next(&held, deadline, now) else {
            held.hold_no_longer();
            continue;
        };
        let renewal = held.extend(lease, now.saturating_add(patience));
        let span = tracing::debug_span!(parent: &held.span, "lock.renew");
        match or_end(&held, renewal.instrument(span)).await {
            Some(Ok(())) if lease != held.lease => held.hold_no_longer(),
            Some(Ok(())) => {
                held.options.observer.renewed(held.acquisition.key());
                record.failures = 0;
            }
            Some(Err(
                LockError::Unknown(error) | LockError::NoQuorum(error) | LockError::Redis(error),
            )) => {
                tracing::debug!(%error, "could not extend a lease");
                held.options.observer.failed(held.acquisition.key(), &error);
                let random = retry::draw(held.env.random());
                if record.failures > 0 {
                    let pauses = held.options.retry.at_most(validity / 12);
                    let pause = pauses.before(record.failures, random);
                    record.retry_at = held.env.now().saturating_add(pause);
                }
                record.failures += 1;
            }
            // The end; the next look tells which.
            Some(Err(_)) | None => {}
        }
    }
    None
}

/// The lease of an extension that is sent `now`: the usual one, or a shorter one, the last, so that the lock is
/// not held for longer than is allowed. Nothing if the present one lasts that long.
fn next(held: &Held, deadline: Duration, now: Duration) -> Option<Lease> {
    let Some(max_hold) = held.options.max_hold else {
        return Some(held.lease);
    };
    let end = held.granted.saturating_add(max_hold);
    let rest = end.saturating_sub(now);
    if deadline >= end {
        None
    } else if rest >= held.lease.ttl() {
        Some(held.lease)
    } else {
        held.options.lease(rest).ok()
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
