//! The data of the page as JSON. Names occur once; cells are rows of numbers.

use crate::{
    checker::Property,
    report::{Group, Saved, fault_of, listed, rows, shown, terminal, timeline::Timeline, verdict},
    runner::{Counterexample, Outcome, Trial},
    scenario::nemesis::NEMESES,
    subject::{Expected, Row},
    verdict::{CALM, Cell, MIXED},
};
use serde_json::{Value, json};

pub(super) fn of(trials: &[Trial]) -> Value {
    let properties = Property::ALL.map(|property| {
        json!({
            "id": property.id(),
            "title": property.title(),
            "statement": property.statement(),
        })
    });
    let faults = rows().map(|name| json!({ "name": name, "summary": summary(name) }));
    let groups = Group::ALL.map(Group::title);
    let introductions = Group::ALL.map(Group::introduction);
    let probes = trials.first().map(|trial| trial.coverage.probes());
    let probes = probes.into_iter().flatten().map(|(name, _)| name);
    json!({
        "good": trials.iter().all(|trial| trial.outcome() != Outcome::Differs),
        "backend": trials.first().map(|trial| &trial.backend),
        "seconds": trials.iter().map(|trial| trial.elapsed.as_secs_f64()).sum::<f64>(),
        "properties": properties.as_slice(),
        "faults": faults.collect::<Vec<_>>(),
        "groups": groups.as_slice(),
        "introductions": introductions.as_slice(),
        "probes": probes.collect::<Vec<_>>(),
        "subjects": trials.iter().map(subject).collect::<Vec<_>>(),
    })
}

fn summary(fault: &str) -> &'static str {
    let nemesis = NEMESES.iter().find(|nemesis| nemesis.name() == fault);
    match fault {
        CALM => "there are no faults",
        MIXED => "several kinds of faults strike in one run",
        _ => nemesis.map_or("", |nemesis| nemesis.summary()),
    }
}

fn subject(trial: &Trial) -> Value {
    let group = Group::of(trial.name);
    let expected: &[Property] = match trial.expected {
        Expected::Sound => &[],
        Expected::Convicted(of) => of,
    };
    let examples = trial.counterexamples.iter();
    json!({
        "id": trial.name,
        "name": shown(trial.name),
        "met": listed(trial.name).and_then(Row::met),
        "group": Group::ALL.iter().position(|&other| other == group),
        "summary": listed(trial.name).map(|row| row.summary),
        "verdict": verdict(trial),
        "outcome": match trial.outcome() {
            Outcome::AsExpected => "good",
            Outcome::Differs => "bad",
            Outcome::Open => "open",
        },
        "expected": expected.iter().map(|&property| place(property)).collect::<Vec<_>>(),
        "runs": trial.coverage.runs,
        "grants": trial.coverage.grants,
        "seconds": trial.elapsed.as_secs_f64(),
        "unsupported": trial.unsupported,
        "inconclusive": trial.inconclusive,
        "fixed": terminal::fixed(trial),
        "probes": trial.coverage.probes().map(|(_, count)| count).collect::<Vec<_>>(),
        "cells": cells(trial),
        "examples": examples.map(|example| self::example(trial, example)).collect::<Vec<_>>(),
    })
}

fn place(property: Property) -> Option<usize> {
    Property::ALL.iter().position(|&other| other == property)
}

/// Returns rows of numbers: fault, property, then the numbers of runs in which it held, was broken, was
/// broken outside of the guarantee, was not judged, and the first seed that broke it. Trailing zeros are
/// omitted.
fn cells(trial: &Trial) -> Vec<Value> {
    let mut cells = Vec::new();
    for (fault, name) in rows().enumerate() {
        for (property, of) in Property::ALL.into_iter().enumerate() {
            let Some(cell) = trial.cells.get(&(name, of)) else {
                continue;
            };
            let &Cell {
                held,
                unknown,
                broken,
                outside,
                seed,
            } = cell;
            let mut row = vec![json!(fault), json!(property)];
            row.extend([held, broken, outside, unknown].map(Value::from));
            while row.last() == Some(&json!(0)) && row.len() > 2 {
                row.pop();
            }
            if let Some(seed) = seed {
                row.resize(6, json!(0));
                row.push(json!(seed));
            }
            cells.push(Value::Array(row));
        }
    }
    cells
}

fn example(trial: &Trial, example: &Counterexample) -> Value {
    let saved = Saved::of(trial, example);
    let events = example.scenario.events.iter();
    let events = events.map(|event| json!([event.at_ms, event.happening.to_string()]));
    let fault = fault_of(&example.scenario);
    json!({
        "property": place(example.property),
        "fault": rows().position(|name| name == fault),
        "seed": example.seed,
        "before": example.events_before,
        "shrunk": example.shrink_runs,
        "message": example.judged.witness(example.property).map(|witness| &witness.message),
        "servers": example.scenario.topology.to_string(),
        "events": events.collect::<Vec<_>>(),
        "json": saved.to_json(),
        "rust": saved.rust_test(trial.code.as_deref()),
        "command": saved.command(),
        "timeline": Timeline::of(example),
    })
}
