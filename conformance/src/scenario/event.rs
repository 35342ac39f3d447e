//! The script of a run: what each actor does and which faults strike, at absolute times.
//!
//! A scenario says everything about a run. Absolute times and draws that are hashed per event
//! (see `simulation::chance`) mean that deleting an event shifts nothing else.

use super::{Capability, Fault, Op};
use crate::history::{Actor, OpId, REQUESTS_PER_LEASE};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, time::Duration};

/// A scenario: a pure function of its seed when generated, a file when saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scenario {
    /// Feeds all draws of the run: schedule, latency, tokens, jitter.
    pub seed: u64,
    /// The lease that the lock is opened with, in milliseconds.
    pub lease_ms: u64,
    /// How the next task is chosen.
    #[serde(default)]
    pub schedule: Schedule,
    /// Every message takes 0 to this many milliseconds, drawn per message.
    #[serde(default)]
    pub latency_ms: u64,
    /// For how long a request waits for its reply, in milliseconds; a sixth of the lease if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The servers.
    #[serde(default, skip_serializing_if = "Topology::is_one")]
    pub topology: Topology,
    /// What happens, in the order of its time.
    pub events: Vec<Event>,
}

/// The servers that a lock runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Topology {
    /// So many servers that know nothing of each other; at least 1, at most 64.
    Nodes(u8),
    /// A master with so many replicas. Clients dial one address, which leads to the master.
    Replicated {
        /// How many replicas, at least 1.
        replicas: u8,
    },
}

impl Default for Topology {
    fn default() -> Self {
        Self::ONE
    }
}

impl Topology {
    /// One server.
    pub const ONE: Self = Self::Nodes(1);

    /// Whether it is one server.
    #[must_use]
    pub fn is_one(&self) -> bool {
        *self == Self::ONE
    }

    /// How many addresses there are for clients.
    #[must_use]
    pub const fn addresses(self) -> u8 {
        match self {
            Self::Nodes(count) => count,
            Self::Replicated { .. } => 1,
        }
    }

    /// How many servers there are.
    #[must_use]
    pub const fn servers(self) -> u8 {
        match self {
            Self::Nodes(count) => count,
            Self::Replicated { replicas } => 1 + replicas,
        }
    }

    /// What a backend must be able to do for it.
    #[must_use]
    pub const fn needs(self) -> Option<Capability> {
        match self {
            Self::Nodes(0 | 1) => None,
            Self::Nodes(_) => Some(Capability::SeveralNodes),
            Self::Replicated { .. } => Some(Capability::Replicas),
        }
    }
}

/// How the scheduler picks the next task among those that can run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// In the order in which they were woken.
    Fifo,
    /// Every wake-up draws a place in the queue.
    #[default]
    Random,
    /// Every task has one priority, redrawn at random points (probabilistic concurrency testing).
    Pct,
}

/// An operation or a fault with its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Names the event; operations are recorded under it.
    pub id: OpId,
    /// True time of its start in milliseconds.
    pub at_ms: u64,
    /// What happens.
    #[serde(flatten)]
    pub happening: Happening,
}

/// What an event is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Happening {
    /// An actor does something. It begins when the actor's previous operation has ended.
    Op {
        /// Who.
        actor: Actor,
        /// What.
        #[serde(flatten)]
        op: Op,
    },
    /// A fault strikes and lasts.
    Fault {
        /// How long it lasts in milliseconds.
        for_ms: u64,
        /// Which fault.
        #[serde(flatten)]
        fault: Fault,
    },
}

impl Event {
    /// True time of its start.
    #[must_use]
    pub const fn at(&self) -> Duration {
        Duration::from_millis(self.at_ms)
    }

    /// True time of its end; operations end for themselves.
    #[must_use]
    pub const fn until_ms(&self) -> u64 {
        match &self.happening {
            Happening::Op { .. } => self.at_ms,
            Happening::Fault { fault, .. } if fault.is_instant() => self.at_ms,
            Happening::Fault { for_ms, .. } => self.at_ms + *for_ms,
        }
    }

    /// The client process that it concerns, if it does one.
    #[must_use]
    pub fn host(&self) -> Option<u8> {
        match &self.happening {
            Happening::Op { actor, .. } => Some(actor.host),
            Happening::Fault { fault, .. } => fault.host(),
        }
    }
}

impl Scenario {
    /// For how long a request waits for its reply.
    #[must_use]
    pub fn request_timeout(&self) -> Duration {
        let drawn = self.timeout_ms.map(Duration::from_millis);
        drawn.unwrap_or_else(|| self.lease() / REQUESTS_PER_LEASE)
    }

    /// The lease.
    #[must_use]
    pub const fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    /// All actors, in order.
    #[must_use]
    pub fn actors(&self) -> BTreeSet<Actor> {
        self.ops().map(|(_, actor, _)| actor).collect()
    }

    /// All client processes that operations or faults mention.
    #[must_use]
    pub fn hosts(&self) -> BTreeSet<u8> {
        self.events.iter().filter_map(Event::host).collect()
    }

    /// What a backend must be able to do to play it.
    #[must_use]
    pub fn needs(&self) -> BTreeSet<Capability> {
        let faults = self.faults().filter_map(|(.., fault)| fault.needs());
        faults.chain(self.topology.needs()).collect()
    }

    /// The operations.
    pub fn ops(&self) -> impl Iterator<Item = (&Event, Actor, Op)> {
        self.events
            .iter()
            .filter_map(|event| match event.happening {
                Happening::Op { actor, op } => Some((event, actor, op)),
                Happening::Fault { .. } => None,
            })
    }

    /// The faults with their start and end in milliseconds.
    pub fn faults(&self) -> impl Iterator<Item = (u64, u64, Fault)> {
        self.events
            .iter()
            .filter_map(|event| match event.happening {
                Happening::Fault { fault, .. } => Some((event.at_ms, event.until_ms(), fault)),
                Happening::Op { .. } => None,
            })
    }

    /// The time at which the last event is over, in milliseconds.
    #[must_use]
    pub fn end_ms(&self) -> u64 {
        self.events.iter().map(Event::until_ms).max().unwrap_or(0)
    }

    /// The names of what strikes in this scenario, work longer than the lease included.
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

    /// The same scenario with another lease, all times in proportion.
    #[must_use]
    pub fn scaled(&self, lease_ms: u64) -> Self {
        let scale = |ms: u64| ms * lease_ms / self.lease_ms.max(1);
        self.mapped(lease_ms, scale)
    }

    /// The same scenario with all times rounded to multiples of a sixth of the lease.
    ///
    /// Times that close together on a real server would be decided by the machine's mood.
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

    /// The scenario as JSON, one event a line.
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
    /// If the text is not JSON or not a scenario.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
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
    fn work_past_the_lease_counts_as_a_nemesis() {
        assert_eq!(
            sample().nemeses().into_iter().collect::<Vec<_>>(),
            ["cut", "overwork"]
        );
    }
}
