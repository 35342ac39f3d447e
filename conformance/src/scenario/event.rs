//! The script of a run: what each actor does and which faults strike, at absolute times.
//!
//! A scenario says everything about a run. Absolute times and draws that are hashed per event
//! (see `simulation::chance`) mean that deleting an event shifts nothing else.

use crate::history::{Actor, OpId};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, fmt, time::Duration};

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
    /// What happens, in the order of its time.
    pub events: Vec<Event>,
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

/// What an actor can do. An actor holds at most one grant; what makes no sense in its state
/// (releasing without a grant, acquiring with one) is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Op {
    /// Takes the lock if it is free.
    Try,
    /// Takes the lock, waiting for it.
    Acquire {
        /// The longest wait in milliseconds.
        wait_ms: u64,
    },
    /// Like `Acquire`, but the future is dropped at its k-th poll, if it gets there.
    Cancelled {
        /// The longest wait in milliseconds.
        wait_ms: u64,
        /// How often the future is polled at most.
        polls: u32,
    },
    /// Extends the grant by the lease.
    Renew,
    /// Gives the grant back.
    Release,
    /// Drops the guard.
    Drop,
}

/// What can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum Fault {
    /// The client process is not scheduled; clocks, timers and the network run on.
    Pause {
        /// Which process.
        host: u8,
    },
    /// Messages of one direction take longer; later ones wait behind them.
    Delay {
        /// Whose link.
        host: u8,
        /// Which way.
        direction: Direction,
        /// How much longer, in milliseconds.
        by_ms: u64,
    },
    /// The first message of the span ends the connection.
    Cut {
        /// Whose connection.
        host: u8,
        /// What is lost with it.
        lost: Lost,
    },
    /// The client process dies; after the span it starts anew.
    Crash {
        /// Which process.
        host: u8,
    },
    /// The monotonic clock of the client process gains or loses.
    Drift {
        /// Which process.
        host: u8,
        /// Microseconds gained per second.
        ppm: i64,
    },
}

/// A direction on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Client to server.
    Requests,
    /// Server to client.
    Replies,
}

/// What a cut connection takes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lost {
    /// The request: it never arrives.
    Request,
    /// The reply: the request was executed, nobody hears of it.
    Reply,
    /// The request for now: it arrives and is executed at the end of the span.
    Late,
}

impl Fault {
    /// The client process that it strikes.
    #[must_use]
    pub const fn host(self) -> u8 {
        match self {
            Self::Pause { host }
            | Self::Delay { host, .. }
            | Self::Cut { host, .. }
            | Self::Crash { host }
            | Self::Drift { host, .. } => host,
        }
    }

    /// The nemesis that makes such faults.
    #[must_use]
    pub const fn nemesis(self) -> &'static str {
        match self {
            Self::Pause { .. } => "pause",
            Self::Delay { .. } => "delay",
            Self::Cut { .. } => "cut",
            Self::Crash { .. } => "crash",
            Self::Drift { .. } => "drift",
        }
    }
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
            Happening::Fault { for_ms, .. } => self.at_ms + *for_ms,
        }
    }

    /// The client process that it concerns.
    #[must_use]
    pub const fn host(&self) -> u8 {
        match &self.happening {
            Happening::Op { actor, .. } => actor.host,
            Happening::Fault { fault, .. } => fault.host(),
        }
    }
}

impl Scenario {
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
        self.events.iter().map(Event::host).collect()
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
            match op {
                Op::Try | Op::Acquire { .. } | Op::Cancelled { .. } => {
                    since = since.or(Some(event.at_ms));
                }
                Op::Renew => since = since.and(Some(event.at_ms)),
                Op::Release | Op::Drop => {
                    if since
                        .take()
                        .is_some_and(|since| event.at_ms >= since + self.lease_ms)
                    {
                        return true;
                    }
                }
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
                    op: match op {
                        Op::Acquire { wait_ms } => Op::Acquire {
                            wait_ms: map(wait_ms),
                        },
                        Op::Cancelled { wait_ms, polls } => Op::Cancelled {
                            wait_ms: map(wait_ms),
                            polls,
                        },
                        Op::Try | Op::Renew | Op::Release | Op::Drop => op,
                    },
                },
                Happening::Fault { for_ms, fault } => Happening::Fault {
                    for_ms: map(for_ms),
                    fault: match fault {
                        Fault::Delay {
                            host,
                            direction,
                            by_ms,
                        } => Fault::Delay {
                            host,
                            direction,
                            by_ms: map(by_ms),
                        },
                        Fault::Pause { .. }
                        | Fault::Cut { .. }
                        | Fault::Crash { .. }
                        | Fault::Drift { .. } => fault,
                    },
                },
            },
        });
        Self {
            lease_ms,
            latency_ms: map(self.latency_ms),
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

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Requests => "requests",
            Self::Replies => "replies",
        })
    }
}

/// A duration in milliseconds as people write it: `250 ms`, `7.5 s`.
struct Ms(u64);

impl fmt::Display for Ms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("0 s"),
            ms if ms < 1_000 => write!(f, "{ms} ms"),
            ms => write!(f, "{} s", ms as f64 / 1_000.0),
        }
    }
}

impl fmt::Display for Happening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Op { actor, op } => match op {
                Op::Try => write!(f, "{actor} tries to lock"),
                Op::Acquire { wait_ms } => {
                    write!(f, "{actor} locks, waiting up to {}", Ms(wait_ms))
                }
                Op::Cancelled { wait_ms, polls } => write!(
                    f,
                    "{actor} locks, waiting up to {}, and gives up at poll {polls}",
                    Ms(wait_ms)
                ),
                Op::Renew => write!(f, "{actor} renews"),
                Op::Release => write!(f, "{actor} releases"),
                Op::Drop => write!(f, "{actor} drops its guard"),
            },
            Self::Fault { for_ms, fault } => {
                let client = Actor::on(fault.host());
                let span = Ms(for_ms);
                match fault {
                    Fault::Pause { .. } => write!(f, "{client} is paused for {span}"),
                    Fault::Delay {
                        direction, by_ms, ..
                    } => {
                        write!(
                            f,
                            "for {span}, {direction} of {client} take {} longer",
                            Ms(by_ms)
                        )
                    }
                    Fault::Cut { lost, .. } => {
                        let what = match lost {
                            Lost::Request => "its request lost",
                            Lost::Reply => "its request executed, the reply lost",
                            Lost::Late => "its request executed at the end of the span",
                        };
                        write!(
                            f,
                            "within {span}, the connection of {client} is cut, {what}"
                        )
                    }
                    Fault::Crash { .. } => write!(f, "{client} dies and restarts after {span}"),
                    Fault::Drift { ppm, .. } => {
                        write!(f, "for {span}, the clock of {client} is off by {ppm} ppm")
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            events: vec![
                op(0, 250, Op::Acquire { wait_ms: 12_000 }),
                Event {
                    id: 1,
                    at_ms: 400,
                    happening: Happening::Fault {
                        for_ms: 9_000,
                        fault: Fault::Cut {
                            host: 0,
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
