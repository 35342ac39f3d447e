//! B24: the majority is not one of all nodes.

use super::{
    Held, Quorum, Specimen, Sweep, Vote, exhibit,
    quorum::{count, who},
};
use crate::{
    checker::Property::{Exclusion, GroundedBelief},
    subject::{
        BoxError,
        Expected::{self, Convicted},
        Row,
    },
    vocabulary::{Promises, Topology},
};

/// Wrong majorities.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BadQuorum {
    /// Half of the nodes, if their number is even.
    Half,
    /// Most of the nodes that answered.
    OfReachable,
    /// For an extension, most of the nodes that granted the lock.
    OfAcquired,
}

const BREAKS: Expected = Convicted(&[Exclusion, GroundedBelief]);

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "half-is-quorum",
        make: || exhibit(BadQuorum::Half),
        expected: BREAKS,
        summary: "Redlock on four nodes, two of which are enough",
    },
    Row {
        name: "quorum-of-reachable-nodes",
        make: || exhibit(BadQuorum::OfReachable),
        expected: BREAKS,
        summary: "Redlock by a majority of the nodes that reply",
    },
    Row {
        name: "quorum-of-acquired-nodes",
        make: || exhibit(BadQuorum::OfAcquired),
        expected: Convicted(&[GroundedBelief]),
        summary: "Redlock that extends by a majority of the nodes that granted the lock",
    },
];

impl BadQuorum {
    /// The mistake.
    fn is_enough(self, nodes: &Quorum, votes: &[Vote]) -> bool {
        let yes = count(votes, Vote::Yes);
        match self {
            Self::Half => yes >= nodes.size() / 2,
            Self::OfReachable => {
                let answered = yes + count(votes, Vote::No);
                yes > answered / 2
            }
            Self::OfAcquired => yes >= nodes.majority(),
        }
    }
}

impl Specimen<Quorum> for BadQuorum {
    fn id(&self) -> &'static str {
        match self {
            Self::Half => "B24a",
            Self::OfReachable => "B24b",
            Self::OfAcquired => "B24c",
        }
    }

    fn promises(&self) -> Promises {
        let nodes = if *self == Self::Half { 4 } else { 5 };
        Promises::mutex_on_one_node()
            .on(Topology::Nodes(nodes))
            .with_deadline()
            .with_drift_ppm(10_000)
    }

    async fn acquire(&self, nodes: &Quorum) -> Result<Option<Held>, BoxError> {
        let (token, sent) = (nodes.host.random_token(), nodes.host.now());
        let sweep = Sweep::over(nodes, &token);
        let votes = nodes.set_everywhere(&token).await;
        let until = nodes.valid_until(sent);
        if self.is_enough(nodes, &votes) && nodes.host.now() < until {
            sweep.done();
            let held = Held::until(token, until);
            held.set_nodes(who(&votes, Vote::Yes));
            return Ok(Some(held));
        }
        nodes.give_up(sweep, &token).await;
        Ok(None)
    }

    async fn extend(&self, nodes: &Quorum, held: &Held) -> Result<bool, BoxError> {
        let sent = nodes.host.now();
        let votes = nodes.extend_everywhere(&held.token).await;
        let until = nodes.valid_until(sent);
        let enough = if *self == Self::OfAcquired {
            let had = held.nodes().count_ones() as usize;
            count(&votes, Vote::Yes) > had / 2 // the mistake
        } else {
            self.is_enough(nodes, &votes)
        };
        Ok(enough && nodes.host.now() < until && held.prolong(nodes.host.now(), until))
    }
}
