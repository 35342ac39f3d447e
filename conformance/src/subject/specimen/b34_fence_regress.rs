//! B34: fencing tokens that do not rise from grant to grant.

use super::{Held, Site, SoundLock, Specimen, counted, exhibit, fenced, hash};
use crate::{
    backend::View,
    checker::Property::Fencing,
    subject::{
        BoxError,
        Expected::{self, Convicted},
        Row,
    },
    vocabulary::{Fencing as Good, Promises, Stored},
};

/// Source of a fencing token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Number {
    /// The client draws it before it acquires the lock, and keeps it until the lock is granted.
    Drawn,
    /// It is random.
    Random,
    /// A counter that the server may lose; the authors claim that tokens rise all the same.
    Forgotten,
}

const BREAKS: Expected = Convicted(&[Fencing]);

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "fencing-token-before-grant",
        make: || exhibit(Number::Drawn),
        expected: BREAKS,
        summary: "draws the fencing token before it asks for the lock",
    },
    Row {
        name: "random-fencing-token",
        make: || exhibit(Number::Random),
        expected: BREAKS,
        summary: "the fencing token is random",
    },
    Row {
        name: "fencing-token-changes-on-reentry",
        make: || exhibit(RisesInside),
        expected: BREAKS,
        summary: "reentrant: the holder gets a new fencing token when it enters again",
    },
    Row {
        name: "fencing-counter-lost-on-restart",
        make: || exhibit(Number::Forgotten),
        expected: BREAKS,
        summary: "the counter of fencing tokens is claimed to outlast a restart",
    },
];

impl Specimen for Number {
    fn id(&self) -> &'static str {
        match self {
            Self::Drawn => "B34a",
            Self::Random => "B34b",
            Self::Forgotten => "B34d",
        }
    }

    fn promises(&self) -> Promises {
        let good = match self {
            Self::Drawn | Self::Random => Good::Counter,
            Self::Forgotten => Good::Lasting, // the mistake
        };
        Promises::mutex_on_one_node()
            .with_deadline()
            .with_fencing(good)
    }

    async fn acquire(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        match self {
            Self::Forgotten => fenced::acquire(site).await,
            Self::Random => {
                let held = site.acquire().await?;
                let [a, b, c, d, ..] = site.host.random();
                let random = u32::from_be_bytes([a, b, c, d]); // the mistake
                Ok(held.map(|held| held.with_fencing_token(1 + u64::from(random))))
            }
            Self::Drawn => {
                // The mistake: meanwhile another client may be granted the lock with a higher token.
                let number = match site.kept() {
                    Some(number) => number,
                    None => fenced::next_token(site).await?,
                };
                let held = site.acquire().await?;
                if held.is_none() {
                    site.keep(number);
                }
                Ok(held.map(|held| held.with_fencing_token(number)))
            }
        }
    }
}

/// A fencing token per entry instead of per grant.
struct RisesInside;

impl Specimen for RisesInside {
    fn id(&self) -> &'static str {
        "B34c"
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node()
            .reentrant()
            .with_deadline()
            .with_fencing(Good::Counter)
    }

    fn is_per_task(&self) -> bool {
        true
    }

    async fn acquire(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        let Some(held) = counted::enter(site).await? else {
            return Ok(None);
        };
        let number = fenced::next_token(site).await?; // the mistake: the owner may have a token already
        Ok(Some(held.with_fencing_token(number)))
    }

    async fn extend(&self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        hash::extend(site.clone(), held.clone()).await
    }

    async fn release(&self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        held.end();
        Ok(counted::leave(site).await?.is_some())
    }

    fn dropped(&self, site: &Site, held: &Held) {
        held.end();
        counted::forget(site);
    }

    fn stored(&self, view: &dyn View, key: &str) -> Vec<Stored> {
        hash::owners(view, key)
    }
}
