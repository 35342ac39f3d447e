//! Reports as plain text: a line per subject, a summary per group, a counterexample in lanes.

mod lanes;

pub use lanes::lanes;

use super::{Group, fault_of, shown, time, verdict};
use crate::{
    checker::{Property, Witness},
    coverage::Coverage,
    history::{History, What},
    runner::{Counterexample, Outcome, Trial},
    scenario::{Scenario, nemesis::NEMESES},
    subject::Expected,
    verdict::MIXED,
};
use std::{
    collections::BTreeSet,
    io::{self, Write},
};

/// Returns the line of a subject. `width` is the width of the column of names.
#[must_use]
pub fn line(trial: &Trial, width: usize) -> String {
    let sign = match trial.outcome() {
        Outcome::AsExpected => "ok",
        Outcome::Differs => "!!",
        Outcome::Open => "..",
    };
    let (runs, seconds) = (trial.coverage.runs, trial.elapsed.as_secs_f64());
    let outside = outside(trial);
    let mut says = verdict(trial);
    if let Some(conviction) = conviction(trial) {
        says.push_str(&conviction);
    } else if !outside.is_empty() {
        says.push_str(&format!("; outside its guarantee: {}", outside.join(", ")));
    }
    if let Some(why) = &trial.refused {
        says.push_str(&format!("; it cannot be judged: {why}"));
    }
    if let Some(why) = &trial.unobservable {
        says.push_str(&format!("; its holders cannot be observed: {why}"));
    }
    if let Some(fixed) = fixed(trial) {
        says.push_str(&format!("; {fixed}"));
    }
    for (count, what) in [
        (trial.unsupported, "cannot be played on this backend"),
        (
            trial.inconclusive,
            "spoiled because the machine paused, and repeated",
        ),
    ] {
        if count > 0 {
            says.push_str(&format!("; {count} runs {what}"));
        }
    }
    format!(
        "  {sign}  {:width$} {runs:>7} runs {seconds:>6.1} s  {says}",
        shown(trial.name)
    )
}

/// Returns the message to the author of a lock whose holders cannot be observed.
#[must_use]
pub fn not_judged(name: &str, why: &str) -> String {
    let unseen = Property::ALL
        .into_iter()
        .filter(|it| it.needs_observation());
    let ids: Vec<&str> = unseen.map(|property| property.id()).collect();
    format!(
        "{} cannot be observed: {why}. So {} are not judged. `Subject::observe`, or \
         `holders` in the first line of an adapter, tells the suite where the lock keeps its holders\n",
        shown(name),
        ids.join(", ")
    )
}

/// Describes the results of the fixed scenarios, if any were played.
pub(super) fn fixed(trial: &Trial) -> Option<String> {
    let runs = &trial.fixed;
    if runs.there == 0 {
        return None;
    }
    let mut text = format!("fixed: {} of {} played", runs.played, runs.there);
    if !runs.unsupported.is_empty() {
        let lacking = runs.unsupported.iter();
        let lacking: Vec<String> = lacking
            .map(|(need, count)| format!("{} {count}x", need.name()))
            .collect();
        text.push_str(&format!(
            ", unsupported on this backend: {}",
            lacking.join(", ")
        ));
    }
    for (count, what) in [
        (runs.silent, "convict nothing on the double"),
        (runs.inconclusive, "inconclusive"),
        (runs.repeated, "repeated"),
        (runs.compared, "verdicts compared with the double"),
        (runs.disagreements.len() as u64, "DIFFERENT FROM THE DOUBLE"),
    ] {
        if count > 0 {
            text.push_str(&format!(", {count} {what}"));
        }
    }
    Some(text)
}

/// Writes the fixed scenarios on which a real server and the double disagree.
///
/// # Errors
/// If `out` does.
pub fn disagreements(out: &mut impl Write, trial: &Trial) -> io::Result<()> {
    for disagreement in &trial.fixed.disagreements {
        writeln!(out, "  {}, {disagreement}", shown(trial.name))?;
    }
    Ok(())
}

/// Returns the properties that broke outside of the promises, each with the number of runs.
fn counts_outside(trial: &Trial) -> impl Iterator<Item = (Property, u64)> {
    let counts = Property::ALL.into_iter();
    let counts = counts.map(move |property| (property, trial.total(property).outside));
    counts.filter(|&(_, count)| count > 0)
}

/// Returns the properties that broke outside of the promises, with their counts, as text.
fn outside(trial: &Trial) -> Vec<String> {
    let counts = counts_outside(trial);
    let texts = counts.map(|(property, count)| format!("{} {count}x", property.id()));
    texts.collect()
}

/// Returns a number with its noun.
fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// Describes the number of seeds of a conviction, and the length of its counterexample.
fn conviction(trial: &Trial) -> Option<String> {
    let seeds = trial.seeds_to_conviction()?;
    let steps = steps(trial)?;
    let (seeds, steps) = (counted(seeds, "seed"), counted(steps as u64, "step"));
    Some(format!(" ({seeds}, {steps})"))
}

/// Returns the number of steps of the shortest counterexample of an expected conviction.
fn steps(trial: &Trial) -> Option<usize> {
    let Expected::Convicted(of) = trial.expected else {
        return None;
    };
    let examples = trial.counterexamples.iter();
    let theirs = examples.filter(|example| of.contains(&example.property));
    theirs.map(|example| example.scenario.events.len()).min()
}

/// Writes a line per group, a legend of the mentioned ids, and the coverage.
///
/// # Errors
/// If `out` does.
pub fn summary(out: &mut impl Write, trials: &[Trial]) -> io::Result<()> {
    for group in Group::ALL {
        let theirs: Vec<&Trial> = trials
            .iter()
            .filter(|trial| Group::of(trial.name) == group)
            .collect();
        if !theirs.is_empty() {
            writeln!(out, "  {}", of_group(group, &theirs))?;
        }
    }
    legend(out, trials)?;
    let unconvicted = trials.iter().filter(|trial| conviction(trial).is_none());
    if let Some((property, count)) = unconvicted.flat_map(counts_outside).next() {
        let (id, runs) = (property.id(), counted(count, "run"));
        writeln!(
            out,
            "  \"outside its guarantee: {id} {count}x\" means that {id} broke in {runs} under a fault that the lock does not \
             promise to survive; that is no defect of the lock"
        )?;
    }
    coverage(out, trials)
}

fn of_group(group: Group, trials: &[&Trial]) -> String {
    let count = |of| trials.iter().filter(|trial| trial.outcome() == of).count();
    let runs: u64 = trials.iter().map(|trial| trial.coverage.runs).sum();
    let seconds: f64 = trials.iter().map(|it| it.elapsed.as_secs_f64()).sum();
    let mut text = format!(
        "{:25} {} of {} as expected",
        group.title(),
        count(Outcome::AsExpected),
        trials.len()
    );
    for (of, what) in [(Outcome::Differs, "NOT"), (Outcome::Open, "open")] {
        if count(of) > 0 {
            text.push_str(&format!(", {} {what}", count(of)));
        }
    }
    text.push_str(&format!("; {runs} runs in {seconds:.1} s"));
    let convicted = trials
        .iter()
        .filter(|it| it.seeds_to_conviction().is_some());
    let convicted: Vec<&&Trial> = convicted.collect();
    let median = |of: &dyn Fn(&Trial) -> f64| {
        let mut all: Vec<f64> = convicted.iter().map(|trial| of(trial)).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied()
    };
    let seeds = median(&|trial| trial.seeds_to_conviction().unwrap_or(0) as f64);
    let time = median(&|trial| trial.elapsed.as_secs_f64());
    let steps: Option<usize> = convicted.iter().filter_map(|trial| steps(trial)).max();
    if let (Some(seeds), Some(time), Some(steps)) = (seeds, time, steps) {
        text.push_str(&format!(
            "; a conviction took {seeds:.0} seeds and {time:.2} s in the median, and at most {steps} steps to show"
        ));
    }
    text
}

/// Writes the meaning of the ids in the lines.
fn legend(out: &mut impl Write, trials: &[Trial]) -> io::Result<()> {
    let mentioned = Property::ALL.into_iter().filter(|&property| {
        let expected = |trial: &Trial| match trial.expected {
            Expected::Sound => false,
            Expected::Convicted(of) => of.contains(&property),
        };
        trials.iter().any(|trial| {
            let total = trial.total(property);
            expected(trial) || total.broken + total.outside > 0
        })
    });
    let mentioned: Vec<String> = mentioned.map(|property| property.to_string()).collect();
    if mentioned.is_empty() {
        return Ok(());
    }
    writeln!(out, "  {} (--list says more)", mentioned.join(", "))
}

/// Writes the situations that the runs covered, and the missed ones.
///
/// # Errors
/// If `out` does.
pub fn coverage(out: &mut impl Write, trials: &[Trial]) -> io::Result<()> {
    let mut total = Coverage::default();
    trials.iter().for_each(|trial| total.add(&trial.coverage));
    // A situation counts only in the runs of the locks that can get into it.
    let mut possible: Vec<(&str, u64, u64)> = Vec::new();
    for trial in trials {
        for (name, seen) in trial.coverage.possible(&trial.promises) {
            match possible.iter_mut().find(|(of, ..)| *of == name) {
                Some((_, all_seen, runs)) => {
                    *all_seen += seen;
                    *runs += trial.coverage.runs;
                }
                None => possible.push((name, seen, trial.coverage.runs)),
            }
        }
    }
    // A rare situation has a digit more, so that it does not look as if it had not occurred.
    let percent = |count: u64, runs: u64| {
        let share = 100.0 * count as f64 / runs.max(1) as f64;
        let digits = usize::from(0.0 < share && share < 1.0);
        format!("{share:.digits$}")
    };
    let shares = possible.iter();
    let shares = shares.map(|&(name, seen, runs)| format!("{name} {} %", percent(seen, runs)));
    let shares: Vec<String> = shares.collect();
    if !shares.is_empty() {
        writeln!(
            out,
            "  situations in {} runs, each with its share of the runs in which it is possible: {}",
            total.runs,
            shares.join("; ")
        )?;
    }
    if total.bypass > 0 {
        let readers = counted(total.bypass, "reader");
        writeln!(
            out,
            "  bypass: up to {readers} that asked after a waiting writer were granted the lock before it"
        )?;
    }
    Ok(())
}

/// Writes the counterexamples of a subject, the first one in full.
///
/// # Errors
/// If `out` does.
pub fn counterexamples(out: &mut impl Write, trial: &Trial) -> io::Result<()> {
    for (index, example) in trial.counterexamples.iter().enumerate() {
        if index == 0 {
            counterexample(out, trial, example)?;
        } else {
            heading(out, trial, example)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn heading(out: &mut impl Write, trial: &Trial, example: &Counterexample) -> io::Result<()> {
    let Counterexample {
        property,
        seed,
        fixed,
        scenario,
        judged,
        ..
    } = example;
    let seed = fixed.map_or_else(|| format!("seed {seed}"), str::to_owned);
    let steps = counted(scenario.events.len() as u64, "step");
    let fault = fault_of(scenario);
    let verb = match trial.expected {
        Expected::Convicted(of) if of.contains(property) => "is convicted of",
        Expected::Convicted(_) | Expected::Sound => "breaks",
    };
    writeln!(
        out,
        "  {} {verb} {property}: {seed}, {steps}, {}",
        shown(trial.name),
        explained(fault)
    )?;
    match judged.witness(*property) {
        Some(witness) => writeln!(out, "    {}", witness.message),
        None => Ok(()),
    }
}

/// Returns a row of the matrix with its meaning.
fn explained(fault: &str) -> String {
    match nemesis_summary(fault) {
        Some(summary) => format!("fault {fault} ({summary})"),
        None if fault == MIXED => MIXED.to_owned(),
        None => "no fault".to_owned(),
    }
}

fn nemesis_summary(fault: &str) -> Option<&'static str> {
    let nemesis = NEMESES.iter().find(|nemesis| nemesis.name() == fault);
    nemesis.map(|nemesis| nemesis.summary())
}

/// Writes a counterexample: its script and its lanes.
///
/// # Errors
/// If `out` does.
pub fn counterexample(
    out: &mut impl Write,
    trial: &Trial,
    example: &Counterexample,
) -> io::Result<()> {
    let Counterexample {
        scenario,
        judged,
        property,
        ..
    } = example;
    heading(out, trial, example)?;
    played(
        out,
        scenario,
        &judged.run.history,
        judged.witness(*property),
    )
}

/// Writes the events of a scenario, followed by its history in lanes.
///
/// # Errors
/// If `out` does.
pub fn played(
    out: &mut impl Write,
    scenario: &Scenario,
    history: &History,
    witness: Option<&Witness>,
) -> io::Result<()> {
    for event in &scenario.events {
        let at = time(event.at());
        writeln!(out, "    {at:>10}  {}", event.happening)?;
    }
    writeln!(out)?;
    lanes(out, history, witness)?;
    let has_tag = history.entries.iter().any(|entry| {
        let What::Remains { keys, .. } = &entry.what else {
            return false;
        };
        keys.iter().any(|key| key.contains(&b'}'))
    });
    if has_tag {
        writeln!(
            out,
            "\n  The suite draws the key of a lock from `lock`, `{{lock}}`, `{{}}lock` and `lo}}ck`, which have different hash tags."
        )?;
    }
    Ok(())
}

/// Returns the ids of the expected violations of a subject, for lists.
#[must_use]
pub fn expected(expected: Expected) -> String {
    match expected {
        Expected::Sound => "sound".to_owned(),
        Expected::Convicted(of) => {
            let ids: BTreeSet<&str> = of.iter().map(|property| property.id()).collect();
            let ids: Vec<&str> = ids.into_iter().collect();
            format!("convicted of {}", ids.join(", "))
        }
    }
}
