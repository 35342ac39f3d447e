//! Shrinks a failing scenario while it breaks the same property.
//!
//! proptest shrinks the random choices behind a scenario. These passes shrink the scenario itself, which ends
//! much smaller: fewer faults, fewer clients, fewer events, weaker faults, round numbers. All draws of a run
//! are named by their purpose, so dropping one event leaves the rest of the run as it was.

use super::{Event, Happening, Scenario, Schedule, chance};
use crate::vocabulary::OpId;
use std::collections::BTreeMap;

/// Largest number of runs of one shrinking.
const RUNS_MAX: u32 = 3_000;
/// Number of events that a reader grasps at a glance. Larger scenarios get more attempts.
pub(crate) const EVENTS_READABLE: usize = 8;
/// Number of other draws under which a scenario without an event is played again.
const OTHER_DRAWS: u64 = 8;

/// A shrunk scenario.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The shrunk scenario, which still fails.
    pub scenario: Scenario,
    /// Number of runs that the shrinking took.
    pub runs: u32,
}

/// Shrinks a scenario. `fails` returns true if a candidate still fails in the same way.
pub fn shrink(scenario: &Scenario, fails: impl FnMut(&Scenario) -> bool) -> Shrunk {
    let mut search = Search {
        best: scenario.clone(),
        fails,
        runs: 0,
        rounded: false,
    };
    search.settle();
    while search.best.events.len() > EVENTS_READABLE && search.try_harder() {
        search.settle();
    }
    search.renumber();
    Shrunk {
        scenario: search.best,
        runs: search.runs,
    }
}

struct Search<F> {
    best: Scenario,
    fails: F,
    runs: u32,
    /// True if times were rounded. Rounding again would undo the pass that compacts them.
    rounded: bool,
}

impl<F: FnMut(&Scenario) -> bool> Search<F> {
    /// Applies all passes until none of them helps.
    fn settle(&mut self) {
        loop {
            let before = self.best.clone();
            self.drop_clients();
            self.drop_events();
            self.merge_nodes();
            self.calm();
            self.simplify_ops();
            self.weaken();
            if !std::mem::replace(&mut self.rounded, true) {
                self.round();
            }
            self.compact();
            if self.best == before || self.runs >= RUNS_MAX {
                return;
            }
        }
    }

    /// Drops one event, or two separate ones, under the same draws or others; true if the scenario still
    /// fails.
    fn try_harder(&mut self) -> bool {
        let count = self.best.events.len();
        let pairs =
            (0..count).flat_map(|first| (first + 1..count).map(move |second| (first, second)));
        let singles = (0..count).map(|it| (it, it));
        let seed = self.best.seed;
        let draws: Vec<u64> = (1..=OTHER_DRAWS)
            .map(|nth| chance::draw([seed, nth]))
            .collect();
        for (first, second) in singles.chain(pairs) {
            let mut events = self.best.events.clone();
            events.remove(second);
            if first != second {
                events.remove(first);
            }
            for &seed in [seed].iter().chain(&draws) {
                let candidate = Scenario {
                    seed,
                    events: events.clone(),
                    ..self.best.clone()
                };
                if self.offer(candidate) {
                    return true;
                }
            }
        }
        false
    }

    /// Accepts a candidate if it differs and still fails.
    fn offer(&mut self, mut candidate: Scenario) -> bool {
        candidate.events.sort_by_key(|event| event.at_ms);
        if candidate == self.best || self.runs >= RUNS_MAX {
            return false;
        }
        self.runs += 1;
        let taken = (self.fails)(&candidate);
        if taken {
            self.best = candidate;
        }
        taken
    }

    fn offer_events(&mut self, events: Vec<Event>) -> bool {
        let candidate = Scenario {
            events,
            ..self.best.clone()
        };
        self.offer(candidate)
    }

    fn drop_clients(&mut self) {
        for host in self.best.hosts() {
            let events = self
                .best
                .events
                .iter()
                .filter(|event| event.host() != Some(host));
            self.offer_events(events.cloned().collect());
        }
        for actor in self.best.actors() {
            let others = self
                .best
                .events
                .iter()
                .filter(|event| match event.happening {
                    Happening::Op { actor: theirs, .. } => theirs != actor,
                    Happening::Fault { .. } => true,
                });
            self.offer_events(others.cloned().collect());
        }
    }

    /// Drops sequences of events, long ones first (delta debugging).
    fn drop_events(&mut self) {
        let mut chunk = self.best.events.len().div_ceil(2);
        while chunk > 0 {
            let mut start = 0;
            while start < self.best.events.len() {
                let mut events = self.best.events.clone();
                events.drain(start..(start + chunk).min(events.len()));
                if !self.offer_events(events) {
                    start += chunk;
                }
            }
            chunk = if chunk == 1 { 0 } else { chunk.div_ceil(2) };
        }
    }

    /// Moves the faults of one node to another. The number of nodes stays: it is a part of the lock.
    fn merge_nodes(&mut self) {
        let count = self.best.topology.servers();
        for node in (1..count).rev() {
            for to in 0..node {
                let mut events = self.best.events.clone();
                for event in &mut events {
                    if let Happening::Fault { fault, .. } = &mut event.happening {
                        *fault = fault.with_node(|of| if of == node { to } else { of });
                    }
                }
                if self.offer_events(events) {
                    break;
                }
            }
        }
    }

    fn calm(&mut self) {
        self.offer(Scenario {
            latency_ms: 0,
            ..self.best.clone()
        });
        self.offer(Scenario {
            timeout_ms: None,
            ..self.best.clone()
        });
        self.offer(Scenario {
            schedule: Schedule::Fifo,
            ..self.best.clone()
        });
    }

    /// Offers a change of each event, one after another.
    fn each(&mut self, change: impl Fn(&mut Event)) {
        for index in 0..self.best.events.len() {
            let mut events = self.best.events.clone();
            if let Some(event) = events.get_mut(index) {
                change(event);
                self.offer_events(events);
            }
        }
    }

    fn simplify_ops(&mut self) {
        for nth in 0..2 {
            self.each(|event| {
                if let Happening::Op { op, .. } = &mut event.happening {
                    *op = op.simpler().get(nth).copied().unwrap_or(*op);
                }
            });
        }
    }

    fn weaken(&mut self) {
        let sixth = self.best.lease_ms / 6;
        let shorter: [fn(u64, u64) -> u64; 2] = [|ms, _| ms / 2, u64::saturating_sub];
        for shorten in shorter {
            self.each(|event| {
                if let Happening::Fault { for_ms, .. } = &mut event.happening {
                    *for_ms = shorten(*for_ms, sixth);
                }
            });
        }
        self.each(|event| {
            if let Happening::Fault { fault, .. } = &mut event.happening {
                *fault = fault.weaker();
            }
        });
    }

    /// Rounds all times together, then each alone, to the coarsest part of the lease that still fails.
    fn round(&mut self) {
        for parts in [1, 2, 6, 30] {
            let grid = (self.best.lease_ms / parts).max(1);
            let nearest = move |ms: u64| (ms + grid / 2) / grid * grid;
            let upwards = move |ms: u64| ms.div_ceil(grid) * grid;
            for round in [round_start, round_length] {
                self.each(|event| round(event, &nearest));
                self.each(|event| round(event, &upwards));
            }
        }
    }

    /// Moves all events from some event on to an earlier time.
    fn compact(&mut self) {
        for index in 0..self.best.events.len() {
            let events = &self.best.events;
            let before = if index == 0 {
                0
            } else {
                events[index - 1].at_ms
            };
            let gap = events[index].at_ms - before;
            for by in [gap, gap / 2, self.best.lease_ms / 6] {
                let mut events = self.best.events.clone();
                let tail = events.get_mut(index..).unwrap_or_default();
                if by == 0 || by > gap {
                    continue;
                }
                tail.iter_mut().for_each(|event| event.at_ms -= by);
                if self.offer_events(events) {
                    break;
                }
            }
        }
    }

    /// Renumbers clients and events from 0. The draws change with the names, so the scenario may stop
    /// failing.
    fn renumber(&mut self) {
        let mut events = self.best.events.clone();
        for (event, id) in events.iter_mut().zip(0 as OpId..) {
            event.id = id;
        }
        self.offer_events(events);
        let mut names: BTreeMap<u8, u8> = BTreeMap::new();
        let mut events = self.best.events.clone();
        for event in &mut events {
            let mut name = |host| {
                let next = u8::try_from(names.len()).unwrap_or(u8::MAX);
                *names.entry(host).or_insert(next)
            };
            match &mut event.happening {
                Happening::Op { actor, .. } => actor.host = name(actor.host),
                Happening::Fault { fault, .. } => *fault = fault.with_host(name),
            }
        }
        self.offer_events(events);
    }
}

fn round_start(event: &mut Event, round: &dyn Fn(u64) -> u64) {
    event.at_ms = round(event.at_ms);
}

fn round_length(event: &mut Event, round: &dyn Fn(u64) -> u64) {
    match &mut event.happening {
        Happening::Fault { for_ms, .. } => *for_ms = round(*for_ms),
        Happening::Op { op, .. } => *op = op.map_ms(round),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::generate::{Generator, Timing};
    use crate::scenario::{Fault, Op};

    #[test]
    fn only_what_the_failure_needs_stays() {
        // The predicate holds if a client is paused for a third of the lease before another client releases.
        let fails = |scenario: &Scenario| {
            scenario.faults().any(|(from, to, fault)| {
                let releases = scenario.ops().any(|(event, actor, op)| {
                    op == Op::Release && Some(actor.host) != fault.host() && event.at_ms > to
                });
                matches!(fault, Fault::Pause { .. }) && to - from >= 10_000 && releases
            })
        };
        let generator = Generator::new(Some("pause")).timed(Timing::Lease(30_000));
        let failing = (0..)
            .map(|seed| generator.scenario(seed))
            .find(&fails)
            .unwrap();
        let Shrunk { scenario, .. } = shrink(&failing, fails);
        let events: Vec<String> = scenario
            .events
            .iter()
            .map(|event| format!("{} {}", event.at_ms, event.happening))
            .collect();
        assert_eq!(
            events,
            ["0 c1 is paused for 10 s", "11250 c2 releases"],
            "{scenario:?}"
        );
        assert_eq!(
            (scenario.latency_ms, scenario.schedule),
            (0, Schedule::Fifo)
        );
    }
}
