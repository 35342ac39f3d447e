//! B32: the resource does not check fencing tokens, and the authors claim that the lock is enough. A client
//! that is paused past its lease writes while another client holds the lock.

use super::{Right, Site, exhibit};
use crate::{
    checker::Property::Accesses,
    subject::{Expected::Convicted, Row},
    vocabulary::Promises,
};

pub(super) const ROWS: &[Row] = &[Row {
    name: "pause-without-fencing",
    make: || {
        let promises = Promises::mutex_on_one_node().with_deadline();
        let promises = promises.guarding_the_resource(); // the mistake
        exhibit::<Site>(Right("B32", promises))
    },
    expected: Convicted(&[Accesses]),
    summary: "a lock without fencing tokens, claimed to protect the resource",
}];
