//! Histories whose keys, subscriptions or tasks remain.

mod keys;
mod queue;
mod released;
mod tasks;

use super::*;
use crate::{
    checker::hand_made::*,
    history::Cause,
    scenario::{Fault, Lost},
};

fn passes(entries: Vec<(u64, What)>) -> bool {
    let mut history = history(entries);
    // A request timeout of 2 s.
    history.lease = s(12);
    history.push(s(50), What::Crash { host: 0 });
    CleanUp.check(&history) == Finding::Valid
}

fn remains(keys: &[&str], subscriptions: usize, tasks: usize) -> What {
    What::Remains {
        keys: keys.iter().map(|key| key.as_bytes().to_vec()).collect(),
        endless: vec![],
        subscriptions,
        tasks,
    }
}

fn unknown(op: u32) -> What {
    What::Info {
        op,
        error: "silence".into(),
    }
}

#[test]
fn nothing_may_be_left() {
    let used = || (1, tries(1, 0));
    assert!(passes(vec![used(), (9, remains(&[], 0, 0))]));
    assert!(!passes(vec![used(), (9, remains(&["lock"], 0, 0))]));
    assert!(!passes(vec![used(), (9, remains(&[], 1, 0))]));
    assert!(!passes(vec![used(), (9, remains(&[], 0, 1))]));
    assert!(matches!(
        CleanUp.check(&history(vec![used()])),
        Finding::Unknown(_)
    ));
}

/// Two processes have called the lock.
#[test]
fn each_process_may_stay_subscribed() {
    let may_stay = |keys: &[&str], subscriptions, tasks, stays| {
        let mut history = history(vec![
            (1, tries(1, 0)),
            (2, tries(2, 1)),
            (9, remains(keys, subscriptions, tasks)),
            (90, remains(keys, subscriptions, tasks)),
        ]);
        history.terms.stays_subscribed = stays;
        CleanUp.check(&history) == Finding::Valid
    };
    assert!(may_stay(&[], 2, 2, true));
    assert!(may_stay(&[], 2, 0, true));
    assert!(!may_stay(&[], 3, 2, true), "a process has two");
    assert!(
        may_stay(&[], 1, 2, true),
        "a task has lost its subscription"
    );
    assert!(!may_stay(&[], 2, 3, true), "a process has two tasks");
    assert!(!may_stay(&["lock"], 2, 2, true), "keys may not");
    assert!(!may_stay(&[], 1, 0, false), "it does not say so");
}

/// Two processes have called the lock.
#[test]
fn each_process_may_keep_tasks() {
    let may_stay = |subscriptions, tasks| {
        let mut history = history(vec![
            (1, tries(1, 0)),
            (2, tries(2, 1)),
            (9, remains(&[], subscriptions, tasks)),
            (90, remains(&[], subscriptions, tasks)),
        ]);
        history.terms.kept_tasks = 1;
        CleanUp.check(&history) == Finding::Valid
    };
    assert!(may_stay(0, 2));
    assert!(!may_stay(0, 3), "a process has two");
    assert!(!may_stay(1, 1), "a subscription may not");
}

#[test]
fn a_subscription_may_linger_but_not_for_long() {
    let left_until = |gone_ms, keys: &[&str], linger| {
        let mut history = history(vec![(1, tries(1, 0)), (9, remains(keys, 1, 1))]);
        history.push(s(9) + Duration::from_millis(gone_ms), remains(&[], 0, 0));
        history.push(s(50), What::Crash { host: 0 });
        (history.lease, history.terms.linger) = (s(12), linger);
        CleanUp.check(&history) == Finding::Valid
    };
    let linger = Duration::from_millis(200);
    assert!(left_until(204, &[], linger));
    assert!(!left_until(207, &[], linger));
    assert!(!left_until(204, &["lock"], linger), "keys may not");
    assert!(
        !left_until(204, &[], Duration::ZERO),
        "without that promise"
    );
}

#[test]
fn a_fault_may_strike_the_end_of_a_subscription() {
    // A request timeout of 2 s, and as much until the next one.
    let left_until = |gone, struck: (u64, u64)| {
        let fault = Fault::Partition {
            host: 0,
            node: None,
            direction: Some(crate::scenario::Direction::Requests),
        };
        let mut history = history(vec![
            (1, tries(1, 0)),
            (9, remains(&[], 1, 1)),
            (struck.0, What::Strikes { fault }),
            (struck.1, What::Heals { fault }),
            (gone, remains(&[], 0, 0)),
            (50, What::Crash { host: 0 }),
        ]);
        (history.lease, history.terms.linger) = (s(12), s(2));
        CleanUp.check(&history) == Finding::Valid
    };
    assert!(left_until(18, (10, 14)));
    assert!(!left_until(19, (10, 14)));
    assert!(!left_until(18, (12, 14)), "it was due before");
}

#[test]
fn a_client_has_two_request_timeouts_to_clean_up_after_a_fault() {
    let (node, lost) = (0, Lost::Reply);
    let left_until = |gone| {
        passes(vec![
            (1, tries(1, 0)),
            (
                8,
                What::Cut {
                    host: 0,
                    node,
                    lost,
                },
            ),
            (9, remains(&["lock"], 0, 1)),
            (gone, remains(&[], 0, 0)),
        ])
    };
    assert!(left_until(12));
    assert!(!left_until(13));
}

fn queue(host: u8, waiting: &[&str]) -> What {
    What::Queue {
        node: 0,
        cause: Cause::Client(host),
        waiting: waiting.iter().map(|it| it.as_bytes().to_vec()).collect(),
    }
}
