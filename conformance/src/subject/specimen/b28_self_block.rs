//! B28: every attempt of a call sets the same token with NX, without a clean-up in between. The votes of one
//! attempt block the next.

use super::{
    Held, Quorum, Specimen, Sweep, Vote, exhibit, quorum::count, quorum::redlock_of_three,
};
use crate::{
    checker::Property::LostReply,
    subject::{BoxError, Expected::Convicted, Row},
    vocabulary::Promises,
};
use std::time::Duration;

struct SelfBlock;

pub(super) const ROWS: &[Row] = &[Row {
    name: "retry-blocks-itself",
    make: || exhibit::<Quorum>(SelfBlock),
    expected: Convicted(&[LostReply]),
    summary: "Redlock that retries with the same token and mistakes it for another client's",
}];

impl Specimen<Quorum> for SelfBlock {
    fn id(&self) -> &'static str {
        "B28"
    }

    fn promises(&self) -> Promises {
        redlock_of_three()
    }

    async fn acquire(&self, nodes: &Quorum) -> Result<Option<Held>, BoxError> {
        self.wait(nodes, Duration::ZERO).await
    }

    async fn wait(&self, nodes: &Quorum, wait: Duration) -> Result<Option<Held>, BoxError> {
        let (token, asked) = (nodes.host.random_token(), nodes.host.now());
        let sweep = Sweep::over(nodes, &token);
        loop {
            let sent = nodes.host.now();
            // The mistake: the node refuses the token because of the previous attempt.
            let votes = nodes.set_everywhere(&token).await;
            let until = nodes.valid_until(sent);
            if count(&votes, Vote::Yes) >= nodes.majority() && nodes.host.now() < until {
                sweep.done();
                return Ok(Some(Held::until(token, until)));
            }
            if nodes.host.now() >= asked + wait {
                nodes.give_up(sweep, &token).await;
                return Ok(None);
            }
            let jitter = u32::from(nodes.host.random()[0]);
            let pause = nodes.lease / 24 + nodes.lease / 24 * jitter / 256;
            nodes.host.sleep(pause).await;
        }
    }
}
