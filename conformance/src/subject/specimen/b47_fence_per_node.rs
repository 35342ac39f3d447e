//! B47: every node has a counter of its own, and a grant gets the highest count of the nodes that granted it.
//! The counters of the other nodes may lag behind.

use super::{Held, Quorum, Specimen, Sweep, exhibit, fenced, quorum::redlock_of_three};
use crate::{
    checker::Property::Fencing,
    subject::{BoxError, Expected::Convicted, Row},
    vocabulary::{Fencing as Good, Promises},
};

struct PerNode;

pub(super) const ROWS: &[Row] = &[Row {
    name: "fencing-token-per-node",
    make: || exhibit::<Quorum>(PerNode),
    expected: Convicted(&[Fencing]),
    summary: "Redlock whose fencing token is the highest count of a single node",
}];

impl Specimen<Quorum> for PerNode {
    fn id(&self) -> &'static str {
        "B47"
    }

    fn promises(&self) -> Promises {
        redlock_of_three().with_fencing(Good::Counter)
    }

    async fn acquire(&self, nodes: &Quorum) -> Result<Option<Held>, BoxError> {
        let (token, sent) = (nodes.host.random_token(), nodes.host.now());
        let sweep = Sweep::over(nodes, &token);
        let set = nodes.each(|site| {
            let (site, token) = (site.clone(), token.clone());
            async move { fenced::set(&site, &token).await }
        });
        let answers = set.await;
        let numbers: Vec<u64> = answers.into_iter().flatten().filter(|&it| it > 0).collect();
        let until = nodes.valid_until(sent);
        if numbers.len() >= nodes.majority() && nodes.host.now() < until {
            sweep.done();
            // The mistake: this number is not written back to the other nodes.
            let number = numbers.into_iter().max().unwrap_or(0);
            return Ok(Some(Held::until(token, until).with_fencing_token(number)));
        }
        nodes.give_up(sweep, &token).await;
        Ok(None)
    }
}
