//! B35: a waiter checks the key, then subscribes, then sleeps. It misses a release between the check and the
//! subscription, and a message on a broken connection.

use super::{
    Held, Site, SoundLock, Specimen, exhibit,
    release_subscription::{RELEASE_ALOUD, ReleaseSubscription},
};
use crate::{
    checker::Property::WakeUp,
    subject::{BoxError, Expected::Convicted, Host, Row},
    vocabulary::Promises,
};
use std::time::Duration;

/// Wrong assumption of the waiter.
enum Asleep {
    /// No release happens between the check and the subscription.
    NoSecondLook,
    /// Every message arrives.
    NoBound,
}

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "subscribe-without-second-look",
        make: || exhibit(Asleep::NoSecondLook),
        expected: Convicted(&[WakeUp]),
        summary: "checks, subscribes and sleeps, without a second check",
    },
    Row {
        name: "sleeps-until-release-message",
        make: || exhibit(Asleep::NoBound),
        expected: Convicted(&[WakeUp]),
        summary: "sleeps until a release message arrives, however long the lease lasts",
    },
];

/// Returns when the present lease ends, on the host's clock.
async fn lease_end(site: &Site) -> Result<Duration, BoxError> {
    let left: i64 = site.ask(&["PTTL", &site.key]).await?;
    let left = Duration::from_millis(u64::try_from(left).unwrap_or(0) + 1);
    Ok(site.host.now() + left)
}

impl Specimen for Asleep {
    fn id(&self) -> &'static str {
        match self {
            Self::NoSecondLook => "B35a",
            Self::NoBound => "B35b",
        }
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node()
            .with_deadline()
            .waiting(Some(12))
    }

    async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<Site, BoxError> {
        let site = <Site as SoundLock>::open(host, key, lease, host.request_timeout()).await?;
        Ok(site.releasing_by(RELEASE_ALOUD))
    }

    async fn wait(&self, site: &Site, wait: Duration) -> Result<Option<Held>, BoxError> {
        let until = site.host.now() + wait;
        let mut subscription = match self {
            Self::NoSecondLook => None,
            Self::NoBound => Some(ReleaseSubscription::open(site).await?),
        };
        loop {
            if let Some(held) = site.acquire().await? {
                return Ok(Some(held));
            }
            if site.host.now() >= until {
                return Ok(None);
            }
            let wake = match self {
                Self::NoSecondLook => lease_end(site).await?.min(until),
                Self::NoBound => until, // the mistake: a message may be lost, a holder may crash
            };
            let subscription = match &mut subscription {
                Some(subscription) => subscription,
                // The mistake: the lock may have become free since the check.
                None => subscription.insert(ReleaseSubscription::open(site).await?),
            };
            subscription.sleep_until(site, wake).await;
        }
    }
}
