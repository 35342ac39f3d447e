//! Every specimen is convicted of what it breaks. What is printed: how soon, and how short the
//! counterexamples are.

use redouble_conformance::{
    backend::Double,
    runner::{Plan, run_trial},
    subject::{Expected, subjects},
};

/// The seeds within which a conviction has to succeed.
const SEEDS: u64 = 2_000;

/// What is tried: ids that begin with one of these words; everything unless told.
fn wanted(name: &str) -> bool {
    match std::env::var("SPECIMENS") {
        Ok(words) => words.split(',').any(|word| name.starts_with(word)),
        Err(_) => true,
    }
}

#[test]
fn each_is_convicted_of_what_it_breaks() {
    let plan = Plan {
        seeds: 0..SEEDS,
        ..Plan::quick(&Double)
    };
    let mut at_large = Vec::new();
    for row in subjects() {
        let suspect = (row.make)();
        let Expected::Convicted(of) = row.expected else {
            continue;
        };
        if !wanted(suspect.name()) {
            continue;
        }
        let trial = run_trial(&*suspect, row.expected, &Double, &plan, &|_| {})
            .expect("the double is there");
        let told: Vec<String> = trial
            .counterexamples
            .iter()
            .map(|it| {
                let steps = it.scenario.events.len();
                format!("{} seed {} in {steps} events", it.property.id(), it.seed)
            })
            .collect();
        eprintln!("{:10} {}", trial.name, told.join(", "));
        let broken = trial.broken();
        let missed: Vec<_> = of.iter().filter(|it| !broken.contains(it)).collect();
        if !missed.is_empty() {
            at_large.push((trial.name, missed));
        }
    }
    assert!(at_large.is_empty(), "not convicted: {at_large:?}");
}
