//! P5, owner-only: a late release or renewal never frees or extends the grant of another owner.
//!
//! The checker looks at what the server stored, and at the request that changed it. A stored token belongs to the
//! client process that named it for a grant or queued with it, else to the one whose request stored it. While the token is unexpired, no request of another process may change it.
//! While its holder believes that it holds the lock, no request at all may remove it: a release by the holder would
//! have ended the belief. On several nodes a request of the holder's own process may take a part of the grant away that leaves a
//! majority, and an extension may remove what is left of a grant that no majority stores.
//!
//! The own token of a grant is the token that the subject named. If the subject names none, the checker takes the
//! tokens that the holder's process stored during the acquisition, and picks the one that most nodes stored when the
//! grant was reported. The other tokens may belong to other tasks of the process, or to earlier requests that were
//! given up.

use super::{Checker, Finding, Property, Witness, seconds};
use crate::history::{
    Actor, Belief, Call, Cause, Excuse, Holder, Kind, Moment, OpId, Outcome, Reading, Refusal,
    Scope, Tokens, What,
};
use crate::scenario::Topology;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Judges P5.
pub struct Ownership;

/// A stored holder, with the client process to which it belongs.
#[derive(Clone, Copy)]
struct Tenure<'a> {
    stored: &'a Holder,
    owner: u8,
    /// The expiry that a request gave it. A fault of the clock may have moved it since.
    given: Option<Duration>,
    /// The end that such a fault gave it, if it is later.
    set_back: Option<Duration>,
}

impl Tenure<'_> {
    /// Returns true if an end lies between the one that a request gave and the one that a clock that was set back made of it.
    fn takes_back(&self, end: Option<Duration>) -> bool {
        let (given, end) = (self.given, end.filter(|_| self.set_back.is_some()));
        end.is_some() && given <= end && end <= self.set_back
    }
}

/// A server counts whole milliseconds: a lock that compares deadlines itself may take a grant as over in its last one.
const LAST: Duration = Duration::from_millis(1);

impl Checker for Ownership {
    fn property(&self) -> Property {
        Property::Ownership
    }

    fn judge(&self, history: &Reading<'_>) -> Finding {
        if !history.observed {
            return Finding::Unknown("the server was not observed");
        }
        let holders = Holders::of(history);
        let mut standing: BTreeMap<u8, Vec<Tenure<'_>>> = BTreeMap::new();
        for (at, what) in history.iter() {
            let What::Server {
                node,
                cause,
                stored,
                ..
            } = what
            else {
                continue;
            };
            let mut before = standing.remove(node).unwrap_or_default();
            before.retain(|tenure| tenure.stored.lives(at.at));
            if let Cause::Client(host) = *cause {
                let unexpired = |it: &&Tenure<'_>| {
                    let end = it.stored.expires;
                    let over = match history.accepts(Excuse::LastMillisecond) {
                        true => LAST,
                        false => Duration::ZERO,
                    };
                    end.is_none_or(|end| at.at + over <= end)
                };
                for tenure in before.iter().filter(unexpired) {
                    let changed = changed(tenure.stored, &before, stored);
                    if let Some(wrong) = wrong(history, tenure, changed, stored, host, at, &holders)
                    {
                        return Finding::Violation(witness(tenure, wrong, host, at, &holders));
                    }
                }
            }
            let mut now = Vec::with_capacity(stored.len());
            for stored in stored {
                let known = before.iter().find(|it| it.stored.token == stored.token);
                let owner = match known {
                    Some(before) => Some(before.owner),
                    None => history.owners().of(&stored.token, *cause),
                };
                // An entry has the expiry that it was given until a request changes it. A request that only takes back what a clock
                // has added changes nothing.
                let is = stored.expires;
                let kept = known.filter(|before| {
                    before.stored.expires == is || *cause == Cause::Fault || before.takes_back(is)
                });
                let given = kept.map_or(is, |before| before.given);
                let set_back = match *cause {
                    Cause::Fault => is.filter(|_| given < is),
                    Cause::Client(_) | Cause::Server => kept.and_then(|before| before.set_back),
                };
                now.extend(owner.map(|owner| Tenure {
                    stored,
                    owner,
                    given,
                    set_back,
                }));
            }
            standing.insert(*node, now);
        }
        Finding::Valid
    }
}

/// Grants, with the tokens by which the checker recognizes them.
struct Holders<'a> {
    beliefs: &'a [Belief],
    /// Token of each belief; `None` if it is not certain.
    tokens: Vec<Option<&'a [u8]>>,
    /// Grants whose tokens the subject named.
    named: BTreeSet<OpId>,
    /// Tokens that stand for all grants of an owner.
    of_owners: BTreeSet<&'a [u8]>,
}

impl<'a> Holders<'a> {
    fn of(history: &'a Reading<'a>) -> Self {
        let (beliefs, tokens) = (history.beliefs(), history.tokens());
        let own = beliefs.iter().map(|belief| own(tokens, belief));
        let named = tokens.named.keys().copied().collect();
        let shared = tokens.named.values().filter(|it| it.scope == Scope::Owner);
        let of_owners = shared.map(|it| &*it.bytes).collect();
        let tokens = own.collect();
        Self {
            beliefs,
            tokens,
            named,
            of_owners,
        }
    }

    /// Returns the grant to which the stored token belongs, if there is only one. If an owner named several grants by
    /// the same token, returns the first one in which its holder believes at that moment.
    fn holder(&self, tenure: &Tenure<'_>, at: Moment) -> Option<&Belief> {
        let all = self.beliefs.iter().zip(&self.tokens);
        let theirs = all.filter(|&(belief, &token)| {
            belief.actor.host == tenure.owner && token == Some(&*tenure.stored.token)
        });
        let theirs: Vec<&Belief> = theirs.map(|(belief, _)| belief).collect();
        if let [only] = theirs[..] {
            return Some(only);
        }
        let is_named = |belief: &&&Belief| self.named.contains(&belief.grant);
        let mut named = theirs.iter().filter(is_named);
        named
            .find(|belief| belief.from < at && at < belief.to)
            .copied()
    }
}

/// Returns the token of a grant, if no other token may be its own.
fn own<'a>(tokens: &Tokens<'a>, belief: &Belief) -> Option<&'a [u8]> {
    if let Some(token) = tokens.named.get(&belief.grant) {
        return Some(&token.bytes);
    }
    let mut nodes: BTreeMap<&[u8], usize> = BTreeMap::new();
    for span in tokens.of_grant(belief).filter(|it| it.stood(belief.from)) {
        *nodes.entry(span.token).or_default() += 1;
    }
    let most = nodes.values().copied().max()?;
    let mut first = nodes.iter().filter(|&(_, &count)| count == most);
    let (token, _) = first.next()?;
    first.next().is_none().then_some(token)
}

/// What a request did to a stored entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    None,
    /// It has another expiry.
    Expiry(Option<Duration>),
    Removed,
}

/// Returns what became of an entry. A lock may store several entries of one token, for instance one for each permit or key: one
/// of them that has the same expiry as before is the same entry.
fn changed(entry: &Holder, before: &[Tenure<'_>], after: &[Holder]) -> Change {
    let same = |it: &&Holder| it.token == entry.token && it.expires == entry.expires;
    let stood = before.iter().map(|it| it.stored).filter(same).count();
    if after.iter().filter(same).count() >= stood {
        return Change::None;
    }
    let is_new = |it: &&Holder| {
        let like = |other: &&Holder| other.token == it.token && other.expires == it.expires;
        let was = before.iter().map(|it| it.stored).filter(like).count();
        it.token == entry.token && after.iter().filter(like).count() > was
    };
    let new = after.iter().find(is_new);
    new.map_or(Change::Removed, |new| Change::Expiry(new.expires))
}

/// Returns what a request of `host` did to the grant of another owner, if it did anything.
fn wrong(
    history: &Reading<'_>,
    before: &Tenure<'_>,
    change: Change,
    after: &[Holder],
    host: u8,
    at: Moment,
    holders: &Holders<'_>,
) -> Option<&'static str> {
    let foreign = host != before.owner;
    match change {
        Change::None => return None,
        Change::Expiry(is) => {
            let was = before.stored.expires;
            // Owners that share a lock may also share its expiry, as long as no request shortens it. A clock that was
            // set back has made it longer than it was given: a request may take that back.
            let counts = history.accepts(Excuse::ClockSetBack);
            if counts && before.takes_back(is) {
                return None;
            }
            let set_back = before.set_back.filter(|_| counts);
            let was = set_back.and(before.given).or(was);
            let shortened = is.is_some() && (was.is_none() || is < was);
            let is_shared = history.kind != Kind::Mutex && history.accepts(Excuse::SharedExpiry);
            let changed = shortened || !is_shared;
            return (foreign && changed).then_some("changed the expiry of");
        }
        Change::Removed => {}
    }
    let holder = holders.holder(before, at);
    // If all grants of an owner share a token, a release of one grant may end another grant of this owner.
    let is_owners = holders.of_owners.contains(&*before.stored.token);
    let believed = !(is_owners && history.accepts(Excuse::OwnersToken))
        && holder.is_some_and(|belief| {
            let is_held = belief.from < at && at < belief.to;
            let token = &*before.stored.token;
            is_held
                && !is_given_up(history, belief, token, at)
                && !stays_on_a_majority(history, token, at)
        });
    let verb = if after.is_empty() {
        "freed"
    } else {
        "overwrote"
    };
    (foreign || believed).then_some(verb)
}

/// Returns true if no majority of several nodes stores the grant any more, and an extension of it was under way, which
/// then said that the grant was lost.
fn is_given_up(history: &Reading<'_>, belief: &Belief, token: &[u8], at: Moment) -> bool {
    let Topology::Nodes(nodes @ 2..) = history.topology else {
        return false;
    };
    let renews = Call::Renew {
        grant: belief.grant,
    };
    let spans = history.tokens().spans.iter();
    let standing = spans.filter(|it| it.token == token && it.from < at && at <= it.gone.0);
    let standing: BTreeSet<u8> = standing.map(|it| it.node).collect();
    let mut calls = history.operations().iter();
    history.accepts(Excuse::RestGivenUp)
        && standing.len() * 2 <= usize::from(nodes)
        && calls.any(|it| {
            let under_way = it.call == renews && it.asked < at && at < it.ended;
            under_way && it.outcome == Outcome::Fail(Refusal::Lost)
        })
}

/// Returns true if a majority of several nodes goes on storing the token after this moment: a request of the holder's own process
/// took only a part of the grant away, so no other client can get the lock.
fn stays_on_a_majority(history: &Reading<'_>, token: &[u8], at: Moment) -> bool {
    let Topology::Nodes(nodes @ 2..) = history.topology else {
        return false;
    };
    let spans = history.tokens().spans.iter();
    let standing = spans.filter(|it| it.token == token && it.from < at && at < it.gone.0);
    let standing: BTreeSet<u8> = standing.map(|it| it.node).collect();
    history.accepts(Excuse::MajorityStays) && standing.len() * 2 > usize::from(nodes)
}

fn witness(
    before: &Tenure<'_>,
    wrong: &str,
    host: u8,
    at: Moment,
    holders: &Holders<'_>,
) -> Witness {
    let theirs = holders.holder(before, at);
    let message = format!(
        "at {} a request of {} {wrong} the grant of {}, which had {} left",
        seconds(at.at),
        Actor::on(host),
        theirs.map_or_else(|| Actor::on(before.owner), |belief| belief.actor),
        before.stored.expires.map_or_else(
            || "no end".to_owned(),
            |expires| seconds(expires.saturating_sub(at.at))
        ),
    );
    Witness {
        at,
        until: None,
        grants: theirs.iter().map(|belief| belief.grant).collect(),
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{checker::hand_made::*, history::History};

    fn verdict(entries: Vec<(u64, What)>) -> Result<(), String> {
        match Ownership.check(&history(entries)) {
            Finding::Valid => Ok(()),
            Finding::Unknown(why) => panic!("{why}"),
            Finding::Violation(witness) => Err(witness.message),
        }
    }

    fn held_by_c1() -> Vec<(u64, What)> {
        vec![
            (0, tries(1, 0)),
            (0, stores(0, "a", Some(10))),
            (1, granted(1, Some(9))),
        ]
    }

    fn then(more: Vec<(u64, What)>) -> Vec<(u64, What)> {
        held_by_c1().into_iter().chain(more).collect()
    }

    #[test]
    fn the_owner_may_release_and_extend() {
        let own = then(vec![
            (2, renews(2, 0, 1)),
            (2, stores(0, "a", Some(12))),
            (2, granted(2, Some(11))),
            (3, releases(3, 0, 1)),
            (3, frees(0)),
        ]);
        assert_eq!(verdict(own), Ok(()));
    }

    #[test]
    fn a_foreign_release_is_caught() {
        let message = verdict(then(vec![(4, frees(1))])).unwrap_err();
        assert_eq!(
            message,
            "at 4.000 s a request of c2 freed the grant of c1, which had 6.000 s left"
        );
        assert!(verdict(then(vec![(4, stores(1, "b", Some(14)))])).is_err());
        assert!(verdict(then(vec![(4, stores(1, "a", Some(14)))])).is_err());
    }

    /// A server's clock is set back at 2, so that the token of c1 lasts until 14. A request of c2 gives it another end.
    #[test]
    fn a_request_may_take_back_what_a_clock_that_was_set_back_has_added() {
        let ends = |end| {
            let moved = stored_by(Cause::Fault, &[("a", 14)]);
            let taken_back = stored_by(Cause::Client(1), &[("a", end)]);
            verdict(then(vec![(2, moved), (3, taken_back)]))
        };
        assert_eq!(ends(10), Ok(()));
        assert_eq!(ends(12), Ok(()));
        assert!(ends(9).is_err(), "less than the lease that was given");
        assert!(ends(15).is_err(), "longer than before");
        let twice = |ends: [u64; 2]| {
            let moved = stored_by(Cause::Fault, &[("a", 14)]);
            let taken_back = ends.map(|end| stored_by(Cause::Client(1), &[("a", end)]));
            let taken_back = (3..).zip(taken_back);
            verdict(then([(2, moved)].into_iter().chain(taken_back).collect()))
        };
        assert_eq!(twice([13, 12]), Ok(()));
        assert_eq!(twice([12, 13]), Ok(()), "less of it");
        assert!(twice([12, 15]).is_err());
        assert!(twice([13, 9]).is_err());
    }

    #[test]
    fn an_expired_token_has_no_owner() {
        assert_eq!(verdict(then(vec![(11, stores(1, "b", Some(21)))])), Ok(()));
        assert_eq!(verdict(then(vec![(11, frees(1))])), Ok(()));
        // It compares the deadline with the clock of the server.
        assert_eq!(verdict(then(vec![(10, stores(1, "b", Some(20)))])), Ok(()));
        assert!(verdict(then(vec![(9, stores(1, "b", Some(19)))])).is_err());
    }

    /// Entries of one token with an expiry each, as of a lock that stores one for each of its keys.
    #[test]
    fn each_entry_of_a_token_is_compared_with_itself() {
        let entries = |host, expiries: &[u64]| {
            let holder = |&expires: &u64| Holder {
                token: b"a".to_vec(),
                expires: Some(s(expires)),
                ..Holder::default()
            };
            What::Server {
                node: 0,
                cause: Cause::Client(host),
                stored: expiries.iter().map(holder).collect(),
                anonymous: 0,
            }
        };
        let then = |at, after: &[u64]| {
            verdict(vec![
                (0, tries(1, 0)),
                (0, entries(0, &[5, 10, 12])),
                (1, granted(1, Some(4))),
                (at, entries(1, after)),
            ])
        };
        assert_eq!(then(2, &[5, 10, 12]), Ok(()));
        assert_eq!(then(6, &[10, 12]), Ok(()), "the first one is over");
        assert!(then(2, &[10, 12]).unwrap_err().contains("overwrote"));
        let shortened = then(6, &[8, 12]).unwrap_err();
        assert!(shortened.contains("changed the expiry"), "{shortened}");
        assert!(
            then(6, &[10, 14]).is_err(),
            "made longer by another process"
        );
        assert!(then(6, &[]).unwrap_err().contains("freed"));
    }

    /// The holders of a semaphore share a key. The server's clock is set back by 2 s, and another process writes the key anew.
    #[test]
    fn a_request_may_take_back_what_a_clock_has_added() {
        let entry = |host: Option<u8>, expires| What::Server {
            node: 0,
            cause: host.map_or(Cause::Fault, Cause::Client),
            stored: vec![Holder {
                token: b"a".to_vec(),
                expires: Some(s(expires)),
                ..Holder::default()
            }],
            anonymous: 0,
        };
        let written = |expires| {
            let entries = vec![
                (0, tries(1, 0)),
                (0, entry(Some(0), 10)),
                (1, granted(1, Some(9))),
                (2, entry(None, 12)),
                (3, entry(Some(1), expires)),
            ];
            let history = History {
                kind: Kind::Semaphore(2),
                ..history(entries)
            };
            Ownership.check(&history).witness().is_none()
        };
        assert!(written(12) && written(11) && written(10));
        assert!(!written(9), "shorter than it was given");
    }

    /// Its key ends in the millisecond after its deadline.
    #[test]
    fn a_grant_is_over_in_its_last_millisecond() {
        let frees_before = |left: Duration| {
            let mut history = history(held_by_c1());
            history.push(s(10) - left, frees(1));
            Ownership.check(&history).witness().is_none()
        };
        assert!(frees_before(Duration::from_micros(1)));
        assert!(frees_before(Duration::from_micros(999)));
        assert!(!frees_before(Duration::from_millis(1)));
    }

    #[test]
    fn a_late_request_of_the_owner_may_free_its_own() {
        assert_eq!(
            verdict(then(vec![(3, What::Crash { host: 0 }), (4, frees(0))])),
            Ok(())
        );
    }

    #[test]
    fn another_task_of_the_same_process_is_another_owner() {
        // Task 1 "releases" the grant that task 0 still believes to hold.
        let message = verdict(then(vec![(3, frees(0))])).unwrap_err();
        assert!(message.contains("freed the grant of c1"), "{message}");
    }

    #[test]
    fn of_several_tokens_of_a_process_its_holder_has_one() {
        let stored = |tokens: &[&str]| What::Server {
            node: 0,
            cause: Cause::Client(0),
            stored: tokens
                .iter()
                .map(|&token| Holder {
                    token: token.into(),
                    expires: Some(s(10)),
                    ..Holder::default()
                })
                .collect(),
            anonymous: 0,
        };
        let left = |at_first: &[&str], then: &[&str]| {
            let entries = vec![
                (0, tries(1, 0)),
                (0, stored(at_first)),
                (1, granted(1, Some(9))),
                (2, stored(then)),
            ];
            let history = History {
                kind: Kind::Semaphore(3),
                ..history(entries)
            };
            Ownership.check(&history).witness().is_some()
        };
        assert!(left(&["a"], &[]));
        // The other token belongs to an earlier request, or to another task.
        assert!(!left(&["a", "b"], &["b"]));
    }

    #[test]
    fn without_observation_nothing_is_said() {
        let blind = History::new(s(10), false);
        assert!(matches!(Ownership.check(&blind), Finding::Unknown(_)));
    }
}
