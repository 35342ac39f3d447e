//! B45: a counter that admits the first N clients miscounts: it restarts at zero, or it is read before it is
//! incremented, or a resent request counts twice.

use crate::{
    backend::View,
    checker::Property::Admission,
    subject::{
        BoxError,
        Expected::{self, Convicted},
        Host, NotOffered, Row, Subject, boxed,
        specimen::{Site, SoundLock},
    },
    vocabulary::{Kind, Promises, Stored},
};
use std::time::Duration;

/// Ways to count.
#[derive(Clone, Copy)]
pub(in crate::subject) enum Counter {
    /// Up from 0.
    Up(&'static str),
    /// Up from 0, by a key that expires: then the count restarts.
    UpExpiring(&'static str),
    /// Down from N, by a key that expires: a missing key counts as 0.
    Down(&'static str),
    /// The client reads the counter, then increments it.
    ReadFirst,
    /// The client increments the counter, and resends the request if no reply came.
    Resent,
}

/// Number of clients to admit.
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

/// Sets the counter to N once.
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
                    // The mistake. The request was counted, whatever the expiry's outcome is.
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
                site.ask::<i64>(&up).await?; // the mistake: other clients have read the same value
                Ok(true)
            }
            Self::Resent => {
                let nth: i64 = match site.ask(&up).await {
                    Ok(nth) => nth,
                    Err(_) => site.ask(&up).await?, // the mistake: the server may have counted the first
                };
                Ok(nth <= places)
            }
        }
    }

    fn outlasts(&self, _: &[u8]) -> bool {
        true // a count stays on the server
    }

    fn stored(&self, _: &dyn View, _: &str) -> Vec<Stored> {
        Vec::new() // a counter has no holders
    }
}
