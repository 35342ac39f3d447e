//! The fixed scenarios. On a real server each is played beside the double, and the two have to agree:
//! what they say of a lock must not depend on what stands in for Redis.

use super::{
    Counterexample, Judged, PLAYS, Plan, Played, Trial, conclusive, findings, judge, play, record,
    record_again,
};
use crate::{
    backend::{Backend, Blind, Double},
    checker::{Finding, Property},
    scenario::{
        Capability, Scenario,
        fixed::{self, Fixed},
    },
    simulation::RunError,
    subject::{DynSubject, Expected},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

/// How many orders of tasks have to lead to the same verdict on the double before a real server is held to
/// it: else it is a matter of chance.
const ORDERS: u64 = 8;

/// A verdict that so large a part of the lease would turn, added to whatever is timed, is too close for a
/// machine with gaps to tell.
const CLOSE: u32 = 12;

/// What came of the fixed scenarios.
#[derive(Clone, Debug, Default)]
pub struct FixedRuns {
    /// How many there were for such a lock.
    pub there: u64,
    /// How many were played to the end.
    pub played: u64,
    /// How many the backend cannot play, by what it lacks.
    pub unsupported: BTreeMap<Capability, u64>,
    /// How many the machine spoiled each time.
    pub inconclusive: u64,
    /// How many show nothing on the double that the lock is to be convicted of; only such are played
    /// on a real server.
    pub silent: u64,
    /// How many were played again on a real server, since a verdict was another there the first time.
    pub repeated: u64,
    /// How many verdicts were compared with those of the double.
    pub compared: u64,
    /// Those that were not the same.
    pub disagreements: Vec<Disagreement>,
}

/// A property that broke on one backend and held on the other, in the same scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// The scenario.
    pub scenario: &'static str,
    /// The property.
    pub property: Property,
    /// How it broke on the real server, if it did; else it did on the double.
    pub on_real: Option<String>,
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            scenario, property, ..
        } = self;
        match &self.on_real {
            Some(message) => write!(
                f,
                "{scenario}: {property} breaks on the real server, not on the double: {message}"
            ),
            None => write!(
                f,
                "{scenario}: {property} breaks on the double, not on the real server"
            ),
        }
    }
}

/// What a run says of the properties that can be judged on any backend: whether each broke.
type Verdicts = BTreeMap<Property, bool>;

/// What became of a scenario.
enum Outcome {
    Unsupported(BTreeSet<Capability>),
    Silent,
    Played(Box<Compared>),
}

/// A run beside what the double says of it, where there is another backend.
struct Compared {
    played: Played,
    on_double: Verdicts,
    /// How often it was played before, to another effect.
    repeats: u64,
}

/// Plays all fixed scenarios that are written for such a lock.
pub(super) fn play_all(
    trial: &mut Trial,
    subject: &dyn DynSubject,
    backend: &dyn Backend,
    plan: &Plan,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<(), RunError> {
    let wanted = |scenario: &Scenario| {
        let nemeses = scenario.nemeses();
        let chosen = |nemesis: &&str| plan.faults.iter().any(|it| it == nemesis);
        plan.faults.is_empty() || !nemeses.is_empty() && nemeses.iter().all(chosen)
    };
    let theirs = fixed::all().filter_map(|fixed| Some((fixed, fixed.scenario(trial.promises)?)));
    let theirs: Vec<(&Fixed, Scenario)> = theirs.filter(|(_, it)| wanted(it)).collect();
    trial.fixed.there = theirs.len() as u64;
    let play_one = |(_, scenario): &(&'static Fixed, Scenario)| {
        let outcome = one(subject, trial.expected, backend, plan, scenario);
        progress(1);
        outcome
    };
    let outcomes = side_by_side(plan, &theirs, play_one);
    for ((fixed, scenario), outcome) in theirs.iter().zip(outcomes) {
        match outcome.transpose()? {
            None => trial.enough = false,
            Some(Outcome::Unsupported(lacking)) => {
                for need in lacking {
                    *trial.fixed.unsupported.entry(need).or_default() += 1;
                }
            }
            Some(Outcome::Silent) => trial.fixed.silent += 1,
            Some(Outcome::Played(compared)) => note(trial, fixed.name, scenario, *compared),
        }
    }
    Ok(())
}

/// Does something with each of the items on several threads; `None` where the time was up.
fn side_by_side<T: Sync, U: Send>(
    plan: &Plan,
    items: &[T],
    work: impl Fn(&T) -> U + Sync,
) -> Vec<Option<U>> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            match items.get(at) {
                Some(item) if !plan.is_over() => done.push((at, work(item))),
                Some(_) | None => return done,
            }
        }
    };
    let mut all: Vec<Option<U>> = items.iter().map(|_| None).collect();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..plan.jobs.max(1)).map(|_| scope.spawn(worker)).collect();
        for worker in workers {
            match worker.join() {
                Ok(done) => done.into_iter().for_each(|(at, it)| all[at] = Some(it)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    all
}

fn one(
    subject: &dyn DynSubject,
    expected: Expected,
    backend: &dyn Backend,
    plan: &Plan,
    scenario: &Scenario,
) -> Result<Outcome, RunError> {
    let needs = scenario.needs().into_iter();
    let can = |need| backend.can(need) && subject.can(need);
    let lacking: BTreeSet<Capability> = needs.filter(|&need| !can(need)).collect();
    if !lacking.is_empty() {
        return Ok(Outcome::Unsupported(lacking));
    }
    if backend.virtual_time() {
        return Ok(Outcome::Played(Box::new(Compared {
            played: play(subject, backend, scenario.clone())?,
            on_double: Verdicts::new(),
            repeats: 0,
        })));
    }
    let on_double = foretold(subject, plan, scenario)?;
    let breaks = |property: &Property| on_double.get(property) == Some(&true);
    if let Expected::Convicted(of) = expected
        && !of.iter().any(breaks)
    {
        return Ok(Outcome::Silent);
    }
    let (mut repeats, mut spoiled) = (0, 0);
    loop {
        let mut played = conclusive(subject, backend, scenario.clone())?;
        spoiled += played.spoiled;
        let differs = |judged: &Judged| {
            let said = verdicts(&judged.findings, plan);
            differing(&said, &on_double).next().is_some()
        };
        if repeats + 1 < PLAYS && played.judged.as_ref().is_some_and(differs) {
            repeats += 1;
            continue;
        }
        played.spoiled = spoiled;
        return Ok(Outcome::Played(Box::new(Compared {
            played,
            on_double,
            repeats,
        })));
    }
}

/// The properties on which the two runs disagree.
fn differing(said: &Verdicts, foretold: &Verdicts) -> impl Iterator<Item = Property> {
    let other = |(property, broke): (&Property, &bool)| {
        let told = foretold.get(property)?;
        (told != broke).then_some(*property)
    };
    said.iter().filter_map(other)
}

/// What the double says of a scenario without looking into its servers, whatever the order of tasks, and
/// not by a hair's breadth.
fn foretold(
    subject: &dyn DynSubject,
    plan: &Plan,
    scenario: &Scenario,
) -> Result<Verdicts, RunError> {
    let mut common: Option<Verdicts> = None;
    for seed in 0..ORDERS {
        let scenario = Scenario {
            seed,
            ..scenario.clone()
        };
        let judged = judge(subject, &Blind(Double), &scenario)?;
        let mut said = verdicts(&judged.findings, plan);
        let mut lenient = judged.run.history;
        lenient.terms.slack = scenario.lease() / CLOSE;
        let leniently = verdicts(&findings(&lenient), plan);
        // What the history cannot know of stays as it is.
        said.retain(|property, broke| {
            *property == Property::NoPanics || leniently.get(property) == Some(broke)
        });
        if let Some(before) = common {
            said.retain(|property, broke| before.get(property) == Some(broke));
        }
        common = Some(said);
    }
    Ok(common.unwrap_or_default())
}

fn verdicts(findings: &[(Property, Finding)], plan: &Plan) -> Verdicts {
    let asked = findings.iter();
    let asked = asked.filter(|(it, _)| plan.judges(*it) && !it.needs_observation());
    asked
        .filter_map(|(property, finding)| match finding {
            Finding::Valid => Some((*property, false)),
            Finding::Violation(_) => Some((*property, true)),
            Finding::Unknown(_) => None,
        })
        .collect()
}

/// Counts a run, and compares what it says with what the double says.
fn note(trial: &mut Trial, name: &'static str, scenario: &Scenario, compared: Compared) {
    let Compared {
        played,
        on_double,
        repeats,
    } = compared;
    trial.inconclusive += played.spoiled;
    trial.fixed.repeated += repeats;
    let Some(judged) = played.judged else {
        trial.fixed.inconclusive += 1;
        return;
    };
    trial.fixed.played += 1;
    let said = verdicts(&judged.findings, &trial.plan);
    let both = said
        .keys()
        .filter(|property| on_double.contains_key(property));
    trial.fixed.compared += both.count() as u64;
    for property in differing(&said, &on_double) {
        let witness = judged.witness(property);
        trial.fixed.disagreements.push(Disagreement {
            scenario: name,
            property,
            on_real: witness.map(|witness| witness.message.clone()),
        });
    }
    let broken = record(trial, scenario.seed, scenario, &judged);
    let mut convicting = vec![(scenario.clone(), judged, broken)];
    for (without, judged, broken) in played.again {
        let broken = record_again(trial, scenario, broken);
        convicting.push((without, judged, broken));
    }
    for (small, judged, broken) in convicting {
        for property in broken {
            let known = trial.counterexamples.iter();
            if !known.map(|it| it.property).any(|it| it == property) {
                trial.counterexamples.push(Counterexample {
                    property,
                    seed: scenario.seed,
                    fixed: Some(name),
                    events_before: scenario.events.len(),
                    scenario: small.clone(),
                    shrink_runs: 0,
                    judged: judged.clone(),
                });
            }
        }
    }
}
