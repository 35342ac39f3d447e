//! B31: nodes without persistence restart at once, or evict keys, and the lock claims to survive that. The
//! nodes that lost the key grant the lock to another client.

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
