//! The number of scenarios that the suite plays and judges per second of one core.

use crate::Result;
use redouble_conformance::{
    backend::Double,
    history::Actor,
    runner::judge,
    scenario::{Event, Happening, Op, Scenario, Schedule, Topology},
    subject::{DynSubject, SUBJECTS},
};
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::time::{Duration, Instant};

/// Lease of the scenarios, in milliseconds.
const LEASE_MS: u64 = 30_000;
/// Time for which a client holds the lock, in milliseconds.
const HOLD_MS: u64 = 100;
/// Longest wait of a client for the lock, in milliseconds.
const WAIT_MS: u64 = 12_000;
/// Length of a round, in milliseconds: in each round every client holds the lock once.
const ROUND_MS: u64 = 600;

/// Times at which clients ask for the lock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Asking {
    /// All within a few milliseconds, so that all but one wait.
    Together,
    /// Each at a time drawn from the seed, so that two clients compete in a third of the rounds.
    AtRandom,
}

/// A shape of scenarios.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Title in the table.
    pub title: &'static str,
    /// Number of clients that compete for the lock.
    pub clients: u8,
    /// Number of acquisitions and releases of each client.
    pub cycles: u32,
    /// Times at which they ask for the lock.
    pub asking: Asking,
    /// Target of scenarios per second of one core, if there is one.
    pub per_second_min: Option<f64>,
}

/// The measured shapes.
pub const SHAPES: [Shape; 3] = [
    Shape {
        title: "three clients, ten cycles each, contended",
        clients: 3,
        cycles: 10,
        asking: Asking::Together,
        per_second_min: Some(1_000.0),
    },
    Shape {
        title: "twenty steps, two clients, at random times",
        clients: 2,
        cycles: 5,
        asking: Asking::AtRandom,
        per_second_min: Some(5_000.0),
    },
    Shape {
        title: "twenty steps, two clients, contended",
        clients: 2,
        cycles: 5,
        asking: Asking::Together,
        per_second_min: None,
    },
];

impl Shape {
    /// Makes the scenario of a seed: in each round every client holds the lock once.
    #[must_use]
    pub fn scenario(&self, seed: u64, topology: Topology) -> Scenario {
        let mut events = Vec::new();
        for cycle in 0..self.cycles {
            for host in 0..self.clients {
                let into = match self.asking {
                    Asking::Together => u64::from(host) * 3,
                    Asking::AtRandom => {
                        BuildHasherDefault::<DefaultHasher>::default().hash_one((seed, cycle, host))
                            % (ROUND_MS - HOLD_MS)
                    }
                };
                let begins = u64::from(cycle) * ROUND_MS + into;
                let ops = [
                    (begins, Op::acquire(WAIT_MS)),
                    (begins + HOLD_MS, Op::Release),
                ];
                for (at_ms, op) in ops {
                    let actor = Actor::on(host);
                    events.push((at_ms, Happening::Op { actor, op }));
                }
            }
        }
        events.sort_by_key(|&(at_ms, _)| at_ms);
        let events = (0..).zip(events);
        Scenario {
            seed,
            lease_ms: LEASE_MS,
            schedule: Schedule::Random,
            latency_ms: 2,
            timeout_ms: None,
            topology,
            events: events
                .map(|(id, (at_ms, happening))| Event {
                    id,
                    at_ms,
                    happening,
                })
                .collect(),
        }
    }
}

/// Measured rate of a shape.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Number of scenarios played and judged.
    pub scenarios: u64,
    /// Number of scenarios per second of one core.
    pub per_second: f64,
    /// Grants per scenario.
    pub grants: f64,
    /// Polls of tasks per scenario.
    pub steps: f64,
}

/// Returns a listed lock of redouble-lock.
///
/// # Errors
/// If there is none with this name.
pub fn subject(name: &str) -> Result<Box<dyn DynSubject>> {
    let mut all = SUBJECTS.iter().map(|row| (row.make)());
    all.find(|it| it.name() == name)
        .ok_or_else(|| format!("no lock of ours is called {name:?}").into())
}

/// Plays and judges scenarios for a time, on this thread alone.
///
/// # Errors
/// If a scenario cannot be played, or a checker reports a violation.
pub fn pace(shape: Shape, lock: &dyn DynSubject, seeds: &mut u64, time: Duration) -> Result<Pace> {
    let (began, spent) = (Instant::now(), cpu());
    let (mut scenarios, mut grants, mut steps) = (0, 0, 0);
    while began.elapsed() < time {
        let scenario = shape.scenario(*seeds, lock.promises().topology);
        let judged = judge(lock, &Double, &scenario)?;
        let broken = judged
            .findings
            .iter()
            .find(|(_, it)| it.witness().is_some());
        if let Some((property, finding)) = broken {
            let seed = *seeds;
            return Err(format!("seed {seed} breaks {property}: {finding:?}").into());
        }
        *seeds += 1;
        scenarios += 1;
        steps += judged.run.steps;
        grants += u64::try_from(judged.run.history.beliefs().len())?;
    }
    let took = match (spent, cpu()) {
        (Some(before), Some(after)) => after.saturating_sub(before),
        _ => began.elapsed(),
    };
    let per_scenario = |sum: u64| sum as f64 / scenarios as f64;
    Ok(Pace {
        scenarios,
        per_second: scenarios as f64 / took.as_secs_f64(),
        grants: per_scenario(grants),
        steps: per_scenario(steps),
    })
}

/// Returns the time for which this thread had a core, from the scheduler's statistics, or else real time.
fn cpu() -> Option<Duration> {
    let account = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos = account.split_ascii_whitespace().next()?.parse().ok()?;
    (nanos > 0).then(|| Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_match_their_titles() {
        let [contended, at_random, together] = SHAPES.map(|it| it.scenario(1, Topology::ONE));
        assert_eq!((contended.actors().len(), contended.events.len()), (3, 60));
        assert_eq!((at_random.actors().len(), at_random.events.len()), (2, 20));
        assert_eq!((together.actors().len(), together.events.len()), (2, 20));
    }

    #[test]
    fn at_random_two_clients_compete_in_a_third_of_the_rounds() {
        let [_, shape, _] = SHAPES;
        let rounds = (0..1000).flat_map(|seed| {
            let scenario = shape.scenario(seed, Topology::ONE);
            let mut asked: Vec<_> = scenario.events.into_iter().filter(asks).collect();
            asked.sort_by_key(|it| it.at_ms / ROUND_MS);
            asked
                .chunks(2)
                .map(|two| two[0].at_ms.abs_diff(two[1].at_ms))
                .collect::<Vec<_>>()
        });
        let met = rounds.filter(|&apart| apart < HOLD_MS).count();
        assert!((1_700..1_900).contains(&met), "{met} of 5000");
    }

    fn asks(event: &Event) -> bool {
        matches!(event.happening, Happening::Op { op, .. } if op != Op::Release)
    }

    #[test]
    fn every_client_acquires_the_lock_in_each_round() {
        let lock = subject("mutex").expect("it is ours");
        for shape in SHAPES {
            let judged = judge(&*lock, &Double, &shape.scenario(7, Topology::ONE))
                .expect("it can be played");
            let wanted = usize::from(shape.clients) * shape.cycles as usize;
            // The probe at the end acquires it once more.
            assert_eq!(judged.run.history.beliefs().len(), wanted + 1, "{shape:?}");
        }
    }
}
