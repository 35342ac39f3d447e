//! The lines that the suite and an adapter exchange: one JSON object each. ADAPTER.md describes them.

use super::recipe::{Recipe, StoredAt};
use crate::vocabulary::{Fencing, Kind, Mode, OpId, Promises, Scope, Topology};
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
        /// Longest time for which the lock may wait for a reply.
        request_timeout_ms: u64,
    },
    /// Acquires the lock if it is free.
    Try {
        #[serde(skip_serializing_if = "Mode::is_exclusive")]
        mode: Mode,
    },
    /// Acquires the lock, waiting for it.
    Acquire {
        wait_ms: u64,
        #[serde(skip_serializing_if = "Mode::is_exclusive")]
        mode: Mode,
    },
    /// Extends a grant by the lease. The grant is named by the id of the request that acquired it.
    Renew { grant: u64 },
    /// Releases a grant.
    Release { grant: u64 },
    /// Asks whether the lock still considers a grant held.
    Holds { grant: u64 },
    /// Sets up a counter or a latch.
    SetUp,
    /// Asks a counter for a place, under a name.
    Admit { name: OpId },
    /// Counts a latch down.
    CountDown,
    /// Waits until a latch is at 0.
    Await { wait_ms: u64 },
    /// Ends the process at once.
    Crash,
}

/// A line from an adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    Reply(Reply),
    Lost(Lost),
    Extended(Extended),
}

/// Answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reply {
    pub(super) id: u64,
    pub(super) answer: Answer,
    /// Deadline on CLOCK_MONOTONIC, in nanoseconds.
    pub(super) deadline_ns: Option<u64>,
    pub(super) fence: Option<u64>,
    /// The token that stands for the grant at the servers.
    pub(super) token: Option<String>,
    /// The number of an admission or of a count, from 1.
    pub(super) number: Option<u32>,
    pub(super) error: Option<String>,
}

/// Tells the holder that its grant is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lost {
    pub(super) lost: u64,
}

/// The lock extended a grant by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Extended {
    pub(super) extended: u64,
    /// The new deadline on CLOCK_MONOTONIC, in nanoseconds.
    pub(super) deadline_ns: u64,
}

impl Line {
    /// Reads a line: the field `lost` or `extended` tells a report from a reply.
    ///
    /// # Errors
    /// If the line is no JSON object, or one of its fields is missing, unknown or of the wrong type. The error names the
    /// field.
    pub(super) fn parse(line: &str) -> Result<Self, serde_json::Error> {
        let fields: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line)?;
        if fields.contains_key("lost") {
            serde_json::from_str(line).map(Self::Lost)
        } else if fields.contains_key("extended") {
            serde_json::from_str(line).map(Self::Extended)
        } else {
            serde_json::from_str(line).map(Self::Reply)
        }
    }
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
    /// The counter or the latch is not set up.
    NotSet,
}

/// The first line of an adapter: which lock it is, and what that lock promises.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Hello {
    pub(super) name: String,
    #[serde(default)]
    pub(super) kind: Kind,
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
    /// A holder may acquire the lock again.
    #[serde(default)]
    reentrant: bool,
    /// Waiters are granted the lock in the order in which they asked.
    #[serde(default)]
    fair: bool,
    /// Readers that ask later wait behind a waiting writer.
    #[serde(default)]
    prefers_writers: bool,
    /// A counter or latch has to be set up before its first use.
    #[serde(default)]
    set_up: bool,
    /// A counter counts each name once.
    #[serde(default)]
    named: bool,
    /// A counter starts again a lease after its first admission.
    #[serde(default)]
    anew: bool,
    /// Longest time until a waiter that can be reached acquires a free lock, in milliseconds.
    #[serde(default)]
    wake_ms: Option<u32>,
    /// A failed call may leave its grant until the lease ends.
    #[serde(default)]
    untidy: bool,
    /// A release returns nothing, so `ok` does not say that the lock was still held.
    #[serde(default)]
    releases_silently: bool,
    /// A waiting call may be refused before its wait is over.
    #[serde(default)]
    refuses_early: bool,
    /// Longest time for which the lock waits for a reply, in milliseconds, if it cannot be set.
    #[serde(default)]
    request_timeout_ms: Option<u32>,
    /// Longest pause between a failed request and the next attempt, in milliseconds.
    #[serde(default)]
    retry_ms: Option<u32>,
    /// The same, as one such part of the lease.
    #[serde(default)]
    retry_share: Option<u32>,
    /// Leases are extended in the background.
    #[serde(default)]
    renews: bool,
    /// The lock reports the loss of a grant to its holder by the deadline.
    #[serde(default)]
    signals: bool,
    /// Unit to which it rounds leases, in milliseconds.
    #[serde(default = "exact")]
    lease_unit_ms: u32,
    /// The servers store a grant for up to one such part of the lease longer than its holder relies on it.
    #[serde(default)]
    grace_share: Option<u32>,
    /// Longest pause of a waiter between two requests, in milliseconds.
    #[serde(default)]
    poll_ms: Option<u32>,
    /// The same, as one such part of the lease.
    #[serde(default)]
    poll_share: Option<u32>,
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
    ///
    /// # Errors
    /// If the suite cannot start as many servers, or a promise lacks another one that it needs.
    pub(super) fn promises(&self) -> Result<Promises, String> {
        if !(1..=NODES_MAX).contains(&self.nodes) {
            let nodes = self.nodes;
            return Err(format!(
                "nodes has to be from 1 to {NODES_MAX}, not {nodes}"
            ));
        }
        if !self.waits && (self.fair || self.wake_ms.is_some()) {
            return Err(
                "a lock that is fair, or has a wake_ms, waits by itself: add \"waits\": true"
                    .to_owned(),
            );
        }
        self.fits_its_kind()?;
        let mut promises = Promises::of(self.kind).on(Topology::Nodes(self.nodes));
        promises.reentrant = self.reentrant;
        promises.fair = self.fair;
        promises.prefers_writers = self.prefers_writers;
        promises.set_up = self.set_up;
        promises.named = self.named;
        promises.anew = self.anew;
        promises.tidy = !self.untidy;
        promises.releases_silently = self.releases_silently;
        promises.refuses_early = self.refuses_early;
        promises.grace_share = self.grace_share;
        promises.retry = self.retry_ms.map_or(promises.retry, ms);
        promises.retry_share = self.retry_share;
        promises.deadline = self.deadline;
        promises.drift_ppm = self.drift_ppm;
        promises.waits = self.waits;
        promises.renews = self.renews;
        promises.signals = self.signals;
        promises.lease_unit = Duration::from_millis(self.lease_unit_ms.max(1).into());
        promises.poll = self.poll_ms.map(ms);
        promises.poll_share = self.poll_share;
        promises.fencing = match self.fencing {
            Tokens::None => Fencing::None,
            Tokens::Counter => Fencing::Counter,
            Tokens::Lasting => Fencing::Lasting,
        };
        Ok(promises)
    }

    /// Checks that the promises are those of such a lock.
    fn fits_its_kind(&self) -> Result<(), String> {
        let counts = matches!(self.kind, Kind::Admission(_));
        let is_latch = matches!(self.kind, Kind::Latch(_));
        let rules = [
            (
                "prefers_writers",
                self.prefers_writers,
                self.kind == Kind::ReadWrite,
            ),
            ("set_up", self.set_up, counts || is_latch),
            ("named", self.named, counts),
            ("anew", self.anew, counts),
            ("reentrant", self.reentrant, self.kind == Kind::Mutex),
        ];
        if let Some((field, ..)) = rules.into_iter().find(|&(_, set, fits)| set && !fits) {
            return Err(format!("{field} does not fit the kind of the lock"));
        }
        match self.kind {
            Kind::Semaphore(0) | Kind::Admission(0) | Kind::Latch(0) => {
                Err("a semaphore, a counter or a latch has at least one".to_owned())
            }
            Kind::Mutex
            | Kind::ReadWrite
            | Kind::Semaphore(_)
            | Kind::Admission(_)
            | Kind::Latch(_) => Ok(()),
        }
    }

    /// Returns the times that the lock declares, and that are no shares of a lease.
    pub(super) fn times(&self) -> Times {
        Times {
            request_timeout: self.request_timeout_ms.map(|ms| ms.max(1).into()),
            wake: self.wake_ms.map(ms),
        }
    }
}

/// Times of a lock that do not depend on the lease.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    /// Longest time for which the lock waits for a reply, in milliseconds.
    pub(super) request_timeout: Option<u64>,
    /// Longest time until a waiter that can be reached acquires a free lock.
    pub(super) wake: Option<Duration>,
}

fn ms(ms: u32) -> Duration {
    Duration::from_millis(ms.into())
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
            request_timeout_ms: 66,
        };
        assert_eq!(
            request(open),
            r#"{"id":7,"task":1,"op":"open","nodes":["127.0.0.1:4711"],"key":"lock","lease_ms":400,"request_timeout_ms":66}"#
        );
        let mode = Mode::Exclusive;
        assert_eq!(request(Op::Try { mode }), r#"{"id":7,"task":1,"op":"try"}"#);
        let mode = Mode::Shared;
        assert_eq!(
            request(Op::Acquire { wait_ms: 9, mode }),
            r#"{"id":7,"task":1,"op":"acquire","wait_ms":9,"mode":"shared"}"#
        );
        let mode = Mode::Permits(2);
        assert_eq!(
            request(Op::Try { mode }),
            r#"{"id":7,"task":1,"op":"try","mode":{"permits":2}}"#
        );
        assert_eq!(
            request(Op::CountDown),
            r#"{"id":7,"task":1,"op":"count_down"}"#
        );
        assert_eq!(
            request(Op::Renew { grant: 3 }),
            r#"{"id":7,"task":1,"op":"renew","grant":3}"#
        );
    }

    #[test]
    fn replies_and_losses_are_told_apart_and_all_else_is_refused() {
        let reply = Line::parse(r#"{"id":7,"answer":"ok","deadline_ns":12}"#).unwrap();
        let Line::Reply(reply) = reply else {
            panic!("{reply:?}")
        };
        let fields = (reply.answer, reply.deadline_ns, reply.fence);
        assert_eq!(fields, (Answer::Ok, Some(12), None));
        let lost = Line::Lost(Lost { lost: 7 });
        assert_eq!(Line::parse(r#"{"lost":7}"#).unwrap(), lost);
        let told = Line::Extended(Extended {
            extended: 7,
            deadline_ns: 12,
        });
        let line = r#"{"extended":7,"deadline_ns":12}"#;
        assert_eq!(Line::parse(line).unwrap(), told);
        for (wrong, why) in [
            ("{}", "missing field `id`"),
            (r#"{"id":7}"#, "missing field `answer`"),
            (r#"{"id":"7","answer":"ok"}"#, "invalid type: string"),
            (
                r#"{"id":7,"answer":"granted"}"#,
                "unknown variant `granted`",
            ),
            (r#"{"id":7,"answer":true}"#, "expected"),
            (
                r#"{"id":7,"answer":"ok","deadline":3}"#,
                "unknown field `deadline`",
            ),
            (
                r#"{"id":7,"answer":"ok","fence":"3"}"#,
                "invalid type: string",
            ),
            (r#"{"extended":7}"#, "missing field `deadline_ns`"),
            (r#"{"lost":7,"id":7}"#, "unknown field `id`"),
            ("ok", "expected value"),
            ("[]", "invalid type: sequence"),
        ] {
            let error = Line::parse(wrong).unwrap_err().to_string();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_hello_says_what_is_promised() {
        let hello: Hello =
            serde_json::from_str(r#"{"name":"x","nodes":3,"deadline":true,"drift_ppm":10000}"#)
                .unwrap();
        let promises = hello.promises().unwrap();
        assert_eq!(promises.topology, Topology::Nodes(3));
        assert!(promises.deadline && !promises.waits);
        assert_eq!(promises.fencing, Fencing::None);
        assert!(serde_json::from_str::<Hello>(r#"{"name":"x","fenced":true}"#).is_err());
        let line = r#"{"name":"x","waits":true,"fair":true,"reentrant":true,"untidy":true,"retry_ms":7,"retry_share":10,"poll_share":4,"wake_ms":8,"request_timeout_ms":9}"#;
        let hello: Hello = serde_json::from_str(line).unwrap();
        let promises = hello.promises().unwrap();
        assert!(promises.fair && promises.reentrant && !promises.tidy);
        let lease = Duration::from_secs(1);
        assert_eq!(promises.longest_retry(lease), Duration::from_millis(100));
        assert_eq!(promises.longest_retry(lease / 20), Duration::from_millis(7));
        assert_eq!(
            promises.longest_poll(lease),
            Some(Duration::from_millis(250))
        );
        let kind = |text: &str| {
            let line = format!(r#"{{"name":"x","kind":{text}}}"#);
            let hello: Hello = serde_json::from_str(&line).unwrap();
            hello.promises().unwrap().kind
        };
        assert_eq!(kind(r#""read_write""#), Kind::ReadWrite);
        assert_eq!(kind(r#"{"semaphore":2}"#), Kind::Semaphore(2));
        assert_eq!(kind(r#"{"latch":3}"#), Kind::Latch(3));
        let times = hello.times();
        assert_eq!(times.wake, Some(Duration::from_millis(8)));
        assert_eq!(times.request_timeout, Some(9));
        for wrong in [
            r#"{"name":"x","nodes":0}"#,
            r#"{"name":"x","nodes":65}"#,
            r#"{"name":"x","fair":true}"#,
            r#"{"name":"x","wake_ms":50}"#,
            r#"{"name":"x","kind":{"semaphore":0}}"#,
            r#"{"name":"x","kind":{"semaphore":2},"prefers_writers":true}"#,
            r#"{"name":"x","kind":"read_write","set_up":true}"#,
        ] {
            let hello: Hello = serde_json::from_str(wrong).unwrap();
            assert!(hello.promises().is_err(), "{wrong}");
        }
    }
}
