//! From seeds to verdicts: plays scenarios with a subject, judges every history with every checker, shrinks
//! failures, and counts coverage.

mod fixed;
mod rehearsal;

pub use crate::plan::{CONVICTION, Plan, QUICK, QUICK_REAL, SURVEY, generator, timing};
use crate::{
    backend::{Backend, Double},
    checker::{CHECKERS, Finding, Property, Witness, seconds},
    coverage::{Coverage, Missed},
    history::{History, Moment, Reading},
    plan::Source,
    precision,
    scenario::{EVENTS_READABLE, Scenario, shrink},
    simulation::{Run, RunError},
    subject::{Adapted, DynSubject, Expected, Promises},
    verdict::{Cell, broke_before, claim, nemeses_for, row_of, without_outside},
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

/// Number of repetitions of an inconclusive run on a real server.
const REPEATS_MAX: u32 = 3;
/// Number of runs of a scenario on a real server until a timing-sensitive finding counts.
const PLAYS: u64 = 3;
/// Part of the lease for which the machine may stop the suite in a run that counts.
const GAPS_PER_LEASE: u32 = 6;
/// Seeds before the first check whether a conviction is complete. It does not depend on the number of cores,
/// so the findings do not either.
const BLOCK_MIN: u64 = 32;
/// Largest number of seeds between two later checks: each block is twice the previous one.
const BLOCK_MAX: u64 = 256;

/// A run with its findings.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The run.
    pub run: Run,
    /// One finding per property.
    pub findings: Vec<(Property, Finding)>,
}

impl Judged {
    /// Returns the witness of a violation of the property, if there is one.
    #[must_use]
    pub fn witness(&self, property: Property) -> Option<&Witness> {
        let found = self.findings.iter().find(|&&(of, _)| of == property);
        found.and_then(|(_, finding)| finding.witness())
    }
}

/// Plays a scenario and judges it.
///
/// # Errors
/// If the backend cannot be reached.
pub fn judge(
    subject: &dyn DynSubject,
    backend: &dyn Backend,
    scenario: &Scenario,
) -> Result<Judged, RunError> {
    let run = subject.play(backend, scenario)?;
    let mut findings = if run.endless {
        findings_of_part(&run.history)
    } else {
        findings(&run.history)
    };
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

/// Judges a history with every checker, in the order of their list.
fn findings(history: &History) -> Vec<(Property, Finding)> {
    let reading = Reading::of(history);
    let checkers = CHECKERS.iter();
    let checked = checkers.map(|checker| (checker.property(), checker.judge(&reading)));
    checked.collect()
}

/// Returns the findings of a run that was cut off: violations of safety properties. Whether its calls would have kept the other
/// properties is not known, and that nothing was broken so far clears nothing.
fn findings_of_part(history: &History) -> Vec<(Property, Finding)> {
    let broken = |(property, finding): (Property, Finding)| match finding {
        Finding::Violation(_) if property.is_safety() => (property, finding),
        Finding::Valid | Finding::Unknown(_) | Finding::Violation(_) => {
            (property, Finding::Unknown("the run did not end"))
        }
    };
    findings(history).into_iter().map(broken).collect()
}

/// Returns misconduct of the subject that the history does not show.
fn misconduct(run: &Run) -> Option<String> {
    if run.endless {
        Some(format!(
            "the tasks woke each other for {} steps without a pause: a call that asks again at once{}",
            run.steps,
            unended(&run.history)
        ))
    } else if run.stray_tasks > 0 {
        let count = run.stray_tasks;
        Some(format!(
            "the lock started {count} tasks with tokio::spawn, outside of the simulation: play it in its plain form"
        ))
    } else {
        None
    }
}

/// Returns the latest call that had not ended when a run was cut off, as part of a message.
fn unended(history: &History) -> String {
    let ends = history.ends();
    let calls = history.calls().into_iter();
    let open = calls.filter(|(op, _)| !ends.contains_key(op));
    let latest = open.max_by_key(|(_, (from, ..))| *from);
    latest.map_or_else(String::new, |(_, (from, actor, _))| {
        let from = seconds(from.at);
        format!("; the latest call that had not ended is that of {actor} from {from}")
    })
}

/// A shrunk failure.
#[derive(Clone, Debug)]
pub struct Counterexample {
    /// Property that broke.
    pub property: Property,
    /// First seed that showed it. The shrunk scenario may come from a later one.
    pub seed: u64,
    /// Name of the fixed scenario that showed it, if it was not a seed.
    pub fixed: Option<&'static str>,
    /// Number of events in the scenario of that seed.
    pub events_before: usize,
    /// The shrunk scenario.
    pub scenario: Scenario,
    /// Number of runs that shrinking took.
    pub shrink_runs: u32,
    /// Run of the shrunk scenario, with findings.
    pub judged: Judged,
}

/// Results of all runs with one subject.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Name of the subject.
    pub name: &'static str,
    /// Rust code that makes the [`Check`](crate::Check), for tests that replay a counterexample.
    pub code: Option<String>,
    /// Reason why its holders cannot be observed; then properties that read the servers are not judged.
    pub unobservable: Option<String>,
    /// Reason why no verdict counts: a free lock was not granted to its only client, or it lacks what its promises name.
    pub refused: Option<String>,
    /// Promises of the lock.
    pub promises: Promises,
    /// Expected verdict.
    pub expected: Expected,
    /// Name of the backend.
    pub backend: String,
    /// Results by row of the matrix and property.
    pub cells: BTreeMap<(&'static str, Property), Cell>,
    /// True if the runs were in virtual time.
    pub in_virtual_time: bool,
    /// Situations that the runs covered.
    pub coverage: Coverage,
    /// First failure of each promised property, the most severe property first.
    pub counterexamples: Vec<Counterexample>,
    /// Number of scenarios that the backend cannot play.
    pub unsupported: u64,
    /// Number of runs on a real server that gaps of the machine spoiled, including repetitions.
    pub inconclusive: u64,
    /// Results of the fixed scenarios.
    pub fixed: FixedRuns,
    /// Duration of the trial.
    pub elapsed: Duration,
    /// The plan of the trial.
    pub plan: Plan,
    /// True if the plan was completed and is large enough that each expected verdict must be reached.
    pub enough: bool,
}

/// Comparison of a verdict with the expected one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The verdicts are equal.
    AsExpected,
    /// The verdicts differ.
    Differs,
    /// The plan is too small to reach the verdict (few seeds, or only some faults or properties), or the
    /// backend does not show enough.
    Open,
}

impl Trial {
    /// Sums up the runs of a property over all rows.
    #[must_use]
    pub fn total(&self, property: Property) -> Cell {
        let mut total = Cell::default();
        let cells = self.cells.iter().filter(|&(&(_, of), _)| of == property);
        cells.for_each(|(_, cell)| total.add(cell));
        total
    }

    /// Returns the promised properties that broke.
    #[must_use]
    pub fn broken(&self) -> Vec<Property> {
        Property::ALL
            .into_iter()
            .filter(|&property| self.total(property).broken > 0)
            .collect()
    }

    /// Returns the missed floors of coverage. There are none for a subject that is tried only until it is
    /// convicted, or in real time, where there are few runs.
    #[must_use]
    pub fn missed(&self) -> Vec<Missed> {
        match self.expected {
            Expected::Sound if self.in_virtual_time => self.coverage.missed(&self.promises),
            Expected::Sound | Expected::Convicted(_) => Vec::new(),
        }
    }

    /// Returns true if the verdict is the expected one.
    #[must_use]
    pub fn as_expected(&self) -> bool {
        let broken = self.broken();
        if !self.fixed.disagreements.is_empty() {
            return false;
        }
        match self.expected {
            Expected::Sound => broken.is_empty() && self.refused.is_none(),
            Expected::Convicted(of) => of.iter().any(|property| broken.contains(property)),
        }
    }

    /// Compares the verdict with the expected one.
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

    /// Returns the number of seeds until the first expected conviction.
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
/// If the subject should be convicted, the trial ends when all expected properties broke, or when the seeds
/// are used up. `progress` is called after every run.
///
/// # Errors
/// If the backend cannot be reached.
pub fn run_trial(
    subject: &dyn DynSubject,
    expected: Expected,
    backend: &dyn Backend,
    plan: &Plan,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Trial, RunError> {
    let began = Instant::now();
    if let Some(why) = rehearsal::undeclared(subject.promises()) {
        let mut trial = begun(subject, expected, backend, plan);
        trial.refused = Some(why);
        return Ok(trial);
    }
    let rehearsed = match backend.observes() {
        true => rehearse(subject, backend).unwrap_or_default(),
        false => Rehearsed::default(),
    };
    let unobservable = rehearsed.unobservable;
    let unobserved = Adapted::unobserved(subject);
    let subject = match unobservable {
        Some(_) => &unobserved,
        None => subject,
    };
    let mut trial = begun(subject, expected, backend, plan);
    trial.unobservable = unobservable;
    trial.refused = rehearsed.refused;
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

/// Makes the trial of one run that was already played, for a report about this run alone.
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

/// Makes a trial before its first run.
fn begun(
    subject: &dyn DynSubject,
    expected: Expected,
    backend: &dyn Backend,
    plan: &Plan,
) -> Trial {
    Trial {
        unobservable: None,
        refused: None,
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

/// Returns true if the backend can show an expected violation and the plan judges it.
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
    if Source::of(subject, backend, plan).is_empty() {
        return Ok(()); // none of the faults can strike on the lock's servers
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

/// A seed, its scenario, and the run.
type Failure = (u64, Scenario, Judged);

/// Number of failures that are kept per property, in case the first one does not shrink enough.
const FAILURES_KEPT: usize = 4;

/// Returns the first failure that shrinks to a readable size, or else the smallest.
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

/// Plays the fixed scenarios, if the plan includes them, and then one seed after another, until the subject
/// breaks a promise. Returns the scenario and the broken properties.
///
/// # Errors
/// If the backend cannot be reached.
#[cfg(feature = "mutants")]
pub(crate) fn accused(
    subject: &dyn DynSubject,
    backend: &dyn Backend,
    plan: &Plan,
) -> Result<Option<(ScenarioSource, Property)>, RunError> {
    let promises = subject.promises();
    let source = Source::of(subject, backend, plan);
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

/// Source of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ScenarioSource {
    /// A fixed scenario with this name.
    Fixed(&'static str),
    /// A generated scenario of this seed.
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

/// Returns the promised properties that a run broke.
#[must_use]
pub fn broken(promises: Promises, scenario: &Scenario, judged: &Judged) -> Vec<Property> {
    let nemeses = nemeses_for(promises, scenario);
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
    /// The scenarios without the faults outside of the claim, if the lock broke the property again without
    /// them, with the broken properties.
    again: Vec<(Scenario, Judged, Vec<Property>)>,
    /// Number of spoiled runs.
    spoiled: u64,
}

/// Plays a scenario again without faults, for a lock that broke under these faults a property that it claims
/// only without them.
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

/// Returns `None` for a scenario that the backend cannot play.
fn supported(outcome: Result<Played, RunError>) -> Result<Option<Played>, RunError> {
    match outcome {
        Err(RunError::Unsupported(_)) => Ok(None),
        outcome => outcome.map(Some),
    }
}

/// Plays some seeds on several threads. Returns the results in the order of seeds.
fn play_block(
    subject: &dyn DynSubject,
    backend: &dyn Backend,
    plan: &Plan,
    seeds: Range<u64>,
    progress: &(dyn Fn(u64) + Sync),
) -> Vec<(u64, Result<Played, RunError>)> {
    let next = AtomicU64::new(seeds.start);
    let work = || {
        let source = Source::of(subject, backend, plan);
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

/// Plays one scenario; in real time repeats it while the machine spoils it.
fn play(
    subject: &dyn DynSubject,
    backend: &dyn Backend,
    scenario: Scenario,
) -> Result<Played, RunError> {
    let Some(lease_ms) = backend.lease_ms() else {
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

/// Plays a scenario in real time, and again if findings depend on time: the machine may have stopped unnoticed. Such
/// a finding counts only if every run shows it.
fn certain(
    subject: &dyn DynSubject,
    backend: &dyn Backend,
    scenario: &Scenario,
) -> Result<Played, RunError> {
    let mut played = conclusive(subject, backend, scenario.clone())?;
    let Some(judged) = &mut played.judged else {
        return Ok(played);
    };
    let promises = subject.promises();
    let mut doubtful = broken(promises, scenario, judged);
    let stand = broken(promises, scenario, &leniently(scenario, judged));
    doubtful.retain(|it| it.timing_sensitive() || !stand.contains(it));
    for _ in 1..PLAYS {
        if doubtful.is_empty() {
            break;
        }
        let again = conclusive(subject, backend, scenario.clone())?;
        played.spoiled += again.spoiled + 1;
        let shown = again.judged.map(|it| broken(promises, scenario, &it));
        let shown = shown.unwrap_or_default();
        let (shown, not): (Vec<_>, Vec<_>) =
            doubtful.into_iter().partition(|it| shown.contains(it));
        withdraw(judged, &not);
        doubtful = shown;
    }
    Ok(played)
}

/// Returns the run judged as if the machine had stopped unnoticed for as long as it may in a run that counts.
fn leniently(scenario: &Scenario, judged: &Judged) -> Judged {
    let mut lenient = judged.clone();
    lenient.run.history.terms.slack += longest_gap(scenario);
    lenient.findings = findings(&lenient.run.history);
    precision::doubt(&lenient.run.history, &mut lenient.findings);
    lenient
}

/// Withdraws findings that another run of the scenario did not show.
fn withdraw(judged: &mut Judged, properties: &[Property]) {
    for (property, finding) in &mut judged.findings {
        if properties.contains(property) {
            *finding = Finding::Unknown("it depends on time, and not every run showed it");
        }
    }
}

/// Returns the longest time for which the machine may stop the suite in a run that counts.
fn longest_gap(scenario: &Scenario) -> Duration {
    scenario.lease() / GAPS_PER_LEASE
}

/// Plays a scenario in real time, and repeats it if the machine spoils it.
fn conclusive(
    subject: &dyn DynSubject,
    backend: &dyn Backend,
    scenario: Scenario,
) -> Result<Played, RunError> {
    let mut spoiled = 0;
    for _ in 0..REPEATS_MAX {
        let judged = judge(subject, backend, &scenario)?;
        if judged.run.gap <= longest_gap(&scenario) {
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

/// Counts a run. Returns the promised properties that it broke.
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

/// Counts a violation outside of the claim that also occurs within it as broken. Returns the properties.
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

/// Shrinks a failure in virtual time; on a real server returns it as it is.
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
        let blames = |candidate: &Scenario, judged: &Judged| {
            broken(subject.promises(), candidate, judged).contains(&property)
        };
        let mut smallest = None;
        let shrunk = shrink(scenario, |candidate| {
            let judged = judge(subject, backend, candidate).ok();
            let failed = judged.filter(|judged| blames(candidate, judged));
            let fails = failed.is_some();
            if let Some(judged) = failed {
                smallest = Some((candidate.clone(), judged));
            }
            fails
        });
        example.shrink_runs = shrunk.runs;
        let judged = judge(subject, backend, &shrunk.scenario)?;
        // A lock that draws random numbers of its own may keep the property when it is played again. Then the last run counts
        // that broke it.
        let smallest = match blames(&shrunk.scenario, &judged) {
            true => Some((shrunk.scenario, judged)),
            false => smallest,
        };
        if let Some((scenario, judged)) = smallest {
            (example.scenario, example.judged) = (scenario, judged);
        }
    }
    Ok(example)
}

/// Number of counterexamples of the double per property that are tried on a real server.
const CANDIDATES_MAX: usize = 8;

/// Reproduces findings of the double on a real server. It tries counterexamples whose times fit a grid that
/// real time can keep, and that do not depend on one order of tasks.
fn convict_on_real(
    trial: &mut Trial,
    subject: &dyn DynSubject,
    backend: &dyn Backend,
    of: &'static [Property],
    plan: &Plan,
) -> Result<(), RunError> {
    let source = Source::of(subject, backend, plan);
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
