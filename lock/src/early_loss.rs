//! Early detection of a loss: a guard learns that its lock is lost as soon as another client changes the key.
//!
//! An invalidation shows that a key changed, not that the lock is lost. So this task sends an extension that is too short to
//! lengthen the lease: its reply shows whether the lock is still held, and it registers the key for the next invalidation.

use crate::{
    grant::Grant,
    lease::{Lease, LeaseState},
    retry,
};
use std::sync::Arc;

/// Ends a grant as soon as Redis no longer stores its lock.
pub(crate) async fn detect(grant: Arc<Grant>) {
    let mut failures = 0;
    while let LeaseState::HeldUntil(_) = grant.state() {
        tokio::select! {
            biased;
            _ = grant.ended() => return,
            () = due(&grant, failures) => {}
        }
        let until = grant.env.now().saturating_add(grant.options.reply_timeout);
        match grant.extend(Lease::SHORTEST, until).await {
            Ok(()) => failures = 0,
            // The outcome is unknown. The grant ends at its deadline at the latest.
            Err(_) => failures += 1,
        }
    }
}

/// Waits until a key changes or, after a failed request, until the time of the next one.
async fn due(grant: &Grant, failures: u32) {
    let Some(before) = failures.checked_sub(1) else {
        return grant.acquisition.changed().await;
    };
    let random = retry::draw(grant.env.random());
    let pause = grant.options.retrying().before(before, random);
    let at = grant.env.now().saturating_add(pause);
    grant.env.sleep_until(at).await;
}
