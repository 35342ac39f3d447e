//! B04: the value of the key is the lock's expiry time, by the clock of its holder. A client that reads a
//! past time takes the lock over. There is no other token, and no expiry at the server.

use super::{Held, Site, Specimen, exhibit};
use crate::{
    backend::View,
    checker::Property::{Exclusion, Ownership},
    subject::{BoxError, Expected::Convicted, Row},
    vocabulary::Stored,
};
use std::time::Duration;

/// Ways to take over an expired lock.
pub(in crate::subject) enum ClientClock {
    /// `GETSET`: the client that gets the old time back wins, but each loser has overwritten the winner's
    /// time.
    GetSet(&'static str),
    /// `DEL`, then `SETNX`: the second client deletes the lock of the first.
    DelSetNx,
}

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "client-clock-getset",
        make: || exhibit(ClientClock::GetSet("B04a")),
        expected: Convicted(&[Exclusion, Ownership]),
        summary: "the value is the expiry time by the client's clock; GETSET takes an expired lock over",
    },
    Row {
        name: "client-clock-del-setnx",
        make: || exhibit(ClientClock::DelSetNx),
        expected: Convicted(&[Exclusion, Ownership]),
        summary: "the value is the expiry time by the client's clock; DEL and SETNX take an expired lock over",
    },
];

impl Specimen for ClientClock {
    fn id(&self) -> &'static str {
        match self {
            Self::GetSet(id) => id,
            Self::DelSetNx => "B04b",
        }
    }

    async fn acquire(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        let (sent, wall) = (site.host.now(), site.host.wall_clock());
        let ends = (wall + site.lease).as_millis().to_string(); // the mistake: other clients have other clocks
        let set_nx = ["SETNX", &site.key, &ends];
        let held = Held::until(ends.clone(), sent + site.lease);
        if site.ask(&set_nx).await? {
            return Ok(Some(held));
        }
        let Some(seen) = site.get().await? else {
            return Ok(None);
        };
        if site.host.wall_clock() <= ended(&seen) {
            return Ok(None);
        }
        let won = if let Self::GetSet(_) = self {
            // The mistake: a client that loses the race has overwritten the winner's time.
            let old: Option<String> = site.ask(&["GETSET", &site.key, &ends]).await?;
            old.is_none_or(|old| old == seen)
        } else {
            site.del().await?; // the mistake: the key may hold a new lock by now
            site.ask(&set_nx).await?
        };
        Ok(won.then_some(held))
    }

    async fn extend(&self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        let _ = (site, held);
        Err(crate::subject::NotOffered.into())
    }

    async fn release(&self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        let _ = held;
        site.del().await // the mistake: the key may hold another client's lock
    }

    fn stored(&self, view: &dyn View, key: &str) -> Vec<Stored> {
        until_value(view, key)
    }
}

fn ended(value: &str) -> Duration {
    Duration::from_millis(value.parse().unwrap_or(0))
}

/// Reads the string at a key, whose value is its expiry time.
pub(in crate::subject) fn until_value(view: &dyn View, key: &str) -> Vec<Stored> {
    let stored = view.string(key).into_iter();
    let by_value = stored.map(|stored| {
        let ends = std::str::from_utf8(&stored.token).ok();
        let expires = ends.and_then(|ends| view.true_time(ends.parse().ok()?));
        Stored { expires, ..stored }
    });
    by_value.collect()
}
