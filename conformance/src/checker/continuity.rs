//! P21, continuity: after its deadline, or after its holder learned of the loss, a grant never comes back to life. No
//! renewal of it succeeds, its guard names no new deadline, and no client accesses the resource under it. Nor does a
//! renewal store its token again at the server after the token was gone, or any request that was sent after the grant when the grant is
//! over.
//!
//! If a grant never named a deadline, only the reported loss, or the server, can show its end.

use super::{Checker, Finding, Property, Witness, seconds};
use crate::history::{
    Actor, Belief, Call, Cause, Excuse, Holder, Moment, OpId, Reading, Scope, What,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Judges P21.
pub struct Continuity;

impl Checker for Continuity {
    fn property(&self) -> Property {
        Property::Continuity
    }

    fn judge(&self, history: &Reading<'_>) -> Finding {
        let ends = [revived(history), put_back(history)];
        let first = ends.into_iter().flatten().min_by_key(|found| found.at);
        first.map_or(Finding::Valid, Finding::Violation)
    }
}

/// State of a grant, as its guard reports it.
struct GrantState {
    actor: Actor,
    deadline: Option<Duration>,
    /// Time at which the grant ended for its holder, and the reason.
    over: Option<(Moment, &'static str)>,
    /// True if the holder began an access under the grant after its end.
    at_work: bool,
}

impl GrantState {
    fn named(&mut self, deadline: Option<Duration>) {
        self.deadline = deadline.or(self.deadline);
    }

    fn look(&mut self, now: Moment) {
        if let (None, Some(deadline)) = (self.over, self.deadline)
            && deadline <= now.at
        {
            self.over = Some((Moment::at(deadline), "its deadline passed"));
        }
    }

    fn revived(&self, grant: OpId, at: Moment, how: &str) -> Option<Witness> {
        let (over, why) = self.over?;
        Some(Witness {
            at,
            until: None,
            grants: vec![grant],
            message: format!(
                "the grant of {} was over at {}, when {why}; at {} {how}",
                self.actor,
                seconds(over.at),
                seconds(at.at),
            ),
        })
    }
}

#[derive(Default)]
struct GrantStates(BTreeMap<OpId, GrantState>);

impl GrantStates {
    /// State of a grant at `now`.
    fn of(&mut self, grant: OpId, now: Moment) -> Option<&mut GrantState> {
        let life = self.0.get_mut(&grant)?;
        life.look(now);
        Some(life)
    }
}

/// Returns the first sign of life of a grant that is over.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "most of what happens is no matter here"
)]
fn revived(history: &Reading<'_>) -> Option<Witness> {
    let calls = history.calls();
    let mut lives = GrantStates::default();
    for (at, what) in history.iter() {
        let found = match *what {
            What::Ok { op, deadline, .. } => match calls.get(&op) {
                Some(&(_, _, Call::Renew { grant })) => lives.of(grant, at).and_then(|life| {
                    life.named(deadline);
                    life.revived(grant, at, "a renewal of it succeeded")
                }),
                Some(&(_, actor, call)) if call.acquires() => {
                    let life = GrantState {
                        actor,
                        deadline,
                        over: None,
                        at_work: false,
                    };
                    lives.0.insert(op, life);
                    None
                }
                _ => None,
            },
            What::Deadline {
                grant,
                deadline: Some(deadline),
            } => lives.of(grant, at).and_then(|life| {
                let later = at.at < deadline && life.deadline.is_none_or(|last| last < deadline);
                life.named(Some(deadline));
                let says = || life.revived(grant, at, "it got a new deadline");
                later.then(says).flatten()
            }),
            What::Lost { grant } => {
                if let Some(life) = lives.of(grant, at) {
                    life.over = life
                        .over
                        .or(Some((at, "the lock told its holder of the loss")));
                }
                None
            }
            What::Invoke {
                call: Call::Access { grant },
                ..
            } => {
                if let Some(life) = lives.of(grant, at) {
                    life.at_work = life.over.is_some();
                }
                None
            }
            What::Resource {
                grant,
                refused: false,
                ..
            } => lives
                .of(grant, at)
                .filter(|life| life.at_work)
                .and_then(|life| life.revived(grant, at, "the resource was accessed under it")),
            _ => None,
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

/// How a stored token vanished.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gone {
    /// The token expired, or a request removed it.
    InOrder,
    /// A fault removed the token. This checker does not judge a renewal that stores it again.
    ByFault,
}

/// Returns the first renewal that stored a token again after it was gone at the only server.
fn put_back(history: &Reading<'_>) -> Option<Witness> {
    if !history.observed || history.topology.servers() != 1 {
        return None;
    }
    let renewals = renewals(history);
    let (beliefs, operations, tokens) = (history.beliefs(), history.operations(), history.tokens());
    let owns = |belief: &Belief, token: &[u8]| {
        let mut theirs = tokens.surely_of_grant(belief, operations);
        theirs.any(|life| life.token == token)
    };
    let mut gone: BTreeMap<&[u8], Gone> = BTreeMap::new();
    let mut shaken: BTreeSet<&[u8]> = BTreeSet::new();
    let mut before: &[Holder] = &[];
    for (at, what) in history.iter() {
        let What::Server { cause, stored, .. } = what else {
            continue;
        };
        for old in before {
            let kept = stored.iter().any(|new| new.token == old.token);
            if *cause == Cause::Fault {
                shaken.insert(&old.token);
            }
            if !kept || !old.lives(at.at) {
                let fault = shaken.contains(&*old.token);
                let how = if fault { Gone::ByFault } else { Gone::InOrder };
                gone.insert(&old.token, how);
            }
        }
        for new in stored.iter().filter(|new| new.lives(at.at)) {
            let back = gone.remove(&*new.token) == Some(Gone::InOrder);
            if let (true, Cause::Client(host)) = (back, *cause) {
                let by = renewals.iter().find(|renewal| {
                    let on_time = renewal.from < at && at < renewal.to;
                    let belief = beliefs.iter().find(|it| it.grant == renewal.grant);
                    let theirs = belief.is_some_and(|it| owns(it, &new.token));
                    on_time && theirs && renewal.actor.host == host
                });
                if let Some(renewal) = by {
                    let message = format!(
                        "at {} a renewal by {} stored again what the server had no longer",
                        seconds(at.at),
                        renewal.actor,
                    );
                    return Some(witness(at, renewal.grant, message));
                }
                if let Some(belief) = over(history, &new.token, host, at) {
                    let message = format!(
                        "at {} a request of {} stored again the token of its grant, which was over at {}",
                        seconds(at.at),
                        belief.actor,
                        seconds(belief.to.at),
                    );
                    return Some(witness(at, belief.grant, message));
                }
            }
        }
        before = stored;
    }
    None
}

fn witness(at: Moment, grant: OpId, message: String) -> Witness {
    Witness {
        at,
        until: None,
        grants: vec![grant],
        message,
    }
}

/// Returns the grant of a client process that was over when the server executed a request of this process. The process sent this request
/// after the grant, so it is not the one that acquired the lock.
fn over<'a>(history: &'a Reading<'_>, token: &[u8], host: u8, at: Moment) -> Option<&'a Belief> {
    let sent_after = |granted: Moment| {
        let theirs = history.requests_of(host);
        let mut theirs = theirs.filter(|it| it.executed == Some(at.at)).peekable();
        theirs.peek().is_some() && theirs.all(|it| granted.at < it.sent)
    };
    // The process may ask for the lock again with the same token.
    let asks_again = |grant| {
        history.operations().iter().any(|it| {
            let is_another = it.op != grant && it.actor.host == host;
            is_another && it.call.acquires() && it.asked < at && at < it.landed()
        })
    };
    let asks_again = |grant| history.accepts(Excuse::AsksAgain) && asks_again(grant);
    history.beliefs().iter().find(|belief| {
        let named = history.tokens().named.get(&belief.grant);
        let is_its = named.is_some_and(|it| it.scope == Scope::Grant && it.bytes == token);
        is_its
            && belief.actor.host == host
            && belief.to < at
            && sent_after(belief.from)
            && !asks_again(belief.grant)
    })
}

struct Renewal {
    grant: OpId,
    actor: Actor,
    from: Moment,
    to: Moment,
}

/// All renewals that succeeded.
fn renewals(history: &Reading<'_>) -> Vec<Renewal> {
    let ends = history.ends();
    let calls = history.calls().iter();
    let renewals = calls.filter_map(|(op, &(from, actor, call))| {
        let (Call::Renew { grant }, Some(&(to, What::Ok { .. }))) = (call, ends.get(op)) else {
            return None;
        };
        Some(Renewal {
            grant,
            actor,
            from,
            to,
        })
    });
    renewals.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        checker::hand_made::*,
        history::{Access, Token},
    };

    fn broken(entries: Vec<(u64, What)>) -> Option<String> {
        let finding = Continuity.check(&history(entries));
        finding.witness().map(|witness| witness.message.clone())
    }

    fn held_until(deadline: Option<u64>, more: Vec<(u64, What)>) -> Vec<(u64, What)> {
        let begin = vec![
            (0, tries(1, 0)),
            (0, stores(0, "a", Some(10))),
            (1, granted(1, deadline)),
        ];
        begin.into_iter().chain(more).collect()
    }

    fn new_deadline(deadline: u64) -> What {
        What::Deadline {
            grant: 1,
            deadline: Some(s(deadline)),
        }
    }

    #[test]
    fn renewals_in_time_pass() {
        let in_time = vec![
            (5, renews(2, 0, 1)),
            (6, granted(2, Some(14))),
            (12, new_deadline(21)),
            (20, renews(3, 0, 1)),
            (20, refused(3)),
            (22, What::Lost { grant: 1 }),
        ];
        assert_eq!(broken(held_until(Some(9), in_time)), None);
    }

    #[test]
    fn a_renewal_past_the_deadline_is_caught() {
        let late = |at| {
            let renewal = vec![(5, renews(2, 0, 1)), (at, granted(2, Some(19)))];
            broken(held_until(Some(9), renewal))
        };
        assert_eq!(late(8), None);
        assert_eq!(
            late(9).as_deref(),
            Some(
                "the grant of c1 was over at 9.000 s, when its deadline passed; at 9.000 s a \
                 renewal of it succeeded"
            )
        );
    }

    /// A task renews the lease by a request that also stores what is gone. The lock reports the loss, and that request lands later.
    #[test]
    fn a_request_that_was_sent_after_the_grant_does_not_store_it_again() {
        let broken = |sent, lost, asks: Option<u8>| {
            let mut history = history(vec![
                (0, tries(1, 0)),
                (0, stores(0, "a", Some(10))),
                (
                    1,
                    What::Ok {
                        op: 1,
                        deadline: None,
                        fence: None,
                        number: None,
                        token: Some(Token::of_grant("a")),
                    },
                ),
                (lost, What::Lost { grant: 1 }),
                (11, empties(0, Cause::Server)),
                (13, stores(0, "a", Some(23))),
            ]);
            if let Some(host) = asks {
                history.push(s(12), tries(2, host));
                history.push(s(15), refused(2));
            }
            history.entries.sort_by_key(|entry| entry.at);
            history.terms.renews = true;
            history.dials(0, 0, 0, None);
            history.asks(0, sent, Some(13), None);
            Continuity.check(&history).witness().is_some()
        };
        assert!(broken(9, 12, None));
        assert!(!broken(0, 12, None), "the request of the acquisition");
        assert!(!broken(9, 14, None), "the holder relies on it");
        assert!(!broken(9, 12, Some(0)), "the process asks again");
        assert!(broken(9, 12, Some(1)), "another process asks");
    }

    #[test]
    fn after_a_delivered_loss_nothing_revives_it() {
        let after_loss = |deadline, what: Vec<(u64, What)>| {
            let loss = vec![(3, What::Lost { grant: 1 })];
            broken(held_until(deadline, loss.into_iter().chain(what).collect()))
        };
        let renewal = vec![(4, renews(2, 0, 1)), (4, granted(2, None))];
        assert!(after_loss(None, renewal.clone()).is_some());
        assert!(after_loss(Some(9), renewal).is_some());
        assert!(after_loss(Some(9), vec![(4, new_deadline(14))]).is_some());
        assert_eq!(after_loss(Some(9), vec![(4, new_deadline(4))]), None);
        let released = vec![(4, releases(2, 0, 1)), (4, done(2))];
        assert_eq!(after_loss(Some(9), released), None);
    }

    #[test]
    fn an_access_after_the_end_of_its_grant_is_caught() {
        let works = |invoked, arrives, refused| {
            let invoke = What::Invoke {
                op: 2,
                actor: Actor::on(0),
                call: Call::Access { grant: 1 },
            };
            let arrival = What::Resource {
                grant: 1,
                fence: None,
                access: Access::Read,
                value: 0,
                refused,
            };
            broken(held_until(
                Some(9),
                vec![(invoked, invoke), (arrives, arrival)],
            ))
        };
        assert_eq!(works(8, 8, false), None);
        assert_eq!(works(8, 30, false), None, "that is a matter of fencing");
        assert_eq!(works(10, 10, true), None);
        assert!(works(10, 10, false).is_some());
    }

    #[test]
    fn a_late_renewal_without_a_deadline_is_judged_by_the_stored_token() {
        let renewed = |between: Vec<(u64, What)>| {
            let begin = held_until(None, vec![(11, renews(2, 0, 1))]).into_iter();
            let end = vec![(12, stores(0, "a", Some(22))), (12, granted(2, None))];
            broken(begin.chain(between).chain(end).collect())
        };
        let stood = vec![(11, stores(0, "a", Some(21)))];
        let just_in_time = held_until(
            None,
            vec![
                (9, renews(2, 0, 1)),
                (9, stores(0, "a", Some(19))),
                (12, granted(2, None)),
            ],
        );
        assert_eq!(broken(just_in_time), None);
        assert!(renewed(stood).is_some());
        assert_eq!(
            renewed(vec![(11, empties(0, Cause::Server))]).as_deref(),
            Some("at 12.000 s a renewal by c1 stored again what the server had no longer")
        );
        assert!(renewed(vec![(11, stores(1, "b", Some(21))), (11, frees(1))]).is_some());
    }

    #[test]
    fn a_renewal_may_store_a_token_again_that_a_fault_removed() {
        let evicted = vec![
            (3, empties(0, Cause::Fault)),
            (4, renews(2, 0, 1)),
            (4, stores(0, "a", Some(14))),
            (4, granted(2, Some(13))),
        ];
        assert_eq!(broken(held_until(Some(9), evicted)), None);
    }
}
