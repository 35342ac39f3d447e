//! B27: the release overtakes requests that are in flight on other connections. They set the token after the
//! release, for a lease.

use super::{Held, Quorum, SoundLock, Specimen, Sweep, exhibit, quorum::redlock_of_three};
use crate::{
    checker::Property::{Cancellation, CleanUp},
    subject::{BoxError, Expected::Convicted, Row},
    vocabulary::Promises,
};
use tokio::sync::mpsc::unbounded_channel;

/// The call that leaves requests in flight.
enum LateSet {
    /// An acquisition that returns at its majority.
    AtQuorum,
    /// A cancelled acquisition.
    Cancelled,
}

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "late-set-after-release",
        make: || exhibit::<Quorum>(LateSet::AtQuorum),
        expected: Convicted(&[CleanUp]),
        summary: "Redlock that returns at the majority; a late SET arrives after its release",
    },
    Row {
        name: "cancelled-set-after-release",
        make: || exhibit::<Quorum>(LateSet::Cancelled),
        expected: Convicted(&[Cancellation]),
        summary: "Redlock whose cancelled SET arrives after the release, on another connection",
    },
];

impl Specimen<Quorum> for LateSet {
    fn id(&self) -> &'static str {
        match self {
            Self::AtQuorum => "B27a",
            Self::Cancelled => "B27b",
        }
    }

    fn promises(&self) -> Promises {
        redlock_of_three()
    }

    async fn acquire(&self, nodes: &Quorum) -> Result<Option<Held>, BoxError> {
        // These are connections from a pool. The mistake: the release is not ordered behind the SET.
        let pooled = nodes.afresh();
        let (token, sent) = (nodes.host.random_token(), nodes.host.now());
        let sweep = Sweep::over(nodes, &token);
        let yes = match self {
            Self::AtQuorum => majority_of(&pooled, &token).await,
            Self::Cancelled => {
                let votes = pooled.set_everywhere(&token).await;
                let yes = super::quorum::count(&votes, super::Vote::Yes);
                yes >= nodes.majority()
            }
        };
        let until = nodes.valid_until(sent);
        if yes && nodes.host.now() < until {
            sweep.done();
            return Ok(Some(Held::until(token, until)));
        }
        nodes.give_up(sweep, &token).await;
        Ok(None)
    }

    async fn release(&self, nodes: &Quorum, held: &Held) -> Result<bool, BoxError> {
        nodes.release(held).await
    }
}

/// Asks all nodes, and returns at a majority of "yes" without waiting for the other replies.
async fn majority_of(nodes: &Quorum, token: &str) -> bool {
    let (answer, mut answers) = unbounded_channel();
    for node in 0..nodes.size() {
        let (nodes, token, answer) = (nodes.clone(), token.to_owned(), answer.clone());
        let host = nodes.host.clone();
        host.spawn(async move {
            let set = |site: &super::Site| {
                let (site, token) = (site.clone(), token.clone());
                async move { site.set_nx(&token).await }
            };
            let _ = answer.send(nodes.ask_one(node, set).await);
        });
    }
    drop(answer);
    let mut yes = 0;
    while let Some(said) = answers.recv().await {
        yes += usize::from(said == Some(true));
        if yes >= nodes.majority() {
            return true; // the mistake: the other requests are in flight
        }
    }
    false
}
