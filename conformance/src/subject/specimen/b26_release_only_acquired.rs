//! B26: the release skips the nodes that did not reply "yes". A node whose reply was lost keeps the token.

use super::{
    Held, Quorum, Specimen, Sweep, Vote, exhibit,
    quorum::{count, redlock_of_three, who},
};
use crate::{
    checker::Property::CleanUp,
    subject::{BoxError, Expected::Convicted, Row},
    vocabulary::Promises,
};

struct OnlyAcquired;

pub(super) const ROWS: &[Row] = &[Row {
    name: "release-only-acquired-nodes",
    make: || exhibit::<Quorum>(OnlyAcquired),
    expected: Convicted(&[CleanUp]),
    summary: "Redlock that releases only on the nodes that granted",
}];

impl Specimen<Quorum> for OnlyAcquired {
    fn id(&self) -> &'static str {
        "B26"
    }

    fn promises(&self) -> Promises {
        redlock_of_three()
    }

    async fn acquire(&self, nodes: &Quorum) -> Result<Option<Held>, BoxError> {
        let (token, sent) = (nodes.host.random_token(), nodes.host.now());
        let sweep = Sweep::over(nodes, &token);
        let votes = nodes.set_everywhere(&token).await;
        sweep.done();
        let until = nodes.valid_until(sent);
        let held = Held::until(token, until);
        held.set_nodes(who(&votes, Vote::Yes));
        if count(&votes, Vote::Yes) >= nodes.majority() && nodes.host.now() < until {
            return Ok(Some(held));
        }
        self.release(nodes, &held).await?;
        Ok(None)
    }

    async fn release(&self, nodes: &Quorum, held: &Held) -> Result<bool, BoxError> {
        // The mistake: a node without a reply may hold the token too.
        let (all, freed) = nodes.release_on(held.nodes(), &held.token).await;
        if !all {
            self.dropped(nodes, held);
        }
        Ok(freed >= nodes.majority())
    }

    fn dropped(&self, nodes: &Quorum, held: &Held) {
        nodes.sweep_on(held.nodes(), held.token.clone());
    }
}
