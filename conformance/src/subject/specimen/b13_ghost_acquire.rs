//! B13: the client treats an error as "not acquired". The server may have executed the request, and then the
//! client has locked itself out.

use super::{Held, Site, Specimen, exhibit};
use crate::{
    checker::Property::{CleanUp, LostReply},
    subject::{BoxError, Expected::Convicted, Row},
};

/// The specimen with its id.
pub(in crate::subject) struct GhostAcquire(pub(in crate::subject) &'static str);

pub(super) const ROWS: &[Row] = &[Row {
    name: "error-read-as-not-acquired",
    make: || exhibit(GhostAcquire("B13")),
    expected: Convicted(&[CleanUp, LostReply]),
    summary: "treats an error as \"not acquired\" and cleans nothing up",
}];

impl Specimen for GhostAcquire {
    fn id(&self) -> &'static str {
        self.0
    }

    async fn acquire(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        let (token, sent) = (site.host.random_token(), site.host.now());
        let set = site.set_nx(&token).await.unwrap_or_default(); // the mistake
        Ok(set.then(|| Held::until(token, sent + site.lease)))
    }
}
