//! B31: nodes without persistence are restarted at once, or evict keys, and the lock is said to bear
//! that. Those that forgot give it to another.

use super::{Quorum, Right, exhibit, quorum::redlock_of_three};
use crate::{
    checker::Property::{Exclusion, GroundedBelief},
    subject::{Expected::Convicted, Row},
};

pub(super) const ROWS: &[Row] = &[Row {
    name: "node-amnesia",
    make: || {
        let promises = redlock_of_three().surviving_amnesia(); // the mistake
        exhibit::<Quorum>(Right("B31", promises))
    },
    expected: Convicted(&[Exclusion, GroundedBelief]),
    summary: "Redlock on three nodes, claimed to survive nodes that lose their data",
}];
