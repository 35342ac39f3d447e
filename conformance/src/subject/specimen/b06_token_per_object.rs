//! B06: the lock object has one token instead of one per grant. A call on a lost grant acts on the object's
//! next grant.

use super::{Held, Site, Specimen, exhibit};
use crate::{
    checker::Property::{Exclusion, Ownership},
    subject::{BoxError, Expected::Convicted, Row},
};

/// When the object draws its token.
pub(in crate::subject) enum TokenPerObject {
    /// When the object is made.
    Fixed,
    /// At every acquisition, replacing the previous token.
    Overwritten,
}

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "one-token-per-lock-object",
        make: || exhibit(TokenPerObject::Fixed),
        expected: Convicted(&[Exclusion, Ownership]),
        summary: "one token for all grants of a lock object",
    },
    Row {
        name: "lock-object-keeps-latest-token",
        make: || exhibit(TokenPerObject::Overwritten),
        expected: Convicted(&[Ownership]),
        summary: "the lock object keeps only the token of its latest grant",
    },
];

impl TokenPerObject {
    /// The mistake: the token does not depend on the grant.
    fn token(&self, site: &Site) -> String {
        match self {
            Self::Fixed => site.me.clone(),
            Self::Overwritten => site
                .latest()
                .as_ref()
                .map_or_else(String::new, |held| held.token.clone()),
        }
    }
}

impl Specimen for TokenPerObject {
    fn id(&self) -> &'static str {
        match self {
            Self::Fixed => "B06a",
            Self::Overwritten => "B06b",
        }
    }

    async fn acquire(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        let drawn = match self {
            Self::Fixed => site.me.clone(),
            Self::Overwritten => site.host.random_token(),
        };
        let held = site.acquire_as(drawn).await?;
        if let Some(held) = &held {
            *site.latest() = Some(held.clone());
        }
        Ok(held)
    }

    async fn extend(&self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        let sent = site.host.now();
        let extended = site.extend_as(&self.token(site)).await?;
        Ok(extended && held.prolong(site.host.now(), sent + site.lease))
    }

    async fn release(&self, site: &Site, _: &Held) -> Result<bool, BoxError> {
        site.release_as(&self.token(site)).await
    }
}
