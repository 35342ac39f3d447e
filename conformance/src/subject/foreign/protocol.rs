//! The lines that the suite and an adapter exchange: one JSON object each. ADAPTER.md describes them.

use super::recipe::{Recipe, StoredAt};
use crate::{
    history::{Kind, Scope},
    scenario::Topology,
    subject::{Fencing, Promises},
};
use serde::{Deserialize, Serialize};

/// What the suite asks.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Request<'a> {
    /// Names the request; the reply carries it.
    pub(super) id: u64,
    /// The task of the process that asks; the requests of a task come one after the other.
    pub(super) task: u32,
    #[serde(flatten)]
    pub(super) op: Op<'a>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(super) enum Op<'a> {
    /// Make the lock object.
    Open {
        nodes: &'a [String],
        key: &'a str,
        lease_ms: u64,
    },
    /// Take the lock if it is free.
    Try,
    /// Take the lock, waiting for it.
    Acquire { wait_ms: u64 },
    /// Extend a grant, named by the request that won it, by the lease.
    Renew { grant: u64 },
    /// Give a grant back.
    Release { grant: u64 },
    /// Say whether a grant still stands, as far as the lock knows.
    Holds { grant: u64 },
    /// Die at once.
    Crash,
}

/// What an adapter says.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub(super) enum Line {
    /// What came of a request.
    Reply {
        id: u64,
        answer: Answer,
        /// On CLOCK_MONOTONIC, in nanoseconds.
        deadline_ns: Option<u64>,
        fence: Option<u64>,
        /// The token that stands for the grant at the servers.
        token: Option<String>,
        error: Option<String>,
    },
    /// The holder of a grant is told that it is lost.
    Lost { lost: u64 },
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    /// It happened.
    Ok,
    /// It did not happen and will not.
    Refused,
    /// It may have happened, or may yet.
    Unknown,
    /// The lock has no such operation.
    Unsupported,
}

/// The first line of an adapter: which lock it is, and what that lock promises.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Hello {
    pub(super) name: String,
    /// How many independent servers it wants.
    #[serde(default = "one")]
    nodes: u8,
    /// Its grants carry a deadline until which the holder may rely on them.
    #[serde(default)]
    deadline: bool,
    #[serde(default)]
    drift_ppm: u32,
    /// What its fencing tokens are good for, where there are some.
    #[serde(default)]
    fencing: Tokens,
    /// It waits by itself; if not, the suite repeats its tries.
    #[serde(default)]
    pub(super) waits: bool,
    /// Leases are extended in the background.
    #[serde(default)]
    renews: bool,
    /// A holder is told of the loss of its grant by its deadline.
    #[serde(default)]
    signals: bool,
    /// What the tokens of its grants tell apart.
    #[serde(default)]
    token_scope: Scope,
    /// Where the servers store its holders.
    #[serde(default)]
    holders: Vec<StoredAt>,
    /// Where the servers store its waiters.
    #[serde(default)]
    waiters: Vec<StoredAt>,
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

impl Hello {
    /// Where the lock keeps its holders and waiters.
    pub(super) fn recipe(&self) -> Result<Recipe, String> {
        Recipe::of(self.token_scope, &self.holders, &self.waiters, &self.keeps)
    }

    /// What the lock claims.
    pub(super) fn promises(&self) -> Promises {
        let mut promises =
            Promises::of(Kind::Mutex).on(Topology::Nodes(self.nodes.clamp(1, NODES_MAX)));
        promises.deadline = self.deadline;
        promises.drift_ppm = self.drift_ppm;
        promises.waits = self.waits;
        promises.renews = self.renews;
        promises.signals = self.signals;
        promises.fencing = match self.fencing {
            Tokens::None => Fencing::None,
            Tokens::Counter => Fencing::Counter,
            Tokens::Lasting => Fencing::Lasting,
        };
        promises
    }
}

/// The most servers that a run has.
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
        for wrong in [
            "{}",
            r#"{"id":7}"#,
            r#"{"id":7,"answer":"granted"}"#,
            r#"{"id":7,"answer":"ok","deadline":3}"#,
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
