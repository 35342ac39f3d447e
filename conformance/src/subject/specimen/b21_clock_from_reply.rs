//! B21: the client counts the lease from the arrival of the reply. The lease began when the request reached
//! the server, at an unknown earlier time.

use super::{Held, Site, SoundLock, Specimen, exhibit};
use crate::{
    checker::Property::{Exclusion, GroundedBelief},
    subject::{
        BoxError,
        Expected::{self, Convicted},
        Row,
    },
    vocabulary::Promises,
};

/// The reply from which the lease is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FromReply {
    Acquisition,
    Extension,
}

const BREAKS: Expected = Convicted(&[Exclusion, GroundedBelief]);

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "lease-counted-from-reply",
        make: || exhibit(FromReply::Acquisition),
        expected: BREAKS,
        summary: "counts the lease from the reply to the acquisition",
    },
    Row {
        name: "extension-counted-from-reply",
        make: || exhibit(FromReply::Extension),
        expected: BREAKS,
        summary: "counts the lease from the reply to the extension",
    },
];

impl Specimen for FromReply {
    fn id(&self) -> &'static str {
        match self {
            Self::Acquisition => "B21a",
            Self::Extension => "B21b",
        }
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node().with_deadline()
    }

    async fn acquire(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        let held = site.acquire().await?;
        if let (Self::Acquisition, Some(held)) = (self, &held) {
            held.set_deadline(site.host.now() + site.lease); // the mistake
        }
        Ok(held)
    }

    async fn extend(&self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        let extended = site.extend(held).await?;
        if extended && *self == Self::Extension {
            held.set_deadline(site.host.now() + site.lease); // the mistake
        }
        Ok(extended)
    }
}
