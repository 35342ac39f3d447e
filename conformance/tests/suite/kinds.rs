//! The kinds of our lock crate as subjects. The test calls each operation that a kind offers. Each operation must
//! succeed in some run and, except for drops and accesses, be refused in some run.

use redouble_conformance::{
    backend::Double,
    history::{Call, Kind, What},
    scenario::generate::Generator,
    subject::{Expected, Promises, SUBJECTS},
};
use std::collections::BTreeMap;

/// Returns the name of the operation.
const fn name(call: Call) -> &'static str {
    match call {
        Call::Try { .. } => "try",
        Call::Acquire { .. } => "acquire",
        Call::Renew { .. } => "renew",
        Call::Release { .. } => "release",
        Call::Drop { .. } => "drop",
        Call::Access { .. } => "access",
        Call::SetUp => "set up",
        Call::Admit => "admit",
        Call::AdmitAgain { .. } => "admit again",
        Call::CountDown => "count down",
        Call::Await { .. } => "await",
    }
}

/// Returns the operations that a lock offers.
fn offered(promises: Promises) -> &'static [&'static str] {
    match promises.kind {
        Kind::Admission(_) if promises.set_up => &["admit", "set up"],
        Kind::Admission(_) if promises.named => &["admit", "admit again"],
        Kind::Admission(_) => &["admit"],
        Kind::Latch(_) => &["await", "count down", "set up"],
        Kind::Mutex | Kind::ReadWrite | Kind::Semaphore(_) => {
            &["access", "acquire", "drop", "release", "renew", "try"]
        }
    }
}

/// Returns true if an operation has succeeded, and was refused if it can be.
fn is_answered(call: &str, (yes, no): (u32, u32)) -> bool {
    yes > 0 && (no > 0 || matches!(call, "drop" | "access"))
}

/// A lock that refuses everything breaks no promise.
#[test]
fn each_kind_says_yes_and_no_to_all_that_it_offers() {
    for row in SUBJECTS {
        if row.expected != Expected::Sound {
            continue;
        }
        let subject = (row.make)();
        let generator = Generator::of(subject.promises(), None);
        let offered = offered(subject.promises());
        let mut told: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
        for seed in 0..400 {
            let answered = |&call: &&str| told.get(call).is_some_and(|&it| is_answered(call, it));
            if offered.iter().all(answered) {
                break;
            }
            let run = subject.play(&Double, &generator.scenario(seed));
            let history = run.expect("the double is there").history;
            let calls = history.calls();
            for entry in &history.entries {
                let (What::Ok { op, .. } | What::Fail { op, .. }) = entry.what else {
                    continue;
                };
                let (yes, no) = told.entry(name(calls[&op].2)).or_default();
                if matches!(entry.what, What::Ok { .. }) {
                    *yes += 1;
                } else {
                    *no += 1;
                }
            }
        }
        let name = subject.name();
        let asked: Vec<&str> = told.keys().copied().collect();
        assert_eq!(asked, offered, "{name}");
        for (call, (yes, no)) in told {
            assert!(yes > 0, "{name}: {call} never happened");
            assert!(
                is_answered(call, (yes, no)),
                "{name}: {call} was never refused"
            );
        }
    }
}
