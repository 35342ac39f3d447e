//! How many scenarios the suite plays and judges in a second of one core.

use crate::Result;
use redouble_conformance::{
    backend::Double,
    history::Actor,
    runner::judge,
    scenario::{Event, Happening, Op, Scenario, Schedule, Topology},
    subject::{SUBJECTS, Suspect},
};
use std::time::{Duration, Instant};

/// The lease of the scenarios, milliseconds.
const LEASE_MS: u64 = 30_000;
/// How long somebody holds the lock, milliseconds.
const HOLD_MS: u64 = 100;
/// How long everybody is ready to wait, milliseconds.
const WAIT_MS: u64 = 12_000;
/// Time between two rounds, milliseconds: in it everybody has the lock once.
const ROUND_MS: u64 = 600;

/// A shape of scenarios.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// As it stands in the table.
    pub title: &'static str,
    /// How many clients want the lock at the same time.
    pub clients: u8,
    /// How often each takes it and gives it back.
    pub cycles: u32,
    /// How many are to be played and judged in a second of one core.
    pub per_second_min: f64,
}

/// What is measured.
pub const SHAPES: [Shape; 2] = [
    Shape {
        title: "three clients, ten cycles each, contended",
        clients: 3,
        cycles: 10,
        per_second_min: 1_000.0,
    },
    Shape {
        title: "twenty steps, two clients",
        clients: 2,
        cycles: 5,
        per_second_min: 5_000.0,
    },
];

impl Shape {
    /// The scenario of a seed: in each round all clients ask within a few milliseconds.
    #[must_use]
    pub fn scenario(&self, seed: u64, topology: Topology) -> Scenario {
        let mut events = Vec::new();
        for cycle in 0..self.cycles {
            for host in 0..self.clients {
                let begins = u64::from(cycle) * ROUND_MS + u64::from(host) * 3;
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
pub fn subject(name: &str) -> Result<Box<dyn Suspect>> {
    let mut all = SUBJECTS.iter().map(|row| (row.make)());
    all.find(|it| it.name() == name)
        .ok_or_else(|| format!("no lock of ours is called {name:?}").into())
}

/// Plays and judges scenarios for so long, on this thread alone.
///
/// # Errors
/// If a scenario cannot be played, or a judge accuses the lock.
pub fn pace(shape: Shape, lock: &dyn Suspect, seeds: &mut u64, time: Duration) -> Result<Pace> {
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
        let [contended, small] = SHAPES;
        assert_eq!(contended.scenario(1, Topology::ONE).actors().len(), 3);
        assert_eq!(contended.scenario(1, Topology::ONE).events.len(), 60);
        assert_eq!(small.scenario(1, Topology::ONE).events.len(), 20);
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
