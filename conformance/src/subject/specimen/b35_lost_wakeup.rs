//! B35: a waiter looks, then subscribes, then sleeps. What was released in between, or was told on a
//! connection that is broken, it never hears of.

use super::{Held, Site, SoundLock, Specimen, ear::Ear, ear::RELEASE_ALOUD, exhibit};
use crate::{
    checker::Property::WakeUp,
    subject::{BoxError, Expected::Convicted, Host, Promises, Row},
};
use std::time::Duration;

/// What it relies on.
enum Asleep {
    /// That nothing happens between the look and the subscription.
    NoSecondLook,
    /// That every message arrives.
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

/// When the lock ends that stands now, on the host's clock.
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
        let mut ear = match self {
            Self::NoSecondLook => None,
            Self::NoBound => Some(Ear::open(site).await?),
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
                Self::NoBound => until, // the mistake: a message may be lost, a holder may die
            };
            let ear = match &mut ear {
                Some(ear) => ear,
                // The mistake: by now it may be free.
                None => ear.insert(Ear::open(site).await?),
            };
            ear.sleep_until(site, wake).await;
        }
    }
}
