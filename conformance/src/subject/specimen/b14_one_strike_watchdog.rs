//! B14: the watchdog ends at the first error, and the holder gets no signal.

use super::{Held, Site, SoundLock, Specimen, exhibit, watchdog};
use crate::{
    checker::Property::Renewal,
    subject::{BoxError, Expected::Convicted, Row},
    vocabulary::Promises,
};

/// Event that ends the watchdog for good.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OneStrike {
    /// Any error.
    Error,
    /// The server has forgotten the script.
    NoScript,
    /// A watchdog of an earlier grant failed and is still on the list of running watchdogs.
    StaleEntry,
}

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "watchdog-gives-up-after-one-error",
        make: || exhibit(OneStrike::Error),
        expected: Convicted(&[Renewal]),
        summary: "its watchdog ends at the first error",
    },
    Row {
        name: "watchdog-gives-up-on-noscript",
        make: || exhibit(OneStrike::NoScript),
        expected: Convicted(&[Renewal]),
        summary: "its watchdog ends when the server has forgotten the script",
    },
    Row {
        name: "no-watchdog-after-failed-one",
        make: || exhibit(OneStrike::StaleEntry),
        expected: Convicted(&[Renewal]),
        summary: "starts no watchdog for a grant that follows a failed watchdog",
    },
];

impl Specimen for OneStrike {
    fn id(&self) -> &'static str {
        match self {
            Self::Error => "B14a",
            Self::NoScript => "B14b",
            Self::StaleEntry => "B14c",
        }
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node()
            .with_deadline()
            .renewing()
            .signalling()
    }

    async fn acquire(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        let Some(held) = site.acquire().await? else {
            return Ok(None);
        };
        if *self == Self::StaleEntry {
            let mut latest = site.latest();
            if latest.is_none() {
                *latest = Some(held.clone());
                watchdog::watch(site, &held);
            }
        } else {
            let task = renew(*self, site.clone(), held.clone());
            site.host.spawn(task);
        }
        Ok(Some(held))
    }

    async fn release(&self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        held.end();
        let freed = site.release(held).await?;
        if freed {
            *site.latest() = None; // the mistake of `StaleEntry`: a failed release leaves the entry
        }
        Ok(freed)
    }
}

async fn renew(flaw: OneStrike, site: Site, held: Held) {
    let sha = match flaw {
        OneStrike::NoScript => site.load_extend().await.ok(),
        OneStrike::Error | OneStrike::StaleEntry => None,
    };
    while held.stands() {
        tokio::select! {
            biased;
            () = held.ended() => return,
            () = site.host.sleep(site.lease / 3) => {}
        }
        if site.host.now() >= held.deadline() {
            return held.lose();
        }
        let renewed = match &sha {
            Some(sha) => site.extend_by_sha(sha, &held).await,
            None => site.extend(&held).await,
        };
        match renewed {
            Ok(true) => {}
            Ok(false) => return held.lose(),
            Err(error) if flaw == OneStrike::Error || forgotten(&error) => return, // the mistake
            Err(_) => {}
        }
    }
}

fn forgotten(error: &BoxError) -> bool {
    let answered = error.downcast_ref::<redis::RedisError>();
    answered.is_some_and(|error| error.code() == Some("NOSCRIPT"))
}
