//! The fixed scenarios. On a real server each is also played on the double, and the two verdicts have to
//! agree: they must not depend on the backend.

use super::{
    Counterexample, Judged, PLAYS, Plan, Played, Trial, conclusive, findings, judge, play, record,
    record_again,
};
use crate::{
    backend::{Backend, Blind, Double},
    checker::{Finding, Property},
    scenario::{
        Scenario,
        fixed::{self, Fixed},
    },
    simulation::RunError,
    subject::{DynSubject, Expected},
    vocabulary::Capability,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

/// Number of task orders that have to give the same verdict on the double before the real server has to give
/// it too. Otherwise the verdict depends on chance.
const ORDERS: u64 = 8;

/// Part of a lease by which a verdict must not depend on times: 12 means a twelfth. A closer verdict depends
/// on gaps of the machine.
const CLOSE: u32 = 12;

/// Results of the fixed scenarios.
#[derive(Clone, Debug, Default)]
pub struct FixedRuns {
    /// Number of scenarios for such a lock.
    pub there: u64,
    /// Number of scenarios that were played to the end.
    pub played: u64,
    /// Number of scenarios that the backend cannot play, by missing capability.
    pub unsupported: BTreeMap<Capability, u64>,
    /// Number of scenarios that the machine spoiled in every repetition.
    pub inconclusive: u64,
    /// Number of scenarios that show no expected violation on the double. On a real server only the others
    /// are played.
    pub silent: u64,
    /// Number of scenarios that were repeated on a real server because a verdict differed there at first.
    pub repeated: u64,
    /// Number of verdicts that were compared with the double's.
    pub compared: u64,
    /// Verdicts that differed.
    pub disagreements: Vec<Disagreement>,
}

/// A property that broke on one backend and held on the other, in the same scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// The scenario.
    pub scenario: &'static str,
    /// The property.
    pub property: Property,
    /// Message of the violation on the real server; `None` if the property broke on the double.
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

/// Verdicts on the properties that can be judged on any backend: true if the property broke.
type Verdicts = BTreeMap<Property, bool>;

/// Outcome of a scenario.
enum Outcome {
    Unsupported(BTreeSet<Capability>),
    Silent,
    Played(Box<Compared>),
}

/// A run, and the verdict of the double if there is another backend.
struct Compared {
    played: Played,
    on_double: Verdicts,
    /// Number of earlier runs with another verdict.
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

/// Processes the items on several threads; `None` for items after the time was up.
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

/// Returns the properties on which the two runs disagree.
fn differing(said: &Verdicts, foretold: &Verdicts) -> impl Iterator<Item = Property> {
    let other = |(property, broke): (&Property, &bool)| {
        let told = foretold.get(property)?;
        (told != broke).then_some(*property)
    };
    said.iter().filter_map(other)
}

/// Returns the double's verdict without observation of its servers, if it is the same in all orders of tasks
/// and not close.
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
        // Misconduct is not in the history, so its verdict stays.
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

/// Counts a run, and compares its verdict with the double's.
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
