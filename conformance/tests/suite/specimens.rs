//! The suite convicts every specimen of its mistake, and clears the sound locks among the systems in production use.
//! The test prints how many seeds each conviction took, and how short the counterexamples are.

use redouble_conformance::{
    backend::Double,
    checker::Property,
    history::{Actor, Kind},
    runner::{CONVICTION, Counterexample, Plan, judge, run_trial},
    scenario::{Event, Fault, Happening, Op, Scenario, Schedule, Topology},
    subject::{DynSubject, Expected, Promises, Row, SEEDS, subjects},
    verdict::claim,
};
use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

/// The seeds within which a conviction has to succeed.
const SEEDS_MAX: u64 = CONVICTION;

/// True if the test tries the lock: its id begins with one of the words in `SPECIMENS`. Without `SPECIMENS` it tries
/// all locks.
fn wanted(name: &str) -> bool {
    match std::env::var("SPECIMENS") {
        Ok(words) => words.split(',').any(|word| name.starts_with(word)),
        Err(_) => true,
    }
}

/// Returns the sound lock that is most similar to a specimen.
fn twin(promises: Promises) -> Box<dyn DynSubject> {
    let name = match (promises.kind, promises.topology) {
        (Kind::ReadWrite, _) => "read-write",
        (Kind::Semaphore(_), Topology::Nodes(1)) => "semaphore",
        (Kind::Admission(_), _) => "seed-A2",
        (_, Topology::Nodes(2..)) => "seed-C1",
        (_, Topology::Nodes(_) | Topology::Replicated { .. }) => {
            match (promises.reentrant, promises.renews) {
                (true, _) => "reentrant",
                (false, true) => "seed-B1",
                (false, false) => "seed-A1",
            }
        }
    };
    let mut all = subjects().map(|row| (row.make)());
    all.find(|it| it.name() == name).expect("it is listed")
}

/// True if a lock without the mistake breaks the same property in the same scenario although it promises to keep it.
/// The counterexample then does not show the mistake of the specimen.
fn proves_nothing(example: &Counterexample, promises: Promises) -> bool {
    let (twin, property) = (twin(promises), example.property);
    let judged = judge(&*twin, &Double, &example.scenario).expect("the double is there");
    let claim = claim(twin.promises(), &example.scenario.nemeses(), property);
    let witness = judged.witness(property);
    witness.is_some_and(|it| claim.blames(&judged.run.history, property, it))
}

/// Largest number of counterexamples that are skipped because the sound lock fails them as well.
const SHARED_MAX: u32 = 8;

/// Returns a counterexample that only the specimen fails, after one that the sound lock fails too.
fn own_example(
    subject: &dyn DynSubject,
    expected: Expected,
    shared: &Counterexample,
) -> Option<Counterexample> {
    let property = shared.property;
    let mut from = shared.seed + 1;
    for _ in 0..SHARED_MAX {
        let plan = Plan {
            seeds: from..SEEDS_MAX,
            properties: vec![property],
            ..Plan::quick(&Double)
        };
        let trial =
            run_trial(subject, expected, &Double, &plan, &|_| {}).expect("the double is there");
        let found = trial
            .counterexamples
            .into_iter()
            .find(|it| it.property == property)?;
        if !proves_nothing(&found, subject.promises()) {
            return Some(found);
        }
        from = found.seed + 1;
    }
    None
}

/// Tries a specimen, prints the properties of which it was convicted, and returns the expected ones of which it was
/// not.
fn missed(row: &Row, of: &'static [Property], plan: &Plan) -> Vec<Property> {
    let subject = (row.make)();
    let mut trial =
        run_trial(&*subject, row.expected, &Double, plan, &|_| {}).expect("the double is there");
    for it in &mut trial.counterexamples {
        if of.contains(&it.property) && proves_nothing(it, subject.promises()) {
            let own = own_example(&*subject, row.expected, it);
            *it = own.unwrap_or_else(|| it.clone());
        }
    }
    let (mut told, mut proven) = (Vec::new(), Vec::new());
    for it in &trial.counterexamples {
        let (id, seed, steps) = (it.property.id(), it.seed, it.scenario.events.len());
        if proves_nothing(it, subject.promises()) {
            told.push(format!(
                "{id} seed {seed} in {steps} events (so does its twin)"
            ));
        } else {
            told.push(format!("{id} seed {seed} in {steps} events"));
            proven.push(it.property);
        }
    }
    eprintln!("{:10} {}", trial.name, told.join(", "));
    if std::env::var("SPECIMENS").is_ok() {
        let asked = trial.counterexamples.iter();
        for it in asked.filter(|it| of.contains(&it.property)) {
            let message = it.judged.witness(it.property).map(|it| &*it.message);
            eprintln!("  {}: {}", it.property.id(), message.unwrap_or_default());
            eprintln!("{}", it.scenario.to_json());
        }
    }
    let missed = of.iter().filter(|it| !proven.contains(it));
    missed.copied().collect()
}

#[test]
fn each_specimen_is_convicted_of_what_it_breaks() {
    let quick = Plan::quick(&Double);
    // As many specimens at a time as there are cores, instead of one on all cores: much of a conviction is shrinking.
    let plan = Plan {
        seeds: 0..SEEDS_MAX,
        jobs: 1,
        ..quick
    };
    let rows: Vec<&Row> = subjects()
        .filter(|row| wanted((row.make)().name()))
        .collect();
    assert!(!rows.is_empty(), "SPECIMENS names none");
    let next = AtomicUsize::new(0);
    let work = || {
        let mut at_large = Vec::new();
        while let Some(row) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Expected::Convicted(of) = row.expected {
                let missed = missed(row, of, &plan);
                if !missed.is_empty() {
                    at_large.push(((row.make)().name(), missed));
                }
            }
        }
        at_large
    };
    let at_large: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..quick.jobs).map(|_| scope.spawn(work)).collect();
        let joined = workers
            .into_iter()
            .flat_map(|it| it.join().expect("it ran"));
        joined.collect()
    });
    assert!(at_large.is_empty(), "not convicted: {at_large:?}");
}

/// The release of this lock asks for the value of the key, and then removes the key. Without latency, only a pause that waits
/// for the first reply comes in between.
#[test]
fn a_pause_comes_between_two_requests_of_a_call() {
    let row = subjects().find(|row| (row.make)().name() == "B03a");
    let subject = (row.unwrap().make)();
    let frees_another = |after: u32| {
        let op = |host, op| Happening::Op {
            actor: Actor::on(host),
            op,
        };
        let pause = Happening::Fault {
            for_ms: 1_500,
            fault: Fault::Pause { host: 0, after },
        };
        let events = [
            (0, op(0, Op::TRY)),
            (100, pause),
            (100, op(0, Op::Release)),
            (1_200, op(1, Op::TRY)),
        ];
        let events = (0..).zip(events).map(|(id, (at_ms, happening))| Event {
            id,
            at_ms,
            happening,
        });
        let scenario = Scenario {
            seed: 0,
            lease_ms: 1_000,
            schedule: Schedule::Fifo,
            latency_ms: 0,
            timeout_ms: None,
            topology: Topology::ONE,
            events: events.collect(),
        };
        let again = Scenario::from_json(&scenario.to_json()).unwrap();
        assert_eq!(again, scenario);
        let judged = judge(&*subject, &Double, &scenario).unwrap();
        judged.witness(Property::Ownership).is_some()
    };
    assert!(frees_another(1));
    assert!(!frees_another(0), "the release begins after the pause");
    assert!(!frees_another(2), "it ends before the pause");
    assert!(!frees_another(3), "there is no third reply");
}

#[test]
fn the_sound_systems_are_cleared() {
    let plan = Plan {
        seeds: 0..SEEDS_MAX / 8,
        ..Plan::quick(&Double)
    };
    let mut accused = Vec::new();
    let sound = |row: &&Row| row.expected == Expected::Sound;
    for row in SEEDS.iter().copied().flatten().filter(sound) {
        let subject = (row.make)();
        if !wanted(subject.name()) {
            continue;
        }
        let trial = run_trial(&*subject, row.expected, &Double, &plan, &|_| {})
            .expect("the double is there");
        for it in &trial.counterexamples {
            let witness = it.judged.witness(it.property);
            let message = witness.map_or("", |witness| &witness.message);
            let (id, seed, steps) = (it.property.id(), it.seed, it.scenario.events.len());
            eprintln!(
                "{:10} {id} seed {seed} in {steps} events: {message}",
                trial.name
            );
            eprintln!("{}", it.scenario.to_json());
            accused.push((trial.name, id));
        }
    }
    assert!(accused.is_empty(), "accused: {accused:?}");
}
