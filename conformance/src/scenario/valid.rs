//! What a scenario written by hand may get wrong.

use super::{Happening, Op, Scenario};
use crate::vocabulary::{Kind, Promises};
use std::collections::BTreeSet;

/// Longest time in a scenario, in milliseconds: a hundred years. Sums of such times fit.
const LONGEST_MS: u64 = 100 * 365 * 24 * 3_600_000;

impl Scenario {
    /// Returns the reason why the scenario cannot be played, if there is one.
    pub(crate) fn flaw(&self) -> Option<String> {
        let servers = self.topology.servers();
        if servers == 0 {
            return Some("`topology` has no server".to_owned());
        }
        if self.lease_ms == 0 || self.timeout_ms == Some(0) {
            return Some("`lease_ms` and `timeout_ms` are at least 1".to_owned());
        }
        if self.latency_ms > self.lease_ms {
            return Some("`latency_ms` is longer than `lease_ms`".to_owned());
        }
        let mut times = vec![self.lease_ms, self.timeout_ms.unwrap_or(0)];
        let mut ids = BTreeSet::new();
        for event in &self.events {
            let id = event.id;
            if !ids.insert(id) {
                return Some(format!("two events have the id {id}"));
            }
            times.push(event.at_ms);
            if let Happening::Fault { for_ms, fault } = &event.happening {
                times.push(*for_ms);
                if let Some(node) = fault.node().filter(|&node| node >= servers) {
                    return Some(format!(
                        "event {id} is a fault of the server {node}; the servers are 0 to {}",
                        servers - 1
                    ));
                }
            }
        }
        let long = times.into_iter().find(|&ms| ms > LONGEST_MS);
        long.map(|ms| format!("{ms} ms are longer than a hundred years"))
    }

    /// Returns the reason why the scenario does not fit a lock, if there is one: it has other servers, or calls of another kind.
    pub(crate) fn misfit(&self, promises: Promises) -> Option<String> {
        if self.topology != promises.topology {
            let topology = serde_json::to_string(&promises.topology).unwrap_or_default();
            return Some(format!(
                "the lock uses other servers: `\"topology\": {topology}`"
            ));
        }
        let foreign = self.ops().find(|&(.., op)| !is_offered(op, promises.kind));
        foreign.map(|(event, ..)| {
            format!(
                "event {} is a call on another kind of lock than `Kind::{:?}`",
                event.id, promises.kind
            )
        })
    }
}

/// True if locks of a kind offer an operation.
const fn is_offered(op: Op, kind: Kind) -> bool {
    match op {
        Op::Admit | Op::AdmitAgain => matches!(kind, Kind::Admission(_)),
        Op::CountDown | Op::Await { .. } => matches!(kind, Kind::Latch(_)),
        Op::SetUp => matches!(kind, Kind::Admission(_) | Kind::Latch(_)),
        Op::Try { .. }
        | Op::Acquire { .. }
        | Op::Cancelled { .. }
        | Op::Renew
        | Op::CancelledRenew { .. }
        | Op::Release
        | Op::CancelledRelease { .. }
        | Op::Drop
        | Op::Access => matches!(kind, Kind::Mutex | Kind::ReadWrite | Kind::Semaphore(_)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::Topology;

    fn read(text: &str) -> Result<Scenario, String> {
        Scenario::from_json(text).map_err(|error| error.to_string())
    }

    const TRIES: &str =
        r#"{"id": 7, "at_ms": 5, "op": {"actor": {"host": 0, "task": 0}, "op": "try"}}"#;

    #[test]
    fn a_scenario_that_cannot_be_played_says_why() {
        let with = |fields: &str, events: &str| {
            read(&format!(r#"{{"seed": 1, {fields}, "events": [{events}]}}"#))
        };
        let lease = r#""lease_ms": 1000"#;
        assert!(with(lease, TRIES).is_ok());
        let fault =
            r#"{"id": 1, "at_ms": 0, "fault": {"for_ms": 5, "fault": "node_pause", "node": 1}}"#;
        let twice = format!("{TRIES}, {TRIES}");
        let late = TRIES.replace(": 5", ": 9999999999999999");
        for (fields, events, says) in [
            (r#""lease_ms": 0"#, TRIES, "at least 1"),
            (r#""lease_ms": 9, "timeout_ms": 0"#, TRIES, "at least 1"),
            (
                r#""lease_ms": 9, "latency_ms": 10"#,
                TRIES,
                "longer than `lease_ms`",
            ),
            (
                r#""lease_ms": 9, "topology": {"nodes": 0}"#,
                TRIES,
                "no server",
            ),
            (
                r#""lease_ms": 9, "latncy_ms": 1"#,
                TRIES,
                "unknown field `latncy_ms`",
            ),
            (lease, &twice, "two events have the id 7"),
            (lease, fault, "the servers are 0 to 0"),
            (lease, &late, "hundred years"),
        ] {
            let said = with(fields, events).unwrap_err();
            assert!(said.contains(says), "{said}");
        }
    }

    #[test]
    fn events_are_put_in_order() {
        let first = TRIES.replace("7", "1").replace(": 5", ": 2");
        let text = format!(r#"{{"seed": 1, "lease_ms": 9, "events": [{TRIES}, {first}]}}"#);
        let ids: Vec<_> = read(&text).unwrap().events.iter().map(|it| it.id).collect();
        assert_eq!(ids, [1, 7]);
    }

    #[test]
    fn a_scenario_fits_locks_with_its_servers_and_its_calls() {
        let text = format!(r#"{{"seed": 1, "lease_ms": 9, "events": [{TRIES}]}}"#);
        let scenario = read(&text).unwrap();
        let mutex = Promises::mutex_on_one_node();
        assert_eq!(scenario.misfit(mutex), None);
        let redlock = scenario.misfit(mutex.on(Topology::Nodes(5))).unwrap();
        assert!(redlock.contains(r#""topology": {"nodes":5}"#), "{redlock}");
        let latch = Promises::of(Kind::Latch(2));
        assert!(scenario.misfit(latch).unwrap().contains("event 7"));
    }
}
