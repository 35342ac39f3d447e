//! B46: writes carry the fencing token, reads do not. A read does not raise the resource's mark, so a late
//! write of the previous holder can come between a holder's read and write.

use super::{Held, Site, Specimen, exhibit, fenced};
use crate::{
    checker::Property::Accesses,
    subject::{BoxError, Expected::Convicted, Row},
    vocabulary::{Fencing, Promises},
};

struct WritesOnly;

pub(super) const ROWS: &[Row] = &[Row {
    name: "fencing-on-writes-only",
    make: || exhibit(WritesOnly),
    expected: Convicted(&[Accesses]),
    summary: "sends its fencing token with writes only",
}];

impl Specimen for WritesOnly {
    fn id(&self) -> &'static str {
        "B46"
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node()
            .with_deadline()
            .with_fencing(Fencing::Counter)
    }

    async fn acquire(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        fenced::acquire(site).await
    }

    fn fences_reads(&self) -> bool {
        false // the mistake
    }
}
