//! B10: what a release says is not what it did.

use super::{Held, Site, SoundLock, Specimen, exhibit};
use crate::{
    checker::Property::Truth,
    subject::{BoxError, Expected::Convicted, Row},
};

/// What it says wrongly.
pub(in crate::subject) enum ReleaseLies {
    /// That it freed the lock, when the key was gone.
    OkWhenGone(&'static str),
    /// That it freed the lock, whatever the server answered.
    OkAlways,
    /// That the lock was not held, when its own first request had freed it.
    NotHeldAfterRetry,
}

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "release-ok-when-gone",
        make: || exhibit(ReleaseLies::OkWhenGone("B10a")),
        expected: Convicted(&[Truth]),
        summary: "reports a release of a lock that was gone",
    },
    Row {
        name: "release-ok-whatever-reply",
        make: || exhibit(ReleaseLies::OkAlways),
        expected: Convicted(&[Truth]),
        summary: "reports a release whatever the server replied",
    },
    Row {
        name: "resent-release-not-held",
        make: || exhibit(ReleaseLies::NotHeldAfterRetry),
        expected: Convicted(&[Truth]),
        summary: "resends a release and reports that the lock was not held",
    },
];

/// Answers 1 when there is no key at all.
const RELEASE_OR_GONE: &str = "if redis.call('EXISTS', KEYS[1]) == 0 then return 1 end \
                               if redis.call('GET', KEYS[1]) == ARGV[1] then \
                               return redis.call('DEL', KEYS[1]) else return 0 end";

impl Specimen for ReleaseLies {
    fn id(&self) -> &'static str {
        match self {
            Self::OkWhenGone(id) => id,
            Self::OkAlways => "B10b",
            Self::NotHeldAfterRetry => "B10c",
        }
    }

    async fn release(&self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        match self {
            // The mistake: 1 means that nothing of ours is left, not that this call freed it.
            Self::OkWhenGone(_) => site.eval(RELEASE_OR_GONE, &[&held.token]).await,
            Self::OkAlways => {
                site.release(held).await?;
                Ok(true) // the mistake: it may have been gone, or another's
            }
            Self::NotHeldAfterRetry => match site.release(held).await {
                Ok(freed) => Ok(freed),
                // The mistake: a 0 may be the echo of the first request.
                Err(_) => site.release(held).await,
            },
        }
    }
}
