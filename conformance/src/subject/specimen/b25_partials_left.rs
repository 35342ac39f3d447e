//! B25: a failed attempt leaves its votes on some of the nodes, where they block other clients for a lease.

use super::{Held, Quorum, Specimen, Vote, exhibit, quorum::count};
use crate::{
    checker::Property::CleanUp,
    subject::{BoxError, Expected::Convicted, Row},
    vocabulary::{Promises, Topology},
};

/// When the votes stay.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PartialsLeft {
    /// When they are no majority.
    NoMajority,
    /// When they are a majority and a node failed, which the lock treats as an error.
    OneFailed,
}

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "minority-votes-left",
        make: || exhibit(PartialsLeft::NoMajority),
        expected: Convicted(&[CleanUp]),
        summary: "Redlock that leaves its votes behind when they are no majority",
    },
    Row {
        name: "votes-left-after-node-failure",
        make: || exhibit(PartialsLeft::OneFailed),
        expected: Convicted(&[CleanUp]),
        summary: "Redlock that fails when one node fails, and leaves a majority behind",
    },
];

impl Specimen<Quorum> for PartialsLeft {
    fn id(&self) -> &'static str {
        match self {
            Self::NoMajority => "B25a",
            Self::OneFailed => "B25b",
        }
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node()
            .on(Topology::Nodes(3))
            .with_deadline()
            .with_drift_ppm(10_000)
    }

    async fn acquire(&self, nodes: &Quorum) -> Result<Option<Held>, BoxError> {
        let (token, sent) = (nodes.host.random_token(), nodes.host.now());
        let votes = nodes.set_everywhere(&token).await;
        if *self == Self::OneFailed && count(&votes, Vote::Unknown) > 0 {
            return Err("a node failed".into()); // the mistake
        }
        let until = nodes.valid_until(sent);
        if count(&votes, Vote::Yes) >= nodes.majority() && nodes.host.now() < until {
            return Ok(Some(Held::until(token, until)));
        }
        if *self == Self::OneFailed {
            nodes.release_everywhere(&token).await;
        }
        Ok(None) // the mistake of `NoMajority`: no release
    }
}
