//! How many scenarios the suite plays and judges in a second of one core.

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

/// The lease of the scenarios, milliseconds.
const LEASE_MS: u64 = 30_000;
/// How long a client holds the lock, milliseconds.
const HOLD_MS: u64 = 100;
/// How long each client waits for the lock at most, milliseconds.
const WAIT_MS: u64 = 12_000;
/// Time between two rounds, milliseconds: within it each client has the lock once.
const ROUND_MS: u64 = 600;

/// When in a round clients ask for the lock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Asking {
    /// All within a few milliseconds, so that all but one wait.
    Together,
    /// Each at a time that the seed decides, so that two of them meet in a third of the rounds.
    AtRandom,
}

/// A shape of scenarios.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// As it stands in the table.
    pub title: &'static str,
    /// How many clients want the lock at the same time.
    pub clients: u8,
    /// Number of acquisitions and releases of each client.
    pub cycles: u32,
    /// When they want it.
    pub asking: Asking,
    /// How many are to be played and judged in a second of one core, where there is a target.
    pub per_second_min: Option<f64>,
}

/// What is measured.
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
    /// The scenario of a seed: in each round every client has the lock once.
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

/// What was measured of a shape.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Scenarios played and judged.
    pub scenarios: u64,
    /// The same in a second of one core.
    pub per_second: f64,
    /// Grants per scenario.
    pub grants: f64,
    /// Polls of tasks per scenario.
    pub steps: f64,
}

/// A listed lock of ours.
///
/// # Errors
/// If there is none of this name.
pub fn subject(name: &str) -> Result<Box<dyn DynSubject>> {
    let mut all = SUBJECTS.iter().map(|row| (row.make)());
    all.find(|it| it.name() == name)
        .ok_or_else(|| format!("no lock of ours is called {name:?}").into())
}

/// Plays and judges scenarios for so long, on this thread alone.
///
/// # Errors
/// If a scenario cannot be played, or a judge accuses the lock.
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

/// The time that this thread has had a core, from the scheduler's account; where there is none, the
/// wall clock has to do.
fn cpu() -> Option<Duration> {
    let account = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos = account.split_ascii_whitespace().next()?.parse().ok()?;
    (nanos > 0).then(|| Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_are_what_their_titles_say() {
        let [contended, at_random, together] = SHAPES.map(|it| it.scenario(1, Topology::ONE));
        assert_eq!((contended.actors().len(), contended.events.len()), (3, 60));
        assert_eq!((at_random.actors().len(), at_random.events.len()), (2, 20));
        assert_eq!((together.actors().len(), together.events.len()), (2, 20));
    }

    #[test]
    fn at_random_two_clients_meet_in_a_third_of_the_rounds() {
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
    fn everybody_gets_the_lock_each_time() {
        let lock = subject("mutex").expect("it is ours");
        for shape in SHAPES {
            let judged = judge(&*lock, &Double, &shape.scenario(7, Topology::ONE))
                .expect("it can be played");
            let wanted = usize::from(shape.clients) * shape.cycles as usize;
            // The probe at the end has it once more.
            assert_eq!(judged.run.history.beliefs().len(), wanted + 1, "{shape:?}");
        }
    }
}
