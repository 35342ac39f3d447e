//! B30: the error of a single node aborts the operation, although the other nodes are a majority.

use super::{Held, Quorum, Site, Specimen, Sweep, exhibit, quorum::redlock_of_three};
use crate::{
    checker::Property::Liveness,
    subject::{BoxError, Expected::Convicted, Host, Row},
    vocabulary::Promises,
};
use std::time::Duration;

/// Kind of error.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OneError {
    /// Any error, such as that of a node that is down.
    Any,
    /// A server does not know the script.
    NoScript,
}

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "one-node-failure-aborts",
        make: || exhibit::<Quorum>(OneError::Any),
        expected: Convicted(&[Liveness]),
        summary: "Redlock that fails when one node fails",
    },
    Row {
        name: "one-noscript-aborts",
        make: || exhibit::<Quorum>(OneError::NoScript),
        expected: Convicted(&[Liveness]),
        summary: "Redlock that fails when one node has forgotten the script",
    },
];

/// Sets the key to a token if the key does not exist.
const ACQUIRE: &str = "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then \
                       return 1 else return 0 end";

/// Acquires the lock on one node; `None` if the node has forgotten the script.
async fn acquire_on(flaw: OneError, site: Site, token: String) -> Result<Option<bool>, BoxError> {
    if flaw == OneError::Any {
        return site.set_nx(&token).await.map(Some);
    }
    let sha = redis::Script::new(ACQUIRE);
    let lease = site.lease_ms();
    let words = ["EVALSHA", sha.get_hash(), "1", &site.key, &token, &lease];
    match site.ask(&words).await {
        Ok(set) => Ok(Some(set)),
        Err(error) if forgotten(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn forgotten(error: &BoxError) -> bool {
    let answered = error.downcast_ref::<redis::RedisError>();
    answered.is_some_and(|error| error.code() == Some("NOSCRIPT"))
}

impl Specimen<Quorum> for OneError {
    fn id(&self) -> &'static str {
        match self {
            Self::Any => "B30a",
            Self::NoScript => "B30b",
        }
    }

    fn promises(&self) -> Promises {
        redlock_of_three()
    }

    async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<Quorum, BoxError> {
        let patience = host.request_timeout();
        let nodes = <Quorum as super::SoundLock>::open(host, key, lease, patience).await?;
        if *self == Self::NoScript {
            let load = |site: &Site| {
                let site = site.clone();
                async move { site.ask::<String>(&["SCRIPT", "LOAD", ACQUIRE]).await }
            };
            nodes.each(load).await;
        }
        Ok(nodes)
    }

    async fn acquire(&self, nodes: &Quorum) -> Result<Option<Held>, BoxError> {
        let (token, sent) = (nodes.host.random_token(), nodes.host.now());
        let sweep = Sweep::over(nodes, &token);
        let answers = nodes
            .each(|site| acquire_on(*self, site.clone(), token.clone()))
            .await;
        let failed = match self {
            Self::Any => answers.contains(&None),
            Self::NoScript => answers.contains(&Some(None)),
        };
        if failed {
            nodes.give_up(sweep, &token).await;
            return Err("a node failed".into()); // the mistake
        }
        let yes = answers.iter().filter(|&&it| it == Some(Some(true))).count();
        let until = nodes.valid_until(sent);
        if yes >= nodes.majority() && nodes.host.now() < until {
            sweep.done();
            return Ok(Some(Held::until(token, until)));
        }
        nodes.give_up(sweep, &token).await;
        Ok(None)
    }
}
