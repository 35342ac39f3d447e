//! The fixed scenarios: what locks are convicted of and cleared of there, on the double and on a real
//! server, which have to agree.

use redouble_conformance::{
    backend::{Backend, Double, Real},
    runner::{Plan, Trial, run_trial},
    scenario::fixed,
    subject::{Expected, Row, subjects},
};

fn plan(backend: &dyn Backend) -> Plan {
    Plan {
        fixed: true,
        seeds: 0..0,
        ..Plan::quick(backend)
    }
}

fn tried(row: &Row, backend: &dyn Backend) -> Trial {
    let suspect = (row.make)();
    run_trial(&*suspect, row.expected, backend, &plan(backend), &|_| {})
        .expect("the backend is there")
}

#[test]
fn survey() {
    for row in subjects() {
        let trial = tried(row, &Double);
        let told: Vec<_> = trial
            .counterexamples
            .iter()
            .map(|it| (it.property.id(), it.fixed.unwrap_or("-")))
            .collect();
        let _ = Expected::Sound;
        eprintln!(
            "{:12} {:?} {} {told:?}",
            trial.name,
            trial.outcome(),
            trial.fixed.played
        );
    }
    eprintln!("{}", fixed::all().count());
}

#[test]
fn real() {
    let wanted = std::env::var("LOCKS").unwrap_or_default();
    let wanted: Vec<&str> = wanted.split(',').collect();
    let real = Real::from_environment().unwrap().unwrap();
    for row in subjects().filter(|row| wanted.contains(&(row.make)().name())) {
        let began = std::time::Instant::now();
        let trial = tried(row, &real);
        eprintln!(
            "{:12} {:?} {:?} in {:?}",
            trial.name,
            trial.outcome(),
            trial.fixed,
            began.elapsed()
        );
        for it in &trial.counterexamples {
            eprintln!(
                "   {} {:?} {:?}",
                it.property.id(),
                it.fixed,
                it.judged.witness(it.property).map(|it| &it.message)
            );
        }
    }
}
