//! B29: an extension without a majority removes the token everywhere, but the holder still relies on the old
//! lease.

use super::{Held, Quorum, Specimen, Vote, exhibit, quorum::count, quorum::redlock_of_three};
use crate::{
    checker::Property::{Exclusion, GroundedBelief},
    subject::{BoxError, Expected::Convicted, Row},
    vocabulary::Promises,
};

struct Forfeits;

pub(super) const ROWS: &[Row] = &[Row {
    name: "failed-extend-forfeits",
    make: || exhibit::<Quorum>(Forfeits),
    expected: Convicted(&[Exclusion, GroundedBelief]),
    summary: "Redlock whose failed extension unlocks a lease that the holder still trusts",
}];

impl Specimen<Quorum> for Forfeits {
    fn id(&self) -> &'static str {
        "B29"
    }

    fn promises(&self) -> Promises {
        redlock_of_three()
    }

    async fn extend(&self, nodes: &Quorum, held: &Held) -> Result<bool, BoxError> {
        let sent = nodes.host.now();
        let votes = nodes.extend_everywhere(&held.token).await;
        let until = nodes.valid_until(sent);
        if count(&votes, Vote::Yes) >= nodes.majority() && nodes.host.now() < until {
            return Ok(held.prolong(nodes.host.now(), until));
        }
        nodes.release_everywhere(&held.token).await; // the mistake: the deadline stays
        Ok(false)
    }
}
