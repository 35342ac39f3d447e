//! Tasks that remain.

use super::*;

#[test]
fn a_task_may_end_a_little_later() {
    let ends = |gone| {
        passes(vec![
            (1, tries(1, 0)),
            (9, remains(&[], 0, 1)),
            (gone, remains(&[], 0, 0)),
        ])
    };
    assert!(ends(11));
    assert!(!ends(12));
}

#[test]
fn a_task_looks_for_a_request_for_a_lease() {
    let looks_until = |gone, replied| {
        let mut history = history(vec![
            (1, tries(1, 0)),
            (3, unknown(1)),
            (4, remains(&[], 0, 1)),
            (gone, remains(&[], 0, 0)),
        ]);
        history.lease = s(12);
        history.push(s(50), What::Crash { host: 0 });
        history.dials(0, 0, 0, Some(3));
        history.asks(0, 2, Some(2), replied);
        CleanUp.check(&history) == Finding::Valid
    };
    assert!(looks_until(19, None));
    assert!(!looks_until(20, None));
    assert!(!looks_until(7, Some(3)), "it had its answer");
}

/// Seed 7431 of `own-lock`: the server answers MASTERDOWN.
#[test]
fn a_task_looks_for_a_request_that_was_answered_by_an_error() {
    let looks_until = |gone, error: Option<&str>| {
        let mut history = history(vec![
            (1, tries(1, 0)),
            (3, unknown(1)),
            (4, remains(&[], 0, 1)),
            (gone, remains(&[], 0, 0)),
        ]);
        history.lease = s(12);
        history.push(s(50), What::Crash { host: 0 });
        history.dials(0, 0, 0, None);
        history.asks(0, 2, Some(2), Some(3));
        history.requests[0].error = error.map(str::to_owned);
        CleanUp.check(&history) == Finding::Valid
    };
    assert!(looks_until(19, Some("MASTERDOWN")));
    assert!(!looks_until(20, Some("MASTERDOWN")));
    assert!(!looks_until(19, Some("NOSCRIPT")), "it was not executed");
    assert!(!looks_until(19, None), "it had its answer");
}

/// A server answers that it does not know a script, and the process does not get this reply.
#[test]
fn a_task_looks_for_a_request_whose_error_did_not_arrive() {
    let looks_until = |gone, replied| {
        let mut history = history(vec![
            (1, tries(1, 0)),
            (4, unknown(1)),
            (4, remains(&[], 0, 1)),
            (gone, remains(&[], 0, 0)),
        ]);
        history.lease = s(12);
        history.push(s(50), What::Crash { host: 0 });
        history.dials(0, 0, 0, None);
        history.asks(0, 2, Some(2), replied);
        history.requests[0].error = Some("NOSCRIPT".to_owned());
        CleanUp.check(&history) == Finding::Valid
    };
    assert!(looks_until(19, None));
    assert!(looks_until(19, Some(9)), "it arrives after the timeout");
    assert!(!looks_until(19, Some(3)));
}

/// Seed 4692 of `own-lock`: its client waits so long between two polls that it finds the connection broken later.
#[test]
fn a_task_looks_for_a_request_that_was_perhaps_not_sent() {
    let looks_after = |end: What, gone, broke, sent: Option<u64>| {
        let mut history = history(vec![
            (1, tries(1, 0)),
            (3, end),
            (4, remains(&[], 0, 1)),
            (gone, remains(&[], 0, 0)),
        ]);
        history.lease = s(12);
        history.push(s(50), What::Crash { host: 0 });
        history.dials(0, 0, 0, broke);
        if let Some(sent) = sent {
            history.asks(0, sent, Some(sent), Some(sent));
        }
        CleanUp.check(&history) == Finding::Valid
    };
    let looks_until = |gone, broke, sent| looks_after(unknown(1), gone, broke, sent);
    // Other nodes granted the lock; the connection to this one broke before it carried a request.
    let despite = |broke, sent| looks_after(granted(1, Some(4)), 12, broke, sent);
    assert!(despite(Some(2), None));
    assert!(!despite(Some(3), Some(2)), "its request had its answer");
    assert!(!despite(None, None), "no connection was broken");
    assert!(looks_until(19, Some(1), None));
    assert!(looks_until(19, Some(1), Some(3)), "a request cleans up");
    assert!(!looks_until(20, Some(1), None));
    assert!(!looks_until(12, None, None), "no connection was broken");
    assert!(
        !looks_until(12, Some(3), Some(2)),
        "its request had its answer"
    );
}

/// Without latency a call sends its request and is cancelled at one instant.
#[test]
fn a_request_is_of_the_call_that_is_cancelled_at_the_same_instant() {
    let looks = |before: bool| {
        let cancelled = What::Info {
            op: 1,
            error: crate::history::CANCELLED.to_owned(),
        };
        let mut history = history(vec![
            (1, tries(1, 0)),
            (1, cancelled),
            (1, remains(&[], 0, 1)),
            (15, remains(&[], 0, 0)),
        ]);
        history.lease = s(12);
        history.push(s(50), What::Crash { host: 0 });
        history.dials(0, 0, 0, None);
        history.asks(0, 1, Some(1), Some(1));
        history.requests[0].place = if before { 1 } else { 2 };
        CleanUp.check(&history) == Finding::Valid
    };
    assert!(looks(true));
    assert!(!looks(false), "the task sent it after the call");
}

/// A task sends a request each second. `stopped`: its process does not run in between.
#[test]
fn a_task_that_cleans_up_may_be_stopped_between_two_requests() {
    let sweeps = |stopped: bool| {
        let mut entries = vec![(1, tries(1, 0)), (3, unknown(1)), (8, remains(&[], 0, 1))];
        if stopped {
            entries.extend([(9, What::Pause { host: 0 }), (13, What::Resume { host: 0 })]);
        }
        entries.push((15, remains(&[], 0, 0)));
        let mut history = history(entries);
        (history.lease, history.terms.retry) = (s(12), s(1));
        history.push(s(50), What::Crash { host: 0 });
        history.dials(0, 0, 0, None);
        for sent in [8, 13] {
            history.asks(0, sent, Some(sent), Some(sent));
        }
        swept(&Reading::of(&history), s(8))
    };
    // A pause of an eighth of the lease may follow the last request.
    let pause = Duration::from_millis(1_502);
    assert_eq!(sweeps(true), s(13) + pause + s(3));
    assert_eq!(sweeps(false), s(8) + pause + s(3));
}

/// A request to acquire the lock gets no reply; the client asks again and is granted the lock. From its release at 10 on it looks
/// for the first request.
#[test]
fn a_task_looks_for_a_request_from_the_release_of_its_grant_on() {
    let looks_until = |gone, replied, sent| {
        let mut history = history(vec![
            (1, tries(1, 0)),
            (4, granted(1, Some(15))),
            (9, releases(2, 0, 1)),
            (10, done(2)),
            (10, remains(&[], 0, 1)),
            (gone, remains(&[], 0, 0)),
        ]);
        history.lease = s(12);
        history.push(s(50), What::Crash { host: 0 });
        history.dials(0, 0, 0, None);
        history.asks(0, sent, Some(sent), replied);
        CleanUp.check(&history) == Finding::Valid
    };
    assert!(looks_until(26, None, 2));
    assert!(!looks_until(27, None, 2), "longer than a lease");
    assert!(!looks_until(26, Some(3), 2), "it had its answer");
    assert!(!looks_until(26, None, 0), "it is one of an earlier call");
}

/// The client gives the call up at 3, and looks for its request until its lease is over.
#[test]
fn a_task_looks_for_the_request_of_a_cancelled_call() {
    let looks_until = |gone, replied| {
        let cancelled = What::Info {
            op: 1,
            error: crate::history::CANCELLED.to_owned(),
        };
        let mut history = history(vec![
            (1, tries(1, 0)),
            (3, cancelled),
            (4, remains(&[], 0, 1)),
            (gone, remains(&[], 0, 0)),
        ]);
        history.lease = s(12);
        history.push(s(50), What::Crash { host: 0 });
        history.dials(0, 0, 0, None);
        history.asks(0, 1, Some(1), Some(replied));
        CleanUp.check(&history) == Finding::Valid
    };
    assert!(looks_until(19, 3));
    assert!(!looks_until(20, 3), "longer than a lease");
    assert!(!looks_until(19, 2), "the call had its reply");
}

/// The call is cancelled at 3. From 5 to 9 the machine of the client is suspended, or its process is paused.
#[test]
fn a_task_counts_the_lease_by_the_clock_of_its_process() {
    let looks_until = |gone, suspended: bool| {
        let fault = Fault::Suspend { host: 0 };
        let cancelled = What::Info {
            op: 1,
            error: crate::history::CANCELLED.to_owned(),
        };
        let mut entries = vec![(1, tries(1, 0)), (3, cancelled), (4, remains(&[], 0, 1))];
        entries.extend([(5, What::Pause { host: 0 }), (9, What::Resume { host: 0 })]);
        if suspended {
            entries.extend([(5, What::Strikes { fault }), (9, What::Heals { fault })]);
        }
        entries.push((gone, remains(&[], 0, 0)));
        let mut history = history(entries);
        history.lease = s(12);
        history.push(s(50), What::Crash { host: 0 });
        history.dials(0, 0, 0, None);
        history.asks(0, 1, Some(1), Some(3));
        CleanUp.check(&history) == Finding::Valid
    };
    assert!(looks_until(23, true));
    assert!(!looks_until(24, true), "longer than a lease");
    assert!(!looks_until(23, false), "the clock ran on");
    assert!(looks_until(19, false));
}

/// A task sends a request each second from 8 to 24. From 9 to 13 the machine of the client is suspended, or its process is
/// paused. The lease is 12 s.
#[test]
fn a_task_that_cleans_up_ends_after_a_lease_by_the_clock_of_its_process() {
    let sweeps = |suspended: bool| {
        let fault = Fault::Suspend { host: 0 };
        let mut entries = vec![(1, tries(1, 0)), (3, unknown(1)), (8, remains(&[], 0, 1))];
        entries.extend([(9, What::Pause { host: 0 }), (13, What::Resume { host: 0 })]);
        if suspended {
            entries.extend([(9, What::Strikes { fault }), (13, What::Heals { fault })]);
        }
        entries.push((30, remains(&[], 0, 0)));
        let mut history = history(entries);
        (history.lease, history.terms.retry) = (s(12), s(1));
        history.push(s(50), What::Crash { host: 0 });
        history.dials(0, 0, 0, None);
        for sent in (8..=24).filter(|sent| !(9..13).contains(sent)) {
            history.asks(0, sent, Some(sent), Some(sent));
        }
        let history = Reading::of(&history);
        swept(&history, s(8)) - history.recovery()
    };
    let lease = s(12) + s(12) / DRIFT;
    assert_eq!(sweeps(false), s(8) + lease, "the clock ran on");
    assert_eq!(
        sweeps(true),
        s(8) + lease + s(4),
        "the clock stood still for 4 s"
    );
}

/// A call is cancelled at 3, and a task looks for its request. The key of an earlier grant keeps other clients out for some time.
#[test]
fn a_key_that_may_stay_does_not_end_the_search_of_a_task() {
    let looks_until = |gone, hold| {
        let fault = Fault::NodePause { node: 0 };
        let cancelled = What::Info {
            op: 1,
            error: crate::history::CANCELLED.to_owned(),
        };
        let mut history = history(vec![
            (1, tries(1, 0)),
            (3, cancelled),
            (4, remains(&["lock"], 0, 1)),
            (5, What::Strikes { fault }),
            (6, What::Heals { fault }),
            (gone, remains(&[], 0, 0)),
        ]);
        (history.lease, history.terms.hold) = (s(12), s(hold));
        history.push(s(50), What::Crash { host: 0 });
        history.dials(0, 0, 0, None);
        history.asks(0, 1, Some(1), Some(3));
        CleanUp.check(&history) == Finding::Valid
    };
    assert!(looks_until(19, 2));
    assert!(!looks_until(24, 2), "longer than a lease");
    assert!(!looks_until(19, 0), "the key must not stay");
}

/// The last request of a task is answered at 6, and the task remains. The lease is 12 s.
#[test]
fn a_task_may_pause_after_its_last_request() {
    let remains_until = |gone, sent| {
        let mut history = history(vec![
            (1, tries(1, 0)),
            (3, unknown(1)),
            (7, remains(&[], 0, 1)),
            (gone, remains(&[], 0, 0)),
        ]);
        history.lease = s(12);
        history.push(s(50), What::Crash { host: 0 });
        history.dials(0, 0, 0, None);
        history.asks(0, sent, Some(6), Some(6));
        swept(&Reading::of(&history), s(7)) >= s(gone)
    };
    assert!(remains_until(10, 6));
    assert!(
        !remains_until(12, 6),
        "an eighth of the lease, and a little more"
    );
    assert!(!remains_until(10, 3), "a request of the call");
}

/// The server answers LOADING to the release of the first client at 4, whose key remains until 14. The lease is 80 s. `host`: the
/// process of the request that fails.
#[test]
fn the_failed_request_of_another_process_is_no_reason_for_a_key_to_remain() {
    let convicts = |host: u8| {
        let mut history = history(vec![
            (1, tries(1, 0)),
            (2, stores(0, "a", Some(82))),
            (2, granted(1, Some(80))),
            (3, releases(2, 0, 1)),
            (4, unknown(2)),
            (4, remains(&["lock"], 0, 1)),
            (14, frees(0)),
            (14, remains(&[], 0, 0)),
            (60, What::Crash { host: 0 }),
        ]);
        history.lease = s(80);
        history.dials(0, 0, 0, None);
        history.dials(1, 0, 0, None);
        let failed = usize::from(host);
        history.asks(failed, 3, Some(3), Some(4));
        history.requests[0].error = Some("LOADING".to_owned());
        history.asks(0, 14, Some(14), Some(14));
        matches!(CleanUp.check(&history), Finding::Violation(_))
    };
    assert!(!convicts(0));
    assert!(convicts(1), "the first client could remove its key at once");
}

/// The server answers LOADING to the release at 4. A request is repeated within 20 s, and the request timeout is a sixth of the lease
/// of 120 s: 20 s.
#[test]
fn a_request_is_repeated_once_within_the_pause_of_the_lock() {
    let removed_at = |at: u64| {
        let mut history = history(vec![
            (1, tries(1, 0)),
            (2, stores(0, "a", Some(122))),
            (2, granted(1, Some(120))),
            (3, releases(2, 0, 1)),
            (4, unknown(2)),
            (4, remains(&["lock"], 0, 1)),
            (at, frees(0)),
            (at, remains(&[], 0, 0)),
            (100, What::Crash { host: 0 }),
        ]);
        history.lease = s(120);
        history.terms.retry = s(20);
        history.dials(0, 0, 0, None);
        history.asks(0, 3, Some(3), Some(4));
        history.requests[0].error = Some("LOADING".to_owned());
        history.asks(0, at, Some(at), Some(at));
        matches!(CleanUp.check(&history), Finding::Violation(_))
    };
    assert!(!removed_at(44));
    assert!(removed_at(46), "the client did not repeat its release");
}

/// A task sends its last request at 8. Its process is paused from 9 to 20, or not. The lease is 24 s.
#[test]
fn a_task_of_a_paused_process_ends_when_the_process_runs_again() {
    let ends_at = |paused: bool| {
        let mut entries = vec![(1, tries(1, 0)), (3, unknown(1)), (8, remains(&[], 0, 1))];
        if paused {
            entries.push((9, What::Pause { host: 0 }));
            entries.push((20, What::Resume { host: 0 }));
        }
        entries.push((30, remains(&[], 0, 0)));
        let mut history = history(entries);
        (history.lease, history.terms.retry) = (s(24), s(3));
        history.push(s(50), What::Crash { host: 0 });
        history.dials(0, 0, 0, None);
        history.asks(0, 8, Some(8), Some(8));
        let history = Reading::of(&history);
        let ends = swept(&history, s(8)) - history.recovery();
        ends.as_secs()
    };
    assert_eq!(ends_at(false), 11, "it pauses for three seconds");
    assert_eq!(ends_at(true), 20);
}
