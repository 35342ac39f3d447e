//! Scenarios: the operations of the actors and the faults of a run, at absolute times.
//!
//! A scenario determines the whole run. Times are absolute, and each event has random draws of its own (see
//! `chance.rs`), so deleting an event changes no other event.

use super::{Fault, Op};
use crate::vocabulary::{Actor, Capability, OpId, REQUESTS_PER_LEASE, Topology};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, time::Duration};

/// A scenario. A generated one depends only on its seed; a saved one is a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Seed of all draws of the run: schedule, latency, tokens, jitter.
    pub seed: u64,
    /// Lease of the lock, in milliseconds.
    pub lease_ms: u64,
    /// Rule by which the scheduler chooses the next task.
    #[serde(default)]
    pub schedule: Schedule,
    /// Every message takes 0 to this many milliseconds, drawn per message.
    #[serde(default)]
    pub latency_ms: u64,
    /// Timeout of a request, in milliseconds. By default a sixth of the lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The servers.
    #[serde(default, skip_serializing_if = "Topology::is_one")]
    pub topology: Topology,
    /// Operations and faults, sorted by time.
    pub events: Vec<Event>,
}

/// Rule by which the scheduler chooses the next of the ready tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// First woken, first polled.
    Fifo,
    /// Every wake-up draws a random place in the queue.
    #[default]
    Random,
    /// Every task has one priority, redrawn at random points (probabilistic concurrency testing).
    Pct,
}

/// An operation or a fault with its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Id of the event. The history records operations by this id.
    pub id: OpId,
    /// True time of the start, in milliseconds.
    pub at_ms: u64,
    /// Operation or fault.
    #[serde(flatten)]
    pub happening: Happening,
}

/// Content of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Happening {
    /// An operation of an actor. It starts after the actor's previous operation has ended.
    Op {
        /// The actor.
        actor: Actor,
        /// The operation.
        #[serde(flatten)]
        op: Op,
    },
    /// A fault with a duration.
    Fault {
        /// Duration in milliseconds.
        for_ms: u64,
        /// The fault.
        #[serde(flatten)]
        fault: Fault,
    },
}

impl Event {
    /// Returns the true time of the start.
    #[must_use]
    pub const fn at(&self) -> Duration {
        Duration::from_millis(self.at_ms)
    }

    /// Returns the end in milliseconds. For an operation or an instant fault this is its start.
    #[must_use]
    pub const fn until_ms(&self) -> u64 {
        match &self.happening {
            Happening::Op { .. } => self.at_ms,
            Happening::Fault { fault, .. } if fault.is_instant() => self.at_ms,
            Happening::Fault { fault, for_ms } => self.at_ms + fault.lasts_ms(*for_ms),
        }
    }

    /// Returns the client process that the event concerns, if any.
    #[must_use]
    pub fn host(&self) -> Option<u8> {
        self.happening.host()
    }
}

impl Happening {
    /// Returns the client process that this concerns, if any.
    #[must_use]
    pub fn host(&self) -> Option<u8> {
        match self {
            Self::Op { actor, .. } => Some(actor.host),
            Self::Fault { fault, .. } => fault.host(),
        }
    }
}

impl Scenario {
    /// Returns the timeout of a request.
    #[must_use]
    pub fn request_timeout(&self) -> Duration {
        let drawn = self.timeout_ms.map(Duration::from_millis);
        drawn.unwrap_or_else(|| self.lease() / REQUESTS_PER_LEASE)
    }

    /// Returns the lease.
    #[must_use]
    pub const fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    /// Returns all actors, in order.
    #[must_use]
    pub fn actors(&self) -> BTreeSet<Actor> {
        self.ops().map(|(_, actor, _)| actor).collect()
    }

    /// Returns all client processes in operations and faults.
    #[must_use]
    pub fn hosts(&self) -> BTreeSet<u8> {
        self.events.iter().filter_map(Event::host).collect()
    }

    /// Returns the capabilities that a backend needs to play the scenario.
    #[must_use]
    pub fn needs(&self) -> BTreeSet<Capability> {
        let faults = self.faults().filter_map(|(.., fault)| fault.needs());
        faults.chain(self.topology.needs()).collect()
    }

    /// Returns the operations.
    pub fn ops(&self) -> impl Iterator<Item = (&Event, Actor, Op)> {
        self.events
            .iter()
            .filter_map(|event| match event.happening {
                Happening::Op { actor, op } => Some((event, actor, op)),
                Happening::Fault { .. } => None,
            })
    }

    /// Returns the faults with their start and end in milliseconds.
    pub fn faults(&self) -> impl Iterator<Item = (u64, u64, Fault)> {
        self.events
            .iter()
            .filter_map(|event| match event.happening {
                Happening::Fault { fault, .. } => Some((event.at_ms, event.until_ms(), fault)),
                Happening::Op { .. } => None,
            })
    }

    /// Returns the end of the last event, in milliseconds.
    #[must_use]
    pub fn end_ms(&self) -> u64 {
        self.events.iter().map(Event::until_ms).max().unwrap_or(0)
    }

    /// Returns the names of the nemeses in this scenario, including work that outlasts the lease.
    #[must_use]
    pub fn nemeses(&self) -> BTreeSet<&'static str> {
        let mut names: BTreeSet<_> = self.faults().map(|(_, _, fault)| fault.nemesis()).collect();
        if self
            .actors()
            .into_iter()
            .any(|actor| self.works_too_long(actor))
        {
            names.insert("overwork");
        }
        names
    }

    fn works_too_long(&self, actor: Actor) -> bool {
        let mut since: Option<u64> = None;
        for (event, _, op) in self.ops().filter(|&(_, who, _)| who == actor) {
            if op.mode().is_some() {
                since = since.or(Some(event.at_ms));
            } else if op == Op::Renew {
                since = since.and(Some(event.at_ms));
            } else if op.gives_back()
                && since
                    .take()
                    .is_some_and(|since| event.at_ms >= since + self.lease_ms)
            {
                return true;
            }
        }
        false
    }

    /// Returns the scenario with another lease, and all times in proportion.
    #[must_use]
    pub fn scaled(&self, lease_ms: u64) -> Self {
        let scale = |ms: u64| ms * lease_ms / self.lease_ms.max(1);
        self.mapped(lease_ms, scale)
    }

    /// Returns the scenario with all times rounded to multiples of a sixth of the lease.
    ///
    /// The order of events closer than that would depend on scheduling delays of the machine, on a real
    /// server.
    #[must_use]
    pub fn snapped(&self) -> Self {
        let grid = (self.lease_ms / 6).max(1);
        self.mapped(self.lease_ms, |ms| (ms + grid / 2) / grid * grid)
    }

    fn mapped(&self, lease_ms: u64, map: impl Fn(u64) -> u64) -> Self {
        let events = self.events.iter().map(|event| Event {
            id: event.id,
            at_ms: map(event.at_ms),
            happening: match event.happening {
                Happening::Op { actor, op } => Happening::Op {
                    actor,
                    op: op.map_ms(&map),
                },
                Happening::Fault { for_ms, fault } => Happening::Fault {
                    for_ms: map(for_ms),
                    fault: fault.map_ms(&map),
                },
            },
        });
        Self {
            lease_ms,
            latency_ms: map(self.latency_ms),
            timeout_ms: self.timeout_ms.map(|ms| map(ms).max(1)),
            events: events.collect(),
            ..*self
        }
    }

    /// Returns the scenario as JSON, with one event per line.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut head = self.clone();
        let events = std::mem::take(&mut head.events);
        let line = |event: &Event| format!("    {}", json(event));
        let events: Vec<String> = events.iter().map(line).collect();
        let head = json(&head);
        let head = head.strip_suffix("[]}").unwrap_or(&head);
        format!("{head}[\n{}\n]}}", events.join(",\n"))
    }

    /// Reads a scenario from its JSON form.
    ///
    /// # Errors
    /// If the text is not JSON, or not a scenario that can be played. The message tells the reason.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        let mut scenario: Self = serde_json::from_str(text)?;
        scenario.events.sort_by_key(|event| event.at_ms);
        match scenario.flaw() {
            Some(flaw) => Err(serde::de::Error::custom(flaw)),
            None => Ok(scenario),
        }
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|error| format!("\"{error}\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Lost;

    fn sample() -> Scenario {
        let op = |id, at_ms, op| Event {
            id,
            at_ms,
            happening: Happening::Op {
                actor: Actor::on(0),
                op,
            },
        };
        Scenario {
            seed: 7,
            lease_ms: 30_000,
            schedule: Schedule::Random,
            latency_ms: 2,
            timeout_ms: None,
            topology: Topology::ONE,
            events: vec![
                op(0, 250, Op::acquire(12_000)),
                Event {
                    id: 1,
                    at_ms: 400,
                    happening: Happening::Fault {
                        for_ms: 9_000,
                        fault: Fault::Cut {
                            host: 0,
                            node: None,
                            lost: Lost::Reply,
                        },
                    },
                },
                op(2, 33_000, Op::Release),
            ],
        }
    }

    #[test]
    fn json_round_trips_and_has_one_event_a_line() {
        let text = sample().to_json();
        assert_eq!(Scenario::from_json(&text).unwrap(), sample(), "{text}");
        assert_eq!(text.lines().count(), 5, "{text}");
        assert!(
            text.contains(r#""fault":"cut","host":0,"lost":"reply""#),
            "{text}"
        );
    }

    #[test]
    fn scaling_keeps_proportions() {
        let small = sample().scaled(300);
        assert_eq!(small.events[2].at_ms, 330);
        assert_eq!(small.events[1].until_ms(), 94);
        assert_eq!(sample().snapped().events[0].at_ms, 0);
    }

    #[test]
    fn a_server_that_crashes_is_away_for_a_millisecond_at_least() {
        let until = |fault, for_ms| {
            let happening = Happening::Fault { for_ms, fault };
            let event = Event {
                id: 0,
                at_ms: 17,
                happening,
            };
            (event.until_ms(), event.happening.to_string())
        };
        let crash = Fault::NodeCrash {
            node: 0,
            keeps: false,
        };
        let words = "n1 crashes and is back after 1 ms, empty".to_owned();
        assert_eq!(until(crash, 0), (18, words));
        assert_eq!(until(crash, 2).0, 19);
        assert_eq!(until(Fault::NodePause { node: 0 }, 0).0, 17);
    }

    #[test]
    fn work_past_the_lease_counts_as_a_nemesis() {
        assert_eq!(
            sample().nemeses().into_iter().collect::<Vec<_>>(),
            ["cut", "overwork"]
        );
    }
}
