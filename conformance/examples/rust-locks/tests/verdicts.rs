//! What is true of two locks of crates.io.

#![cfg(unix)]

mod late_reply;

use late_reply::{LEASE_MS, overlap};
use redouble_conformance::{
    backend::{Double, WallClock},
    checker::Property,
    runner::{Counterexample, Plan, Trial, judge, run_trial},
    subject::{Expected, Foreign},
};
use std::sync::Mutex;

/// Only one test at a time measures times.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn start(program: &str, arguments: &[&str]) -> Foreign {
    let line = [&[program], arguments].concat();
    Foreign::start(line).expect("it passes the rehearsal")
}

/// What breaks within what is promised, over scenarios with all faults that can be played.
fn tried(lock: &Foreign) -> Trial {
    let backend = WallClock::new(Double, LEASE_MS);
    let plan = Plan {
        seeds: 0..30,
        jobs: 6,
        ..Plan::quick(&backend)
    };
    let trial = run_trial(lock, Expected::Sound, &backend, &plan, &|_| {});
    let trial = trial.expect("the double is there");
    for example in &trial.counterexamples {
        let witness = example.judged.witness(example.property);
        let message = witness.map_or("", |it| &*it.message);
        eprintln!("{}: {}: {message}", trial.name, example.property);
    }
    let (runs, probes) = (trial.coverage.runs, trial.coverage.probes());
    let contended = probes.into_iter().find(|it| it.0 == "contended");
    assert!(runs >= 15 && contended.is_some_and(|it| it.1 * 2 >= runs));
    trial
}

/// What no lock may break that is worth its name.
const SAFETY: [Property; 6] = [
    Property::NoPanics,
    Property::Exclusion,
    Property::Linearizable,
    Property::Ownership,
    Property::Progress,
    Property::GroundedBelief,
];

/// What a failed extension breaks is in `in_process.rs`.
#[test]
fn rslock_keeps_holders_apart_who_do_not_extend() {
    let _alone = ONE_AT_A_TIME.lock();
    for nodes in ["1", "3"] {
        let adapter = env!("CARGO_BIN_EXE_rslock-adapter");
        let lock = start(adapter, &[nodes, "without-extension"]);
        let trial = tried(&lock);
        // What breaks in real time has to break again: the machine may have been busy with something else.
        let backend = WallClock::new(Double, LEASE_MS);
        let again = |it: &Counterexample| {
            let judged = judge(&lock, &backend, &it.scenario).expect("the double is there");
            judged.witness(it.property).is_some()
        };
        let mut examples = trial.counterexamples.iter();
        let broken = examples.any(|it| SAFETY.contains(&it.property) && again(it) && again(it));
        assert!(!broken, "{:?}", trial.broken());
    }
}

/// It subtracts what the request took from the lease, and does not look whether there was as much: built
/// without checks of overflow, as programs are in release, the lock is then valid for ever.
#[test]
fn redlock_believes_in_a_lease_that_was_over_when_its_reply_came() {
    let _alone = ONE_AT_A_TIME.lock();
    let redlock = start(env!("CARGO_BIN_EXE_redlock-adapter"), &["1"]);
    let told = overlap(&redlock);
    let both = "both c1 and c2 believe that they hold the lock";
    assert!(
        told.as_ref().is_some_and(|it| it.contains(both)),
        "{told:?}"
    );
    let rslock = start(env!("CARGO_BIN_EXE_rslock-adapter"), &["1"]);
    assert_eq!(overlap(&rslock), None);
}
