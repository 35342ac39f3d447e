//! P6, deadlock freedom: the lock of a dead holder is free after its lease at most, and another client can acquire it.
//!
//! Every run ends with the death of all clients. Then a probe on a healthy connection asks for the lock, and waits for
//! one and a half leases. If a semaphore grants one permit for each call, the probe waits until all leases are over, and
//! then asks for one permit after another and keeps each of them. On the double, the checker also looks at stored keys:
//! a dead client must not leave a key that lasts longer than the lease, and no other client may extend such a key.

use super::{Checker, Finding, Property, Witness, seconds};
use crate::{
    history::{Actor, Call, Cause, Excuse, Holder, Moment, OpId, Reading, Refusal, What},
    scenario::{Fault, Topology},
    simulation::FIRST_PROBE_OP,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Judges P6.
pub struct Progress;

/// Granularity of times at the server: whole milliseconds.
const GRANULARITY: Duration = Duration::from_millis(1);

/// Factor by which a lease may be longer in true time because the server's clock runs slow, within its bound.
const DRIFT: f64 = 0.01;

impl Checker for Progress {
    fn property(&self) -> Property {
        Property::Progress
    }

    fn judge(&self, history: &Reading<'_>) -> Finding {
        if let Some(witness) = left_behind(history) {
            return Finding::Violation(witness);
        }
        let of_probe = |op: OpId| op >= FIRST_PROBE_OP;
        let outcomes = history.iter().filter(|(_, what)| {
            matches!(what, What::Ok { op, .. } | What::Fail { op, .. } | What::Info { op, .. }
                if of_probe(*op))
        });
        // A semaphore may grant one permit per call only. Then the probe acquires the permits in separate calls.
        let not_offered = |what: &What| {
            let why = Refusal::NotOffered;
            matches!(*what, What::Fail { why: of, .. } if of == why)
        };
        let mut offered = outcomes.filter(|(_, what)| !not_offered(what)).peekable();
        let first = offered.peek().copied();
        let refused = offered.find(|(_, what)| !matches!(what, What::Ok { .. }));
        match refused.or(first) {
            None => Finding::Unknown("the history has no probe"),
            Some((_, What::Ok { .. })) => Finding::Valid,
            Some((at, &What::Fail { op, .. })) if gave_up_early(history, op, at) => {
                Finding::Unknown("the probe gave up early, of which P13 tells")
            }
            Some((at, what)) => {
                let told = if let What::Info { error, .. } = what {
                    format!(" ({error})")
                } else {
                    String::new()
                };
                let message = format!(
                    "all clients were dead, and by {} a new client was not granted the lock{told}",
                    seconds(at.at)
                );
                Finding::Violation(Witness {
                    at,
                    until: None,
                    grants: vec![],
                    message,
                })
            }
        }
    }
}

/// Returns true if a call of a lock that waits by itself ended before its wait was over: it does not show that the lock was taken
/// until then.
fn gave_up_early(history: &Reading<'_>, op: OpId, at: Moment) -> bool {
    if !history.accepts(Excuse::GivesUpEarly) {
        return false;
    }
    let calls = history.calls();
    let Some(&(asked, _, Call::Acquire { wait, .. })) = calls.get(&op) else {
        return false;
    };
    let terms = &history.terms;
    let spare = history.longest_poll().max(terms.round_trips(2)) + terms.timing_tolerance();
    terms.waits && at.at.saturating_sub(asked.at).saturating_add(spare) < wait
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "most of what happens is no matter here"
)]
fn left_behind(history: &Reading<'_>) -> Option<Witness> {
    let mut dead: BTreeSet<u8> = BTreeSet::new();
    let mut longest = history.lease + GRANULARITY;
    let spare = match history.topology {
        Topology::Nodes(nodes) => usize::from(nodes.saturating_sub(1) / 2),
        Topology::Replicated { .. } => 0,
    };
    // A replica answers no clients until it is promoted.
    let mut masters: BTreeSet<u8> = match history.topology {
        Topology::Nodes(nodes) => (0..nodes).collect(),
        Topology::Replicated { .. } => BTreeSet::from([0]),
    };
    // Per node: the stored holders, each with the client process that stored it.
    let mut kept: BTreeMap<u8, Vec<(&Holder, u8)>> = BTreeMap::new();
    for (at, what) in history.iter() {
        match what {
            What::Crash { host } | What::Panic { host, .. } => {
                dead.insert(*host);
            }
            What::Restart { host } => {
                dead.remove(host);
                continue;
            }
            What::Server {
                node,
                cause,
                stored,
                ..
            } => {
                let before = kept.remove(node).unwrap_or_default();
                if let Some(message) = kept_alive(&before, stored, *cause, &dead, at) {
                    return Some(Witness {
                        at,
                        until: None,
                        grants: vec![],
                        message,
                    });
                }
                let owner = |stored: &Holder| {
                    let known = before.iter().find(|(of, _)| of.token == stored.token);
                    known.map_or_else(
                        || history.owners().of(&stored.token, *cause),
                        |&(_, owner)| Some(owner),
                    )
                };
                let now = stored.iter().filter_map(|it| Some((it, owner(it)?)));
                kept.insert(*node, now.collect());
            }
            What::Promoted { node } => {
                masters.insert(*node);
            }
            What::Strikes {
                fault: Fault::NodeDrift { .. },
            } => longest = longest.max(history.lease.mul_f64(1.0 + DRIFT)),
            _ => continue,
        }
        let stays = |holders: &Vec<(&Holder, u8)>| {
            let mut of_the_dead = holders.iter().filter(|(_, owner)| dead.contains(owner));
            of_the_dead
                .find_map(|&(stored, owner)| outlives(stored, owner, at, longest, history.lease))
        };
        let nodes = kept.iter().filter(|(node, _)| masters.contains(node));
        // A minority of several nodes may keep the key: it stops no client.
        if let Some(message) = nodes.filter_map(|(_, holders)| stays(holders)).nth(spare) {
            return Some(Witness {
                at,
                until: None,
                grants: vec![],
                message,
            });
        }
    }
    None
}

/// Returns a message if a living client extended a holder of a dead client.
fn kept_alive(
    before: &[(&Holder, u8)],
    after: &[Holder],
    cause: Cause,
    dead: &BTreeSet<u8>,
    at: Moment,
) -> Option<String> {
    let Cause::Client(by) = cause else {
        return None;
    };
    let longer = |was: &Holder, is: &Holder| match (was.expires, is.expires) {
        (Some(was), Some(is)) => was < is,
        (Some(_), None) => true,
        (None, _) => false,
    };
    let of_the_dead = before
        .iter()
        .filter(|(was, owner)| *owner != by && dead.contains(owner) && was.lives(at.at));
    let mut extended = of_the_dead.filter(|(was, _)| {
        let is = after.iter().find(|is| is.token == was.token);
        is.is_some_and(|is| longer(was, is))
    });
    extended.next().map(|&(_, owner)| {
        let (by, owner, at) = (Actor::on(by), Actor::on(owner), seconds(at.at));
        format!("at {at} {owner} is dead and {by} extends its lock")
    })
}

fn outlives(
    stored: &Holder,
    owner: u8,
    at: Moment,
    longest: Duration,
    lease: Duration,
) -> Option<String> {
    let left = stored.expires.map(|expires| expires.saturating_sub(at.at));
    if left.is_some_and(|left| left <= longest) {
        return None;
    }
    let left = left.map_or_else(
        || "without an expiry".to_owned(),
        |left| format!("for {}", seconds(left)),
    );
    let (client, at, lease) = (Actor::on(owner), seconds(at.at), seconds(lease));
    Some(format!(
        "at {at} {client} is dead and its lock stays {left}, the lease is {lease}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::PROBE_OP;
    use crate::{
        checker::hand_made::*,
        history::{Call, History, Mode},
    };

    fn with_probe(entries: Vec<(u64, What)>, ends: What) -> History {
        let call = Call::Acquire {
            mode: Mode::Exclusive,
            wait: s(15),
        };
        let invoke = What::Invoke {
            op: PROBE_OP,
            actor: Actor::on(u8::MAX),
            call,
        };
        let probe = [(20, invoke), (30, ends)];
        history(entries.into_iter().chain(probe).collect())
    }

    fn died_holding(expires: Option<u64>) -> Vec<(u64, What)> {
        vec![
            (0, tries(1, 0)),
            (0, stores(0, "a", expires)),
            (1, granted(1, Some(9))),
            (2, What::Crash { host: 0 }),
        ]
    }

    /// The probe asks at 20 and waits for 15 s.
    #[test]
    fn a_probe_that_gives_up_early_shows_nothing() {
        let found = |at: u64| {
            let mut history = with_probe(died_holding(Some(10)), refused(PROBE_OP));
            history.terms.waits = true;
            if let Some(last) = history.entries.last_mut() {
                last.at = s(at);
            }
            Progress.check(&history)
        };
        assert!(matches!(found(22), Finding::Unknown(_)));
        assert!(found(35).witness().is_some());
    }

    #[test]
    fn a_replica_may_keep_a_token_for_longer_until_it_is_promoted() {
        let kept = |promoted: bool| {
            let mut entries = died_holding(Some(10));
            entries.insert(2, (1, stores_on(1, 0, "a", Some(19))));
            if promoted {
                entries.push((3, What::Promoted { node: 1 }));
            }
            entries.push((4, stores_on(1, 0, "a", Some(18))));
            let mut history = with_probe(entries, granted(PROBE_OP, Some(39)));
            history.topology = Topology::Replicated { replicas: 1 };
            Progress.check(&history).witness().is_some()
        };
        assert!(!kept(false));
        assert!(kept(true));
    }

    /// Seed 1616 of a read-write lock on three nodes: a clock jumped back on the only node that stored both readers.
    #[test]
    fn one_node_of_three_may_keep_several_holders_of_the_dead() {
        let kept = |other: u8| {
            let holder = |token: &str| Holder {
                token: token.into(),
                expires: Some(s(40)),
                ..Holder::default()
            };
            let server = |node, tokens: &[&str]| What::Server {
                node,
                cause: Cause::Client(0),
                stored: tokens.iter().map(|it| holder(it)).collect(),
                anonymous: 0,
            };
            let second = match other {
                0 => server(0, &["a", "b"]),
                _ => server(other, &["b"]),
            };
            let mut history = with_probe(
                vec![
                    (0, tries(1, 0)),
                    (0, server(0, &["a"])),
                    (0, second),
                    (1, granted(1, Some(9))),
                    (2, What::Crash { host: 0 }),
                ],
                granted(PROBE_OP, Some(39)),
            );
            history.topology = Topology::Nodes(3);
            Progress.check(&history).witness().is_some()
        };
        assert!(!kept(0));
        assert!(kept(1), "two of three nodes keep a holder");
    }

    #[test]
    fn a_probe_that_is_granted_passes() {
        let history = with_probe(died_holding(Some(10)), granted(PROBE_OP, Some(39)));
        assert_eq!(Progress.check(&history), Finding::Valid);
    }

    #[test]
    fn a_probe_that_is_refused_does_not() {
        let refused = with_probe(died_holding(Some(10)), refused(PROBE_OP));
        assert!(Progress.check(&refused).witness().is_some());
        let unknown = What::Info {
            op: PROBE_OP,
            error: "timed out".into(),
        };
        assert!(
            Progress
                .check(&with_probe(vec![], unknown))
                .witness()
                .is_some()
        );
        assert!(matches!(
            Progress.check(&history(vec![])),
            Finding::Unknown(_)
        ));
    }

    #[test]
    fn a_key_without_an_end_is_caught_at_the_death_of_its_owner() {
        let history = with_probe(died_holding(None), granted(PROBE_OP, Some(39)));
        let message = &Progress.check(&history).witness().unwrap().message.clone();
        assert_eq!(
            message,
            "at 2.000 s c1 is dead and its lock stays without an expiry, the lease is 10.000 s"
        );
        let long = with_probe(died_holding(Some(13)), granted(PROBE_OP, Some(39)));
        assert!(Progress.check(&long).witness().is_some());
    }

    #[test]
    fn the_dead_may_not_be_kept_alive_by_others() {
        let kept_alive = |by, expires| {
            let mut entries = died_holding(Some(10));
            entries.push((5, stores(by, "a", Some(expires))));
            let history = with_probe(entries, granted(PROBE_OP, Some(39)));
            Progress.check(&history).witness().is_some()
        };
        assert!(kept_alive(1, 12));
        assert!(!kept_alive(1, 10), "it may be touched");
        assert!(!kept_alive(0, 12), "a late request of its own");
    }

    #[test]
    fn the_living_may_hold_for_long() {
        let mut entries = died_holding(None);
        entries.pop();
        let history = with_probe(entries, granted(PROBE_OP, Some(39)));
        assert_eq!(Progress.check(&history), Finding::Valid);
    }
}
