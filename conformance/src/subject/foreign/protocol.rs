//! The lines that the suite and an adapter exchange: one JSON object each. ADAPTER.md describes them.

use super::recipe::{Recipe, StoredAt};
use crate::vocabulary::{Fencing, Kind, Promises, Scope, Topology};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A request from the suite.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Request<'a> {
    /// Number of the request; the reply carries it too.
    pub(super) id: u64,
    /// Task of the process that sends the request. A task sends its requests one after another.
    pub(super) task: u32,
    #[serde(flatten)]
    pub(super) op: Op<'a>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(super) enum Op<'a> {
    /// Makes the lock object.
    Open {
        nodes: &'a [String],
        key: &'a str,
        lease_ms: u64,
    },
    /// Acquires the lock if it is free.
    Try,
    /// Acquires the lock, waiting for it.
    Acquire { wait_ms: u64 },
    /// Extends a grant by the lease. The grant is named by the id of the request that acquired it.
    Renew { grant: u64 },
    /// Releases a grant.
    Release { grant: u64 },
    /// Asks whether the lock still considers a grant held.
    Holds { grant: u64 },
    /// Ends the process at once.
    Crash,
}

/// A line from an adapter.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub(super) enum Line {
    /// Answer to a request.
    Reply {
        id: u64,
        answer: Answer,
        /// Deadline on CLOCK_MONOTONIC, in nanoseconds.
        deadline_ns: Option<u64>,
        fence: Option<u64>,
        /// The token that stands for the grant at the servers.
        token: Option<String>,
        error: Option<String>,
    },
    /// Tells the holder that its grant is lost.
    Lost { lost: u64 },
    /// The lock extended a grant by itself.
    Extended {
        extended: u64,
        /// The new deadline on CLOCK_MONOTONIC, in nanoseconds.
        deadline_ns: u64,
    },
}

/// Outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    /// The operation happened.
    Ok,
    /// The operation did not happen and will not happen.
    Refused,
    /// The operation may have happened, or may happen later.
    Unknown,
    /// The lock has no such operation.
    Unsupported,
}

/// The first line of an adapter: which lock it is, and what that lock promises.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Hello {
    pub(super) name: String,
    /// Number of independent servers that it needs.
    #[serde(default = "one")]
    nodes: u8,
    /// Grants carry a deadline until which the holder may rely on them.
    #[serde(default)]
    deadline: bool,
    #[serde(default)]
    drift_ppm: u32,
    /// Guarantee of its fencing tokens, if it has any.
    #[serde(default)]
    fencing: Tokens,
    /// The lock waits by itself; otherwise the suite repeats `try`.
    #[serde(default)]
    pub(super) waits: bool,
    /// Leases are extended in the background.
    #[serde(default)]
    renews: bool,
    /// The lock reports the loss of a grant to its holder by the deadline.
    #[serde(default)]
    signals: bool,
    /// Unit to which it rounds leases, in milliseconds.
    #[serde(default = "exact")]
    lease_unit_ms: u32,
    /// Longest pause of a waiter between two requests, in milliseconds.
    #[serde(default)]
    poll_ms: Option<u32>,
    /// Scope within which its tokens are unique.
    #[serde(default)]
    token_scope: Scope,
    /// Where the servers store its holders.
    #[serde(default)]
    holders: Vec<StoredAt>,
    /// Where the servers store its waiters.
    #[serde(default)]
    waiters: Vec<StoredAt>,
    /// Where the servers store the waiters that the lock is reserved for.
    #[serde(default)]
    reserved: Vec<StoredAt>,
    /// Keys that may stay while no client uses the lock.
    #[serde(default)]
    keeps: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Tokens {
    #[default]
    None,
    Counter,
    Lasting,
}

const fn one() -> u8 {
    1
}

const fn exact() -> u32 {
    1
}

impl Hello {
    /// Returns the keys of the lock's holders and waiters.
    pub(super) fn recipe(&self) -> Result<Recipe, String> {
        Recipe::of(
            self.token_scope,
            &self.holders,
            &self.waiters,
            &self.reserved,
            &self.keeps,
        )
    }

    /// Returns the promises of the lock.
    pub(super) fn promises(&self) -> Promises {
        let mut promises =
            Promises::of(Kind::Mutex).on(Topology::Nodes(self.nodes.clamp(1, NODES_MAX)));
        promises.deadline = self.deadline;
        promises.drift_ppm = self.drift_ppm;
        promises.waits = self.waits;
        promises.renews = self.renews;
        promises.signals = self.signals;
        promises.lease_unit = Duration::from_millis(self.lease_unit_ms.max(1).into());
        promises.poll = self.poll_ms.map(|ms| Duration::from_millis(ms.into()));
        promises.fencing = match self.fencing {
            Tokens::None => Fencing::None,
            Tokens::Counter => Fencing::Counter,
            Tokens::Lasting => Fencing::Lasting,
        };
        promises
    }
}

/// Largest number of servers of a run.
const NODES_MAX: u8 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_flat_objects() {
        let request = |op| serde_json::to_string(&Request { id: 7, task: 1, op }).unwrap();
        let nodes = ["127.0.0.1:4711".to_owned()];
        let open = Op::Open {
            nodes: &nodes,
            key: "lock",
            lease_ms: 400,
        };
        assert_eq!(
            request(open),
            r#"{"id":7,"task":1,"op":"open","nodes":["127.0.0.1:4711"],"key":"lock","lease_ms":400}"#
        );
        assert_eq!(request(Op::Try), r#"{"id":7,"task":1,"op":"try"}"#);
        assert_eq!(
            request(Op::Renew { grant: 3 }),
            r#"{"id":7,"task":1,"op":"renew","grant":3}"#
        );
    }

    #[test]
    fn replies_and_losses_are_told_apart_and_all_else_is_refused() {
        let line = serde_json::from_str::<Line>;
        let reply = line(r#"{"id":7,"answer":"ok","deadline_ns":12}"#).unwrap();
        let Line::Reply {
            answer,
            deadline_ns,
            fence,
            ..
        } = reply
        else {
            panic!("{reply:?}")
        };
        assert_eq!((answer, deadline_ns, fence), (Answer::Ok, Some(12), None));
        assert_eq!(line(r#"{"lost":7}"#).unwrap(), Line::Lost { lost: 7 });
        let told = Line::Extended {
            extended: 7,
            deadline_ns: 12,
        };
        assert_eq!(line(r#"{"extended":7,"deadline_ns":12}"#).unwrap(), told);
        for wrong in [
            "{}",
            r#"{"id":7}"#,
            r#"{"id":7,"answer":"granted"}"#,
            r#"{"id":7,"answer":"ok","deadline":3}"#,
            r#"{"extended":7}"#,
            "ok",
        ] {
            assert!(line(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_hello_says_what_is_promised() {
        let hello: Hello =
            serde_json::from_str(r#"{"name":"x","nodes":3,"deadline":true,"drift_ppm":10000}"#)
                .unwrap();
        let promises = hello.promises();
        assert_eq!(promises.topology, Topology::Nodes(3));
        assert!(promises.deadline && !promises.waits);
        assert_eq!(promises.fencing, Fencing::None);
        assert!(serde_json::from_str::<Hello>(r#"{"name":"x","fenced":true}"#).is_err());
    }
}
