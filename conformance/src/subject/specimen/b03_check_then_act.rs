//! B03: one command checks the owner, the next one acts. Between the two another client can acquire the lock.

use super::{Held, Site, SoundLock, Specimen, exhibit};
use crate::{
    checker::Property::{Exclusion, Ownership},
    subject::{BoxError, Expected::Convicted, Row},
};

/// Command after the check.
pub(in crate::subject) enum CheckThenAct {
    /// `GET`, then `DEL`.
    Del(&'static str),
    /// `GET`, then `PEXPIRE`.
    Expire,
    /// `GET`, then `SET` with a new expiry.
    Set,
    /// `WATCH`, `GET`, `DEL`. WATCH protects only transactions.
    WatchWithoutMulti,
}

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "get-then-del",
        make: || exhibit(CheckThenAct::Del("B03a")),
        expected: Convicted(&[Exclusion, Ownership]),
        summary: "releases by GET, a comparison in the client, then DEL",
    },
    Row {
        name: "get-then-pexpire",
        make: || exhibit(CheckThenAct::Expire),
        expected: Convicted(&[Ownership]),
        summary: "extends by GET, a comparison in the client, then PEXPIRE",
    },
    Row {
        name: "get-then-set",
        make: || exhibit(CheckThenAct::Set),
        expected: Convicted(&[Ownership]),
        summary: "extends by GET, a comparison in the client, then SET",
    },
    Row {
        name: "watch-without-multi",
        make: || exhibit(CheckThenAct::WatchWithoutMulti),
        expected: Convicted(&[Ownership]),
        summary: "releases by WATCH, GET and DEL, without MULTI",
    },
];

impl Specimen for CheckThenAct {
    fn id(&self) -> &'static str {
        match self {
            Self::Del(id) => id,
            Self::Expire => "B03b",
            Self::Set => "B03c",
            Self::WatchWithoutMulti => "B03d",
        }
    }

    async fn extend(&self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        let sent = site.host.now();
        match self {
            Self::Del(_) | Self::WatchWithoutMulti => return site.extend(held).await,
            Self::Expire | Self::Set => {}
        }
        if site.get().await?.as_ref() != Some(&held.token) {
            return Ok(false);
        }
        // The mistake: the owner may have changed since the check.
        let done = if let Self::Set = self {
            let words = ["SET", &site.key, &held.token, "PX", &site.lease_ms()];
            site.ask::<Option<String>>(&words).await?.is_some()
        } else {
            site.expire().await?
        };
        Ok(done && held.prolong(site.host.now(), sent + site.lease))
    }

    async fn release(&self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        match self {
            Self::Expire | Self::Set => return site.release(held).await,
            Self::WatchWithoutMulti => site.ask(&["WATCH", &site.key]).await?,
            Self::Del(_) => {}
        }
        let mine = site.get().await?.as_ref() == Some(&held.token);
        let freed = mine && site.del().await?; // the mistake
        if let Self::WatchWithoutMulti = self {
            site.ask::<()>(&["UNWATCH"]).await?;
        }
        Ok(freed)
    }
}
