//! Early loss: a guard learns of it as soon as another client changes the key of its lock.
//!
//! An invalidation says that a key was changed, not that the lock is lost. So the acquisition is asked whether it stands,
//! by an extension that is too short to extend anything and that registers the key again.

use crate::{
    grant::Grant,
    lease::{Lease, LeaseState},
    retry,
};
use std::sync::Arc;

/// Ends the state of a grant as soon as its lock is found gone.
pub(crate) async fn watch(grant: Arc<Grant>) {
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
            // Not known yet; by the deadline it is.
            Err(_) => failures += 1,
        }
    }
}

/// Waits for a change; after a failure, for the time to ask again.
async fn due(grant: &Grant, failures: u32) {
    let Some(before) = failures.checked_sub(1) else {
        return grant.acquisition.changed().await;
    };
    let random = retry::draw(grant.env.random());
    let pause = grant.options.retry.before(before, random);
    let at = grant.env.now().saturating_add(pause);
    grant.env.sleep_until(at).await;
}
