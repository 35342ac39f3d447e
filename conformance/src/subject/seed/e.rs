//! E1: the old lock whose value is its expiry time, taken over by GETSET. It has three mistakes; three
//! variants keep one of them each. E2: a release that hides the loss of the lock.

use crate::{
    backend::View,
    checker::Property::{Exclusion, Ownership, Truth},
    subject::{
        BoxError,
        Expected::Convicted,
        NotOffered, Row,
        specimen::{ClientClock, Held, ReleaseLies, Site, Specimen, exhibit, until_value},
    },
    vocabulary::Stored,
};

/// The one mistake of a variant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flaw {
    /// The client's clock decides about expiry.
    Skew,
    /// The loser of a race overwrites the winner's expiry time.
    Overwrites,
    /// Any client can unlock.
    NoOwner,
}

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "timestamp-getset",
        make: || exhibit(ClientClock::GetSet("seed-E1")),
        expected: Convicted(&[Exclusion, Ownership]),
        summary: "the value is the expiry time by the client's clock; GETSET takes an expired lock over",
    },
    Row {
        name: "timestamp-getset-client-clock",
        make: || exhibit(Flaw::Skew),
        expected: Convicted(&[Exclusion, Ownership]),
        summary: "timestamp-getset with one mistake: it uses the client's clock",
    },
    Row {
        name: "timestamp-getset-losers-overwrite",
        make: || exhibit(Flaw::Overwrites),
        expected: Convicted(&[Ownership]),
        summary: "timestamp-getset with one mistake: losers overwrite the winner's expiry time",
    },
    Row {
        name: "timestamp-getset-no-owner",
        make: || exhibit(Flaw::NoOwner),
        expected: Convicted(&[Exclusion, Ownership]),
        summary: "timestamp-getset with one mistake: any client can unlock",
    },
    Row {
        name: "release-ok-when-missing",
        make: || exhibit(ReleaseLies::OkWhenGone("seed-E2")),
        expected: Convicted(&[Truth]),
        summary: "SET NX PX whose release reports success for a missing key",
    },
];

/// Sets the expiry time if the key still has the value that the client read.
const TAKE_OVER: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
                         redis.call('SET', KEYS[1], ARGV[2]) return ARGV[1] end return ''";

impl Flaw {
    /// Returns the time, in milliseconds.
    async fn now_ms(self, site: &Site) -> Result<u128, BoxError> {
        if self == Self::Skew {
            return Ok(site.host.wall_clock().as_millis()); // the mistake
        }
        let (seconds, micros): (u128, u128) = site.ask(&["TIME"]).await?;
        Ok(seconds * 1_000 + micros / 1_000)
    }
}

impl Specimen for Flaw {
    fn id(&self) -> &'static str {
        match self {
            Self::Skew => "seed-E1a",
            Self::Overwrites => "seed-E1b",
            Self::NoOwner => "seed-E1c",
        }
    }

    async fn acquire(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        let sent = site.host.now();
        let now = self.now_ms(site).await?;
        let ends = (now + site.lease.as_millis()).to_string();
        let held = Held::until(ends.clone(), sent + site.lease);
        if site.ask(&["SETNX", &site.key, &ends]).await? {
            return Ok(Some(held));
        }
        let Some(seen) = site.get().await? else {
            return Ok(None);
        };
        if now <= seen.parse()? {
            return Ok(None);
        }
        let old: Option<String> = if *self == Self::Overwrites {
            site.ask(&["GETSET", &site.key, &ends]).await? // the mistake
        } else {
            site.eval(TAKE_OVER, &[&seen, &ends]).await?
        };
        Ok((old == Some(seen)).then_some(held))
    }

    async fn extend(&self, _: &Site, _: &Held) -> Result<bool, BoxError> {
        Err(NotOffered.into())
    }

    async fn release(&self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        if *self == Self::NoOwner {
            site.del().await // the mistake
        } else {
            site.release_as(&held.token).await
        }
    }

    fn stored(&self, view: &dyn View, key: &str) -> Vec<Stored> {
        until_value(view, key)
    }
}
