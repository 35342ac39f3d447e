//! Clients that stay in the queue.

use super::*;
use crate::history::CANCELLED;

fn in_order(entries: Vec<(u64, What)>) -> bool {
    let mut history = history(entries);
    (history.lease, history.terms.fair) = (s(12), true);
    in_the_queue(&Reading::of(&history)).is_none()
}

#[test]
fn a_client_that_reaches_no_server_for_a_lease_leaves_its_place() {
    let leaves = |change: &dyn Fn(&mut History)| {
        let fault = Fault::NodePause { node: 0 };
        let mut history = history(vec![
            (1, waits(1, 0, 2)),
            (2, queue(0, &["a"])),
            (3, What::Strikes { fault }),
            (3, unknown(1)),
            (15, What::Heals { fault }),
            (15, remains(&["queue"], 0, 0)),
            (50, What::Crash { host: 0 }),
        ]);
        history.lease = s(12);
        history.dials(0, 0, 0, Some(3));
        history.asks(0, 2, Some(2), Some(2));
        change(&mut history);
        CleanUp.check(&history) == Finding::Valid
    };
    assert!(leaves(&|_| ()));
    assert!(
        !leaves(&|history| {
            history.dials(0, 0, 5, None);
            history.asks(1, 6, Some(6), Some(7));
        }),
        "the server answered"
    );
    let endless = |history: &mut History| {
        for entry in &mut history.entries {
            if let What::Remains { keys, endless, .. } = &mut entry.what {
                endless.clone_from(keys);
            }
        }
    };
    assert!(!leaves(&endless), "the keys do not expire");
}

/// Seed 391 of `fair`: the server came back after more than a lease, and the process made another call, which left no place.
#[test]
fn a_later_call_does_not_know_of_the_place_of_an_earlier_one() {
    let leaves = |asked: u64, heals: u64, reentrant| {
        let fault = Fault::NodePause { node: 0 };
        let cancelled = What::Info {
            op: 2,
            error: CANCELLED.to_owned(),
        };
        let mut entries = vec![
            (1, waits(1, 0, 2)),
            (2, queue(0, &["a"])),
            (3, What::Strikes { fault }),
            (3, unknown(1)),
            (heals, What::Heals { fault }),
            (asked, waits(2, 0, 9)),
            (asked, cancelled),
            (asked + 1, remains(&["queue"], 0, 0)),
            (50, What::Crash { host: 0 }),
        ];
        entries.sort_by_key(|&(at, _)| at);
        let mut history = history(entries);
        (history.lease, history.reentrant) = (s(12), reentrant);
        history.dials(0, 0, 0, Some(3));
        history.asks(0, 2, Some(2), Some(2));
        history.dials(0, 0, asked, None);
        history.asks(1, asked, Some(asked), Some(asked));
        CleanUp.check(&history) == Finding::Valid
    };
    assert!(leaves(19, 15, false));
    assert!(!leaves(19, 8, false), "the server was back in time");
    assert!(!leaves(19, 15, true), "it has the place of its owner");
}

#[test]
fn a_dead_waiter_makes_room_for_the_next_client() {
    let next = |at, more: Vec<(u64, What)>, waiting: &[&str]| {
        let begin = vec![
            (1, waits(1, 0, 60)),
            (2, queue(0, &["a"])),
            (3, What::Crash { host: 0 }),
        ];
        let end = vec![(at, waits(2, 1, 60)), (at, queue(1, waiting))];
        in_order(begin.into_iter().chain(more).chain(end).collect())
    };
    assert!(next(15, vec![], &["a", "b"]));
    assert!(!next(16, vec![], &["a", "b"]));
    assert!(next(16, vec![], &["b"]));
    let fault = Fault::NodePause { node: 0 };
    let paused = vec![(4, What::Strikes { fault }), (5, What::Heals { fault })];
    assert!(next(16, paused, &["a", "b"]));
}

#[test]
fn the_dead_count_as_waiters_for_as_long_as_promised() {
    // The lease is 12 s.
    let next = |at| {
        let mut history = history(vec![
            (1, waits(1, 0, 60)),
            (2, queue(0, &["a"])),
            (3, What::Crash { host: 0 }),
            (at, waits(2, 1, 60)),
            (at, queue(1, &["a", "b"])),
        ]);
        (history.lease, history.terms.fair) = (s(12), true);
        history.terms.skip = s(20);
        in_the_queue(&Reading::of(&history)).is_none()
    };
    assert!(next(23));
    assert!(!next(24));
}

#[test]
fn a_waiter_that_was_granted_the_lock_has_left_the_queue() {
    let granted_with = |then: &[&str]| {
        in_order(vec![
            (1, waits(1, 0, 60)),
            (2, queue(0, &["a", "b"])),
            (3, stores(0, "a", Some(15))),
            (3, queue(0, then)),
            (4, granted(1, Some(14))),
        ])
    };
    assert!(granted_with(&["b"]));
    assert!(!granted_with(&["a", "b"]));
}

/// Seed 5839 of `fair` under `cut`: a request of another task of the process, executed late, took a place.
#[test]
fn a_place_of_another_task_is_no_violation() {
    assert!(in_order(vec![
        (1, waits(1, 0, 60)),
        (1, waits(2, 0, 60)),
        (2, queue(0, &["a", "b"])),
        (3, stores(0, "b", Some(15))),
        (3, queue(0, &["a"])),
        (3, granted(2, Some(14))),
        (4, releases(3, 0, 2)),
        (4, frees(0)),
        (4, done(3)),
        (5, queue(0, &["a", "b"])),
        (6, stores(0, "a", Some(18))),
        (6, queue(0, &["b"])),
        (6, granted(1, Some(17))),
    ]));
}

/// The node of a lock answers each request that would end a place in its queue with an error, for most of a lease.
#[test]
fn an_error_as_the_answer_is_no_answer() {
    let passes = |error: Option<&str>, last: u64| {
        let mut history = history(vec![
            (1, waits(1, 0, 2)),
            (2, queue(0, &["a"])),
            (3, unknown(1)),
            (15, remains(&["queue"], 0, 0)),
            (50, What::Crash { host: 0 }),
        ]);
        history.lease = s(12);
        history.dials(0, 0, 0, None);
        history.asks(0, 2, Some(2), Some(2));
        for at in [5, last] {
            history.asks(0, at, Some(at), Some(at));
            if let Some(request) = history.requests.last_mut() {
                request.error = error.map(str::to_owned);
            }
        }
        CleanUp.check(&history) == Finding::Valid
    };
    assert!(passes(Some("READONLY"), 14));
    assert!(!passes(Some("READONLY"), 6), "the client no longer asks");
    assert!(!passes(None, 14));
}
