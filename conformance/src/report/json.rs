//! Reports and saved scenarios as JSON.

use super::verdict;
use crate::{
    checker::Property,
    runner::{Counterexample, Trial},
    scenario::Scenario,
    subject::Expected,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A scenario that is worth keeping: with whom to play it, and what it broke.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// The name of the subject.
    pub lock: String,
    /// The property that it broke.
    pub property: Property,
    /// The scenario.
    pub scenario: Scenario,
}

impl Saved {
    /// The file of a counterexample.
    #[must_use]
    pub fn of(trial: &Trial, example: &Counterexample) -> Self {
        Self {
            lock: trial.name.to_owned(),
            property: example.property,
            scenario: example.scenario.clone(),
        }
    }

    /// The JSON form, one event a line.
    #[must_use]
    pub fn to_json(&self) -> String {
        let (lock, property) = (json!(self.lock), json!(self.property));
        let scenario = self.scenario.to_json();
        format!("{{\"lock\":{lock},\"property\":{property},\"scenario\":{scenario}}}\n")
    }

    /// Reads the JSON form.
    ///
    /// # Errors
    /// If the text is not JSON or not a saved scenario.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }
}

/// The whole report.
#[must_use]
pub fn report(trials: &[Trial]) -> Value {
    json!({
        "format": 1,
        "as_expected": trials.iter().all(Trial::as_expected),
        "locks": trials.iter().map(trial).collect::<Vec<_>>(),
    })
}

fn trial(trial: &Trial) -> Value {
    let cells = trial.cells.iter().map(|(&(row, property), cell)| {
        json!({
            "faults": row,
            "property": property.id(),
            "held": cell.held,
            "broken": cell.broken,
            "outside_its_guarantee": cell.outside,
            "unknown": cell.unknown,
            "first_seed": cell.seed,
        })
    });
    let sights = trial
        .coverage
        .sights()
        .map(|(name, count)| (name.to_owned(), json!(count)));
    let examples = trial.counterexamples.iter().map(|example| {
        json!({
            "property": example.property.id(),
            "seed": example.seed,
            "steps_before": example.events_before,
            "shrink_runs": example.shrink_runs,
            "message": example.judged.witness(example.property).map(|witness| &witness.message),
            "saved": Saved::of(trial, example),
        })
    });
    json!({
        "lock": trial.name,
        "backend": trial.backend,
        "expected": match trial.expected {
            Expected::Sound => "sound",
            Expected::Convicted(_) => "convicted",
        },
        "as_expected": trial.as_expected(),
        "verdict": verdict(trial),
        "runs": trial.coverage.runs,
        "grants": trial.coverage.grants,
        "unsupported": trial.unsupported,
        "inconclusive": trial.inconclusive,
        "seconds": trial.elapsed.as_secs_f64(),
        "seen_in_runs": sights.collect::<serde_json::Map<_, _>>(),
        "cells": cells.collect::<Vec<_>>(),
        "counterexamples": examples.collect::<Vec<_>>(),
    })
}
