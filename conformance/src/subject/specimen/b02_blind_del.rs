//! B02: the release deletes the key without checking that it still holds the client's token.

use super::{Held, Site, Specimen, exhibit};
use crate::{
    checker::Property::{Exclusion, Ownership},
    subject::{BoxError, Expected::Convicted, Row},
};

/// The specimen with its id.
pub(in crate::subject) struct BlindDel(pub(in crate::subject) &'static str);

pub(super) const ROWS: &[Row] = &[Row {
    name: "blind-del",
    make: || exhibit(BlindDel("B02")),
    expected: Convicted(&[Exclusion, Ownership]),
    summary: "releases by DEL without checking the owner",
}];

impl Specimen for BlindDel {
    fn id(&self) -> &'static str {
        self.0
    }

    async fn release(&self, site: &Site, _: &Held) -> Result<bool, BoxError> {
        site.del().await // the mistake
    }
}
