//! Keys and tokens that remain.

use super::*;
use crate::{
    history::{Holder, Kind},
    scenario::Topology,
};

#[test]
fn a_request_that_lands_after_a_lease_is_left_to_its_own_lease() {
    // The lease is 12 s.
    let arrives = |at, is_held_up: bool| {
        let fault = Fault::NodePause { node: 0 };
        let mut entries = vec![(1, tries(1, 0)), (2, unknown(1)), (2, tries(2, 0))];
        if is_held_up {
            entries.extend([(2, What::Strikes { fault }), (at, What::Heals { fault })]);
        }
        entries.extend([
            (at, stores(0, "a", Some(at + 12))),
            (at, refused(2)),
            (at, remains(&["lock"], 0, 0)),
        ]);
        passes(entries)
    };
    assert!(arrives(14, true));
    assert!(!arrives(13, true));
    assert!(!arrives(14, false));
}

#[test]
fn only_a_request_that_lands_late_is_left_to_its_lease() {
    let cut = What::Cut {
        host: 0,
        node: 0,
        lost: Lost::Late,
    };
    let lands = |stored_at, queued: bool| {
        let mut entries = vec![(1, tries(1, 0)), (3, cut.clone()), (3, unknown(1))];
        entries.extend(queued.then(|| (2, queue(0, &["a"]))));
        entries.extend([
            (stored_at, stores(0, "a", Some(stored_at + 12))),
            (15, remains(&["lock"], 0, 0)),
        ]);
        entries.sort_by_key(|&(at, _)| at);
        let mut history = history(entries);
        history.lease = s(12);
        history.push(s(50), What::Crash { host: 0 });
        history.dials(0, 0, 0, Some(3));
        history.asks(0, 3, Some(6), None);
        CleanUp.check(&history) == Finding::Valid
    };
    assert!(lands(6, false));
    assert!(!lands(7, false), "another request put it there");
    assert!(!lands(6, true), "the place in the queue was on time");
}

#[test]
fn keys_that_a_late_request_stores_beside_the_lock_expire_by_themselves() {
    let leaves = |endless: &[&str], landed, gone, queued: bool| {
        let left = What::Remains {
            keys: vec![b"lock:waiters".to_vec()],
            endless: endless.iter().map(|key| key.as_bytes().to_vec()).collect(),
            subscriptions: 0,
            tasks: 0,
        };
        let mut entries = vec![(1, tries(1, 0))];
        entries.extend(queued.then(|| (2, queue(0, &["a"]))));
        entries.extend([(3, unknown(1)), (15, left), (gone, remains(&[], 0, 0))]);
        let mut history = history(entries);
        history.lease = s(12);
        history.push(s(50), What::Crash { host: 0 });
        history.dials(0, 0, 0, Some(3));
        history.asks(0, 2, Some(landed), None);
        CleanUp.check(&history) == Finding::Valid
    };
    assert!(leaves(&[], 8, 20, false));
    assert!(!leaves(&[], 8, 21, false), "a lease ends before");
    assert!(!leaves(&[], 3, 20, false), "it landed in time");
    assert!(!leaves(&["lock:waiters"], 8, 20, false));
    assert!(
        !leaves(&[], 8, 20, true),
        "the place in the queue was on time"
    );
}

/// A request of c1 lands at 4, when its connection has ended, and stores a token until 16.
fn with_a_late_token(mut history: History, lost: bool) -> bool {
    history.lease = s(12);
    history.push(s(50), What::Crash { host: 0 });
    history.dials(0, 0, 0, lost.then_some(2));
    history.asks(0, 1, Some(4), (!lost).then_some(4));
    CleanUp.check(&history) == Finding::Valid
}

/// Seed 6359 of a weighted semaphore: all holders are in one key, to which each acquisition gives a lease.
#[test]
fn the_key_of_a_late_token_stays_for_as_long_as_another_holder_asked() {
    let passes = |freed, lost| {
        let both = |first: &[(&str, u64)]| {
            let holders = first.iter().map(|&(token, expires)| Holder {
                token: token.into(),
                expires: Some(s(expires)),
                ..Holder::default()
            });
            What::Server {
                node: 0,
                cause: Cause::Client(1),
                stored: holders.collect(),
                anonymous: 0,
            }
        };
        let history = history(vec![
            (4, stores(0, "late", Some(16))),
            (10, both(&[("late", 16), ("b", 22)])),
            (15, both(&[("late", 16)])),
            (17, empties(0, Cause::Server)),
            (17, remains(&["lock"], 0, 0)),
            (freed, remains(&[], 0, 0)),
        ]);
        with_a_late_token(history, lost)
    };
    assert!(passes(22, true));
    assert!(!passes(40, true));
    assert!(!passes(22, false), "it was not late");
}

/// A late request queues its waiter at 4. At 6 the release of another client hands the lock to this place.
#[test]
fn a_late_place_may_become_a_grant_by_the_release_of_another_client() {
    let passes = |is_place: bool, lost| {
        let queue = |waiting: &[&str], host| What::Queue {
            node: 0,
            cause: Cause::Client(host),
            waiting: waiting.iter().map(|it| it.as_bytes().to_vec()).collect(),
        };
        let mut entries = vec![
            (6, queue(&[], 1)),
            (6, stores(1, "late", Some(18))),
            (8, remains(&["lock"], 0, 0)),
            (20, remains(&[], 0, 0)),
        ];
        if is_place {
            entries.insert(0, (4, queue(&["late"], 0)));
        }
        with_a_late_token(history(entries), lost)
    };
    assert!(passes(true, true));
    assert!(!passes(true, false), "it was not late");
    assert!(!passes(false, true), "it came from no place");
}

/// A key stores tokens whose time is over at 16, and its own end is later. No client uses it from 20 on.
#[test]
fn an_expired_token_may_stay_in_its_place_of_a_semaphore() {
    let passes = |kind, tokens: &[(&str, u64)], endless: &[&str]| {
        let keys = |keys: &[&str]| keys.iter().map(|key| key.as_bytes().to_vec()).collect();
        let left = What::Remains {
            keys: keys(&["lock"]),
            endless: keys(endless),
            subscriptions: 0,
            tasks: 0,
        };
        let mut history = history(vec![(4, stored_by(Cause::Client(1), tokens)), (20, left)]);
        history.kind = kind;
        history.lease = s(12);
        history.push(s(50), What::Crash { host: 0 });
        CleanUp.check(&history) == Finding::Valid
    };
    let two = || Kind::Semaphore(2);
    assert!(passes(two(), &[("a", 16)], &[]));
    assert!(passes(two(), &[("a", 16), ("b", 16)], &[]));
    let three = [("a", 16), ("b", 16), ("c", 16)];
    assert!(!passes(two(), &three, &[]), "more tokens than permits");
    assert!(!passes(two(), &[("a", 16), ("b", 30)], &[]), "b stands");
    assert!(!passes(two(), &[("a", 16)], &["lock"]), "it never ends");
    assert!(!passes(Kind::Mutex, &[("a", 16)], &[]));
}

#[test]
fn a_late_request_may_extend_what_stands() {
    let passes = |lost| {
        let history = history(vec![
            (0, stores(0, "a", Some(12))),
            (4, stores(0, "a", Some(16))),
            (6, remains(&["lock"], 0, 0)),
            (17, remains(&[], 0, 0)),
        ]);
        with_a_late_token(history, lost)
    };
    assert!(passes(true));
    assert!(!passes(false));
}

/// A request lands when its connection has ended, and the replica stores a copy of its token.
#[test]
fn a_copy_of_what_lands_late_stays_as_long() {
    let passes = |closed: u64| {
        let copy = Holder {
            token: b"a".to_vec(),
            expires: Some(s(18)),
            ..Holder::default()
        };
        let copied = What::Server {
            node: 1,
            cause: Cause::Server,
            stored: vec![copy],
            anonymous: 0,
        };
        let mut history = history(vec![
            (1, tries(1, 0)),
            (3, unknown(1)),
            (6, stores(0, "a", Some(18))),
            (6, copied),
            (7, remains(&["lock"], 0, 0)),
            (18, remains(&[], 0, 0)),
        ]);
        history.topology = Topology::Replicated { replicas: 1 };
        history.lease = s(12);
        history.push(s(50), What::Crash { host: 0 });
        history.dials(0, 0, 0, Some(closed));
        history.asks(0, 1, Some(6), None);
        CleanUp.check(&history) == Finding::Valid
    };
    assert!(passes(2));
    assert!(!passes(8), "the connection stood");
}

/// Seed 7136 of `redlock-of-three` under `node-pause`: two pauses in a row are longer than a lease.
#[test]
fn one_of_several_nodes_may_carry_out_what_the_others_have_refused() {
    let arrives = |at, nodes| {
        let fault = Fault::NodePause { node: 0 };
        let mut history = history(vec![
            (1, tries(1, 0)),
            (2, What::Strikes { fault }),
            (3, refused(1)),
            (at, What::Heals { fault }),
            (at, stores(0, "a", Some(at + 12))),
            (at, remains(&["lock"], 0, 0)),
        ]);
        (history.lease, history.topology) = (s(12), Topology::Nodes(nodes));
        history.push(s(50), What::Crash { host: 0 });
        CleanUp.check(&history) == Finding::Valid
    };
    assert!(arrives(14, 3));
    assert!(!arrives(13, 3), "it could have waited for that");
    assert!(!arrives(14, 1));
}

#[test]
fn a_client_that_takes_the_lock_removes_expired_tokens() {
    let server = |host, tokens: &[(&str, u64)]| What::Server {
        node: 0,
        cause: Cause::Client(host),
        stored: tokens
            .iter()
            .map(|&(token, expires)| Holder {
                token: token.as_bytes().to_vec(),
                expires: Some(s(expires)),
                ..Holder::default()
            })
            .collect(),
        anonymous: 0,
    };
    let passes = |entries: Vec<(u64, What)>| {
        let finding = CleanUp.check(&history(entries));
        finding.witness().is_none()
    };
    let first = || (1, server(0, &[("a", 9)]));
    assert!(passes(vec![first(), (10, server(1, &[("b", 20)]))]));
    assert!(!passes(vec![
        first(),
        (10, server(1, &[("a", 9), ("b", 20)]))
    ]));
    assert!(passes(vec![
        first(),
        (8, server(1, &[("a", 9), ("b", 20)]))
    ]));
    // No client has taken it.
    assert!(passes(vec![first(), (10, server(1, &[("a", 9)]))]));
    let fault = Fault::NodeDrift { node: 0, ppm: 500 };
    assert!(passes(vec![
        first(),
        (2, What::Strikes { fault }),
        (10, server(1, &[("a", 9), ("b", 20)]))
    ]));
}

/// The token of a holder whose time is over, and those of three holders of one permit each.
#[test]
fn a_semaphore_leaves_expired_tokens_in_the_places_of_its_permits() {
    let passes = |permits| {
        let holder = |(token, expires): (&str, u64)| Holder {
            token: token.as_bytes().to_vec(),
            expires: Some(s(expires)),
            ..Holder::default()
        };
        let server = |host, tokens: &[(&str, u64)]| What::Server {
            node: 0,
            cause: Cause::Client(host),
            stored: tokens.iter().copied().map(holder).collect(),
            anonymous: 0,
        };
        let history = History {
            kind: Kind::Semaphore(permits),
            ..history(vec![
                (1, server(0, &[("a", 9)])),
                (5, server(1, &[("a", 9), ("b", 15)])),
                (10, server(2, &[("a", 9), ("b", 15), ("c", 20)])),
            ])
        };
        CleanUp.check(&history).witness().is_none()
    };
    assert!(passes(3));
    assert!(!passes(2), "more tokens than places");
}

#[test]
fn a_lock_with_a_minimum_hold_is_gone_after_a_lease() {
    let left_until = |gone, wrong: Option<(u64, Fault)>| {
        let mut entries = vec![(5, tries(1, 0)), (20, remains(&["lock"], 0, 0))];
        entries.extend(wrong.map(|(at, fault)| (at, What::Strikes { fault })));
        entries.sort_by_key(|&(at, _)| at);
        let mut history = history(entries);
        history.push(gone, remains(&[], 0, 0));
        history.push(s(60), What::Crash { host: 0 });
        (history.lease, history.terms.hold) = (s(12), s(2));
        CleanUp.check(&history) == Finding::Valid
    };
    // What ends at 32 s is there until then: seed 1984 of `semaphore-holding`.
    let just = Duration::from_millis(1);
    assert!(left_until(s(32) + just, None));
    assert!(!left_until(s(32) + just * 3, None));
    let slow = Fault::NodeDrift { node: 0, ppm: -1 };
    assert!(
        left_until(s(33), Some((21, slow))),
        "by a clock that is slow"
    );
    // Seed 10195 of the same under `node-clock-back`.
    let back = Fault::NodeClock {
        node: 0,
        by_ms: -1_000,
    };
    assert!(
        left_until(s(33), Some((8, back))),
        "by one that was set back"
    );
    assert!(
        !left_until(s(33), Some((7, back))),
        "before the lease began"
    );
    let flush = Fault::FlushScripts { node: 0 };
    assert!(left_until(s(33), Some((21, flush))), "by one that refuses");
    assert!(!left_until(s(33), Some((8, flush))), "that was long over");
}

#[test]
fn the_keys_of_the_dead_are_left_to_their_lease() {
    let crashed = |what| {
        passes(vec![
            (1, tries(1, 0)),
            (2, What::Crash { host: 0 }),
            (3, What::Restart { host: 0 }),
            (9, what),
        ])
    };
    assert!(crashed(remains(&["lock"], 0, 0)));
    assert!(!crashed(remains(&["lock"], 0, 1)));
    let without_an_end = What::Remains {
        keys: vec![b"lock".to_vec()],
        endless: vec![b"lock".to_vec()],
        subscriptions: 0,
        tasks: 0,
    };
    assert!(!crashed(without_an_end));
}

#[test]
fn an_untidy_lock_leaves_no_key_without_an_end_if_nothing_went_wrong() {
    let convicts = |endless: bool, more: Vec<(u64, What)>| {
        let keys = vec![b"freed".to_vec()];
        let remains = What::Remains {
            endless: if endless { keys.clone() } else { vec![] },
            keys,
            subscriptions: 1,
            tasks: 1,
        };
        let mut entries = vec![(1, tries(1, 0)), (1, refused(1)), (9, remains)];
        entries.splice(2..2, more);
        let mut history = history(entries);
        (history.lease, history.terms.tidy) = (s(12), false);
        history.push(s(50), What::Crash { host: 0 });
        CleanUp.check(&history).witness().is_some()
    };
    assert!(convicts(true, vec![]));
    assert!(!convicts(false, vec![]));
    let failed = vec![(2, tries(2, 0)), (3, unknown(2))];
    assert!(!convicts(true, failed), "a call failed");
}
