//! A subscription to the channel of release messages.

use super::Site;
use crate::{simulation::Listener, subject::BoxError};
use std::time::Duration;

/// Deletes a key that holds a token, and publishes the release.
pub(super) const RELEASE_ALOUD: &str = "\
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end \
redis.call('DEL', KEYS[1]) redis.call('PUBLISH', KEYS[1] .. ':free', 1) return 1";

/// A subscription; dropping it unsubscribes.
pub(super) struct ReleaseSubscription(Listener);

impl ReleaseSubscription {
    /// Subscribes.
    pub(super) async fn open(site: &Site) -> Result<Self, BoxError> {
        let channel = format!("{}:free", site.key);
        Ok(Self(site.host.listen(0, &channel).await?))
    }

    /// Sleeps until a message arrives, or until a time on the host's clock.
    pub(super) async fn sleep_until(&mut self, site: &Site, until: Duration) {
        tokio::select! {
            biased;
            () = self.0.heard() => {}
            () = site.host.sleep_until(until) => {}
        }
    }
}
