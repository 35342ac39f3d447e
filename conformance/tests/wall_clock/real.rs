//! The fixed scenarios: verdicts on locks, on the double and on a real server. The two must agree.

#![expect(clippy::unwrap_used, reason = "a test that fails")]

use redouble_conformance::{
    backend::{Backend, Double, Real},
    checker::Property,
    history::{Call, History, OpId, What},
    runner::{Outcome, Plan, Trial, run_trial},
    scenario::fixed,
    simulation::Run,
    subject::{DynSubject, Expected, Row, SUBJECTS, subjects},
};
use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Instant,
};

/// Returns a real server, if there is one; prints a note if there is none.
fn real() -> Option<Real> {
    let real = Real::from_environment().unwrap();
    if real.is_none() {
        eprintln!("no redis-server: only the double was asked");
    }
    real
}

fn row(name: &str) -> &'static Row {
    let mut all = subjects();
    all.find(|row| (row.make)().name() == name)
        .unwrap_or_else(|| panic!("{name} is not listed"))
}

fn tried(row: &Row, backend: &dyn Backend, jobs: usize) -> Trial {
    let plan = Plan {
        fixed: true,
        seeds: 0..0,
        jobs,
        ..Plan::quick(backend)
    };
    let subject = (row.make)();
    run_trial(&*subject, row.expected, backend, &plan, &|_| {}).expect("the backend is there")
}

#[test]
fn our_locks_are_cleared_on_the_double_and_most_specimens_convicted() {
    for row in SUBJECTS.iter().filter(|it| it.expected == Expected::Sound) {
        let trial = tried(row, &Double, 2);
        let found = trial.counterexamples.iter();
        let found: Vec<_> = found.map(|it| (it.property, it.fixed)).collect();
        assert_eq!(found, [], "{}", trial.name);
        assert_eq!(trial.fixed.played, trial.fixed.there, "{}", trial.name);
    }
    let of_others = subjects().filter(|it| it.expected != Expected::Sound);
    let trials: Vec<Trial> = of_others.map(|row| tried(row, &Double, 2)).collect();
    let at_large = trials.iter().filter(|it| !it.as_expected());
    let at_large: Vec<_> = at_large.map(|it| it.name).collect();
    eprintln!(
        "{} of {} at large: {at_large:?}",
        at_large.len(),
        trials.len()
    );
    assert!(at_large.len() * 4 < trials.len(), "{at_large:?}");
}

/// Locks that are played on a real server as well: ours, systems in production use, and specimens that a fixed scenario
/// convicts of a property that any backend shows. The first five take most of the time: they are played in all scenarios.
const BESIDE: [&str; 28] = [
    "mutex",
    "redlock-of-three",
    "fair",
    "seed-A1",
    "B48",
    "seed-D1",
    "seed-D3",
    "seed-D4",
    "B01a",
    "B02",
    "B03a",
    "B06a",
    "B07",
    "B08b",
    "B16",
    "B20b",
    "B22b",
    "B24b",
    "B29",
    "B30b",
    "B31",
    "B32",
    "B33a",
    "B38b",
    "B39b",
    "B43",
    "B45a",
    "B46",
];

/// Numbers of locks, and of runs of each, that are played at a time. A run waits for nearly all of its time.
const LOCKS: usize = 4;
const RUNS: usize = 12;

#[test]
fn the_double_and_a_real_server_agree() {
    let Some(real) = real() else { return };
    let began = Instant::now();
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut trials = Vec::new();
        while let Some(name) = BESIDE.get(next.fetch_add(1, Ordering::Relaxed)) {
            trials.push(tried(row(name), &real, RUNS));
        }
        trials
    };
    let trials: Vec<Trial> = thread::scope(|scope| {
        let workers: Vec<_> = (0..LOCKS).map(|_| scope.spawn(worker)).collect();
        let trials = workers.into_iter().map(|it| it.join().unwrap());
        trials.flatten().collect()
    });
    assert_eq!(trials.len(), BESIDE.len());
    let mut told = Vec::new();
    for trial in &trials {
        let runs = &trial.fixed;
        eprintln!(
            "{:17} {:2} of {} played, {} silent, {:?} unsupported, {} inconclusive, {} repeated, {} compared",
            trial.name,
            runs.played,
            runs.there,
            runs.silent,
            runs.unsupported,
            runs.inconclusive,
            runs.repeated,
            runs.compared
        );
        let disagreements = runs.disagreements.iter();
        told.extend(disagreements.map(|it| format!("{}, {it}", trial.name)));
        if trial.outcome() != Outcome::AsExpected {
            told.push(format!("{}: broken {:?}", trial.name, trial.broken()));
        }
    }
    eprintln!("in {:.1} s", began.elapsed().as_secs_f64());
    assert!(told.is_empty(), "{}", told.join("\n"));
    let spoiled: u64 = trials.iter().map(|it| it.fixed.inconclusive).sum();
    let there: u64 = trials.iter().map(|it| it.fixed.played).sum();
    assert!(
        spoiled * 4 < there,
        "{spoiled} of {there} said nothing: the machine is too busy"
    );
}

/// Largest number of repetitions of a run that the machine spoils.
const REPEATS_MAX: usize = 10;

/// Largest number of attempts of a step that depends on the speed of the machine.
const ATTEMPTS_MAX: usize = 5;

/// Plays a fixed scenario, and repeats it if a gap of the machine spoils the run.
fn played(real: &Real, subject: &dyn DynSubject, name: &str) -> Run {
    let fixed = fixed::all().find(|fixed| fixed.name == name).unwrap();
    let scenario = fixed.scenario(subject.promises()).unwrap();
    let mut runs = (0..REPEATS_MAX).map(|_| subject.play(real, &scenario).unwrap());
    let run = runs.find(|run| run.gap <= scenario.lease() / 6);
    run.unwrap_or_else(|| panic!("{name}: the machine is too busy"))
}

/// Returns the outcome of an operation.
fn ended(history: &History, wanted: OpId) -> &What {
    let mut events = history.entries.iter().map(|entry| &entry.what);
    let ended = events.find(|what| {
        matches!(what, What::Ok { op, .. } | What::Fail { op, .. } | What::Info { op, .. } if *op == wanted)
    });
    ended.unwrap_or_else(|| panic!("operation {wanted} has not ended"))
}

/// Returns the id of the first `Try` of a process.
fn first_try(history: &History, host: u8) -> OpId {
    let tries = history.calls().into_iter();
    let mut theirs = tries
        .filter(|(_, (_, actor, call))| actor.host == host && matches!(call, Call::Try { .. }));
    theirs.next().map(|(op, _)| op).expect("it tries")
}

#[test]
fn a_fault_takes_effect_on_a_real_server() {
    let Some(real) = real() else { return };
    let (mutex, replicated) = ((row("mutex").make)(), (row("B33a").make)());
    // The last field: true if another client gets the lock while its holder believes in it.
    for (subject, scenario, other, gets_it) in [
        (&mutex, "server-restarts-with-its-data", 1, false),
        (&mutex, "server-forgets", 1, true),
        (&mutex, "key-evicted", 1, true),
        (&replicated, "failover-in-time", 1, false),
        (&replicated, "failover-to-a-late-replica", 2, true),
    ] {
        let outcome = || {
            let history = played(&real, &**subject, scenario).history;
            ended(&history, first_try(&history, other)).clone()
        };
        // On a busy machine a replica may not receive a write in time.
        let as_told = |outcome: &What| matches!(outcome, What::Ok { .. }) == gets_it;
        let mut outcomes = (0..ATTEMPTS_MAX).map(|_| outcome());
        assert!(
            outcomes.any(|it| as_told(&it)),
            "{scenario}: {gets_it} is never seen"
        );
    }
    // A paused server replies to nothing, so the release has an unknown outcome.
    let history = played(&real, &*mutex, "server-paused-past-the-lease").history;
    let releases = history.calls().into_iter();
    let mut releases = releases.filter(|(_, (.., call))| matches!(call, Call::Release { .. }));
    let (first, _) = releases.next().unwrap();
    assert!(
        matches!(ended(&history, first), What::Info { .. }),
        "{:?}",
        ended(&history, first)
    );
}

#[test]
fn a_server_of_others_is_left_alone() {
    let Some(real) = real() else { return };
    let url = format!("redis://127.0.0.1:{}", real.port());
    let theirs = Real::at(&url).unwrap();
    let trial = tried(row("redlock-of-three"), &theirs, 4);
    assert_eq!((trial.fixed.played, trial.outcome()), (0, Outcome::Open));
    let trial = tried(row("canary"), &theirs, 4);
    let shown = trial.broken();
    assert!(shown.contains(&Property::Exclusion), "{shown:?}");
    assert_eq!(trial.fixed.disagreements, []);
    let lacking: Vec<&str> = trial.fixed.unsupported.keys().map(|it| it.name()).collect();
    assert!(
        lacking.contains(&"killing a node") && lacking.contains(&"forgetting"),
        "{lacking:?}"
    );
}
