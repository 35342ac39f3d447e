//! B04: the value is the time at which the lock ends, by the clock of the client that took it;
//! whoever reads a time that has passed takes the lock over. There is no other token, and no expiry
//! at the server.

use super::{Held, Site, Specimen, exhibit};
use crate::{
    backend::View,
    checker::Property::{Exclusion, Ownership},
    history::Stored,
    subject::{BoxError, Expected::Convicted, Row},
};
use std::time::Duration;

/// How a lock whose time has passed is taken over.
pub(in crate::subject) enum ClientClock {
    /// `GETSET`, won by whoever gets the old time back; but losers have set theirs.
    GetSet(&'static str),
    /// `DEL`, then `SETNX`: two of them delete in turn.
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
        let ends = (wall + site.lease).as_millis().to_string(); // the mistake: nobody else has this clock
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
            // The mistake: who loses has put his own time there.
            let old: Option<String> = site.ask(&["GETSET", &site.key, &ends]).await?;
            old.is_none_or(|old| old == seen)
        } else {
            site.del().await?; // the mistake: by now it may be a new one
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
        site.del().await // the mistake: anybody's
    }

    fn stored(&self, view: &dyn View, key: &str) -> Vec<Stored> {
        until_value(view, key)
    }
}

fn ended(value: &str) -> Duration {
    Duration::from_millis(value.parse().unwrap_or(0))
}

/// The string at a key, which says itself when it ends.
pub(in crate::subject) fn until_value(view: &dyn View, key: &str) -> Vec<Stored> {
    let stored = view.string(key).into_iter();
    let by_value = stored.map(|stored| {
        let ends = std::str::from_utf8(&stored.token).ok();
        let expires = ends.and_then(|ends| view.true_time(ends.parse().ok()?));
        Stored { expires, ..stored }
    });
    by_value.collect()
}
