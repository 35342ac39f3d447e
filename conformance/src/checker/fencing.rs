//! P3, fencing: if one grant was reported before another was asked for, its fencing token is lower. A holder that
//! acquires again what it holds gets the same token.
//!
//! Grants that were asked for at the same time are in no order, whatever the order of their replies. But if a single
//! server stores their tokens, it grants them in the order in which it stores them. A lock that takes the fencing token
//! before the grant breaks this order.
//!
//! A holder whose deadline has passed cannot know if the server still stores its grant. If it acquires the lock again,
//! it may get the same token or a higher one. The same holds for a holder that learns of the loss by acquiring again.
//! Holders that share the lock do not exclude each other, so their tokens have no order among themselves.

use super::{Checker, Finding, Property, Witness, seconds};
use crate::{
    history::{Belief, Excuse, History, Mode, Moment, OpId, Reading, What},
    scenario::Topology,
};
use std::collections::BTreeMap;

/// Judges P3.
pub struct Fencing;

impl Checker for Fencing {
    fn property(&self) -> Property {
        Property::Fencing
    }

    fn judge(&self, history: &Reading<'_>) -> Finding {
        let beliefs = history.beliefs();
        let fenced = beliefs
            .iter()
            .filter_map(|belief| Some((belief, belief.fence?)));
        let fenced: Vec<(&Belief, u64)> = fenced.collect();
        if fenced.is_empty() {
            return Finding::Unknown("no grant carries a fencing token");
        }
        let (let_go, lost) = (let_go(history, beliefs), lost(history));
        let holds = |grant: &Belief, at: Moment| {
            let over = let_go.get(&grant.grant).copied();
            grant.from < at && at < over.unwrap_or(Moment::NEVER)
        };
        if let Some(witness) = out_of_order(history, &fenced) {
            return Finding::Violation(witness);
        }
        for &(late, got) in &fenced {
            let theirs = |grant: &Belief| history.reentrant && grant.actor == late.actor;
            let again = beliefs
                .iter()
                .any(|held| theirs(held) && holds(held, late.asked));
            let foe = fenced.iter().find(|&&(early, had)| {
                let apart = early.mode != Mode::Shared || late.mode != Mode::Shared;
                let since = match history.accepts(Excuse::ConcurrentGrants) {
                    true => late.asked,
                    false => late.from,
                };
                let order = apart && early.from < since;
                let right = if !(theirs(early) && again) {
                    had < got
                } else if holds(early, late.asked)
                    && late.from < early.to
                    && lost.get(&early.grant).is_none_or(|&at| at >= late.from)
                {
                    had == got
                } else {
                    had <= got
                };
                order && !right
            });
            if let Some(&(early, had)) = foe {
                return Finding::Violation(Witness {
                    at: late.from,
                    until: None,
                    grants: vec![early.grant, late.grant],
                    message: format!(
                        "{} asked at {}, after {} had been granted the lock with token {had}, and \
                         was given token {got}",
                        late.actor,
                        seconds(late.asked.at),
                        early.actor,
                    ),
                });
            }
        }
        Finding::Valid
    }
}

/// Returns a grant that the server stored after another one, with a lower or equal fencing token.
fn out_of_order(history: &Reading<'_>, fenced: &[(&Belief, u64)]) -> Option<Witness> {
    if !matches!(history.topology, Topology::Nodes(0 | 1)) {
        return None;
    }
    let tokens = history.tokens();
    // If an owner stores its token once more, the token stands for its grant from then on.
    let stored = |belief: &Belief| {
        let theirs = tokens.surely_of_grant(belief, history.operations());
        theirs.map(|span| span.from).max()
    };
    let granted = fenced.iter().filter_map(|&(belief, fence)| {
        let exclusive = belief.mode.is_exclusive();
        Some((stored(belief).filter(|_| exclusive)?, belief, fence))
    });
    let mut granted: Vec<(Moment, &Belief, u64)> = granted.collect();
    granted.sort_by_key(|&(at, ..)| at);
    let mut highest: Option<(Moment, &Belief, u64)> = None;
    for (at, late, got) in granted {
        if let Some((before, early, had)) = highest
            && early.actor != late.actor
            && before < at
            && got <= had
        {
            let why = if got == had {
                "the number was given twice"
            } else {
                "the grants and their numbers were not given in the same order"
            };
            return Some(Witness {
                at: late.from,
                until: None,
                grants: vec![early.grant, late.grant],
                message: format!(
                    "the server granted the lock to {} at {} with fencing token {had}, and to {} at {} with fencing token \
                     {got}: {why}",
                    early.actor,
                    seconds(before.at),
                    late.actor,
                    seconds(at.at),
                ),
            });
        }
        if highest.is_none_or(|(.., had)| had < got) {
            highest = Some((at, late, got));
        }
    }
    None
}

/// Time at which each grant was released, or its holder died.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "most of what happens is no matter here"
)]
fn let_go(history: &History, beliefs: &[Belief]) -> BTreeMap<OpId, Moment> {
    let mut over = BTreeMap::new();
    for (at, what) in history.iter() {
        match what {
            What::Invoke { call, .. } => {
                if let Some(grant) = call.gives_back() {
                    over.entry(grant).or_insert(at);
                }
            }
            What::Crash { host } | What::Panic { host, .. } => {
                let theirs = beliefs
                    .iter()
                    .filter(|it| it.actor.host == *host && it.from < at);
                for belief in theirs {
                    over.entry(belief.grant).or_insert(at);
                }
            }
            _ => {}
        }
    }
    over
}

/// Time from which each grant has no deadline: its guard says from then on that the grant is lost.
fn lost(history: &History) -> BTreeMap<OpId, Moment> {
    let lost = history.iter().filter_map(|(at, what)| {
        let &What::Deadline { grant, deadline } = what else {
            return None;
        };
        deadline.is_none().then_some((grant, at))
    });
    lost.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::hand_made::*;

    fn fenced(op: OpId, deadline: u64, fence: u64) -> What {
        What::Ok {
            op,
            deadline: Some(s(deadline)),
            fence: Some(fence),
            number: None,
            token: None,
        }
    }

    fn verdict(entries: Vec<(u64, What)>, reentrant: bool) -> Option<Vec<OpId>> {
        let history = History {
            reentrant,
            ..history(entries)
        };
        let finding = Fencing.check(&history);
        assert!(!matches!(finding, Finding::Unknown(_)));
        finding.witness().map(|witness| witness.grants.clone())
    }

    fn one_after_the_other(first: u64, second: u64) -> Vec<(u64, What)> {
        vec![
            (0, tries(1, 0)),
            (1, fenced(1, 9, first)),
            (2, releases(2, 0, 1)),
            (2, done(2)),
            (3, tries(3, 1)),
            (4, fenced(3, 12, second)),
        ]
    }

    #[test]
    fn tokens_rise_from_grant_to_grant() {
        assert_eq!(verdict(one_after_the_other(7, 8), false), None);
        assert_eq!(verdict(one_after_the_other(7, 7), false), Some(vec![1, 3]));
        assert_eq!(verdict(one_after_the_other(7, 6), false), Some(vec![1, 3]));
    }

    #[test]
    fn readers_are_in_order_with_writers_alone() {
        let asks = |op, host, mode| What::Invoke {
            op,
            actor: crate::history::Actor::on(host),
            call: crate::history::Call::Try { mode },
        };
        let falls = |first, second| {
            let entries = vec![
                (0, asks(1, 0, first)),
                (1, fenced(1, 9, 7)),
                (3, asks(2, 1, second)),
                (4, fenced(2, 12, 6)),
            ];
            verdict(entries, false).is_some()
        };
        assert!(!falls(Mode::Shared, Mode::Shared));
        assert!(falls(Mode::Shared, Mode::Exclusive));
        assert!(falls(Mode::Exclusive, Mode::Shared));
    }

    #[test]
    fn the_order_of_replies_says_nothing() {
        let at_once = vec![
            (0, tries(1, 0)),
            (0, tries(2, 1)),
            (1, fenced(1, 2, 8)),
            (3, fenced(2, 9, 7)),
        ];
        assert_eq!(verdict(at_once, false), None);
    }

    #[test]
    fn a_token_that_was_taken_before_the_grant_is_out_of_order() {
        let both = |first: u64, second: u64| {
            verdict(
                vec![
                    (0, tries(1, 0)),
                    (0, tries(2, 1)),
                    (1, stores(1, "b", Some(11))),
                    (2, fenced(2, 10, first)),
                    (3, releases(3, 1, 2)),
                    (3, frees(1)),
                    (3, done(3)),
                    (4, stores(0, "a", Some(14))),
                    (5, fenced(1, 9, second)),
                ],
                false,
            )
        };
        assert_eq!(both(6, 5), Some(vec![2, 1]));
        assert_eq!(both(6, 6), Some(vec![2, 1]));
        assert_eq!(both(5, 6), None, "the server granted them in this order");
    }

    /// An owner takes the lock, takes it again, releases this second grant, and takes the lock once more.
    fn nested(tokens: [u64; 3]) -> Vec<(u64, What)> {
        vec![
            (0, tries(1, 0)),
            (0, fenced(1, 9, tokens[0])),
            (1, tries(2, 0)),
            (1, fenced(2, 9, tokens[1])),
            (2, releases(3, 0, 2)),
            (2, done(3)),
            (3, tries(4, 0)),
            (3, fenced(4, 9, tokens[2])),
        ]
    }

    #[test]
    fn re_entry_keeps_the_token() {
        assert_eq!(verdict(nested([7, 7, 7]), true), None);
        assert_eq!(verdict(nested([7, 8, 8]), true), Some(vec![1, 2]));
        assert_eq!(verdict(nested([7, 7, 8]), true), Some(vec![1, 4]));
        assert_eq!(verdict(nested([7, 7, 6]), true), Some(vec![1, 4]));
        let of_no_such_lock = verdict(nested([7, 7, 7]), false);
        assert_eq!(of_no_such_lock, Some(vec![1, 2]));
    }

    #[test]
    fn an_acquisition_after_a_release_gets_a_new_token() {
        let again = |token| {
            vec![
                (0, tries(1, 0)),
                (0, fenced(1, 9, 7)),
                (1, releases(2, 0, 1)),
                (1, done(2)),
                (2, tries(3, 0)),
                (2, fenced(3, 11, token)),
            ]
        };
        assert_eq!(verdict(again(8), true), None);
        assert_eq!(verdict(again(7), true), Some(vec![1, 3]));
    }

    #[test]
    fn re_entry_after_the_deadline_may_keep_the_token_or_get_a_new_one() {
        let again = |token| {
            vec![
                (0, tries(1, 0)),
                (0, fenced(1, 9, 7)),
                (10, tries(2, 0)),
                (10, fenced(2, 19, token)),
            ]
        };
        assert_eq!(verdict(again(7), true), None);
        assert_eq!(verdict(again(8), true), None);
        assert_eq!(verdict(again(6), true), Some(vec![1, 2]));
        let mut died = again(7);
        died.insert(2, (5, What::Crash { host: 0 }));
        assert_eq!(verdict(died, true), Some(vec![1, 2]));
    }

    #[test]
    fn a_holder_that_learns_of_the_loss_by_re_entry_is_granted_anew() {
        let again = |token| {
            let mut entries = nested([7, token, token]);
            let (grant, deadline) = (1, None);
            entries.insert(3, (1, What::Deadline { grant, deadline }));
            entries.truncate(5);
            entries
        };
        assert_eq!(verdict(again(8), true), None);
        assert_eq!(verdict(again(6), true), Some(vec![1, 2]));
    }

    #[test]
    fn without_tokens_nothing_is_said() {
        let bare = history(vec![(0, tries(1, 0)), (0, granted(1, Some(9)))]);
        assert!(matches!(Fencing.check(&bare), Finding::Unknown(_)));
    }
}
