//! B13: an error is taken for a no. But the request may have been executed, and then the client is
//! locked out by itself.

use super::{Held, Site, Specimen, exhibit};
use crate::{
    checker::Property::{CleanUp, LostReply},
    subject::{BoxError, Expected::Convicted, Row},
};

/// Its id.
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
