//! Findings in real time, and when they count.

use super::*;
use crate::{
    backend::{Later, View, WallClock},
    checker::hand_made::{done, granted, history, refused, tries, waits},
    history::{Actor, Call, History, Kind, What},
    scenario::Schedule,
    simulation::Host,
    subject::{AnyLock, BoxError, Observed},
    vocabulary::{Refusal, Topology},
};
use std::sync::{Arc, atomic::AtomicU32};

/// A subject that is not played: its first runs all have the same history, later ones are flawless.
struct Recorded {
    shown: History,
    times: u32,
    plays: AtomicU32,
    /// True if its runs are cut off because its tasks wake each other for ever.
    endless: bool,
}

impl DynSubject for Recorded {
    fn name(&self) -> &'static str {
        "recorded"
    }

    fn promises(&self) -> Promises {
        Promises {
            kind: self.shown.kind,
            ..Promises::mutex_on_one_node().with_deadline().waiting(None)
        }
    }

    fn open<'a>(
        &'a self,
        _: &'a Host,
        _: &'a str,
        _: Duration,
    ) -> Later<'a, Result<Arc<dyn AnyLock>, BoxError>> {
        Box::pin(async { Err("it is not played".into()) })
    }

    fn observe(&self, _: &dyn View, _: &str) -> Observed {
        Observed::default()
    }

    fn outlasts(&self, _: &[u8]) -> bool {
        false
    }

    fn ends(&self, _: &[u8]) -> bool {
        false
    }

    fn fences_reads(&self) -> bool {
        false
    }

    fn play(&self, _: &dyn Backend, _: &Scenario) -> Result<Run, RunError> {
        let nth = self.plays.fetch_add(1, Ordering::Relaxed);
        let history = if nth < self.times {
            self.shown.clone()
        } else {
            History {
                entries: vec![],
                ..self.shown.clone()
            }
        };
        Ok(Run {
            history,
            steps: 1,
            last_draw: 0,
            endless: self.endless,
            stray_tasks: 0,
            open_error: None,
            beside: Vec::new(),
            gap: Duration::ZERO,
        })
    }
}

fn recorded(entries: &[(u64, What)], times: u32) -> Recorded {
    let mut shown = history(entries.to_vec());
    shown.terms.waits = true;
    Recorded {
        shown,
        times,
        plays: AtomicU32::new(0),
        endless: false,
    }
}

fn without_events() -> Scenario {
    Scenario {
        seed: 0,
        lease_ms: 10_000,
        schedule: Schedule::Random,
        latency_ms: 2,
        timeout_ms: None,
        topology: Topology::ONE,
        events: vec![],
    }
}

/// Two clients hold the lock at the same time.
fn two_holders() -> [(u64, What); 4] {
    [
        (1, tries(1, 0)),
        (1, granted(1, Some(30))),
        (2, tries(2, 1)),
        (2, granted(2, Some(31))),
    ]
}

/// Returns the broken properties, and the number of spoiled runs.
fn accused_of(entries: &[(u64, What)], times: u32) -> (Vec<Property>, u64) {
    accused_in_real_time(&recorded(entries, times))
}

fn accused_in_real_time(subject: &Recorded) -> (Vec<Property>, u64) {
    let scenario = without_events();
    let backend = WallClock::new(Double, 10_000);
    let played = certain(subject, &backend, &scenario).unwrap();
    let judged = played.judged.unwrap();
    (
        broken(subject.promises(), &scenario, &judged),
        played.spoiled,
    )
}

/// Returns the broken properties of a run that is cut off, or is not.
fn broken_in(entries: &[(u64, What)], endless: bool) -> Vec<Property> {
    let subject = Recorded {
        endless,
        ..recorded(entries, 1)
    };
    let scenario = without_events();
    let judged = judge(&subject, &Double, &scenario).unwrap();
    broken(subject.promises(), &scenario, &judged)
}

#[test]
fn a_run_that_was_cut_off_shows_what_was_broken_before() {
    let broken = broken_in(&two_holders(), true);
    assert!(broken.contains(&Property::NoPanics), "{broken:?}");
    assert!(broken.contains(&Property::Exclusion), "{broken:?}");
}

#[test]
fn a_run_that_was_cut_off_does_not_show_what_its_calls_would_have_come_to() {
    // Client 2 gives up after 9 s, although its timeout is 5 s.
    let entries = [
        (1, tries(1, 0)),
        (1, granted(1, Some(300))),
        (2, waits(2, 1, 5)),
        (11, refused(2)),
    ];
    let broken = broken_in(&entries, false);
    assert!(broken.contains(&Property::Timeouts), "{broken:?}");
    let broken = broken_in(&entries, true);
    assert!(broken.contains(&Property::NoPanics), "{broken:?}");
    assert!(!broken.contains(&Property::Timeouts), "{broken:?}");
}

#[test]
fn a_timing_sensitive_finding_counts_only_if_every_run_shows_it() {
    // A call with a timeout of 5 s reports an error after 9 s.
    let error = What::Fail {
        op: 1,
        why: Refusal::Other,
    };
    let late = [(1, waits(1, 0, 5)), (10, error)];
    assert_eq!(accused_of(&late, 1), (vec![], 1));
    assert_eq!(accused_of(&late, 2), (vec![], 2));
    assert_eq!(accused_of(&late, 3), (vec![Property::Timeouts], 2));
}

#[test]
fn a_finding_that_a_short_stop_of_the_machine_explains_counts_only_if_every_run_shows_it() {
    let count = |op| What::Invoke {
        op,
        actor: Actor::on(u8::try_from(op).unwrap()),
        call: Call::CountDown,
    };
    let accused = |ends, times| {
        let entries = [
            (1, count(1)),
            (1, done(1)),
            (2, count(2)),
            (ends, refused(2)),
        ];
        let mut subject = recorded(&entries, times);
        subject.shown.kind = Kind::Latch(1);
        subject.shown.terms.tells = true;
        accused_in_real_time(&subject).0
    };
    assert_eq!(accused(2, 3), vec![], "it is not late");
    assert_eq!(accused(3, 1), vec![]);
    assert_eq!(accused(3, 2), vec![]);
    assert_eq!(accused(3, 3), vec![Property::Latch]);
    assert_eq!(accused(4, 1), vec![Property::Latch], "no short stop");
}

#[test]
fn two_holders_at_once_count_in_a_single_run() {
    let (broken, spoiled) = accused_of(&two_holders(), 1);
    assert!(broken.contains(&Property::Exclusion), "{broken:?}");
    assert_eq!(spoiled, 0);
}

#[test]
fn a_counterexample_is_a_run_that_broke_the_property() {
    let subject = recorded(&two_holders(), 1);
    let judged = judge(&subject, &Double, &without_events()).unwrap();
    let property = Property::Exclusion;
    let example = minimal(&subject, &Double, property, 0, &without_events(), judged).unwrap();
    assert!(
        subject.plays.load(Ordering::Relaxed) > 1,
        "it was played again"
    );
    assert!(example.judged.witness(property).is_some());
}
