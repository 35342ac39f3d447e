use super::*;
use crate::{
    checker::hand_made::*,
    history::{Actor, Call, History, Mode, OpId, Refusal, What},
    scenario::Fault,
};

type Entries = Vec<(u64, What)>;

fn broken(history: &History) -> Option<String> {
    match Linearizable.check(history) {
        Finding::Valid => None,
        Finding::Unknown(why) => panic!("{why}"),
        Finding::Violation(witness) => Some(witness.message),
    }
}

fn mutex(entries: Entries) -> Option<String> {
    broken(&history(entries))
}

fn takes(op: OpId, host: u8, mode: Mode) -> What {
    What::Invoke {
        op,
        actor: Actor::on(host),
        call: Call::Try { mode },
    }
}

fn fenced(op: OpId, deadline: u64, fence: u64) -> What {
    What::Ok {
        op,
        deadline: Some(s(deadline)),
        fence: Some(fence),
        number: None,
        token: None,
    }
}

fn unsure(op: OpId) -> What {
    What::Info {
        op,
        error: "timed out".into(),
    }
}

#[test]
fn a_lock_handed_on_passes() {
    let handed_on = vec![
        (0, tries(1, 0)),
        (1, granted(1, Some(9))),
        (2, tries(2, 1)),
        (2, refused(2)),
        (3, tries(3, 1)),
        (3, releases(4, 0, 1)),
        (4, granted(3, Some(12))), // this reply came before the reply to the release
        (5, done(4)),
    ];
    assert_eq!(mutex(handed_on), None);
}

#[test]
fn two_at_once_are_caught() {
    let message = mutex(vec![
        (0, tries(1, 0)),
        (1, granted(1, Some(9))),
        (2, tries(2, 1)),
        (3, granted(2, Some(11))),
    ]);
    assert_eq!(
        message.as_deref(),
        Some(
            "by 3.000 s the lock told c2 that it was granted the lock, and no order of the operations \
             explains it: the lock was held by c1"
        )
    );
}

fn second_at(ok: u64, first: Option<u64>, more: Entries) -> Option<String> {
    let begin = vec![(0, tries(1, 0)), (1, granted(1, first))];
    let end = vec![(ok, tries(9, 1)), (ok, granted(9, Some(ok + 9)))];
    mutex(begin.into_iter().chain(more).chain(end).collect())
}

#[test]
fn a_lease_ends_when_it_may_and_not_before() {
    // 10 s less a hundredth, counted from the request.
    assert_eq!(second_at(10, None, vec![]), None);
    assert!(second_at(9, None, vec![]).is_some());
    // A later deadline shows that the lease began later.
    assert!(second_at(11, Some(12), vec![]).is_some());
    assert_eq!(second_at(12, Some(12), vec![]), None);
}

#[test]
fn an_extended_lease_ends_later() {
    let renewal = |end: What| vec![(5, renews(2, 0, 1)), (6, end)];
    assert!(second_at(12, None, renewal(granted(2, None))).is_some());
    assert_eq!(second_at(15, None, renewal(granted(2, None))), None);
    assert_eq!(second_at(12, None, renewal(refused(2))), None);
    assert_eq!(second_at(12, None, renewal(unsure(2))), None);
    let by_itself = |until| {
        let deadline = Some(s(until));
        vec![(5, What::Deadline { grant: 1, deadline })]
    };
    assert!(second_at(12, Some(9), by_itself(14)).is_some());
    assert_eq!(second_at(14, Some(9), by_itself(14)), None);
}

#[test]
fn an_unanswered_release_may_have_released() {
    let dropped = What::Invoke {
        op: 2,
        actor: Actor::on(0),
        call: Call::Drop { grant: 1 },
    };
    assert_eq!(second_at(4, None, vec![(3, dropped), (3, done(2))]), None);
    let unknown = vec![(3, releases(2, 0, 1)), (9, unsure(2))];
    assert_eq!(second_at(4, None, unknown), None);
    assert_eq!(second_at(4, None, vec![(3, What::Lost { grant: 1 })]), None);
    let died = vec![(3, What::Crash { host: 0 })];
    assert!(second_at(4, None, died).is_some());
}

#[test]
fn only_the_owner_releases_and_extends() {
    let begin = || {
        vec![
            (0, tries(1, 0)),
            (1, granted(1, None)),
            (11, tries(2, 1)),
            (12, granted(2, None)),
        ]
    };
    let then = |more: Entries| mutex(begin().into_iter().chain(more).collect());
    assert_eq!(then(vec![(13, releases(3, 0, 1)), (13, refused(3))]), None);
    let claims = then(vec![(13, releases(3, 0, 1)), (13, done(3))]);
    assert!(claims.is_some_and(|message| message.contains("held by c1")));
    assert!(then(vec![(13, renews(3, 0, 1)), (13, granted(3, None))]).is_some());
}

#[test]
fn an_unknown_outcome_excludes_no_order() {
    let unknown = vec![(2, tries(5, 2)), (3, unsure(5))];
    assert_eq!(second_at(10, None, unknown), None);
}

#[test]
fn a_holder_may_re_enter_where_that_is_promised() {
    let nested = [
        (0, tries(1, 0)),
        (0, granted(1, Some(9))),
        (1, tries(2, 0)),
        (1, granted(2, Some(9))),
        (2, releases(3, 0, 2)),
        (2, done(3)),
    ];
    let with = |reentrant, more: Entries| {
        broken(&History {
            reentrant,
            ..history(nested.iter().cloned().chain(more).collect())
        })
    };
    let other = || vec![(3, tries(4, 1)), (3, granted(4, Some(12)))];
    assert_eq!(with(true, vec![]), None);
    assert!(with(false, vec![]).is_some());
    assert!(with(true, other()).is_some(), "the outer grant stands");
    let outer = vec![(2, releases(5, 0, 1)), (2, done(5))];
    assert_eq!(with(true, outer.into_iter().chain(other()).collect()), None);
}

#[test]
fn tokens_rise_in_the_order_of_grants() {
    let in_turn = |first, second| {
        mutex(vec![
            (0, tries(1, 0)),
            (0, tries(2, 1)),
            (1, fenced(1, 9, first)),
            (2, releases(3, 0, 1)),
            (2, done(3)),
            (3, fenced(2, 12, second)),
        ])
    };
    assert_eq!(in_turn(7, 8), None);
    // Both were asked for at the same time, but the server must have granted the first one first.
    assert!(in_turn(8, 7).is_some());
    assert!(in_turn(7, 7).is_some_and(|message| message.ends_with("free, and the token was 7")));
}

/// Seed 72 of a lock on three nodes that writes its counter to a majority: a node of it comes back empty.
#[test]
fn tokens_need_not_rise_after_a_server_has_lost_the_last_one() {
    let after = |fault: Option<Fault>| {
        let struck = fault.map(|fault| (3, What::Strikes { fault }));
        let begin = [(0, tries(1, 0)), (1, fenced(1, 9, 7))];
        let end = [(12, tries(2, 1)), (13, fenced(2, 22, 7))];
        mutex(begin.into_iter().chain(struck).chain(end).collect())
    };
    let crash = |keeps| Some(Fault::NodeCrash { node: 0, keeps });
    assert_eq!(after(crash(false)), None);
    assert!(after(crash(true)).is_some());
    // The lease of the first holder is over, so the token is the reason.
    assert!(after(None).is_some_and(|message| message.ends_with("free, and the token was 7")));
}

#[test]
fn a_token_is_kept_on_re_entry() {
    let nested = |inner, later: Option<u64>| {
        let mut entries = vec![
            (0, tries(1, 0)),
            (0, fenced(1, 9, 7)),
            (1, tries(2, 0)),
            (1, fenced(2, 9, inner)),
        ];
        // After the lease the server may keep the same grant, or give a new one.
        entries.extend(
            later
                .into_iter()
                .flat_map(|token| [(20, tries(3, 0)), (20, fenced(3, 29, token))]),
        );
        broken(&History {
            reentrant: true,
            ..history(entries)
        })
    };
    assert_eq!(nested(7, None), None);
    assert!(nested(8, None).is_some());
    assert_eq!(nested(7, Some(7)), None);
    assert_eq!(nested(7, Some(8)), None);
    assert!(nested(7, Some(6)).is_some());
}

fn in_modes(kind: Kind, modes: &[Mode]) -> Option<String> {
    let entries = (1..).zip(modes).flat_map(|(op, &mode)| {
        let host = u8::try_from(op).unwrap();
        [
            (u64::from(op), takes(op, host, mode)),
            (u64::from(op), granted(op, Some(20))),
        ]
    });
    broken(&History {
        kind,
        ..history(entries.collect())
    })
}

#[test]
fn readers_share_and_writers_do_not() {
    let (read, write) = (Mode::Shared, Mode::Exclusive);
    assert_eq!(in_modes(Kind::ReadWrite, &[read, read, read]), None);
    assert!(in_modes(Kind::ReadWrite, &[read, read, write]).is_some());
    assert!(in_modes(Kind::ReadWrite, &[write, read]).is_some());
}

#[test]
fn tokens_of_readers_rise_above_those_of_writers_alone() {
    let one_after_the_other = |modes: [Mode; 2]| {
        let history = History {
            kind: Kind::ReadWrite,
            ..history(vec![
                (0, takes(1, 0, modes[0])),
                (1, fenced(1, 9, 8)),
                (2, releases(2, 0, 1)),
                (2, done(2)),
                (3, takes(3, 1, modes[1])),
                (4, fenced(3, 12, 7)),
            ])
        };
        broken(&history).is_some()
    };
    assert!(!one_after_the_other([Mode::Shared, Mode::Shared]));
    assert!(one_after_the_other([Mode::Shared, Mode::Exclusive]));
    assert!(one_after_the_other([Mode::Exclusive, Mode::Shared]));
}

#[test]
fn permits_are_counted_by_weight() {
    let permits = |weights: &[u32]| {
        let modes: Vec<Mode> = weights.iter().map(|&count| Mode::Permits(count)).collect();
        in_modes(Kind::Semaphore(4), &modes)
    };
    assert_eq!(permits(&[1, 2, 1]), None);
    assert!(permits(&[1, 2, 2]).is_some());
}

/// A call, its start, its end, and its outcome.
type Asked = (Call, u64, u64, fn(OpId) -> What);

fn counted(kind: Kind, ops: &[Asked]) -> Option<String> {
    let mut entries = Vec::new();
    for (op, &(call, from, to, end)) in (1..).zip(ops) {
        let actor = Actor::on(u8::try_from(op).unwrap());
        entries.push((from, What::Invoke { op, actor, call }));
        entries.push((to, end(op)));
    }
    entries.sort_by_key(|&(at, _)| at);
    broken(&History {
        kind,
        ..history(entries)
    })
}

#[test]
fn the_first_n_clients_are_admitted_and_no_more() {
    let admit = Call::Admit;
    let ask = |ops: &[Asked]| counted(Kind::Admission(2), ops);
    let (one, two) = (
        (admit, 0, 1, done as fn(_) -> _),
        (admit, 2, 3, done as fn(_) -> _),
    );
    assert_eq!(ask(&[one, two, (admit, 4, 5, refused)]), None);
    assert!(ask(&[one, two, (admit, 4, 5, done)]).is_some());
    assert!(ask(&[one, (admit, 2, 3, refused), (admit, 4, 5, done)]).is_some());
    // The call with the unknown outcome may have taken the place. Then the next call is refused.
    assert_eq!(
        ask(&[one, (admit, 0, 1, unsure), (admit, 2, 3, refused)]),
        None
    );
    let after_all = [
        one,
        (admit, 0, 1, unsure),
        (admit, 2, 3, refused),
        (admit, 4, 5, done),
    ];
    assert!(ask(&after_all).is_some());
}

#[test]
fn a_latch_opens_once() {
    let (count, wait) = (Call::CountDown, Call::Await { wait: s(9) });
    let latch = |ops: &[Asked]| counted(Kind::Latch(2), ops);
    let (one, two) = (
        (count, 1, 2, done as fn(_) -> _),
        (count, 3, 4, done as fn(_) -> _),
    );
    assert_eq!(
        latch(&[(wait, 0, 5, done), one, two, (count, 6, 7, refused)]),
        None
    );
    assert!(latch(&[(wait, 0, 2, done), one, two]).is_some());
    assert!(latch(&[one, two, (wait, 5, 6, done), (count, 7, 8, done)]).is_some());
    // The latch is at 0 for one client, and not for the next.
    let unknown = (count, 0, 0, unsure as fn(_) -> _);
    assert!(latch(&[one, unknown, (wait, 3, 4, done), (count, 5, 6, done)]).is_some());
    assert_eq!(latch(&[one, unknown, (count, 5, 6, done)]), None);
}

fn as_number(op: OpId, number: u32) -> What {
    What::Ok {
        op,
        deadline: None,
        fence: None,
        number: Some(number),
        token: None,
    }
}

fn unset(op: OpId) -> What {
    let why = Refusal::Lost;
    What::Fail { op, why }
}

#[test]
fn a_client_that_was_told_a_number_was_counted_as_that_number() {
    let count = Call::CountDown;
    let latch = |ops: &[Asked]| counted(Kind::Latch(2), ops);
    let (first, second): (fn(_) -> _, fn(_) -> _) = (|op| as_number(op, 1), |op| as_number(op, 2));
    assert_eq!(latch(&[(count, 0, 1, first), (count, 2, 3, second)]), None);
    assert_eq!(latch(&[(count, 0, 3, second), (count, 1, 2, first)]), None);
    let message = latch(&[(count, 0, 1, first), (count, 2, 3, first)]).unwrap();
    assert!(message.contains("it was counted as number 1"), "{message}");
    assert!(latch(&[(count, 0, 1, second)]).is_some());
    assert_eq!(latch(&[(count, 0, 1, unsure), (count, 2, 3, second)]), None);
}

/// Same as `counted`, for a counter that must be set up.
fn set_up(kind: Kind, ops: &[Asked]) -> Option<String> {
    let mut entries = Vec::new();
    for (op, &(call, from, to, end)) in (1..).zip(ops) {
        let actor = Actor::on(u8::try_from(op).unwrap());
        entries.push((from, What::Invoke { op, actor, call }));
        entries.push((to, end(op)));
    }
    entries.sort_by_key(|&(at, _)| at);
    let mut history = History {
        kind,
        ..history(entries)
    };
    history.terms.set_up = true;
    broken(&history)
}

#[test]
fn a_latch_is_set_once_and_counts_from_then_on() {
    let (set, count) = (Call::SetUp, Call::CountDown);
    let latch = |ops: &[Asked]| set_up(Kind::Latch(2), ops);
    let yes = done as fn(_) -> _;
    assert_eq!(
        latch(&[(count, 0, 1, unset), (set, 2, 3, yes), (count, 4, 5, yes)]),
        None
    );
    assert_eq!(latch(&[(set, 0, 1, yes), (set, 2, 3, refused)]), None);
    assert_eq!(latch(&[(set, 0, 1, unsure), (set, 2, 3, refused)]), None);
    assert_eq!(
        latch(&[
            (set, 0, 1, unsure),
            (count, 2, 3, unset),
            (count, 4, 5, yes)
        ]),
        None
    );
    let wrong: &[(&[Asked], &str)] = &[
        (&[(set, 0, 1, yes), (set, 2, 3, yes)], "it has set it up"),
        (&[(set, 0, 1, refused)], "it had been set up before"),
        (&[(count, 0, 1, yes)], "it was counted"),
        (&[(count, 0, 1, refused)], "all had been counted"),
        (
            &[(set, 0, 1, yes), (count, 2, 3, unset)],
            "it is not set up",
        ),
        (
            &[
                (set, 0, 1, unsure),
                (count, 2, 3, yes),
                (count, 4, 5, unset),
            ],
            "it is not set up",
        ),
    ];
    for (ops, told) in wrong {
        let message = latch(ops).unwrap();
        assert!(message.contains(told), "{message}");
    }
}

#[test]
fn nothing_is_taken_from_a_stock_before_it_is_filled() {
    let (fill, take) = (Call::SetUp, Call::Admit);
    let stock = |ops: &[Asked]| set_up(Kind::Admission(1), ops);
    let yes = done as fn(_) -> _;
    let before = (take, 0, 1, refused as fn(_) -> _);
    assert_eq!(
        stock(&[
            before,
            (fill, 2, 3, yes),
            (take, 4, 5, yes),
            (take, 6, 7, refused)
        ]),
        None
    );
    assert!(stock(&[before, (fill, 2, 3, refused)]).is_some());
    assert!(stock(&[(fill, 0, 1, yes), (take, 2, 3, refused)]).is_some());
    assert!(stock(&[(take, 0, 1, yes), (fill, 2, 3, yes)]).is_some());
}

#[test]
fn a_name_is_counted_once() {
    let (ask, again) = (Call::Admit, Call::AdmitAgain { of: 1 });
    let counter = |ops: &[Asked]| counted(Kind::Admission(2), ops);
    let (yes, first): (fn(_) -> _, fn(_) -> _) = (done, |op| as_number(op, 1));
    let full = (ask, 6, 7, refused as fn(_) -> _);
    assert_eq!(
        counter(&[(ask, 0, 1, yes), (again, 2, 3, yes), (ask, 4, 5, yes), full]),
        None
    );
    assert!(counter(&[(ask, 0, 1, yes), (again, 2, 3, yes), full]).is_some());
    // The counter counted the first call or the second one, but not both.
    let late = [
        (ask, 0, 1, unsure as fn(_) -> _),
        (again, 2, 3, first),
        (ask, 4, 5, yes),
        full,
    ];
    assert_eq!(counter(&late), None);
    assert!(counter(&[(ask, 0, 1, unsure), (again, 2, 3, yes), full]).is_some());
}

#[test]
fn a_counter_that_starts_again_at_zero_gets_no_verdict() {
    let mut history = History {
        kind: Kind::Admission(2),
        ..history(vec![])
    };
    history.terms.anew = true;
    assert!(matches!(Linearizable.check(&history), Finding::Unknown(_)));
}

/// Eight clients that pass a lock on, two hundred times.
fn long(overlap: bool) -> History {
    let why = Refusal::Contended;
    let mut history = History::new(s(10), true);
    for op in 0..200_u32 {
        let (host, at) = ((op % 8) as u8, u64::from(op));
        // All other clients ask meanwhile; half of their calls have an unknown outcome.
        for other in 1..8_u32 {
            let id = 1_000 + op * 8 + other;
            history.push(s(at), tries(id, ((op + other) % 8) as u8));
            let end = if other % 2 == 0 {
                unsure(id)
            } else {
                What::Fail { op: id, why }
            };
            history.push(s(at), end);
        }
        history.push(s(at), tries(op, host));
        history.push(s(at), granted(op, Some(at + 9)));
        if !(overlap && op == 190) {
            history.push(s(at), releases(10_000 + op, host, op));
            history.push(s(at + 1), done(10_000 + op));
        }
    }
    history.entries.sort_by_key(|entry| entry.at);
    history
}

#[test]
fn four_hundred_operations_take_few_steps() {
    let (sound, broken) = (
        Grants::of(&Reading::of(&long(false))),
        Grants::of(&Reading::of(&long(true))),
    );
    assert_eq!(sound.spans().len(), 400);
    assert_eq!(search(&sound, &sound.spans(), 2_000), Outcome::Explained);
    let outcome = search(&broken, &broken.spans(), 20_000);
    assert!(matches!(outcome, Outcome::Stuck { .. }), "{outcome:?}");
}

#[test]
fn a_semaphore_at_its_limit_takes_few_steps() {
    // Ten calls in flight at the same time, again and again.
    let mut entries = Vec::new();
    for round in 0..20_u32 {
        let at = u64::from(round) * 3;
        let op = |nth: u32| 1 + round * 20 + nth;
        for nth in 0..10_u32 {
            let host = u8::try_from(nth).unwrap();
            entries.push((at, takes(op(nth), host, Mode::Permits(1))));
        }
        entries.extend(
            (0..10)
                .rev()
                .map(|nth| (at + 1, granted(op(nth), Some(at + 10)))),
        );
        for nth in 0..10_u32 {
            let host = u8::try_from(nth).unwrap();
            entries.push((at + 1, releases(op(10 + nth), host, op(nth))));
        }
        entries.extend((0..10).map(|nth| (at + 2, done(op(10 + nth)))));
    }
    let outcome = |permits| {
        let kind = Kind::Semaphore(permits);
        let grants = Grants::of(&Reading::of(&History {
            kind,
            ..history(entries.clone())
        }));
        assert_eq!(grants.spans().len(), 400);
        search(&grants, &grants.spans(), STEPS_MAX)
    };
    assert_eq!(outcome(10), Outcome::Explained);
    assert!(matches!(outcome(9), Outcome::Stuck { .. }));
}

#[test]
fn an_owner_that_enters_again_need_not_extend_its_lease() {
    let enters = |reentrant, deadline| {
        let mut history = history(vec![
            (0, tries(1, 0)),
            (1, granted(1, Some(9))),
            (5, tries(2, 0)),
            (5, granted(2, deadline)),
            (11, tries(9, 1)),
            (11, granted(9, Some(20))),
        ]);
        history.reentrant = reentrant;
        broken(&history)
    };
    assert_eq!(enters(true, Some(9)), None);
    assert!(enters(true, Some(14)).is_some(), "it says that it did");
    assert!(enters(true, None).is_some(), "it says nothing");
    assert!(enters(false, Some(9)).is_some());
}

/// The lease of c1 ends at 11, and its deadline is 5. c2 is granted the lock at 8.
#[test]
fn a_process_may_clear_away_its_grant_after_the_deadline() {
    let cleared = |at, host| {
        mutex(vec![
            (0, tries(1, 0)),
            (1, stores(0, "a", Some(11))),
            (1, granted(1, Some(5))),
            (at, frees(host)),
            (7, tries(2, 1)),
            (8, stores(1, "b", Some(18))),
            (8, granted(2, Some(17))),
        ])
    };
    assert_eq!(cleared(6, 0), None);
    assert!(cleared(4, 0).is_some(), "before its deadline");
    assert!(cleared(6, 1).is_some(), "another client");
}

/// The guard of the first grant is dropped, and its removal is under way when the owner asks again.
#[test]
fn an_owner_that_enters_before_its_drop_is_undone_need_not_extend_its_lease() {
    let enters = |gone| {
        let dropped = What::Invoke {
            op: 2,
            actor: Actor::on(0),
            call: Call::Drop { grant: 1 },
        };
        let mut entries = vec![
            (0, tries(1, 0)),
            (1, stores(0, "a", Some(10))),
            (1, granted(1, Some(9))),
            (4, dropped),
            (5, tries(3, 0)),
            (6, granted(3, Some(9))),
            (11, tries(9, 1)),
            (11, granted(9, Some(20))),
        ];
        if gone {
            entries.insert(4, (4, frees(0)));
            entries.insert(6, (5, stores(0, "a", Some(10))));
        } else {
            entries.insert(6, (10, frees(0)));
        }
        let mut history = history(entries);
        history.reentrant = true;
        broken(&history)
    };
    assert_eq!(enters(false), None);
    assert!(enters(true).is_some(), "it was undone before");
}
