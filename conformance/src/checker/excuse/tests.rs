//! For each excuse a history that needs it, and a near miss that convicts all the same.

use super::*;
use crate::{
    checker::{CHECKERS, Witness, hand_made::*},
    history::{
        Actor, CANCELLED, Call, Cause, History, Holder, Kind, Mode, Moment, Reading, Refusal,
        Scope, Token, What,
    },
    scenario::{Direction, Fault, Lost, Topology},
    simulation::FIRST_PROBE_OP,
    verdict::Claim,
};
use std::time::Duration;

/// Returns the message of the conviction without its numbers, with an excuse that counts or not.
fn told(excuse: Excuse, history: &History, counts: bool) -> Option<String> {
    if excuse == Excuse::FewForgot {
        let witness = Witness {
            at: Moment::at(s(8)),
            until: None,
            grants: vec![1],
            message: String::new(),
        };
        let blames = !counts || Claim::Quorum.blames(history, excuse.property(), &witness);
        return blames.then(String::new);
    }
    let reading = match counts {
        true => Reading::of(history),
        false => Reading::without(history, excuse),
    };
    let mut judges = CHECKERS
        .iter()
        .filter(|it| it.property() == excuse.property());
    judges.find_map(|judge| {
        let finding = judge.judge(&reading);
        let message = finding.witness()?.message.clone();
        Some(message.replace(|it: char| it.is_ascii_digit(), ""))
    })
}

/// The call of the process begins at 30.
#[test]
fn a_connection_that_the_call_opens_was_lacking_before() {
    let convicts = |at| told(Excuse::SeveralConnections, &dials_more(Some(at)), true).is_some();
    assert!(!convicts(30));
    assert!(convicts(29), "the process had all of its connections");
}

/// Their near misses break the property in another way, of which the message says so.
const OTHER_WORDS: [Excuse; 3] = [
    Excuse::ConcurrentGrants,
    Excuse::RenewalsFailed,
    Excuse::ScriptLostAtTheEnd,
];

#[test]
fn each_excuse_is_needed_and_its_near_miss_convicts() {
    for excuse in Excuse::ALL {
        let (excused, near_miss) = histories(excuse);
        let needed = told(excuse, &excused, false);
        assert!(needed.is_some(), "{excuse:?} is not needed");
        let excused = told(excuse, &excused, true);
        assert_eq!(excused, None, "{excuse:?} does not count");
        let missed = told(excuse, &near_miss, true);
        assert!(missed.is_some(), "{excuse:?} excuses too much");
        // A near miss that breaks another rule of the property would prove nothing.
        let same = needed == missed;
        assert_ne!(
            same,
            OTHER_WORDS.contains(&excuse),
            "{excuse:?}: {missed:?}"
        );
    }
}

/// A history that needs the excuse, and its near miss.
fn histories(excuse: Excuse) -> (History, History) {
    match excuse {
        Excuse::ConcurrentGrants => (granted_at_once([1, 0]), granted_at_once([0, 1])),
        Excuse::LastMillisecond => (
            freed_before_its_end(Duration::from_micros(999)),
            freed_before_its_end(Duration::from_millis(1)),
        ),
        Excuse::ClockSetBack => (
            written_by_another(Some(12), 10),
            written_by_another(Some(12), 9),
        ),
        Excuse::SharedExpiry => (written_by_another(None, 12), written_by_another(None, 9)),
        Excuse::OwnersToken => (frees_both(Scope::Owner), frees_both(Scope::Grant)),
        Excuse::PlaceOfPermit => (expired_beside_two(3), expired_beside_two(2)),
        Excuse::ConnectionOfOneCall => (dialled_again(Some(22)), dialled_again(None)),
        Excuse::SeveralConnections => (dials_more(Some(40)), dials_more(None)),
        Excuse::AcquiredAgain => (acquired_again(true), acquired_again(false)),
        Excuse::ExtensionInFlight => (extended_late(4), extended_late(7)),
        Excuse::OwnTokenFound => (enters_again(false), enters_again(true)),
        Excuse::LatchNotSetUp => (awaits_after(None), awaits_after(Some(1))),
        Excuse::EndMovedByClock => (key_extended(12), key_extended(13)),
        Excuse::OwnRequestHarmed => (ends_early(6), ends_early(1)),
        Excuse::StoppedBetweenRequests => (stopped_until(10, 10), stopped_until(10, 11)),
        Excuse::ReaderOfProcess => (refused_beside_reader(0), refused_beside_reader(1)),
        Excuse::RivalWaits => {
            let mode = Mode::Exclusive;
            let waits = Call::Acquire { mode, wait: s(9) };
            (
                refused_for_writer(waits),
                refused_for_writer(Call::Try { mode }),
            )
        }
        Excuse::OutOfTime => (error_at_the_end(None), error_at_the_end(Some(7))),
        Excuse::RefusedOutOfTime => (refused_at_the_end(None), refused_at_the_end(Some(7))),
        Excuse::EarlierRequest => (asked_before(5), asked_before(4)),
        Excuse::UndoneMeanwhile => (undone_until(7), undone_until(4)),
        Excuse::GrantedTooLate => (granted_after(11), granted_after(6)),
        Excuse::ClearedAway => (cleared_by(0), cleared_by(1)),
        Excuse::PartExpired => (in_two_places(true), in_two_places(false)),
        Excuse::SplitVotes => (undecided(true), undecided(false)),
        Excuse::NodeUnheard => (refused_by_three(6), refused_by_three(1)),
        Excuse::FirstConnection => (connects(false), connects(true)),
        Excuse::Sweep => (sweeps(3), sweeps(1)),
        Excuse::CleanUpFailed => (removed_late(Some("LOADING")), removed_late(None)),
        Excuse::SubscriptionStruck => (lingers([10, 14]), lingers([12, 14])),
        Excuse::InnerRelease => (inner_release(None), inner_release(Some(3))),
        Excuse::ForgottenLevel => (forgotten_level(12), forgotten_level(30)),
        Excuse::Reserved => (reserved(), own_place()),
        Excuse::HeldInProcess => (refused_during_call_of(0), refused_during_call_of(1)),
        Excuse::WaitsInProcess => (waits_behind_a_task_of(0), waits_behind_a_task_of(1)),
        Excuse::BrokenConnection => (found_broken(None), found_broken(Some(20))),
        Excuse::LostScript => (script_lost(&[31]), script_lost(&[20, 31])),
        Excuse::TaskInFront => (freed_behind_a_task_of(0), freed_behind_a_task_of(1)),
        Excuse::WakeUpLost => (cut_while_waiting(1), cut_while_waiting(2)),
        Excuse::PauseAfterFault => (asks_late(4), asks_late(1)),
        Excuse::PauseBeforePlace => (asks_behind(4), asks_behind(2)),
        Excuse::SlowClock => (loses_its_place(-200_000), loses_its_place(-1_000)),
        Excuse::HeadStopped => {
            let told = What::Info {
                op: 2,
                error: CANCELLED.to_owned(),
            };
            (
                behind_another(What::Pause { host: 2 }),
                behind_another(told),
            )
        }
        Excuse::RenewalsFailed => (renewal_fails(40), renewal_fails(13)),
        Excuse::GrantedAtTheEnd => (granted_late(11), granted_late(6)),
        Excuse::ScriptLostAtTheEnd => (without_script(25), without_script(12)),
        Excuse::OtherRequest => (fails_beside(0), fails_beside(1)),
        Excuse::KeyOfAnother => (another_until(10), another_until(2)),
        Excuse::GrantOfProcess => (waits_beside(true), waits_beside(false)),
        Excuse::KeptForHold => (kept_until(20), kept_until(30)),
        Excuse::LevelTaken => (release_extends(1), release_extends(2)),
        Excuse::LengthenedLater => (lengthened_at(6), lengthened_at(4)),
        Excuse::WrongServerClock => (wrong_clock_at(5), wrong_clock_at(11)),
        Excuse::GivenBackByAnother => (given_back_by_both(true), given_back_by_both(false)),
        Excuse::LossReported => (lost_twice(true), lost_twice(false)),
        Excuse::FaultBefore => (reported_after(0, 4), reported_after(1, 4)),
        Excuse::EndIsNear => (reported_after(1, 8), reported_after(1, 6)),
        Excuse::CalledBack => (
            reported_lost(Mode::Shared, 4, vec![]),
            reported_lost(Mode::Exclusive, 4, vec![]),
        ),
        Excuse::LateLevel => (late_level(None), late_level(Some(3))),
        Excuse::RequestsInARow => (
            cleans_up(&[(50, 52), (52, 54), (54, 56)]),
            cleans_up(&[(51, 52), (53, 56)]),
        ),
        Excuse::EndsWithLease => (left_until(55), left_until(60)),
        Excuse::RestGivenUp => (gives_the_rest_up(2), gives_the_rest_up(1)),
        Excuse::GivesUpEarly => (probe_refused_at(22), probe_refused_at(35)),
        Excuse::AsksAgain => (stored_again_when_asked_by(0), stored_again_when_asked_by(1)),
        Excuse::MajorityStays => (undone_late_on(1), undone_late_on(2)),
        Excuse::ClosedConnection => (lands_when_closed(3), lands_when_closed(5)),
        Excuse::DeadlinePassed => (lost_after_its_deadline(10), lost_after_its_deadline(13)),
        Excuse::PlaceInQueue => (place_met_by(&["b"]), place_met_by(&["a", "b"])),
        Excuse::RequestOutstanding => (ends_late(&[(5, 7), (7, 8)]), ends_late(&[(7, 8)])),
        Excuse::SecondCut => (two_cuts(0), two_cuts(1)),
        Excuse::PauseBeforeRetry => (asks_again_at(12), asks_again_at(5)),
        Excuse::LateRequest => (lands_late(None), lands_late(Some("a"))),
        Excuse::LeaseWithoutServer => (left_queued(15), left_queued(9)),
        Excuse::Search => (searches(None), searches(Some(3))),
        Excuse::FewForgot => {
            let extended = vec![(4, renews(2, 0, 1)), (5, done(2))];
            (three_of_five(vec![]), three_of_five(extended))
        }
    }
}

/// The owner of a reentrant lock drops its guard at 4 and asks again at 5. The server stores the token until 10; or it was `undone`
/// before, and the call stores it anew.
fn enters_again(undone: bool) -> History {
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
    ];
    if undone {
        entries.push((4, empties(0, Cause::Client(0))));
    }
    entries.push((5, tries(3, 0)));
    if undone {
        entries.push((5, stores(0, "a", Some(10))));
    }
    entries.extend([
        (6, granted(3, Some(9))),
        (11, tries(9, 1)),
        (11, granted(9, Some(20))),
    ]);
    let mut history = history(entries);
    history.reentrant = true;
    history
}

/// A wait at a latch from 3 on, whose connection breaks at 5, ends at 7: the latch is not set up. A client set it up at this time.
fn awaits_after(set_up: Option<u64>) -> History {
    let call = |op: u32, host, call| What::Invoke {
        op,
        actor: Actor::on(host),
        call,
    };
    let lost = What::Cut {
        host: 0,
        node: 0,
        lost: Lost::Request,
    };
    let why = Refusal::Lost;
    let mut entries = vec![
        (3, call(1, 0, Call::Await { wait: s(30) })),
        (5, lost),
        (7, What::Fail { op: 1, why }),
    ];
    entries.extend(set_up.map(|at| (at, call(2, 1, Call::SetUp))));
    entries.extend(set_up.map(|at| (at + 1, done(2))));
    entries.sort_by_key(|&(at, _)| at);
    let mut history = history(entries);
    history.kind = Kind::Latch(2);
    (history.terms.latency, history.terms.poll) = (s(1), Some(s(2)));
    history.terms.answers = true;
    history
}

#[test]
fn a_clock_moves_no_end_of_a_key_with_one_grant() {
    let convicts = |kind| {
        let mut history = key_extended(12);
        history.kind = kind;
        told(Excuse::EndMovedByClock, &history, true).is_some()
    };
    assert!(!convicts(Kind::Semaphore(3)));
    assert!(convicts(Kind::Mutex));
}

/// The clock of the server was set back by 2 s. A request of another grant of the process moves the end of a grant that is given back.
fn key_extended(until: u64) -> History {
    let fault = Fault::NodeClock {
        node: 0,
        by_ms: -2_000,
    };
    let mut history = history(vec![
        (0, tries(1, 0)),
        (0, stores(0, "a", Some(10))),
        (1, granted(1, Some(9))),
        (3, What::Strikes { fault }),
        (3, What::Heals { fault }),
        (5, releases(2, 0, 1)),
        (5, done(2)),
        (7, stores(0, "a", Some(until))),
        (20, tries(9, 1)),
    ]);
    history.kind = Kind::Semaphore(3);
    history
}

fn fenced(op: u32, deadline: u64, fence: u64) -> What {
    What::Ok {
        op,
        deadline: Some(s(deadline)),
        fence: Some(fence),
        number: None,
        token: None,
    }
}

/// The first client has the higher fencing token and the first reply. `order`: in which the server stores the grants.
fn granted_at_once(order: [u8; 2]) -> History {
    let token = |host| if host == 0 { "a" } else { "b" };
    let [first, second] = order;
    history(vec![
        (0, tries(1, 0)),
        (0, tries(2, 1)),
        (1, stores(first, token(first), Some(3))),
        (4, stores(second, token(second), Some(14))),
        (5, fenced(1, 13, 8)),
        (6, fenced(2, 13, 7)),
    ])
}

/// A server stores a grant at 2, for a lease of 10 s. The client learns of it at `at`.
fn granted_late(at: u64) -> History {
    let mut history = history(vec![
        (2, tries(1, 0)),
        (2, stores(0, "a", Some(12))),
        (at, granted(1, Some(12))),
        (12, What::Lost { grant: 1 }),
    ]);
    (history.lease, history.terms.latency) = (s(10), Duration::from_millis(300));
    history.terms.renews = true;
    history
}

/// A connection breaks at 15. The process dials another one at 20, which it closes or not.
fn dialled_again(closed: Option<u64>) -> History {
    let mut history = found_broken(None);
    history.dials(0, 0, 20, closed);
    if let Some(session) = history.sessions.last_mut() {
        session.broken = false;
    }
    history
}

/// A connection breaks at 15. The process dials another one at 20, and one more when a call has failed, or none.
fn dials_more(at: Option<u64>) -> History {
    let mut history = dialled_again(None);
    if let Some(at) = at {
        history.dials(0, 0, at, None);
    }
    history
}

/// A release is followed by a request that extends the same token.
fn acquired_again(reentrant: bool) -> History {
    let mut history = history(vec![
        (0, tries(1, 0)),
        (1, stores(0, "a", Some(12))),
        (1, granted(1, Some(11))),
        (5, releases(2, 0, 1)),
        (6, done(2)),
        (7, tries(3, 0)),
        (8, stores(0, "a", Some(19))),
        (9, granted(3, Some(18))),
    ]);
    history.reentrant = reentrant;
    history.terms.renews = true;
    history
}

/// A release ends at 6. The server executes a request at 8 that extends the token and was sent then.
fn extended_late(sent: u64) -> History {
    let mut history = history(vec![
        (0, tries(1, 0)),
        (1, stores(0, "a", Some(11))),
        (1, granted(1, Some(10))),
        (5, releases(2, 0, 1)),
        (6, done(2)),
        (8, stores(0, "a", Some(18))),
    ]);
    history.terms.renews = true;
    history.dials(0, 0, 0, None);
    history.asks(0, sent, Some(8), Some(9));
    history
}

/// A call from 5 on ends early. The reply to a request that was sent then takes 3 s, longer than a request timeout.
fn ends_early(sent: u64) -> History {
    let mut history = history(vec![(5, waits(1, 0, 20)), (10, refused(1))]);
    history.terms.waits = true;
    history.dials(0, 0, 0, None);
    history.asks(0, sent, Some(sent), Some(sent + 3));
    history
}

/// A call from 5 on is refused though only the first of three nodes stores a foreign token. The third one takes 3 s to
/// answer a request that was sent then.
fn refused_by_three(sent: u64) -> History {
    let mut history = history(vec![
        (0, stores_on(0, 1, "b", Some(10))),
        (5, waits(1, 0, 4)),
        (9, refused(1)),
    ]);
    history.topology = Topology::Nodes(3);
    for node in 0..3 {
        history.dials(0, node, 0, None);
    }
    history.asks(2, sent, Some(sent), Some(sent + 3));
    history
}

/// As [`refused_by_three`], with all nodes answering. The third one executes a request of an earlier call at `executed`.
fn asked_before(executed: u64) -> History {
    let mut history = refused_by_three(4);
    if let Some(request) = history.requests.last_mut() {
        (request.executed, request.replied) = (Some(s(executed)), Some(s(executed)));
    }
    history
}

/// Of three nodes the first one stores a foreign token. A call is cancelled at 5 while its process dials the second node,
/// which takes until `opened`; this node stores a token of the process at 7. The next call is refused.
fn undone_until(opened: u64) -> History {
    let error = CANCELLED.to_owned();
    let mut history = history(vec![
        (0, stores_on(0, 1, "b", Some(10))),
        (3, waits(1, 0, 4)),
        (5, What::Info { op: 1, error }),
        (6, waits(2, 0, 4)),
        (8, stores_on(1, 0, "a", Some(18))),
        (10, refused(2)),
    ]);
    history.topology = Topology::Nodes(3);
    for node in 0..3 {
        history.dials(0, node, 3, None);
    }
    history.sessions[1].opened = s(opened);
    history
}

/// The server stores the token of a call for a lease; its reply arrives after so many seconds, and the call is refused.
fn granted_after(replied: u64) -> History {
    let mut history = history(vec![
        (0, tries(1, 0)),
        (1, stores(0, "a", Some(11))),
        (replied, refused(1)),
    ]);
    history.dials(0, 0, 0, None);
    history.asks(0, 1, Some(1), Some(replied));
    history
}

/// The deadline of the first client is 5. At 6 a client removes its token, and at 8 the second client has the lock.
fn cleared_by(host: u8) -> History {
    history(vec![
        (0, tries(1, 0)),
        (1, stores(0, "a", Some(11))),
        (1, granted(1, Some(5))),
        (6, frees(host)),
        (7, tries(2, 1)),
        (8, stores(1, "b", Some(18))),
        (8, granted(2, Some(17))),
    ])
}

/// The server stores a grant in two places. The release removes both, or the second when the first has expired, and says that
/// the lock was lost.
fn in_two_places(expired: bool) -> History {
    let holder = |expires| Holder {
        token: b"a".to_vec(),
        expires: Some(s(expires)),
        ..Holder::default()
    };
    let server = |cause, stored| What::Server {
        node: 0,
        cause,
        stored,
        anonymous: 0,
    };
    let first = if expired { 6 } else { 10 };
    let mut entries = vec![
        (0, tries(1, 0)),
        (1, server(Cause::Client(0), vec![holder(first), holder(11)])),
        (2, granted(1, Some(10))),
    ];
    if expired {
        entries.push((6, server(Cause::Server, vec![holder(11)])));
    }
    entries.extend([
        (7, releases(2, 0, 1)),
        (8, frees(0)),
        (
            9,
            What::Fail {
                op: 2,
                why: Refusal::Lost,
            },
        ),
    ]);
    history(entries)
}

/// A reader of a process is refused while a reader of the process `host` has the lock.
fn refused_beside_reader(host: u8) -> History {
    let mode = Mode::Shared;
    let reads = |op, host| What::Invoke {
        op,
        actor: Actor::on(host),
        call: Call::Try { mode },
    };
    let mut history = history(vec![
        (0, reads(1, host)),
        (1, stores(host, "a", Some(11))),
        (1, granted(1, Some(10))),
        (3, reads(2, 0)),
        (4, refused(2)),
    ]);
    history.kind = Kind::ReadWrite;
    history
}

/// A reader is refused beside a reader, after a writer has called.
fn refused_for_writer(call: Call) -> History {
    let actor = Actor::on(2);
    let mut history = refused_beside_reader(1);
    history.push(s(5), What::Invoke { op: 3, actor, call });
    let mode = Mode::Shared;
    let reads = Call::Try { mode };
    let actor = Actor::on(0);
    history.entries.retain(|it| it.at < s(3) || it.at == s(5));
    history.push(
        s(6),
        What::Invoke {
            op: 2,
            actor,
            call: reads,
        },
    );
    history.push(s(7), refused(2));
    history
}

/// A call waits until 6 and ends at 13. Its process is stopped from 7, when it has its reply, to `resumed`; its next request
/// is under way from `sent` to 13.
fn stopped_until(resumed: u64, sent: u64) -> History {
    let mut history = history(vec![
        (0, tries(9, 0)),
        (0, refused(9)),
        (1, waits(1, 0, 5)),
        (7, What::Pause { host: 0 }),
        (resumed, What::Resume { host: 0 }),
        (13, refused(1)),
    ]);
    (history.lease, history.terms.waits) = (s(18), true);
    history.dials(0, 0, 0, None);
    history.asks(0, 5, Some(5), Some(7));
    history.asks(0, sent, Some(sent), Some(13));
    history
}

/// A call ends in an error: one of three nodes crashed. `taken`: another one stores a foreign token.
fn undecided(taken: bool) -> History {
    let (node, keeps) = (1, true);
    let fault = Fault::NodeCrash { node, keeps };
    let mut entries = vec![(1, What::Strikes { fault })];
    if taken {
        entries.insert(0, (0, stores_on(0, 1, "b", Some(10))));
    }
    entries.extend([(2, waits(1, 0, 10)), (4, unknown(1))]);
    let mut history = history(entries);
    history.topology = Topology::Nodes(3);
    history
}

/// A call takes a request timeout of 3 s twice after its wait. `before`: the process had called before.
fn connects(before: bool) -> History {
    let mut entries = vec![];
    if before {
        entries.extend([(0, tries(1, 0)), (1, refused(1))]);
    }
    entries.extend([(10, waits(2, 0, 5)), (20, refused(2))]);
    let mut history = history(entries);
    (history.lease, history.terms.waits) = (s(18), true);
    history
}

/// An owner enters twice, and its second release removes nothing. `released`: when the outer grant was released.
fn inner_release(released: Option<u64>) -> History {
    let mut entries = vec![
        (0, tries(1, 0)),
        (1, stores(0, "a", Some(11))),
        (1, granted(1, Some(10))),
        (1, tries(2, 0)),
        (2, granted(2, Some(10))),
    ];
    if let Some(at) = released {
        entries.extend([(at, releases(3, 0, 1)), (at, frees(0)), (at, done(3))]);
    }
    entries.extend([(4, releases(4, 0, 2)), (5, done(4))]);
    let mut history = history(entries);
    history.reentrant = true;
    history
}

/// Another client frees a grant shortly before its lease ends at 10.
fn freed_before_its_end(left: Duration) -> History {
    let mut history = history(vec![
        (0, tries(1, 0)),
        (0, stores(0, "a", Some(10))),
        (1, granted(1, Some(9))),
    ]);
    history.push(s(10) - left, frees(1));
    history
}

/// The holders of a semaphore share a key whose lease ends at 10. A fault of the clock may move the end. At 3 another client
/// gives the key an end.
fn written_by_another(moved: Option<u64>, end: u64) -> History {
    let mut entries = vec![
        (0, tries(1, 0)),
        (0, stored_by(Cause::Client(0), &[("a", 10)])),
        (1, granted(1, Some(9))),
    ];
    entries.extend(moved.map(|end| (2, stored_by(Cause::Fault, &[("a", end)]))));
    entries.push((3, stored_by(Cause::Client(1), &[("a", end)])));
    History {
        kind: Kind::Semaphore(2),
        ..history(entries)
    }
}

/// An owner has two grants with the same token. Giving the second one back frees the lock.
fn frees_both(scope: Scope) -> History {
    let named = |op| What::Ok {
        op,
        deadline: Some(s(9)),
        fence: None,
        number: None,
        token: Some(Token {
            bytes: b"a".to_vec(),
            scope,
        }),
    };
    history(vec![
        (0, tries(1, 0)),
        (0, stores(0, "a", Some(10))),
        (1, named(1)),
        (2, tries(2, 0)),
        (3, named(2)),
        (4, releases(3, 0, 2)),
        (4, frees(0)),
        (5, done(3)),
    ])
}

/// At 10 a third client takes a semaphore. The token of the first one has been over since 9.
fn expired_beside_two(permits: u32) -> History {
    History {
        kind: Kind::Semaphore(permits),
        ..history(vec![
            (1, stored_by(Cause::Client(0), &[("a", 9)])),
            (5, stored_by(Cause::Client(1), &[("a", 9), ("b", 15)])),
            (
                10,
                stored_by(Cause::Client(2), &[("a", 9), ("b", 15), ("c", 20)]),
            ),
        ])
    }
}

/// A subscription lingers for 2 s after its last use at 9 s, and ends at 18 s. From the first time of `struck` to the second one no
/// request of its client arrives.
fn lingers(struck: [u64; 2]) -> History {
    let fault = Fault::Partition {
        host: 0,
        node: None,
        direction: Some(Direction::Requests),
    };
    let remains_after = |subscriptions| What::Remains {
        keys: vec![],
        endless: vec![],
        subscriptions,
        tasks: subscriptions,
    };
    let mut history = history(vec![
        (1, tries(1, 0)),
        (9, remains_after(1)),
        (struck[0], What::Strikes { fault }),
        (struck[1], What::Heals { fault }),
        (18, remains_after(0)),
        (50, What::Crash { host: 0 }),
    ]);
    (history.lease, history.terms.linger) = (s(12), s(2));
    history
}

/// An owner cancels a second acquisition at 3. Its release at a later time removes nothing of a lock that was extended.
fn forgotten_level(released: u64) -> History {
    let error = CANCELLED.to_owned();
    let mut entries = vec![
        (0, tries(1, 0)),
        (1, stores(0, "a", Some(11))),
        (1, granted(1, Some(50))),
        (2, tries(2, 0)),
        (3, What::Info { op: 2, error }),
        (released, releases(3, 0, 1)),
        (released + 1, done(3)),
    ];
    entries.extend([3, 10, 18, 26].map(|at| (at, stores(0, "a", Some(at + 10)))));
    entries.sort_by_key(|&(at, _)| at);
    let mut history = history(entries);
    (history.reentrant, history.lease) = (true, s(10));
    history
}

/// The reply of a call is lost at 2, and the call is cancelled. At 42 another client takes a place in the same queue.
fn place_met_by(then: &[&str]) -> History {
    let places = |host, waiting: &[&str]| What::Queue {
        node: 0,
        cause: Cause::Client(host),
        waiting: waiting
            .iter()
            .map(|name| name.as_bytes().to_vec())
            .collect(),
    };
    let (node, lost) = (0, Lost::Reply);
    let error = CANCELLED.to_owned();
    let mut history = history(vec![
        (1, waits(1, 0, 9)),
        (
            2,
            What::Cut {
                host: 0,
                node,
                lost,
            },
        ),
        (3, What::Info { op: 1, error }),
        (4, places(0, &["a"])),
        (42, waits(2, 1, 9)),
        (42, places(1, then)),
        (100, What::Crash { host: 9 }),
    ]);
    history.terms.latency = s(1);
    (history.lease, history.terms.skip) = (s(10), s(30));
    history
}

/// A call is refused while the server stores the name of its own process alone.
fn refused_beside(what: What) -> History {
    history(vec![(1, waits(1, 0, 5)), (3, what), (6, refused(1))])
}

fn reserved() -> History {
    refused_beside(What::Reserved {
        node: 0,
        cause: Cause::Client(0),
        waiters: vec![b"a".to_vec()],
    })
}

fn own_place() -> History {
    refused_beside(What::Queue {
        node: 0,
        cause: Cause::Client(0),
        waiting: vec![b"a".to_vec()],
    })
}

/// A task waits for 30 s; another one was granted the lock before and does not release it.
fn waits_behind_a_task_of(host: u8) -> History {
    history(vec![
        (0, tries_by(1, Actor { host, task: 1 })),
        (1, stores(host, "a", Some(11))),
        (1, granted(1, Some(11))),
        (2, waits(2, 0, 30)),
        (11, empties(0, Cause::Server)),
        (32, refused(2)),
    ])
}

/// The same, of a lock that promises how long a free lock may stay free.
fn freed_behind_a_task_of(host: u8) -> History {
    let mut history = waits_behind_a_task_of(host);
    history.terms.wake = Some(s(2));
    history
}

/// A grant whose token names the owner.
fn owned(op: u32) -> What {
    What::Ok {
        op,
        deadline: Some(s(90)),
        fence: None,
        number: None,
        token: Some(Token::of_owner("a")),
    }
}

fn drops(op: u32, host: u8, grant: u32) -> What {
    What::Invoke {
        op,
        actor: Actor::on(host),
        call: Call::Drop { grant },
    }
}

/// The owner of a reentrant lock acquires it twice. A request of the second call has no reply, or has it at a time; the
/// server executes it at 6. The guards are dropped at 4 and 5.
fn late_level(replied: Option<u64>) -> History {
    let mut history = history(vec![
        (0, tries(1, 0)),
        (1, stores(0, "a", Some(20))),
        (1, owned(1)),
        (2, tries(2, 0)),
        (3, owned(2)),
        (4, drops(3, 0, 2)),
        (4, done(3)),
        (5, drops(4, 0, 1)),
        (5, done(4)),
        (6, stores(0, "a", Some(26))),
        (100, What::Crash { host: 9 }),
    ]);
    history.reentrant = true;
    (history.lease, history.terms.latency) = (s(20), s(1));
    history.dials(0, 0, 0, Some(2));
    history.asks(0, 2, Some(6), replied);
    history.dials(0, 0, 3, None);
    history.asks(1, 3, Some(3), Some(3));
    history
}

/// A call is refused while a call of another task is under way that will be granted the lock.
fn refused_during_call_of(host: u8) -> History {
    history(vec![
        (0, tries_by(1, Actor { host, task: 1 })),
        (1, tries(2, 0)),
        (2, refused(2)),
        (3, stores(host, "a", Some(13))),
        (4, granted(1, Some(13))),
    ])
}

fn unknown(op: u32) -> What {
    What::Info {
        op,
        error: "no answer".to_owned(),
    }
}

fn cut(host: u8, node: u8, lost: Lost) -> What {
    What::Cut { host, node, lost }
}

fn no_script(history: &mut History, at: u64) {
    history.asks(0, at, Some(at), Some(at));
    if let Some(request) = history.requests.last_mut() {
        request.error = Some("NOSCRIPT".to_owned());
    }
}

fn found_broken(before: Option<u64>) -> History {
    let before = before.map(|at| [(at, tries(1, 0)), (at, unknown(1))]);
    let entries = before.into_iter().flatten();
    let mut history = history(
        entries
            .chain([(30, waits(2, 0, 10)), (31, unknown(2))])
            .collect(),
    );
    history.dials(0, 0, 1, Some(15));
    history
}

/// A client waits from 3 to 8 for a lock that is free. Its request is answered at `replied`.
fn waits_in_vain(end: What, replied: Option<u64>) -> History {
    let mut history = history(vec![(3, waits(1, 0, 5)), (8, end)]);
    history.terms.answers = true;
    history.dials(0, 0, 3, None);
    history.asks(0, 5, Some(7), replied);
    history
}

fn error_at_the_end(replied: Option<u64>) -> History {
    waits_in_vain(unknown(1), replied)
}

fn refused_at_the_end(replied: Option<u64>) -> History {
    waits_in_vain(refused(1), replied)
}

fn script_lost(told: &[u64]) -> History {
    let fault = Fault::FlushScripts { node: 0 };
    let mut history = history(vec![
        (3, What::Strikes { fault }),
        (30, waits(2, 0, 10)),
        (31, unknown(2)),
    ]);
    history.dials(0, 0, 1, None);
    told.iter().for_each(|&at| no_script(&mut history, at));
    history
}

fn cut_while_waiting(host: u8) -> History {
    let mut history = history(vec![
        (0, stores(0, "a", Some(12))),
        (1, waits(1, 1, 50)),
        (4, cut(host, 0, Lost::Reply)),
        (5, frees(0)),
        (13, stores(1, "b", Some(25))),
        (13, granted(1, Some(22))),
    ]);
    (history.lease, history.terms.wake) = (s(12), Some(s(2)));
    history
}

/// The node answers again at `until`.
fn paused_until(until: u64) -> [(u64, What); 2] {
    let fault = Fault::NodePause { node: 0 };
    [(0, What::Strikes { fault }), (until, What::Heals { fault })]
}

/// A client calls at 5 for a lock that is free, and takes it at 8.
fn asks_late(until: u64) -> History {
    let calls = [
        (5, waits(1, 1, 50)),
        (8, stores(1, "b", Some(20))),
        (8, granted(1, Some(17))),
    ];
    let mut history = history(paused_until(until).into_iter().chain(calls).collect());
    (history.lease, history.terms.wake) = (s(12), Some(s(2)));
    history.terms.retry = s(1);
    history
}

/// A client calls at 5, another one at 6; the second one is granted the lock first.
fn asks_behind(until: u64) -> History {
    let calls = [
        (5, waits(1, 1, 50)),
        (6, waits(2, 2, 50)),
        (7, granted(2, Some(9))),
        (9, granted(1, Some(17))),
    ];
    let mut history = history(paused_until(until).into_iter().chain(calls).collect());
    (history.lease, history.terms.fair) = (s(12), true);
    history
}

/// The clock of the first waiter is off. It loses its place in the queue to the second one, which is granted the lock first.
fn loses_its_place(ppm: i64) -> History {
    let fault = Fault::Drift { host: 1, ppm };
    let queue = |host, waiting: &[&str]| What::Queue {
        node: 0,
        cause: Cause::Client(host),
        waiting: waiting.iter().map(|it| it.as_bytes().to_vec()).collect(),
    };
    let mut history = history(vec![
        (0, What::Strikes { fault }),
        (1, waits(1, 1, 50)),
        (2, queue(1, &["b"])),
        (3, waits(2, 2, 50)),
        (4, queue(2, &["b", "c"])),
        (6, queue(2, &["c"])),
        (7, queue(1, &["c", "b"])),
        (8, granted(2, Some(9))),
        (12, granted(1, Some(17))),
    ]);
    history.terms.fair = true;
    history.terms.drift_ppm = 10_000;
    history
}

fn behind_another(what: What) -> History {
    let mut history = history(vec![
        (0, stores(0, "a", Some(12))),
        (0, waits(2, 2, 50)),
        (1, waits(1, 1, 50)),
        (5, frees(0)),
        (6, what),
        (8, stores(1, "b", Some(20))),
        (8, granted(1, Some(17))),
    ]);
    (history.lease, history.terms.wake) = (s(12), Some(s(2)));
    history.terms.fair = true;
    history
}

fn held_until(lost: u64, more: Vec<(u64, What)>) -> History {
    let mut entries = vec![
        (1, tries(1, 0)),
        (2, stores(0, "a", Some(32))),
        (2, granted(1, Some(31))),
    ];
    entries.extend(more);
    entries.extend([
        (lost, What::Lost { grant: 1 }),
        (90, What::Crash { host: 9 }),
    ]);
    entries.sort_by_key(|&(at, _)| at);
    let mut history = history(entries);
    (history.lease, history.terms.renews) = (s(30), true);
    history.dials(0, 0, 0, None);
    history
}

fn renewal_fails(until: u64) -> History {
    let fault = Fault::NodePause { node: 0 };
    let (begins, ends) = (What::Strikes { fault }, What::Heals { fault });
    let mut history = held_until(31, vec![(11, begins), (until, ends)]);
    history.asks(0, 12, Some(12), None);
    history
}

fn without_script(at: u64) -> History {
    let fault = Fault::FlushScripts { node: 0 };
    let mut history = held_until(at, vec![(at - 1, What::Strikes { fault })]);
    no_script(&mut history, at);
    history
}

fn cleans_up(asked: &[(u64, u64)]) -> History {
    let (call, actor) = (Call::Drop { grant: 1 }, Actor::on(0));
    let mut history = history(vec![
        (1, tries(1, 0)),
        (1, stores(0, "a", Some(90))),
        (2, granted(1, Some(61))),
        (50, What::Invoke { op: 2, actor, call }),
        (50, done(2)),
        (56, frees(0)),
        (100, What::Crash { host: 9 }),
    ]);
    // Two round trips take 4 s.
    (history.lease, history.terms.latency) = (s(90), s(1));
    history.dials(0, 0, 1, None);
    for &(sent, replied) in asked {
        history.asks(0, sent, Some(sent), Some(replied));
    }
    history
}

/// A guard is dropped at 50. Two round trips later, at 54, the server still stores its token.
fn left_until(ends: u64) -> History {
    let (call, actor) = (Call::Drop { grant: 1 }, Actor::on(0));
    let mut history = history(vec![
        (1, tries(1, 0)),
        (1, stores(0, "a", Some(ends))),
        (2, granted(1, Some(51))),
        (50, What::Invoke { op: 2, actor, call }),
        (50, done(2)),
        (ends, empties(0, Cause::Server)),
        (100, What::Crash { host: 9 }),
    ]);
    (history.lease, history.terms.latency) = (s(90), s(1));
    history.dials(0, 0, 1, None);
    history
}

/// Some of three nodes lose a grant. The lock's extension removes the token from the others, and tells the client
/// that the grant is lost.
fn gives_the_rest_up(lost: u8) -> History {
    let why = Refusal::Lost;
    let mut entries = vec![(0, tries(1, 0))];
    entries.extend((0..3).map(|node| (0, stores_on(node, 0, "a", Some(10)))));
    entries.push((1, granted(1, Some(9))));
    entries.extend((0..lost).map(|node| (2, empties(node, Cause::Fault))));
    entries.push((3, renews(2, 0, 1)));
    entries.extend((lost..3).map(|node| (4, empties(node, Cause::Client(0)))));
    entries.push((5, What::Fail { op: 2, why }));
    let mut history = history(entries);
    history.topology = Topology::Nodes(3);
    history
}

/// The holder dies. At 20 a new client asks for the lock and waits for 15 s; the lock refuses it at `at`.
fn probe_refused_at(at: u64) -> History {
    let call = Call::Acquire {
        mode: Mode::Exclusive,
        wait: s(15),
    };
    let actor = Actor::on(u8::MAX);
    let asks = What::Invoke {
        op: FIRST_PROBE_OP,
        actor,
        call,
    };
    let mut history = history(vec![
        (0, tries(1, 0)),
        (0, stores(0, "a", Some(10))),
        (1, granted(1, Some(9))),
        (2, What::Crash { host: 0 }),
        (20, asks),
        (at, refused(FIRST_PROBE_OP)),
    ]);
    history.terms.waits = true;
    history
}

/// The lock reports the loss of a grant at 12, and a client process asks for the lock. At 13 the server executes a request that the
/// holder's process sent before the loss; it stores the token again.
fn stored_again_when_asked_by(host: u8) -> History {
    let granted = What::Ok {
        op: 1,
        deadline: None,
        fence: None,
        number: None,
        token: Some(Token::of_grant("a")),
    };
    let mut history = history(vec![
        (0, tries(1, 0)),
        (0, stores(0, "a", Some(10))),
        (1, granted),
        (11, empties(0, Cause::Server)),
        (12, What::Lost { grant: 1 }),
        (12, tries(2, host)),
        (13, stores(0, "a", Some(23))),
        (15, refused(2)),
    ]);
    history.terms.renews = true;
    history.dials(0, 0, 0, None);
    history.asks(0, 9, Some(13), None);
    history
}

/// After the grant, late requests of its process remove its token from so many of three nodes.
fn undone_late_on(nodes: u8) -> History {
    let mut entries = vec![(0, tries(1, 0))];
    entries.extend((0..3).map(|node| (0, stores_on(node, 0, "a", Some(10)))));
    entries.push((1, granted(1, Some(9))));
    entries.extend((0..nodes).map(|node| (2, empties(node, Cause::Client(0)))));
    let mut history = history(entries);
    history.topology = Topology::Nodes(3);
    history
}

/// Two tasks of c1 have grants with the same token, that of their process. The first task's grant ends at 3. At 4 both tasks call
/// release, and at 5 a request of c1 removes the token. The first call answers that the lock was lost. The second call answers that it
/// released the lock if `released`, and else that the lock was lost.
fn given_back_by_both(released: bool) -> History {
    let task = |task| Actor { host: 0, task };
    let gives_back = |op, actor, grant| What::Invoke {
        op,
        actor,
        call: Call::Release { grant },
    };
    let lost = |op| What::Fail {
        op,
        why: Refusal::Lost,
    };
    let token = Token::of_owner("a");
    let ok = |op, until| What::Ok {
        op,
        deadline: Some(s(until)),
        fence: None,
        number: None,
        token: Some(token.clone()),
    };
    history(vec![
        (0, tries_by(1, task(0))),
        (0, stores(0, "a", Some(3))),
        (1, ok(1, 3)),
        (3, empties(0, Cause::Server)),
        (3, tries_by(2, task(1))),
        (3, stores(0, "a", Some(13))),
        (3, ok(2, 12)),
        (4, gives_back(3, task(0), 1)),
        (4, gives_back(4, task(1), 2)),
        (5, frees(0)),
        (6, lost(3)),
        (7, if released { done(4) } else { lost(4) }),
    ])
}

/// A call is cancelled at 3. The server executes its request at 4, and its process removes the token 12 s later.
fn lands_when_closed(closed: u64) -> History {
    let cancelled = What::Info {
        op: 1,
        error: CANCELLED.to_owned(),
    };
    let mut history = history(vec![
        (1, waits(1, 0, 9)),
        (3, cancelled),
        (4, stores(0, "a", Some(40))),
        (16, frees(0)),
        (100, What::Crash { host: 9 }),
    ]);
    (history.lease, history.terms.latency) = (s(40), s(1));
    history.dials(0, 0, 0, None);
    history.sessions[0].closed = Some(s(closed));
    history.asks(0, 2, Some(4), None);
    history
}

/// A release at 8 says that the lock was lost. The client's deadline was at 7, and the server stores the token for longer.
fn lost_after_its_deadline(until: u64) -> History {
    let why = Refusal::Lost;
    history(vec![
        (3, tries(1, 0)),
        (3, stores(0, "a", Some(until))),
        (4, granted(1, Some(7))),
        (8, releases(2, 0, 1)),
        (9, What::Fail { op: 2, why }),
        (20, tries(3, 1)),
    ])
}

fn ends_late(asked: &[(u64, u64)]) -> History {
    let mut history = history(vec![(1, waits(1, 0, 5)), (8, refused(1))]);
    (history.lease, history.terms.waits) = (s(18), true);
    history.dials(0, 0, 0, None);
    for &(sent, replied) in asked {
        history.asks(0, sent, Some(sent), Some(replied));
    }
    history
}

fn two_cuts(node: u8) -> History {
    let mut history = history(vec![
        (1, waits(1, 0, 30)),
        (2, stores(0, "a", Some(12))),
        (2, cut(0, node, Lost::Request)),
        (3, cut(0, 0, Lost::Reply)),
        (19, granted(1, Some(28))),
    ]);
    history.terms.latency = s(1);
    history
}

/// The reply is lost at 3, the lock pauses for at most 10 s after that, and the client is granted the lock at 13.
fn asks_again_at(at: u64) -> History {
    let mut history = history(vec![
        (1, waits(1, 0, 30)),
        (2, stores(0, "a", Some(40))),
        (3, cut(0, 0, Lost::Reply)),
        (13, granted(1, Some(22))),
    ]);
    (history.terms.latency, history.terms.retry) = (s(1), s(10));
    history.dials(0, 0, 0, Some(3));
    history.dials(0, 0, 4, None);
    history.asks(1, at, Some(at), Some(at));
    history
}

fn remains(keys: &[&str], tasks: usize) -> What {
    What::Remains {
        keys: keys.iter().map(|key| key.as_bytes().to_vec()).collect(),
        endless: vec![],
        subscriptions: 0,
        tasks,
    }
}

/// The release fails, and its process removes the key 10 s later, an eighth of the lease.
fn removed_late(error: Option<&str>) -> History {
    let mut history = history(vec![
        (1, tries(1, 0)),
        (2, stores(0, "a", Some(82))),
        (2, granted(1, Some(80))),
        (3, releases(2, 0, 1)),
        (4, unknown(2)),
        (4, remains(&["lock"], 1)),
        (14, frees(0)),
        (14, remains(&[], 0)),
        (60, What::Crash { host: 0 }),
    ]);
    history.lease = s(80);
    history.dials(0, 0, 0, None);
    history.asks(0, 3, Some(3), Some(4));
    history.requests[0].error = error.map(str::to_owned);
    history.asks(0, 14, Some(14), Some(14));
    history
}

fn lands_late(queued: Option<&str>) -> History {
    let waiting: Vec<_> = queued.iter().map(|it| it.as_bytes().to_vec()).collect();
    let cause = Cause::Client(0);
    let queue = What::Queue {
        node: 0,
        cause,
        waiting,
    };
    let mut history = history(vec![
        (1, tries(1, 0)),
        (2, queue),
        (3, cut(0, 0, Lost::Late)),
        (3, unknown(1)),
        (6, stores(0, "a", Some(18))),
        (13, remains(&["lock"], 0)),
        (50, What::Crash { host: 0 }),
    ]);
    history.lease = s(12);
    history.dials(0, 0, 0, Some(3));
    history.asks(0, 3, Some(6), None);
    history
}

/// Seed 10163 of `fair` under mixed faults: a call ends at 3, and the node is paused from then until `back`.
fn left_queued(back: u64) -> History {
    let fault = Fault::NodePause { node: 0 };
    let queue = What::Queue {
        node: 0,
        cause: Cause::Client(0),
        waiting: vec![b"a".to_vec()],
    };
    let mut history = history(vec![
        (1, waits(1, 0, 2)),
        (2, queue),
        (3, What::Strikes { fault }),
        (3, unknown(1)),
        (back, What::Heals { fault }),
        (back, remains(&["queue"], 0)),
        (50, What::Crash { host: 0 }),
    ]);
    history.lease = s(12);
    history.dials(0, 0, 0, Some(3));
    history.asks(0, 2, Some(2), Some(2));
    history
}

fn searches(replied: Option<u64>) -> History {
    let mut history = history(vec![
        (1, tries(1, 0)),
        (3, unknown(1)),
        (8, remains(&[], 1)),
        (15, remains(&[], 0)),
        (50, What::Crash { host: 0 }),
    ]);
    history.lease = s(12);
    history.dials(0, 0, 0, Some(3));
    history.asks(0, 2, Some(2), replied);
    history
}

/// A task is there from 8 to 15. From 8 on it sends so many requests, each of which takes 2 s.
fn sweeps(count: u64) -> History {
    let mut history = history(vec![
        (1, tries(1, 0)),
        (3, unknown(1)),
        (8, remains(&[], 1)),
        (15, remains(&[], 0)),
        (50, What::Crash { host: 0 }),
    ]);
    history.lease = s(12);
    history.dials(0, 0, 0, None);
    for sent in (0..count).map(|nth| 8 + 2 * nth) {
        history.asks(0, sent, Some(sent), Some(sent + 2));
    }
    history
}

fn three_of_five(more: Vec<(u64, What)>) -> History {
    let mut entries = vec![(0, tries(1, 0))];
    entries.extend((0..3).map(|node| (0, stores_on(node, 0, "a", Some(10)))));
    entries.extend([(1, granted(1, Some(9))), (3, empties(0, Cause::Fault))]);
    entries.extend(more);
    let mut history = history(entries);
    history.topology = Topology::Nodes(5);
    history
}

/// A request fails while a task of a process asks for the lock. Later the server is silent, and the holder loses its grant.
fn fails_beside(host: u8) -> History {
    let fault = Fault::NodePause { node: 0 };
    let silent = [(20, What::Strikes { fault }), (60, What::Heals { fault })];
    let asks = (2, tries_by(5, Actor { host, task: 1 }));
    let more = [asks, (4, refused(5))].into_iter().chain(silent);
    let mut history = held_until(31, more.collect());
    history.asks(0, 3, Some(3), Some(3));
    history.requests[0].error = Some("NOSCRIPT".to_owned());
    history
}

/// The reply to a waiting client is lost at 3, and its call is granted the lock at 20. Another client has a key until some time.
fn another_until(until: u64) -> History {
    let server = |host, tokens: &[&str]| {
        let tokens: Vec<_> = tokens.iter().map(|&token| (token, 90)).collect();
        stored_by(Cause::Client(host), &tokens)
    };
    let mut entries = vec![
        (0, server(1, &["b"])),
        (1, waits(1, 0, 30)),
        (2, server(0, &["b", "a"])),
        (3, cut(0, 0, Lost::Reply)),
        (until, server(1, &["a"])),
        (20, granted(1, Some(29))),
    ];
    entries.sort_by_key(|&(at, _)| at);
    let mut history = history(entries);
    history.terms.latency = s(1);
    history
}

/// A task of a process has a vote whose reply was lost. The server stores tokens of another call of the process on the other nodes.
fn waits_beside(is_granted: bool) -> History {
    let named = What::Ok {
        op: 1,
        deadline: Some(s(80)),
        fence: None,
        number: None,
        token: Some(Token::of_grant("g")),
    };
    let mut history = history(vec![
        (0, tries(1, 0)),
        (1, stores_on(0, 0, "g", Some(90))),
        (1, stores_on(1, 0, "g", Some(90))),
        (2, if is_granted { named } else { refused(1) }),
        (3, waits(2, 0, 80)),
        (4, stores_on(2, 0, "b", Some(90))),
        (5, cut(0, 2, Lost::Reply)),
        (70, refused(2)),
    ]);
    (history.terms.latency, history.topology) = (s(1), Topology::Nodes(3));
    history
}

/// The reply is lost at 3. The owner releases its grant at 6, and the server stores the token until `ends`. A later call is refused.
fn kept_until(ends: u64) -> History {
    let mut history = history(vec![
        (1, waits(1, 0, 30)),
        (2, stores(0, "a", Some(30))),
        (3, cut(0, 0, Lost::Reply)),
        (4, granted(1, Some(28))),
        (5, releases(2, 0, 1)),
        (6, stores(0, "a", Some(ends))),
        (6, done(2)),
        (7, tries(3, 0)),
        (15, refused(3)),
    ]);
    (history.terms.latency, history.terms.hold) = (s(1), s(18));
    history
}

/// A client is granted a lock until 9, of a lease of 10.
fn granted_until_9(mode: Mode, more: Vec<(u64, What)>) -> History {
    let (actor, call) = (Actor::on(0), Call::Try { mode });
    let mut entries = vec![
        (0, What::Invoke { op: 1, actor, call }),
        (0, stores(0, "a", Some(10))),
        (1, granted(1, Some(9))),
    ];
    entries.extend(more);
    entries.push((9, tries(7, 1)));
    history(entries)
}

/// The lock reports the loss of such a grant at `at`.
fn reported_lost(mode: Mode, at: u64, more: Vec<(u64, What)>) -> History {
    let told = [(at, What::Lost { grant: 1 })];
    granted_until_9(mode, more.into_iter().chain(told).collect())
}

/// A cut strikes a process before the lock reports the loss to c1.
fn reported_after(host: u8, at: u64) -> History {
    let struck = vec![(3, cut(host, 0, Lost::Reply))];
    reported_lost(Mode::Exclusive, at, struck)
}

/// A cut strikes the client. The lock may report the loss at 4, and its release at 6 does.
fn lost_twice(is_reported: bool) -> History {
    let why = Refusal::Lost;
    let mut more = vec![(3, cut(0, 0, Lost::Reply))];
    more.extend(is_reported.then_some((4, What::Lost { grant: 1 })));
    more.extend([(6, releases(2, 0, 1)), (6, What::Fail { op: 2, why })]);
    granted_until_9(Mode::Exclusive, more)
}

/// The client's deadline is 5. A request extends the token at `at`, and the release at 8 says that the lock was lost.
fn lengthened_at(at: u64) -> History {
    let why = Refusal::Lost;
    history(vec![
        (0, tries(1, 0)),
        (0, stores(0, "a", Some(10))),
        (1, granted(1, Some(5))),
        (at, stores(0, "a", Some(at + 10))),
        (8, releases(2, 0, 1)),
        (8, What::Fail { op: 2, why }),
        (19, tries(3, 1)),
    ])
}

/// The same, with a token that stays for half a lease, and a clock of the server that is wrong for a second from `at` on.
fn wrong_clock_at(at: u64) -> History {
    let fault = Fault::NodeClock {
        node: 0,
        by_ms: -3_000,
    };
    let mut history = lost_after_its_deadline(13);
    history.push(s(at), What::Strikes { fault });
    history.push(s(at + 1), What::Heals { fault });
    history.entries.sort_by_key(|entry| entry.at);
    history
}

/// The guard of one of two grants of an owner is dropped at 5. The release of the other one at 7 extends the token, and leaves so many
/// levels.
fn release_extends(left: u32) -> History {
    let (call, actor) = (Call::Drop { grant: 1 }, Actor::on(0));
    let stores = |depth, expires| What::Server {
        node: 0,
        cause: Cause::Client(0),
        stored: vec![Holder {
            token: b"a".to_vec(),
            expires: Some(s(expires)),
            depth: Some(depth),
            ..Holder::default()
        }],
        anonymous: 0,
    };
    let mut history = history(vec![
        (2, tries(1, 0)),
        (2, stores(1, 12)),
        (3, granted(1, Some(11))),
        (3, tries(2, 0)),
        (3, stores(2, 12)),
        (3, granted(2, Some(6))),
        (5, What::Invoke { op: 3, actor, call }),
        (5, done(3)),
        (7, releases(4, 0, 2)),
        (8, stores(left, 18)),
        (9, done(4)),
    ]);
    history.reentrant = true;
    history
}
