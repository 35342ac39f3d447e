//! B01: the expiry is set by a second command, or not at all. If the client crashes before it, the lock stays
//! forever.

use super::{Held, Site, Specimen, exhibit};
use crate::{
    checker::Property::Progress,
    subject::{BoxError, Expected::Convicted, Row},
};

/// Ways to leave the expiry out.
pub(in crate::subject) enum NoTtl {
    /// `SETNX`, then `PEXPIRE`.
    Gap(&'static str),
    /// `SETNX` alone: the lease is optional, and the caller omitted it.
    Never(&'static str),
}

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "setnx-then-pexpire",
        make: || exhibit(NoTtl::Gap("B01a")),
        expected: Convicted(&[Progress]),
        summary: "SETNX, then PEXPIRE as a second command",
    },
    Row {
        name: "setnx-without-expiry",
        make: || exhibit(NoTtl::Never("B01b")),
        expected: Convicted(&[Progress]),
        summary: "SETNX without an expiry",
    },
];

impl Specimen for NoTtl {
    fn id(&self) -> &'static str {
        match self {
            Self::Gap(id) | Self::Never(id) => id,
        }
    }

    async fn acquire(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        let (token, sent) = (site.host.random_token(), site.host.now());
        if !site.ask::<bool>(&["SETNX", &site.key, &token]).await? {
            return Ok(None);
        }
        if let Self::Gap(_) = self {
            site.expire().await?; // the mistake: a process can die before this
        }
        Ok(Some(Held::until(token, sent + site.lease)))
    }
}
