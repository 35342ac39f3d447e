//! B45: a counter that lets the first N in, and counts wrongly: it begins anew, or it is read before it
//! is counted, or one who asks is counted twice.

use crate::{
    backend::View,
    checker::Property::Admission,
    history::{Kind, Stored},
    subject::{
        BoxError,
        Expected::{self, Convicted},
        Host, NotOffered, Promises, Row, Subject, boxed,
        specimen::{Site, SoundLock},
    },
};
use std::time::Duration;

/// How it is counted.
#[derive(Clone, Copy)]
pub(in crate::subject) enum Counter {
    /// Up from 0.
    Up(&'static str),
    /// Up from 0, by a key that expires: then it begins anew.
    UpExpiring(&'static str),
    /// Down from N, by a key that expires: what is missing counts as 0.
    Down(&'static str),
    /// Read, and then counted up.
    ReadFirst,
    /// Counted up, and again if there was no answer.
    Resent,
}

/// How many are let in.
const PLACES: u32 = 3;

const BREAKS: Expected = Convicted(&[Admission]);

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "counter-restarts-at-expiry",
        make: || boxed(Counter::UpExpiring("B45a")),
        expected: BREAKS,
        summary: "admits the first N by INCR of a key that expires; then N more get in",
    },
    Row {
        name: "counter-get-then-incr",
        make: || boxed(Counter::ReadFirst),
        expected: BREAKS,
        summary: "admits the first N by GET, then INCR; other clients get in between",
    },
    Row {
        name: "counter-incr-resent",
        make: || boxed(Counter::Resent),
        expected: BREAKS,
        summary: "admits the first N by INCR, resent when no reply came",
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
            Self::Up(id) | Self::UpExpiring(id) | Self::Down(id) => id,
            Self::ReadFirst => "B45b",
            Self::Resent => "B45c",
        }
    }

    fn promises(&self) -> Promises {
        Promises::of(Kind::Admission(PLACES))
    }

    async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<Site, BoxError> {
        let site = <Site as SoundLock>::open(host, key, lease, host.request_timeout()).await?;
        if let Self::Down(_) = self {
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
        let (places, up) = (i64::from(PLACES), ["INCR", &site.key]);
        match self {
            Self::Up(_) => Ok(site.ask::<i64>(&up).await? <= places),
            Self::UpExpiring(_) => {
                let nth: i64 = site.ask(&up).await?;
                if nth == 1 {
                    // The mistake. That it was counted is known, whatever comes of this.
                    drop(site.expire().await);
                }
                Ok(nth <= places)
            }
            Self::Down(_) => Ok(site.ask::<i64>(&["DECR", &site.key]).await? >= 0),
            Self::ReadFirst => {
                let counted: Option<i64> = site.ask(&["GET", &site.key]).await?;
                if counted.unwrap_or(0) >= places {
                    return Ok(false);
                }
                site.ask::<i64>(&up).await?; // the mistake: others have read the same
                Ok(true)
            }
            Self::Resent => {
                let nth: i64 = match site.ask(&up).await {
                    Ok(nth) => nth,
                    Err(_) => site.ask(&up).await?, // the mistake: the first may have been counted
                };
                Ok(nth <= places)
            }
        }
    }

    fn outlasts(&self, _: &[u8]) -> bool {
        true // what was given out stays so
    }

    fn stored(&self, _: &dyn View, _: &str) -> Vec<Stored> {
        Vec::new() // no token of anybody
    }
}
