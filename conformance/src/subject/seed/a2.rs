//! A2: admission by counting. The first N who ask are let in.

use crate::{
    backend::View,
    history::{Kind, Stored},
    subject::{
        BoxError,
        Expected::{Convicted, Sound},
        Host, NotOffered, Promises, Row, Subject, boxed,
        specimen::{Place, Site},
    },
};
use std::time::Duration;

/// How it is counted.
enum Counter {
    /// Up from 0.
    Up,
    /// Up from 0, by a key that expires: then it begins anew.
    UpExpiring,
    /// Down from N, by a key that expires: what is missing counts as 0.
    Down,
}

/// How many are let in.
const PLACES: u32 = 3;

pub(super) const ROWS: &[Row] = &[
    Row {
        make: || boxed(Counter::Up),
        expected: Sound,
        summary: "the first N by INCR",
    },
    Row {
        make: || boxed(Counter::UpExpiring),
        expected: Convicted(&[]),
        summary: "the first N by INCR of a key that expires: then come N more",
    },
    Row {
        make: || boxed(Counter::Down),
        expected: Sound,
        summary: "the first N by DECR from N; nobody once that has expired",
    },
];

/// Sets the counter to N, once and for all.
const PRESET: &str = "if redis.call('SETNX', KEYS[1] .. ':preset', 1) == 1 then \
                      redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end return 1";

impl Subject for Counter {
    type Lock = Site;
    type Grant = ();

    fn name(&self) -> &'static str {
        match self {
            Self::Up => "seed-A2",
            Self::UpExpiring => "seed-A2a",
            Self::Down => "seed-A2b",
        }
    }

    fn promises(&self) -> Promises {
        Promises::of(Kind::Admission(PLACES))
    }

    async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<Site, BoxError> {
        let site = <Site as Place>::open(host, key, lease, host.request_timeout()).await?;
        if let Self::Down = self {
            let expiry = (20 * lease).as_millis().to_string();
            site.eval::<()>(PRESET, &[&PLACES.to_string(), &expiry])
                .await?;
        }
        Ok(site)
    }

    async fn try_lock(&self, _: &Site) -> Result<Option<()>, BoxError> {
        Err(NotOffered.into())
    }

    async fn release(&self, _: &Site, (): ()) -> Result<bool, BoxError> {
        Err(NotOffered.into())
    }

    async fn admit(&self, site: &Site) -> Result<bool, BoxError> {
        let places = i64::from(PLACES);
        if let Self::Down = self {
            return Ok(site.ask::<i64>(&["DECR", &site.key]).await? >= 0);
        }
        let nth: i64 = site.ask(&["INCR", &site.key]).await?;
        if let (Self::UpExpiring, 1) = (self, nth) {
            // That it was counted is known, whatever comes of this.
            drop(site.expire().await);
        }
        Ok(nth <= places)
    }

    fn stored(&self, _: &dyn View, _: &str) -> Vec<Stored> {
        Vec::new() // no token of anybody
    }
}
