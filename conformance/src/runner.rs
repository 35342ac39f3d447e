//! From seeds to verdicts: plays scenarios with a subject, has every history judged by every
//! checker, makes what fails small, and counts what was seen.

mod fixed;
mod rehearsal;

pub use crate::plan::{CONVICTION, Plan, QUICK, QUICK_REAL, generator};
use crate::{
    backend::{Backend, Double},
    checker::{CHECKERS, Finding, Property, Witness},
    coverage::{Coverage, Missed},
    history::{History, Moment, Reading},
    plan::Source,
    precision,
    scenario::{EVENTS_READABLE, Scenario, shrink},
    simulation::{Run, RunError},
    subject::{Adapted, DynSubject, Expected, Promises},
    verdict::{Cell, broke_before, claim, row_of, without_outside},
};
pub use fixed::{Disagreement, FixedRuns};
pub(crate) use rehearsal::{Rehearsed, rehearse};
use std::{
    collections::BTreeMap,
    fmt,
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

/// How often an inconclusive run on a real server is repeated.
const REPEATS_MAX: u32 = 3;
/// How often a scenario is played on a real server at most before what it shows there counts.
const PLAYS: u64 = 3;
/// Seeds before the first look at whether a conviction is complete. Whatever the machine: what else is found
/// shall not depend on its cores.
const BLOCK_MIN: u64 = 32;
/// Seeds between two later looks at most: each block is twice the one before it.
const BLOCK_MAX: u64 = 256;

/// A run with what the checkers found.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The run.
    pub run: Run,
    /// A finding per property.
    pub findings: Vec<(Property, Finding)>,
}

impl Judged {
    /// How the property broke, if it did.
    #[must_use]
    pub fn witness(&self, property: Property) -> Option<&Witness> {
        let found = self.findings.iter().find(|&&(of, _)| of == property);
        found.and_then(|(_, finding)| finding.witness())
    }
}

/// Plays a scenario and judges it.
///
/// # Errors
/// If the backend is out of reach.
pub fn judge(
    subject: &dyn DynSubject,
    backend: &dyn Backend,
    scenario: &Scenario,
) -> Result<Judged, RunError> {
    let run = subject.play(backend, scenario)?;
    let mut findings = findings(&run.history);
    if !backend.virtual_time() {
        precision::doubt(&run.history, &mut findings);
    }
    if let Some(message) = misconduct(&run) {
        let witness = Witness {
            at: Moment::NEVER,
            until: None,
            grants: vec![],
            message,
        };
        findings[0] = (Property::NoPanics, Finding::Violation(witness));
    }
    Ok(Judged { run, findings })
}

/// What the checkers say of a history, in the order of their list.
fn findings(history: &History) -> Vec<(Property, Finding)> {
    let reading = Reading::of(history);
    let checkers = CHECKERS.iter();
    let checked = checkers.map(|checker| (checker.property(), checker.judge(&reading)));
    checked.collect()
}

/// What a history cannot know of.
fn misconduct(run: &Run) -> Option<String> {
    if run.endless {
        Some(format!(
            "after {} steps the run was still busy with itself",
            run.steps
        ))
    } else if run.stray_tasks > 0 {
        let count = run.stray_tasks;
        Some(format!(
            "{count} tasks were started with tokio::spawn, where no fault reaches them: it has to be played in \
             its plain form"
        ))
    } else {
        None
    }
}

/// A failure, made small.
#[derive(Clone, Debug)]
pub struct Counterexample {
    /// What broke.
    pub property: Property,
    /// The first seed that showed it. What was made small may be the scenario of a later one.
    pub seed: u64,
    /// The fixed scenario that showed it, if it was no seed.
    pub fixed: Option<&'static str>,
    /// How many events the scenario of that seed has.
    pub events_before: usize,
    /// The small scenario.
    pub scenario: Scenario,
    /// How many runs it took to make it small.
    pub shrink_runs: u32,
    /// Its run.
    pub judged: Judged,
}

/// What all runs say about one subject.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The subject.
    pub name: &'static str,
    /// Rust code that makes the [`Check`](crate::Check), for tests that replay a counterexample.
    pub code: Option<String>,
    /// Why its holders cannot be observed, if they cannot: then properties that read the servers are not judged.
    pub unobservable: Option<String>,
    /// What it claims.
    pub promises: Promises,
    /// The verdict to reach.
    pub expected: Expected,
    /// The backend's name.
    pub backend: String,
    /// Runs per row of the matrix and property.
    pub cells: BTreeMap<(&'static str, Property), Cell>,
    /// Whether its runs were in virtual time.
    pub in_virtual_time: bool,
    /// What was seen.
    pub coverage: Coverage,
    /// The first failure of each promised property, the most telling property first.
    pub counterexamples: Vec<Counterexample>,
    /// Scenarios that the backend cannot play.
    pub unsupported: u64,
    /// Runs on a real server that the machine's own gaps spoiled, repetitions included.
    pub inconclusive: u64,
    /// What came of the fixed scenarios.
    pub fixed: FixedRuns,
    /// How long it took.
    pub elapsed: Duration,
    /// What was to be run.
    pub plan: Plan,
    /// Whether the plan was carried out, and asks for enough that each verdict has to be reached.
    pub enough: bool,
}

/// How a verdict compares with the expected one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is the same.
    AsExpected,
    /// It is another.
    Differs,
    /// Too little was run to reach the verdict: few seeds, only some faults or properties, or a
    /// backend that does not show enough.
    Open,
}

impl Trial {
    /// Runs of this property over all rows.
    #[must_use]
    pub fn total(&self, property: Property) -> Cell {
        let mut total = Cell::default();
        let cells = self.cells.iter().filter(|&(&(_, of), _)| of == property);
        cells.for_each(|(_, cell)| total.add(cell));
        total
    }

    /// The promised properties that broke.
    #[must_use]
    pub fn broken(&self) -> Vec<Property> {
        Property::ALL
            .into_iter()
            .filter(|&property| self.total(property).broken > 0)
            .collect()
    }

    /// What its runs have not seen often enough. Nothing is said about a subject that was tried only
    /// until it was convicted, or in real time, where there are few runs.
    #[must_use]
    pub fn missed(&self) -> Vec<Missed> {
        match self.expected {
            Expected::Sound if self.in_virtual_time => self.coverage.missed(&self.promises),
            Expected::Sound | Expected::Convicted(_) => Vec::new(),
        }
    }

    /// Whether the verdict is the expected one.
    #[must_use]
    pub fn as_expected(&self) -> bool {
        let broken = self.broken();
        if !self.fixed.disagreements.is_empty() {
            return false;
        }
        match self.expected {
            Expected::Sound => broken.is_empty(),
            Expected::Convicted(of) => of.iter().any(|property| broken.contains(property)),
        }
    }

    /// How the verdict compares with the expected one, as far as it can be told.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self.expected {
            _ if !self.fixed.disagreements.is_empty() => Outcome::Differs,
            _ if self.coverage.runs == 0 => Outcome::Open,
            _ if self.as_expected() => Outcome::AsExpected,
            Expected::Convicted(_) if !self.enough => Outcome::Open,
            Expected::Sound | Expected::Convicted(_) => Outcome::Differs,
        }
    }

    /// How many seeds the first conviction took of what it has to be convicted of.
    #[must_use]
    pub fn seeds_to_conviction(&self) -> Option<u64> {
        let Expected::Convicted(of) = self.expected else {
            return None;
        };
        let examples = self.counterexamples.iter();
        let seeds = examples.filter(|it| it.fixed.is_none() && of.contains(&it.property));
        let first = seeds.map(|example| example.seed).min()?;
        Some(first.saturating_sub(self.plan.seeds.start) + 1)
    }
}

/// Tries a subject: plays the seeds of a plan with it.
///
/// A subject that is expected to be convicted is tried until it is convicted of all that it is
/// expected to break, or the seeds are used up. `progress` is called after every run.
///
/// # Errors
/// If the backend is out of reach.
pub fn run_trial(
    subject: &dyn DynSubject,
    expected: Expected,
    backend: &dyn Backend,
    plan: &Plan,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Trial, RunError> {
    let began = Instant::now();
    let unobservable = match backend.observes() {
        true => rehearse(subject, backend).map_or(None, |rehearsed| rehearsed.unobservable),
        false => None,
    };
    let unobserved = Adapted::unobserved(subject);
    let subject = match unobservable {
        Some(_) => &unobserved,
        None => subject,
    };
    let mut trial = begun(subject, expected, backend, plan);
    trial.unobservable = unobservable;
    if plan.fixed {
        fixed::play_all(&mut trial, subject, backend, plan, progress)?;
    }
    if let (Expected::Convicted(of), false) = (expected, backend.virtual_time()) {
        convict_on_real(&mut trial, subject, backend, of, plan)?;
    } else {
        try_seeds(&mut trial, subject, backend, plan, progress)?;
    }
    trial
        .counterexamples
        .sort_by_key(|it| it.property.telling());
    trial.elapsed = began.elapsed();
    Ok(trial)
}

/// The trial of one run that was played already, with its scenario as it is: for a report about this run alone.
#[must_use]
pub fn trial_of(
    subject: &dyn DynSubject,
    backend: &dyn Backend,
    scenario: &Scenario,
    judged: &Judged,
) -> Trial {
    let plan = Plan::quick(backend);
    let mut trial = begun(subject, Expected::Sound, backend, &plan);
    trial.enough = false;
    let mut broken = record(&mut trial, scenario.seed, scenario, judged);
    broken.sort_by_key(|property| property.telling());
    let examples = broken.into_iter().map(|property| Counterexample {
        property,
        seed: scenario.seed,
        fixed: None,
        events_before: scenario.events.len(),
        scenario: scenario.clone(),
        shrink_runs: 0,
        judged: judged.clone(),
    });
    trial.counterexamples = examples.collect();
    trial
}

/// A trial before its first run.
fn begun(
    subject: &dyn DynSubject,
    expected: Expected,
    backend: &dyn Backend,
    plan: &Plan,
) -> Trial {
    Trial {
        unobservable: None,
        name: subject.name(),
        code: None,
        promises: subject.promises(),
        expected,
        backend: backend.name(),
        cells: BTreeMap::new(),
        in_virtual_time: backend.virtual_time(),
        coverage: Coverage::default(),
        counterexamples: Vec::new(),
        unsupported: 0,
        inconclusive: 0,
        fixed: FixedRuns::default(),
        elapsed: Duration::ZERO,
        plan: plan.clone(),
        enough: plan.suffices(backend) && can_show(expected, backend, plan),
    }
}

/// Whether a backend shows what a subject is to be convicted of, and the plan asks for it.
fn can_show(expected: Expected, backend: &dyn Backend, plan: &Plan) -> bool {
    let shows = |property: &Property| {
        plan.judges(*property) && (backend.virtual_time() || !property.needs_observation())
    };
    match expected {
        Expected::Sound => true,
        Expected::Convicted(of) => of.iter().any(shows),
    }
}

fn try_seeds(
    trial: &mut Trial,
    subject: &dyn DynSubject,
    backend: &dyn Backend,
    plan: &Plan,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<(), RunError> {
    let mut failed: BTreeMap<Property, Vec<Failure>> = BTreeMap::new();
    if Source::of(subject.promises(), plan).is_empty() {
        return Ok(()); // none of the faults can strike there
    }
    let (mut from, mut block) = (plan.seeds.start, BLOCK_MIN);
    while from < plan.seeds.end {
        if plan.is_over() {
            trial.enough = false;
            break;
        }
        let to = plan.seeds.end.min(from.saturating_add(block));
        block = BLOCK_MAX.min(2 * block);
        for (seed, outcome) in play_block(subject, backend, plan, from..to, progress) {
            let Some(Played {
                scenario,
                judged,
                again,
                spoiled,
            }) = supported(outcome)?
            else {
                trial.unsupported += 1;
                continue;
            };
            trial.inconclusive += spoiled;
            let Some(judged) = judged else { continue };
            let mut keep = |property, scenario: &Scenario, judged: &Judged| {
                let failures: &mut Vec<Failure> = failed.entry(property).or_default();
                if failures.len() < FAILURES_KEPT {
                    failures.push((seed, scenario.clone(), judged.clone()));
                }
            };
            for property in record(trial, seed, &scenario, &judged) {
                keep(property, &scenario, &judged);
            }
            for (without, judged, broken) in again {
                for property in record_again(trial, &scenario, broken) {
                    keep(property, &without, &judged);
                }
            }
        }
        from = to;
        let done = match trial.expected {
            Expected::Convicted(of) => {
                let asked: Vec<_> = of.iter().filter(|it| plan.judges(**it)).collect();
                !asked.is_empty() && asked.into_iter().all(|it| failed.contains_key(it))
            }
            Expected::Sound => plan.fail_fast && !failed.is_empty(),
        };
        if done {
            break;
        }
    }
    for (property, failures) in failed {
        let example = readable(subject, backend, property, failures)?;
        trial.counterexamples.extend(example);
    }
    Ok(())
}

/// A seed, its scenario, and what it broke.
type Failure = (u64, Scenario, Judged);

/// Failures that are kept of a property, for the case that the first does not become small.
const FAILURES_KEPT: usize = 4;

/// The first failure that becomes small enough to be read, or else the smallest.
fn readable(
    subject: &dyn DynSubject,
    backend: &dyn Backend,
    property: Property,
    failures: Vec<Failure>,
) -> Result<Option<Counterexample>, RunError> {
    let mut best: Option<Counterexample> = None;
    for (seed, scenario, judged) in failures {
        let mut example = minimal(subject, backend, property, seed, &scenario, judged)?;
        if let Some(first) = &best {
            example.seed = first.seed;
        }
        let size = example.scenario.events.len();
        if best
            .as_ref()
            .is_none_or(|best| size < best.scenario.events.len())
        {
            best = Some(example);
        }
        if size <= EVENTS_READABLE || !backend.virtual_time() {
            break;
        }
    }
    Ok(best)
}

/// Plays the fixed scenarios, where the plan says so, and then one seed after the other, until the subject breaks
/// what it promised: in which scenario, and what it broke.
///
/// # Errors
/// If the backend is out of reach.
#[cfg(feature = "mutants")]
pub(crate) fn accused(
    subject: &dyn DynSubject,
    backend: &dyn Backend,
    plan: &Plan,
) -> Result<Option<(ScenarioSource, Property)>, RunError> {
    let promises = subject.promises();
    let source = Source::of(promises, plan);
    if source.is_empty() {
        return Ok(None);
    }
    let by_hand = crate::scenario::fixed::all().filter(|_| plan.fixed);
    let by_hand = by_hand
        .filter_map(|fixed| Some((ScenarioSource::Fixed(fixed.name), fixed.scenario(promises)?)));
    let seeds = plan.seeds.clone();
    let generated = seeds.map(|seed| (ScenarioSource::Seed(seed), source.scenario(seed)));
    for (of, scenario) in by_hand.chain(generated) {
        let judged = judge(subject, backend, &scenario)?;
        let mut broken = broken(promises, &scenario, &judged);
        let again = again(subject, backend, &scenario, &judged)?;
        broken.extend(again.into_iter().flat_map(|(.., broken)| broken));
        if let Some(property) = broken.into_iter().find(|it| plan.judges(*it)) {
            return Ok(Some((of, property)));
        }
    }
    Ok(None)
}

/// Where a scenario comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ScenarioSource {
    /// It is a fixed one of this name.
    Fixed(&'static str),
    /// It is made from this seed.
    Seed(u64),
}

impl fmt::Display for ScenarioSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(name) => f.write_str(name),
            Self::Seed(seed) => write!(f, "seed {seed}"),
        }
    }
}

/// The promised properties that a run broke.
#[must_use]
pub fn broken(promises: Promises, scenario: &Scenario, judged: &Judged) -> Vec<Property> {
    let nemeses = scenario.nemeses();
    let blamed = |&(property, ref finding): &(Property, Finding)| {
        let witness = finding.witness()?;
        let history = &judged.run.history;
        let claim = claim(promises, &nemeses, property);
        let blames = claim.blames(history, property, witness)
            || broke_before(promises, scenario, history, property);
        blames.then_some(property)
    };
    judged.findings.iter().filter_map(blamed).collect()
}

struct Played {
    scenario: Scenario,
    /// `None` if the machine spoiled all repetitions.
    judged: Option<Judged>,
    /// The same without the faults under which something broke that the lock does not claim, where it broke without them
    /// as well, with what that convicts it of.
    again: Vec<(Scenario, Judged, Vec<Property>)>,
    /// How many runs were spoiled.
    spoiled: u64,
}

/// Plays a scenario again without the faults under which a lock broke what it claims only without them.
fn again(
    subject: &dyn DynSubject,
    backend: &dyn Backend,
    scenario: &Scenario,
    judged: &Judged,
) -> Result<Vec<(Scenario, Judged, Vec<Property>)>, RunError> {
    let promises = subject.promises();
    let convicted = broken(promises, scenario, judged);
    let mut replays: Vec<(Scenario, Vec<Property>)> = Vec::new();
    for (property, finding) in &judged.findings {
        if finding.witness().is_none() || convicted.contains(property) {
            continue;
        }
        let Some(without) = without_outside(promises, scenario, *property) else {
            continue;
        };
        match replays.iter_mut().find(|(known, _)| *known == without) {
            Some((_, asked)) => asked.push(*property),
            None => replays.push((without, vec![*property])),
        }
    }
    let mut convicting = Vec::new();
    for (scenario, asked) in replays {
        let judged = judge(subject, backend, &scenario)?;
        let mut broken = broken(promises, &scenario, &judged);
        broken.retain(|property| asked.contains(property));
        if !broken.is_empty() {
            convicting.push((scenario, judged, broken));
        }
    }
    Ok(convicting)
}

/// `None` for a scenario that the backend cannot play.
fn supported(outcome: Result<Played, RunError>) -> Result<Option<Played>, RunError> {
    match outcome {
        Err(RunError::Unsupported(_)) => Ok(None),
        outcome => outcome.map(Some),
    }
}

/// Plays some seeds on several threads; the answer is in the order of seeds.
fn play_block(
    subject: &dyn DynSubject,
    backend: &dyn Backend,
    plan: &Plan,
    seeds: Range<u64>,
    progress: &(dyn Fn(u64) + Sync),
) -> Vec<(u64, Result<Played, RunError>)> {
    let next = AtomicU64::new(seeds.start);
    let work = || {
        let source = Source::of(subject.promises(), plan);
        let mut played = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end || plan.is_over() {
                return played;
            }
            played.push((seed, play(subject, backend, source.scenario(seed))));
            progress(1);
        }
    };
    let mut played: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..plan.jobs.max(1)).map(|_| scope.spawn(work)).collect();
        let joined = workers.into_iter().map(|worker| match worker.join() {
            Ok(played) => played,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.flatten().collect()
    });
    played.sort_by_key(|&(seed, _)| seed);
    played
}

/// Plays one scenario, on a wall clock as often as the machine spoils it.
fn play(
    subject: &dyn DynSubject,
    backend: &dyn Backend,
    scenario: Scenario,
) -> Result<Played, RunError> {
    let Some(lease_ms) = backend.lease_ms() else {
        let scenario = match subject.lease_ms() {
            Some(lease_ms) => scenario.scaled(lease_ms),
            None => scenario,
        };
        let judged = judge(subject, backend, &scenario)?;
        let again = again(subject, backend, &scenario, &judged)?;
        return Ok(Played {
            scenario,
            judged: Some(judged),
            again,
            spoiled: 0,
        });
    };
    certain(subject, backend, &scenario.snapped().scaled(lease_ms))
}

/// Plays a scenario on a wall clock, and again when it breaks only properties that depend on times: the machine
/// may have been away where no heartbeat noticed, so that stands if no play is without it.
fn certain(
    subject: &dyn DynSubject,
    backend: &dyn Backend,
    scenario: &Scenario,
) -> Result<Played, RunError> {
    let is_doubtful = |played: &Played| {
        let broken = match &played.judged {
            Some(judged) => broken(subject.promises(), scenario, judged),
            None => vec![],
        };
        !broken.is_empty() && broken.iter().all(|it| it.timing_sensitive())
    };
    let mut played = conclusive(subject, backend, scenario.clone())?;
    for _ in 1..PLAYS {
        if !is_doubtful(&played) {
            break;
        }
        let spoiled = played.spoiled + 1;
        played = conclusive(subject, backend, scenario.clone())?;
        played.spoiled += spoiled;
    }
    Ok(played)
}

/// Plays a scenario on a wall clock, again if the machine spoils it.
fn conclusive(
    subject: &dyn DynSubject,
    backend: &dyn Backend,
    scenario: Scenario,
) -> Result<Played, RunError> {
    let mut spoiled = 0;
    for _ in 0..REPEATS_MAX {
        let judged = judge(subject, backend, &scenario)?;
        if judged.run.gap <= scenario.lease() / 6 {
            return Ok(Played {
                scenario,
                judged: Some(judged),
                again: Vec::new(),
                spoiled,
            });
        }
        spoiled += 1;
    }
    Ok(Played {
        scenario,
        judged: None,
        again: Vec::new(),
        spoiled,
    })
}

/// Counts a run; returns the promised properties that it broke.
fn record(trial: &mut Trial, seed: u64, scenario: &Scenario, judged: &Judged) -> Vec<Property> {
    trial.coverage.see(&judged.run.history);
    let row = row_of(&scenario.nemeses());
    let mut broken = broken(trial.promises, scenario, judged);
    broken.retain(|property| trial.plan.judges(*property));
    let asked = judged.findings.iter();
    for &(property, ref finding) in asked.filter(|(property, _)| trial.plan.judges(*property)) {
        let cell = trial.cells.entry((row, property)).or_default();
        match finding {
            Finding::Valid => cell.held += 1,
            Finding::Unknown(_) => cell.unknown += 1,
            Finding::Violation(_) => {
                cell.seed = cell.seed.or(Some(seed));
                if broken.contains(&property) {
                    cell.broken += 1;
                } else {
                    cell.outside += 1;
                }
            }
        }
    }
    broken
}

/// Counts what a run broke outside of the promise, and again within it, as broken; returns it.
fn record_again(
    trial: &mut Trial,
    scenario: &Scenario,
    mut broken: Vec<Property>,
) -> Vec<Property> {
    broken.retain(|property| trial.plan.judges(*property));
    let row = row_of(&scenario.nemeses());
    for &property in &broken {
        let cell = trial.cells.entry((row, property)).or_default();
        cell.outside = cell.outside.saturating_sub(1);
        cell.broken += 1;
    }
    broken
}

/// Makes a failure small where time is virtual; on a real server it stays as it was seen.
fn minimal(
    subject: &dyn DynSubject,
    backend: &dyn Backend,
    property: Property,
    seed: u64,
    scenario: &Scenario,
    judged: Judged,
) -> Result<Counterexample, RunError> {
    let mut example = Counterexample {
        property,
        seed,
        fixed: None,
        events_before: scenario.events.len(),
        scenario: scenario.clone(),
        shrink_runs: 0,
        judged,
    };
    if backend.virtual_time() {
        let shrunk = shrink(scenario, |candidate| {
            let blames =
                |judged: &Judged| broken(subject.promises(), candidate, judged).contains(&property);
            judge(subject, backend, candidate).is_ok_and(|judged| blames(&judged))
        });
        example.judged = judge(subject, backend, &shrunk.scenario)?;
        (example.scenario, example.shrink_runs) = (shrunk.scenario, shrunk.runs);
    }
    Ok(example)
}

/// How many counterexamples of the double are tried on a real server per property.
const CANDIDATES_MAX: usize = 8;

/// Shows on a real server what the double has found: counterexamples whose times lie on a grid
/// that a wall clock can keep, and that do not depend on one order of tasks.
fn convict_on_real(
    trial: &mut Trial,
    subject: &dyn DynSubject,
    backend: &dyn Backend,
    of: &'static [Property],
    plan: &Plan,
) -> Result<(), RunError> {
    let source = Source::of(subject.promises(), plan);
    if source.is_empty() || plan.seeds.is_empty() {
        return Ok(());
    }
    let convicted = trial.broken();
    let shown = |property: &&Property| {
        let open = !convicted.contains(property);
        open && plan.judges(**property) && !property.needs_observation()
    };
    for &property in of.iter().filter(shown) {
        let breaks = |scenario: &Scenario| {
            (0..3).all(|more| {
                let scenario = Scenario {
                    seed: scenario.seed + more,
                    ..scenario.snapped()
                };
                judge(subject, &Double, &scenario)
                    .is_ok_and(|judged| judged.witness(property).is_some())
            })
        };
        let candidates = (0..QUICK)
            .map(|seed| (seed, source.scenario(seed)))
            .filter(|(_, scenario)| scenario.needs().into_iter().all(|need| backend.can(need)))
            .filter(|(_, scenario)| breaks(scenario));
        for (seed, scenario) in candidates.take(CANDIDATES_MAX) {
            if plan.is_over() {
                trial.enough = false;
                return Ok(());
            }
            let shrunk = shrink(&scenario, breaks);
            let small = shrunk.scenario.snapped();
            let Played {
                scenario: small,
                judged,
                spoiled,
                ..
            } = play(subject, backend, small)?;
            trial.inconclusive += spoiled;
            let Some(judged) = judged else { continue };
            if record(trial, seed, &small, &judged).contains(&property) {
                trial.counterexamples.push(Counterexample {
                    property,
                    seed,
                    fixed: None,
                    events_before: scenario.events.len(),
                    scenario: small,
                    shrink_runs: shrunk.runs,
                    judged,
                });
                break;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
