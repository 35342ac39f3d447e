//! Redlock on five nodes, written plainly: one node after the other.

use crate::{
    is_cleared, is_convicted,
    kit::{Handle, Token},
    opens_a_handle,
    simple::COMPARE_AND_DELETE,
};
use redis::RedisResult;
use redouble_conformance::{BoxError, Promises, Subject, checker::Property, scenario::Topology};
use std::time::Duration;

const NODES: u8 = 5;

/// Replies that the lock counts as votes, and how many votes it needs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Votes {
    /// An OK from three nodes.
    Majority,
    /// An OK or an error from three nodes: after an error the node may have executed the request.
    ErrorsToo,
    /// An OK from two nodes.
    Half,
    /// An OK from three nodes, however long the replies take.
    Slow,
    /// An OK from three nodes; a release that removed the token from one node counts as successful.
    ReleasedIfAny,
}

struct Grant {
    token: Token,
    deadline: Duration,
}

impl Votes {
    fn majority(lock: &Handle) -> usize {
        usize::from(lock.host.nodes()) / 2 + 1
    }

    async fn remove(lock: &Handle, token: &str) -> RedisResult<usize> {
        let (mut removed, mut failed) = (0, vec![]);
        for node in 0..lock.host.nodes() {
            let words = ["EVAL", COMPARE_AND_DELETE, "1", &lock.key, token];
            match lock.ask_node::<usize>(node, &words).await {
                Ok(gone) => removed += gone,
                Err(error) => failed.push(error),
            }
        }
        // The nodes that failed may have removed the token as well.
        let (failures, majority) = (failed.len(), Self::majority(lock));
        match failed.pop() {
            Some(error) if removed < majority && majority <= removed + failures => Err(error),
            _ => Ok(removed),
        }
    }
}

impl Subject for Votes {
    opens_a_handle!(Grant);

    fn name(&self) -> &'static str {
        match self {
            Self::Majority => "plain-redlock",
            Self::ErrorsToo => "errors-are-votes",
            Self::Half => "two-of-five",
            Self::Slow => "no-time-is-taken-off",
            Self::ReleasedIfAny => "released-if-any",
        }
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node()
            .on(Topology::Nodes(NODES))
            .untidy()
            .with_deadline()
            .with_drift_ppm(10_000)
    }

    async fn try_lock(&self, lock: &Handle) -> Result<Option<Grant>, BoxError> {
        let (token, begun) = (lock.host.random_token(), lock.host.now());
        let (mut votes, mut failed) = (0, vec![]);
        for node in 0..lock.host.nodes() {
            let words = ["SET", &*lock.key, &*token, "NX", "PX", &*lock.lease_ms()];
            match lock.ask_node::<Option<String>>(node, &words).await {
                Ok(set) => votes += usize::from(set.is_some()),
                Err(error) => {
                    votes += usize::from(*self == Self::ErrorsToo);
                    failed.push(error);
                }
            }
        }
        let quorum = Self::majority(lock) - usize::from(*self == Self::Half);
        let from = if *self == Self::Slow {
            lock.host.now()
        } else {
            begun
        };
        let drift = lock.lease / 100 + Duration::from_millis(2);
        let deadline = (from + lock.lease).saturating_sub(drift);
        if votes >= quorum && lock.host.now() < deadline {
            let token = Token(token);
            return Ok(Some(Grant { token, deadline }));
        }
        let _ = Self::remove(lock, &token).await; // a token that stays expires with its lease
        // The nodes that failed decide only if their votes are missing.
        let decides = votes + failed.len() >= quorum;
        match failed.pop() {
            Some(error) if decides => Err(error.into()),
            _ if votes >= quorum => Err("the votes came too late".into()),
            _ => Ok(None),
        }
    }

    async fn release(&self, lock: &Handle, grant: Grant) -> Result<bool, BoxError> {
        let removed = Self::remove(lock, &grant.token.0).await?;
        let needed = match self {
            Self::ReleasedIfAny => 1,
            _ => Self::majority(lock),
        };
        Ok(removed >= needed)
    }

    fn deadline(&self, grant: &Grant) -> Option<Duration> {
        Some(grant.deadline)
    }
}

/// Redlock on three nodes, which the client asks at the same time, and that waits with random pauses.
struct AtOnce;

impl AtOnce {
    /// Asks all nodes at the same time.
    async fn ask(lock: &Handle, words: &[&str]) -> [RedisResult<redis::Value>; 3] {
        let (first, second, third) = tokio::join!(
            lock.ask_node(0, words),
            lock.ask_node(1, words),
            lock.ask_node(2, words)
        );
        [first, second, third]
    }

    async fn round(lock: &Handle, token: &str) -> Result<Option<Duration>, BoxError> {
        let begun = lock.host.now();
        let words = ["SET", &*lock.key, token, "NX", "PX", &*lock.lease_ms()];
        let replies = Self::ask(lock, &words).await;
        let votes = replies
            .iter()
            .filter(|it| matches!(it, Ok(redis::Value::Okay)));
        let drift = lock.lease / 100 + Duration::from_millis(2);
        let deadline = (begun + lock.lease).saturating_sub(drift);
        let granted = votes.count() >= 2;
        if granted && lock.host.now() < deadline {
            return Ok(Some(deadline));
        }
        let remove = ["EVAL", COMPARE_AND_DELETE, "1", &lock.key, token];
        let _ = Self::ask(lock, &remove).await; // a token that stays expires with its lease
        let failed = replies.into_iter().find_map(Result::err);
        match failed {
            Some(error) => Err(error.into()),
            None if granted => Err("the votes came too late".into()),
            None => Ok(None),
        }
    }
}

/// Longest pause between two rounds.
const PAUSE: Duration = Duration::from_millis(200);

impl Subject for AtOnce {
    opens_a_handle!(Grant);

    fn name(&self) -> &'static str {
        "asks-three-at-once"
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node()
            .on(Topology::Nodes(3))
            .untidy()
            .waiting(None)
            .polling(PAUSE)
            .with_deadline()
            .with_drift_ppm(10_000)
    }

    async fn try_lock(&self, lock: &Handle) -> Result<Option<Grant>, BoxError> {
        let token = lock.host.random_token();
        let deadline = Self::round(lock, &token).await?;
        Ok(deadline.map(|deadline| Grant {
            token: Token(token),
            deadline,
        }))
    }

    async fn lock_timeout(&self, lock: &Handle, wait: Duration) -> Result<Option<Grant>, BoxError> {
        let until = lock.host.now() + wait;
        loop {
            let round = self.try_lock(lock).await;
            let left = until.saturating_sub(lock.host.now());
            match round {
                Ok(Some(grant)) => return Ok(Some(grant)),
                Ok(None) if left.is_zero() => return Ok(None),
                Err(error) if left.is_zero() => return Err(error),
                Ok(None) | Err(_) => {}
            }
            let share = u32::from(lock.host.random()[0]) + 1;
            lock.host.sleep((PAUSE * share / 256).min(left)).await;
        }
    }

    async fn release(&self, lock: &Handle, grant: Grant) -> Result<bool, BoxError> {
        let words = ["EVAL", COMPARE_AND_DELETE, "1", &lock.key, &grant.token.0];
        let replies = Self::ask(lock, &words).await;
        let removed = replies
            .iter()
            .filter(|it| matches!(it, Ok(redis::Value::Int(1))));
        let removed = removed.count();
        // The nodes that failed may have removed the token as well.
        let mut failed = replies.into_iter().filter_map(Result::err).peekable();
        match failed.next() {
            Some(error) if removed < 2 => Err(error.into()),
            _ => Ok(removed >= 2),
        }
    }

    fn deadline(&self, grant: &Grant) -> Option<Duration> {
        Some(grant.deadline)
    }
}

#[test]
fn three_nodes_are_asked_at_once() {
    is_cleared(AtOnce);
}

#[test]
fn a_majority_of_plain_answers_is_enough() {
    is_cleared(Votes::Majority);
}

#[test]
fn an_error_is_no_vote() {
    is_convicted(Votes::ErrorsToo, Property::GroundedBelief);
}

#[test]
fn two_of_five_are_no_majority() {
    is_convicted(Votes::Half, Property::Exclusion);
}

#[test]
fn the_time_of_the_requests_is_taken_off_the_lease() {
    is_convicted(Votes::Slow, Property::GroundedBelief);
}

#[test]
fn a_release_on_one_node_of_five_is_no_release() {
    is_convicted(Votes::ReleasedIfAny, Property::Truth);
}
