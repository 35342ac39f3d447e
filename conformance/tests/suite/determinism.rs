//! Equal seeds give equal runs: the same history, as many steps, the same last draw.

use redouble_conformance::{backend::Double, scenario::generate::Generator, subject::SUBJECTS};

#[test]
fn each_seed_gives_the_same_run_twice() {
    for row in SUBJECTS {
        let subject = (row.make)();
        let generator = Generator::of(subject.promises(), None);
        for seed in 0..100 {
            let scenario = generator.scenario(seed);
            let first = subject.play(&Double, &scenario).unwrap();
            let second = subject.play(&Double, &scenario).unwrap();
            assert_eq!(
                first.history,
                second.history,
                "{}, seed {seed}",
                subject.name()
            );
            assert_eq!(first, second, "{}, seed {seed}", subject.name());
        }
    }
}

#[test]
fn different_seeds_give_different_runs() {
    let generator = Generator::default();
    let subject = (SUBJECTS[0].make)();
    let scenario = generator.scenario(7);
    let histories: std::collections::BTreeSet<String> = (0..50)
        .map(|seed| {
            let scenario = redouble_conformance::scenario::Scenario {
                seed,
                ..scenario.clone()
            };
            format!("{:?}", subject.play(&Double, &scenario).unwrap().history)
        })
        .collect();
    assert!(
        histories.len() > 40,
        "{} distinct histories of 50",
        histories.len()
    );
}
