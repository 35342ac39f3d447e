//! Reports as JSON: a flat list of verdicts, and details of each subject.

use super::{Group, Saved, fault_of, listed, verdict, without_variant};
use crate::{
    checker::Property,
    runner::{FixedRuns, Outcome, Trial},
    subject::{Expected, Row},
    verdict::{CALM, Cell, Claim, MIXED, claim},
};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Formats the whole report, one verdict per line.
///
/// A verdict is about a subject, a property and a kind of fault. `expected` follows from the promises:
/// `holds`; `convicted` for a known bug of the subject; `outside` if the property is outside of its
/// guarantee; `quorum` if it depends on the number of failed nodes; `scenario` if it depends on the
/// combination of faults. `verdict` is the observation: `holds`, `broken`, `outside`, or `unknown` if no run
/// had enough evidence. `events` is the number of steps of the minimal counterexample.
#[must_use]
pub fn text(trials: &[Trial]) -> String {
    let lines = |values: Vec<Value>| {
        let lines: Vec<String> = values.iter().map(|it| format!("    {it}")).collect();
        lines.join(",\n")
    };
    let good = trials.iter().all(|it| it.outcome() != Outcome::Differs);
    let backend = trials.first().map_or("", |trial| &trial.backend);
    format!(
        "{{\n  \"format\": 2,\n  \"backend\": {},\n  \"as_expected\": {good},\n  \"verdicts\": [\n{}\n  ],\n  \
         \"subjects\": [\n{}\n  ]\n}}\n",
        json!(backend),
        lines(trials.iter().flat_map(verdicts).collect()),
        lines(trials.iter().map(subject).collect()),
    )
}

fn verdicts(trial: &Trial) -> Vec<Value> {
    let cells = trial.cells.iter();
    let told = cells.filter(|(_, cell)| cell.held + cell.broken + cell.outside + cell.unknown > 0);
    told.map(|(&(fault, property), cell)| {
        let mut examples = trial.counterexamples.iter();
        let example =
            examples.find(|it| it.property == property && fault_of(&it.scenario) == fault);
        json!({
            "subject": without_variant(trial.name),
            "sub_id": trial.name,
            "property": property.id(),
            "fault": fault,
            "backend": trial.backend,
            "expected": expected(trial, fault, property),
            "verdict": seen(cell),
            "seeds": {
                "held": cell.held,
                "broken": cell.broken,
                "outside": cell.outside,
                "unknown": cell.unknown,
                "first": cell.seed,
            },
            "events": example.map(|it| it.scenario.events.len()),
        })
    })
    .collect()
}

fn expected(trial: &Trial, fault: &'static str, property: Property) -> &'static str {
    if let Expected::Convicted(of) = trial.expected
        && of.contains(&property)
    {
        return "convicted";
    }
    let nemeses = match fault {
        CALM => BTreeSet::new(),
        MIXED => return "scenario",
        fault => BTreeSet::from([fault]),
    };
    match claim(trial.promises, &nemeses, property) {
        Claim::Holds => "holds",
        Claim::Quorum => "quorum",
        Claim::Outside => "outside",
    }
}

const fn seen(cell: &Cell) -> &'static str {
    if cell.broken > 0 {
        "broken"
    } else if cell.outside > 0 {
        "outside"
    } else if cell.held > 0 {
        "holds"
    } else {
        "unknown"
    }
}

/// Returns the results of the fixed scenarios; null if none were played.
fn fixed(runs: &FixedRuns) -> Value {
    if runs.there == 0 {
        return Value::Null;
    }
    let lacking = runs.unsupported.iter();
    let lacking = lacking.map(|(need, count)| (need.name().to_owned(), json!(count)));
    let disagreements = runs.disagreements.iter().map(|it| {
        json!({
            "scenario": it.scenario,
            "property": it.property.id(),
            "broken_on": if it.on_real.is_some() { "real" } else { "double" },
            "message": it.on_real,
        })
    });
    json!({
        "there": runs.there,
        "played": runs.played,
        "unsupported": lacking.collect::<Map<_, _>>(),
        "silent": runs.silent,
        "inconclusive": runs.inconclusive,
        "repeated": runs.repeated,
        "compared": runs.compared,
        "disagreements": disagreements.collect::<Vec<_>>(),
    })
}

fn subject(trial: &Trial) -> Value {
    let probes = trial.coverage.probes();
    let probes = probes.map(|(name, count)| (name.to_owned(), json!(count)));
    let examples = trial.counterexamples.iter().map(|example| {
        json!({
            "property": example.property.id(),
            "fault": fault_of(&example.scenario),
            "seed": example.seed,
            "fixed": example.fixed,
            "events": example.scenario.events.len(),
            "events_before": example.events_before,
            "shrink_runs": example.shrink_runs,
            "message": example.judged.witness(example.property).map(|witness| &witness.message),
            "saved": Saved::of(trial, example),
        })
    });
    let (expected, of): (_, &[Property]) = match trial.expected {
        Expected::Sound => ("sound", &[]),
        Expected::Convicted(of) => ("convicted", of),
    };
    let ids = |of: &[Property]| of.iter().map(|property| property.id()).collect::<Vec<_>>();
    json!({
        "subject": without_variant(trial.name),
        "sub_id": trial.name,
        "name": listed(trial.name).map_or(trial.name, |row| row.name),
        "met": listed(trial.name).and_then(Row::met),
        "group": Group::of(trial.name),
        "summary": listed(trial.name).map(|row| row.summary),
        "backend": trial.backend,
        "expected": expected,
        "expected_properties": ids(of),
        "broken_properties": ids(&trial.broken()),
        "outcome": match trial.outcome() {
            Outcome::AsExpected => "as_expected",
            Outcome::Differs => "differs",
            Outcome::Open => "open",
        },
        "verdict": verdict(trial),
        "seeds": [trial.plan.seeds.start, trial.plan.seeds.end],
        "seeds_to_conviction": trial.seeds_to_conviction(),
        "runs": trial.coverage.runs,
        "grants": trial.coverage.grants,
        "unsupported": trial.unsupported,
        "inconclusive": trial.inconclusive,
        "fixed": fixed(&trial.fixed),
        "seconds": trial.elapsed.as_secs_f64(),
        "seen_in_runs": probes.collect::<Map<_, _>>(),
        "counterexamples": examples.collect::<Vec<_>>(),
    })
}
