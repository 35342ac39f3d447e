//! P7, liveness: when all is well again for a waiter and a majority of servers, it is granted the lock
//! within (waiters) x (lease + hand-over), whatever is wrong with others for good.
//!
//! Nor may a call that waits end in an error before its time, if nothing was wrong for it throughout:
//! what a majority of servers can do does not fail because of one. Of a lock that promises an answer no call at all
//! may end in an error where nothing is wrong with anything; nor may the extension of what most servers have lost since: they
//! say so.
//!
//! Histories rarely stop making new acquisitions, so each one that is under way meanwhile counts as a
//! waiter that may come first, and each extension of a grant adds a lease; so does what one of several servers carries out when
//! the call that asked for it is long over.

use super::{Checker, Finding, Property, Witness, seconds};
use crate::history::{
    Call, Cause, History, Life, Mode, Moment, Operation, Outcome, Reading, Refusal, Troubles,
};
use crate::scenario::Topology;
use std::{collections::BTreeSet, time::Duration};

/// Judges P7.
pub struct Liveness;

/// Those who promise no bound on waking up try again at least this often in a lease: the suite does
/// it for those who do not wait by themselves.
const TRIES_PER_LEASE: u32 = 8;

/// The most round trips of one request: to connect, and to send a script that the server does not know yet.
const ROUND_TRIPS: u32 = 5;

impl Checker for Liveness {
    fn property(&self) -> Property {
        Property::Liveness
    }

    fn judge(&self, history: &Reading<'_>) -> Finding {
        let operations = history.operations();
        let troubles = history.troubles();
        let prolonged: Vec<_> = extensions(history).chain(late(history)).collect();
        let end = history.entries.last().map_or(Duration::ZERO, |it| it.at);
        let terms = &history.terms;
        let hand_over = terms.wake.unwrap_or(history.lease / TRIES_PER_LEASE)
            + history.request_timeout()
            + terms.round_trips(4);
        let mut patient = 0;
        let starved = operations.iter().find_map(|waiter| {
            let Call::Acquire { wait, .. } = waiter.call else {
                return None;
            };
            let (host, asked) = (waiter.actor.host, waiter.asked.at);
            let until = (asked + wait).min(waiter.ended.at).min(end);
            let from = match troubles.last_without_majority(host, asked, until) {
                Some(last) => Moment::at(last.saturating_add(history.request_timeout())),
                // Who died at the same instant, but before, is no rival.
                None => waiter.asked,
            };
            let span = until.checked_sub(from.at)?;
            let rivals = operations
                .iter()
                .filter(|it| acquires_within(it, from, until));
            let waiters = u32::try_from(rivals.count()).unwrap_or(u32::MAX).max(1);
            let prolonged = prolonged.iter().filter(|&&at| from.at <= at && at <= until);
            let prolonged = u32::try_from(prolonged.count()).unwrap_or(u32::MAX);
            let bound = (history.lease + hand_over).saturating_mul(waiters)
                + history.lease.saturating_mul(prolonged);
            patient += u32::from(waiter.outcome == Outcome::Ok || span > bound);
            (span > bound).then_some((waiter, from.at, bound, waiters))
        });
        if let Some(witness) = unanswered(history) {
            return Finding::Violation(witness);
        }
        let failed = operations
            .iter()
            .find(|it| failed(history, operations, troubles, it) || unsaid(history, it));
        if let Some(it) = failed {
            return Finding::Violation(Witness {
                at: it.ended,
                until: None,
                grants: vec![],
                message: format!(
                    "at {} a call of {} ended in an error, though nothing was wrong for it and most of \
                     the servers",
                    seconds(it.ended.at),
                    it.actor,
                ),
            });
        }
        match starved {
            Some((waiter, from, bound, waiters)) => Finding::Violation(Witness {
                at: Moment::at(from + bound),
                until: None,
                grants: vec![],
                message: format!(
                    "from {} on nothing was wrong for {}, one of {waiters} who wanted the lock, and it \
                     was not granted within {}",
                    seconds(from),
                    waiter.actor,
                    seconds(bound)
                ),
            }),
            None if patient == 0 => Finding::Unknown("nobody waited for long enough"),
            None => Finding::Valid,
        }
    }
}

/// Whether a call gave up with an error although it had time left and nothing was wrong since its
/// process got its last answer: what was wrong before may have broken connections that nobody used.
fn failed(
    history: &History,
    operations: &[Operation],
    troubles: &Troubles,
    it: &Operation,
) -> bool {
    let early = match it.call {
        Call::Acquire { wait, .. } => it.ended.at < it.asked.at + wait,
        Call::Try { .. }
        | Call::Renew { .. }
        | Call::Release { .. }
        | Call::SetUp
        | Call::Admit
        | Call::AdmitAgain { .. }
        | Call::CountDown
        | Call::Await { .. } => true,
        // No server is asked for an answer.
        Call::Drop { .. } | Call::Access { .. } => return false,
    };
    // In a network so slow a request may take too long with nothing wrong.
    let near = history.terms.round_trips(ROUND_TRIPS) < history.request_timeout();
    let answers = history.terms.answers && near;
    let waits = matches!(it.call, Call::Acquire { .. });
    let error = match it.outcome {
        Outcome::Unknown => waits && early || answers,
        Outcome::Fail(Refusal::Other) => answers,
        Outcome::Fail(_) | Outcome::Ok | Outcome::Cancelled | Outcome::Open => false,
    };
    if !error {
        return false;
    }
    let answered = operations.iter().filter(|other| {
        // What no server was asked for says nothing.
        let asked = !matches!(other.call, Call::Drop { .. } | Call::Access { .. });
        let told = asked && matches!(other.outcome, Outcome::Ok | Outcome::Fail(_));
        told && other.actor.host == it.actor.host && other.ended < it.asked
    });
    let answered = answered.map(|other| other.asked.at).max();
    let since = answered.map_or(Duration::ZERO, |at| {
        at.saturating_sub(history.request_timeout())
    });
    let host = it.actor.host;
    troubles.calm(host, since, it.ended.at)
        && (waits && early || troubles.calm_everywhere(host, since, it.ended.at))
        // A grant may stand on a bare majority, of which none must have forgotten it.
        && it.call.of_grant().is_none_or(|grant| {
            let taken = operations.iter().find(|other| other.op == grant);
            let since = taken.map_or(Duration::ZERO, |it| it.asked.at);
            troubles.calm_everywhere(host, since, it.ended.at)
        })
}

/// An error as the answer to each acquisition of a run in which nothing was wrong, whatever the lock promises. An error in
/// one mode says nothing: the lock may not offer it.
fn unanswered(history: &Reading<'_>) -> Option<Witness> {
    let near = history.terms.round_trips(ROUND_TRIPS) < history.request_timeout();
    if !near || !history.troubles().is_empty() {
        return None;
    }
    let is_asked = |it: &&Operation| {
        let counts = matches!(it.call, Call::Admit | Call::CountDown);
        counts || matches!(it.call.mode(), Some(Mode::Exclusive | Mode::Permits(1)))
    };
    let asked = history.operations().iter().filter(is_asked);
    let ended: Vec<&Operation> = asked
        .filter(|it| !matches!(it.outcome, Outcome::Cancelled | Outcome::Open))
        .collect();
    let errors = ended
        .iter()
        .all(|it| matches!(it.outcome, Outcome::Unknown | Outcome::Fail(Refusal::Other)));
    let last = ended.last().filter(|_| errors && ended.len() > 1)?;
    Some(Witness {
        at: last.ended,
        until: None,
        grants: vec![],
        message: format!(
            "each of {} calls ended in an error, though nothing was wrong in the whole run",
            ended.len()
        ),
    })
}

/// Whether an extension ended in an error although every server was heard, and so many of them had nothing left of a grant that
/// all of them once had that no majority remained. Those that were missing before are being asked again, so their
/// answers are open; and so it is at any time with who extends in the background.
fn unsaid(history: &Reading<'_>, it: &Operation) -> bool {
    let Call::Renew { grant } = it.call else {
        return false;
    };
    let error = matches!(it.outcome, Outcome::Unknown | Outcome::Fail(Refusal::Other));
    let terms = &history.terms;
    if !(error && terms.answers && history.observed) || terms.renews {
        return false;
    }
    let Some(belief) = history.beliefs().iter().find(|it| it.grant == grant) else {
        return false;
    };
    let servers = match history.topology {
        Topology::Nodes(count) => usize::from(count),
        Topology::Replicated { .. } => 1,
    };
    let tokens = history.tokens();
    // What another task of the process may have put there says nothing of this grant.
    let theirs = tokens.surely_of_grant(belief, history.operations());
    let names: BTreeSet<_> = theirs.map(|life| life.token).collect();
    let nodes = |stood: &dyn Fn(&Life<'_>) -> bool| {
        let lives = tokens.lives.iter();
        let stood = lives.filter(|life| names.contains(life.token) && stood(life));
        stood.map(|life| life.node).collect::<BTreeSet<u8>>().len()
    };
    let confirmed = history.operations().iter().filter(|other| {
        let confirms = other.op == grant || other.call == it.call;
        confirms && other.outcome == Outcome::Ok && other.ended <= it.asked
    });
    let confirmed = confirmed.map(|other| other.ended).max();
    // What was not answered once may count as there for ever.
    let since = belief.asked.at.saturating_sub(history.request_timeout());
    confirmed.is_some_and(|at| nodes(&|life| life.stood(at)) == servers)
        && 2 * nodes(&|life| life.stood_within(it.asked, it.ended)) <= servers
        && history
            .troubles()
            .heard_everywhere(it.actor.host, since, it.ended.at)
}

fn acquires_within(it: &Operation, from: Moment, until: Duration) -> bool {
    it.call.acquires() && it.asked.at <= until && from <= it.ended
}

/// When grants were extended at a server.
fn extensions<'a>(history: &'a Reading<'_>) -> impl Iterator<Item = Duration> + 'a {
    let lives = history.tokens().lives.iter();
    let changes = lives.flat_map(|life| life.expiries.iter().skip(1));
    let theirs = changes.filter(|(_, cause, _)| matches!(cause, Cause::Client(_)));
    theirs.map(|(at, ..)| at.at)
}

/// When one of several servers carried out a request that nobody waited for any more: from then on it stands in the way there.
fn late<'a>(history: &'a Reading<'_>) -> impl Iterator<Item = Duration> + 'a {
    let patience = history.request_timeout();
    let awaited = move |life: &Life<'_>| {
        history.operations().iter().any(|it| {
            let theirs = it.call.acquires() && Some(it.actor.host) == life.owner;
            let over = it.ended.at.saturating_add(patience);
            theirs && it.asked <= life.from && life.from.at <= over
        })
    };
    let tokens = history.tokens();
    let lives = tokens.lives.iter().filter(|_| tokens.several);
    let late = lives.filter(move |life| life.owner.is_some() && !awaited(life));
    late.map(|life| life.from.at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        checker::hand_made::*,
        history::What,
        scenario::{Fault, Topology},
    };

    /// The lease is 12 s, a hand-over takes 4 s and a bit.
    fn check(entries: Vec<(u64, What)>) -> Finding {
        let mut history = history(entries);
        history.lease = s(12);
        history.terms.wake = Some(s(2));
        Liveness.check(&history)
    }

    #[test]
    fn errors_alone_are_no_answers() {
        let error = |op| What::Info {
            op,
            error: "silence".to_owned(),
        };
        let ends = |second: What, fault: Option<Fault>| {
            let strikes = fault.map(|fault| (0, What::Strikes { fault }));
            let calls = [
                (1, tries(1, 0)),
                (2, error(1)),
                (3, tries(2, 0)),
                (4, second),
            ];
            check(strikes.into_iter().chain(calls).collect())
                .witness()
                .is_some()
        };
        assert!(ends(error(2), None));
        assert!(!ends(refused(2), None));
        assert!(!ends(error(2), Some(Fault::NodePause { node: 0 })));
    }

    /// Seed 10021 of `redlock-of-three` under `eviction`: one of the two nodes that the grant stood on forgot it.
    #[test]
    fn a_grant_that_a_node_forgot_need_not_be_extended() {
        let renewed = |fault: Option<Fault>| {
            let strikes = fault.map(|fault| (2, What::Strikes { fault }));
            let told = (
                4,
                What::Fail {
                    op: 2,
                    why: Refusal::Other,
                },
            );
            let begin = [(1, tries(1, 0)), (2, granted(1, Some(11)))];
            let end = [(3, renews(2, 0, 1)), told];
            let mut history = history(begin.into_iter().chain(strikes).chain(end).collect());
            (history.topology, history.terms.answers) = (Topology::Nodes(3), true);
            Liveness.check(&history).witness().is_some()
        };
        assert!(renewed(None));
        assert!(!renewed(Some(Fault::Evict { node: 1 })));
    }

    /// Seeds 1329 and 13397 of `redlock-of-three` under `eviction`: a node that had refused was being asked again; a node had the
    /// token of another task of the process.
    #[test]
    fn what_most_servers_have_lost_is_said_to_be_lost() {
        let renewed = |had: u8, forget: &[u8], more: Option<What>, (answers, in_background)| {
            let stored = (0..had).map(|node| (1, stores_on(node, 0, "a", Some(11))));
            let forget = forget.iter().map(|&node| (3, empties(node, Cause::Fault)));
            let more = more.map(|what| (0, what));
            let error = "no quorum".to_owned();
            let told = (5, What::Info { op: 2, error });
            let struck = (
                3,
                What::Strikes {
                    fault: Fault::Evict { node: 0 },
                },
            );
            let begin = more.into_iter().chain([(1, tries(1, 0))]).chain(stored);
            let begin = begin.chain([(2, granted(1, Some(10))), struck]);
            let end = [(4, renews(2, 0, 1)), told];
            let mut history = history(begin.chain(forget).chain(end).collect());
            history.topology = Topology::Nodes(3);
            (history.terms.answers, history.terms.renews) = (answers, in_background);
            Liveness.check(&history).witness().is_some()
        };
        let promised = (true, false);
        assert!(renewed(3, &[0, 1], None, promised));
        assert!(!renewed(3, &[0], None, promised), "a majority is left");
        assert!(!renewed(3, &[0, 1], None, (false, false)));
        assert!(!renewed(3, &[0, 1], None, (true, true)));
        assert!(!renewed(2, &[0, 1], None, promised), "one is asked again");
        let silent = Some(What::Strikes {
            fault: Fault::NodePause { node: 2 },
        });
        assert!(!renewed(3, &[0, 1], silent, promised));
        let beside = Some(tries(9, 0));
        assert!(!renewed(3, &[0, 1], beside, promised), "of two tasks");
    }

    /// Seed 7161 of `fenced-redlock` under `eviction`: a node forgot its vote before the number was stored there.
    #[test]
    fn a_vote_that_a_node_forgot_may_be_missed() {
        let tried = |fault: Option<Fault>| {
            let strikes = fault.map(|fault| (2, What::Strikes { fault }));
            let why = Refusal::Other;
            let told = (3, What::Fail { op: 1, why });
            let begin = [(1, tries(1, 0))].into_iter().chain(strikes);
            let mut history = history(begin.chain([told]).collect());
            (history.topology, history.terms.answers) = (Topology::Nodes(3), true);
            Liveness.check(&history).witness().is_some()
        };
        assert!(tried(None));
        assert!(!tried(Some(Fault::Evict { node: 1 })));
    }

    #[test]
    fn where_nothing_is_wrong_every_call_has_an_answer_if_that_is_promised() {
        let ends = |answers, end: What, fault: Option<Fault>| {
            let mut history = history(vec![(1, tries(1, 0)), (2, end)]);
            if let Some(fault) = fault {
                history.entries.insert(
                    0,
                    crate::history::Entry {
                        at: s(0),
                        what: What::Strikes { fault },
                    },
                );
            }
            (history.lease, history.terms.answers) = (s(12), answers);
            Liveness.check(&history).witness().is_none()
        };
        let unknown = || What::Info {
            op: 1,
            error: "type error".into(),
        };
        let (op, why) = (1, Refusal::Other);
        assert!(!ends(true, unknown(), None));
        assert!(!ends(true, What::Fail { op, why }, None));
        assert!(ends(true, refused(1), None));
        assert!(ends(false, unknown(), None));
        let error = Fault::NodePause { node: 0 };
        assert!(ends(true, unknown(), Some(error)));
    }

    #[test]
    fn a_lone_waiter_is_granted_within_a_lease_and_a_hand_over() {
        let granted_at = |at| {
            check(vec![
                (0, stores(1, "b", Some(12))),
                (1, waits(1, 0, 60)),
                (at, granted(1, Some(at + 11))),
            ])
        };
        assert_eq!(granted_at(17), Finding::Valid);
        assert!(granted_at(18).witness().is_some());
        let refused = vec![(1, waits(1, 0, 60)), (61, refused(1))];
        assert!(check(refused).witness().is_some());
    }

    #[test]
    fn each_rival_and_each_extension_adds_a_turn() {
        let rivals = |more: Vec<(u64, What)>| {
            let mut entries = vec![(1, waits(1, 0, 60)), (28, granted(1, Some(39)))];
            entries.extend(more);
            entries.sort_by_key(|&(at, _)| at);
            check(entries)
        };
        assert!(rivals(vec![]).witness().is_some());
        assert_eq!(rivals(vec![(4, waits(2, 1, 30))]), Finding::Valid);
        let extended = vec![(2, stores(1, "b", Some(14))), (6, stores(1, "b", Some(18)))];
        assert_eq!(rivals(extended), Finding::Valid);
    }

    #[test]
    fn time_counts_from_when_all_is_well() {
        let paused = |host| {
            check(vec![
                (1, waits(1, 0, 60)),
                (2, What::Pause { host }),
                (20, What::Resume { host }),
                (30, granted(1, Some(39))),
            ])
        };
        assert_eq!(paused(0), Finding::Valid);
        assert!(paused(1).witness().is_some());
    }

    #[test]
    fn a_waiter_is_granted_by_the_nodes_that_are_there() {
        let granted_at = |at, struck: &[u8]| {
            let crash = |&node| What::Strikes {
                fault: Fault::NodeCrash { node, keeps: true },
            };
            let dead = struck.iter().map(crash).map(|it| (0, it));
            let told = [(1, waits(1, 0, 60)), (at, granted(1, Some(at + 11)))];
            let mut history = history(dead.chain(told).collect());
            (history.lease, history.topology) = (s(12), Topology::Nodes(3));
            history.terms.wake = Some(s(2));
            Liveness.check(&history).witness().is_none()
        };
        assert!(granted_at(17, &[1]));
        assert!(!granted_at(18, &[1]));
        assert!(granted_at(18, &[1, 2]));
    }

    /// Seed 10951 of `redlock-of-three` and `fenced-redlock` under `node-pause`: a paused node carried out the try of a grant 25 s
    /// later, and the next one to be paused was of the two that were free.
    #[test]
    fn what_a_server_carries_out_when_the_call_is_long_over_adds_a_lease() {
        let stored_at = |at, nodes| {
            let mut entries = vec![
                (0, tries(2, 1)),
                (1, granted(2, Some(12))),
                (1, waits(1, 0, 60)),
                (at, stores_on(2, 1, "b", Some(at + 12))),
                (29, granted(1, Some(40))),
            ];
            entries.sort_by_key(|&(at, _)| at);
            let mut history = history(entries);
            (history.lease, history.topology) = (s(12), Topology::Nodes(nodes));
            history.terms.wake = Some(s(2));
            Liveness.check(&history).witness().is_none()
        };
        assert!(stored_at(9, 3));
        assert!(!stored_at(9, 1), "the only one holds it up for all");
        assert!(!stored_at(1, 3), "it was awaited");
    }

    #[test]
    fn who_gives_up_soon_says_nothing() {
        let soon = vec![(1, waits(1, 0, 5)), (6, refused(1))];
        assert!(matches!(check(soon), Finding::Unknown(_)));
    }

    #[test]
    fn an_error_of_a_few_servers_ends_no_call() {
        let failed = |at, struck: &[u8]| {
            let crash = |&node| What::Strikes {
                fault: Fault::NodeCrash { node, keeps: true },
            };
            let mut entries: Vec<_> = struck.iter().map(crash).map(|it| (1, it)).collect();
            let error = "a node failed".to_owned();
            entries.extend([(2, waits(1, 0, 10)), (at, What::Info { op: 1, error })]);
            let mut history = history(entries);
            history.topology = Topology::Nodes(3);
            Liveness.check(&history).witness().is_some()
        };
        assert!(failed(4, &[]));
        assert!(failed(4, &[1]));
        assert!(!failed(4, &[0, 1]), "too few are left");
        assert!(!failed(12, &[1]), "it had no time left");
    }

    #[test]
    fn a_connection_that_broke_meanwhile_is_no_ones_fault() {
        let crashed_at = |at| {
            let crash = What::Strikes {
                fault: Fault::NodeCrash {
                    node: 0,
                    keeps: true,
                },
            };
            let back = What::Heals {
                fault: Fault::NodeCrash {
                    node: 0,
                    keeps: true,
                },
            };
            let error = "broken pipe".to_owned();
            let mut entries = vec![
                (10, tries(1, 0)),
                (10, refused(1)),
                (30, waits(2, 0, 10)),
                (31, What::Info { op: 2, error }),
            ];
            entries.extend([(at, crash), (at + 1, back)]);
            entries.sort_by_key(|&(at, _)| at);
            check(entries).witness().is_some()
        };
        assert!(crashed_at(3));
        assert!(!crashed_at(15));
    }
}
