//! B10: a release reports a wrong outcome.

use super::{Held, Site, SoundLock, Specimen, exhibit};
use crate::{
    checker::Property::Truth,
    subject::{BoxError, Expected::Convicted, Row},
};

/// Wrong report.
pub(in crate::subject) enum ReleaseLies {
    /// It reports success when the key was gone.
    OkWhenGone(&'static str),
    /// It reports success whatever the server replied.
    OkAlways,
    /// It reports that the lock was not held, although its own first request freed it.
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

/// Returns 1 if the key does not exist.
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
            // The mistake: 1 means that the token is gone, not that this call freed the lock.
            Self::OkWhenGone(_) => site.eval(RELEASE_OR_GONE, &[&held.token]).await,
            Self::OkAlways => {
                site.release(held).await?;
                Ok(true) // the mistake: the lock may have been gone, or another client's
            }
            Self::NotHeldAfterRetry => match site.release(held).await {
                Ok(freed) => Ok(freed),
                // The mistake: a 0 may be the effect of the first request.
                Err(_) => site.release(held).await,
            },
        }
    }
}
