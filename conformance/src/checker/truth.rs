//! P20, grounded belief: at every instant of a belief the server stores this grant's token,
//! unexpired. It needs the double, which is observed after each of its steps. One client is enough
//! to break it.
//!
//! Which token is a grant's own? One that a request of its process put there between the start of
//! the acquisition and its ok. Where several tasks of a process acquire at once there can be more
//! than one; the grant is grounded if one of them stands throughout.

use super::{Checker, Finding, Property, Witness, seconds};
use crate::history::{Belief, Cause, History, Moment, Stored, What};
use std::collections::BTreeSet;

/// Judges P20.
pub struct Truth;

/// What is stored from a moment on.
struct State<'a> {
    since: Moment,
    stored: Option<&'a Stored>,
    cause: Cause,
}

impl Checker for Truth {
    fn property(&self) -> Property {
        Property::Truth
    }

    fn check(&self, history: &History) -> Finding {
        if !history.observed {
            return Finding::Unknown("the server was not observed");
        }
        let states: Vec<State<'_>> = history
            .iter()
            .filter_map(|(since, what)| {
                let What::Server { cause, stored } = what else {
                    return None;
                };
                Some(State {
                    since,
                    stored: stored.as_ref(),
                    cause: *cause,
                })
            })
            .collect();
        let beliefs = history.beliefs();
        let witness = beliefs
            .iter()
            .filter_map(|belief| ungrounded(belief, &states));
        witness
            .min_by_key(|witness| witness.at)
            .map_or(Finding::Valid, Finding::Violation)
    }
}

fn ungrounded(belief: &Belief, states: &[State<'_>]) -> Option<Witness> {
    if belief.from >= belief.to {
        return None;
    }
    // The candidate that stands the longest gives the witness.
    let fell = tokens(belief, states)
        .into_iter()
        .map(|token| falls(belief, token, states));
    let at = fell
        .max_by_key(|fell| fell.unwrap_or(Moment::NEVER))
        .unwrap_or(Some(belief.from))?;
    let message = format!(
        "{} believes that it holds the lock from {} to {}, but from {} on the server does not \
         store its token",
        belief.actor,
        seconds(belief.from.at),
        seconds(belief.to.at),
        seconds(at.at),
    );
    Some(Witness {
        at,
        until: Some(belief.to.at),
        grants: vec![belief.grant],
        message,
    })
}

/// The tokens that requests of the holder's process put there while it acquired.
fn tokens<'a>(belief: &Belief, states: &[State<'a>]) -> BTreeSet<&'a [u8]> {
    let written = states.iter().filter(|state| {
        let theirs = state.cause == Cause::Client(belief.actor.host);
        theirs && belief.asked < state.since && state.since < belief.from
    });
    written
        .filter_map(|state| Some(&*state.stored?.token))
        .collect()
}

/// The first moment of the belief at which the token does not stand.
fn falls(belief: &Belief, token: &[u8], states: &[State<'_>]) -> Option<Moment> {
    let first = states
        .partition_point(|state| state.since <= belief.from)
        .checked_sub(1);
    let Some(first) = first else {
        return Some(belief.from);
    };
    for (index, state) in states.iter().enumerate().skip(first) {
        if state.since >= belief.to {
            break;
        }
        let begins = state.since.max(belief.from);
        let ends = states
            .get(index + 1)
            .map_or(belief.to, |next| next.since.min(belief.to));
        let Some(stored) = state.stored.filter(|stored| stored.token == token) else {
            return Some(begins);
        };
        if let Some(gone) = stored.gone_at()
            && gone < ends.at
        {
            return Some(begins.max(Moment::at(gone)));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::hand_made::*;
    use std::time::Duration;

    fn verdict(entries: Vec<(u64, What)>) -> Option<(Duration, Option<Duration>)> {
        let finding = Truth.check(&history(entries));
        finding
            .witness()
            .map(|witness| (witness.at.at, witness.until))
    }

    fn granted_until(deadline: u64, more: Vec<(u64, What)>) -> Vec<(u64, What)> {
        let begin = vec![
            (0, tries(1, 0)),
            (1, stores(0, "a", Some(11))),
            (2, granted(1, Some(deadline))),
        ];
        begin.into_iter().chain(more).collect()
    }

    #[test]
    fn belief_within_the_stored_lease_passes() {
        assert_eq!(verdict(granted_until(10, vec![])), None);
        assert_eq!(
            verdict(granted_until(11, vec![])),
            None,
            "still there in its last millisecond"
        );
        let released = vec![(3, releases(2, 0, 1)), (3, frees(0)), (3, done(2))];
        assert_eq!(verdict(granted_until(10, released)), None);
        let expired = vec![(
            12,
            What::Server {
                cause: Cause::Server,
                stored: None,
            },
        )];
        assert_eq!(verdict(granted_until(10, expired)), None);
    }

    #[test]
    fn a_deadline_past_the_expiry_is_caught() {
        let gone = s(11) + Duration::from_millis(1);
        assert_eq!(
            verdict(granted_until(12, vec![])),
            Some((gone, Some(s(12))))
        );
        // One that ends with the history as well: nobody needs to contend.
        assert_eq!(
            verdict(granted_until(12, vec![(20, tries(2, 1))])),
            Some((gone, Some(s(12))))
        );
    }

    #[test]
    fn a_token_that_is_removed_or_replaced_is_caught() {
        assert_eq!(
            verdict(granted_until(10, vec![(4, frees(1))])).map(|at| at.0),
            Some(s(4))
        );
        let replaced = vec![(5, stores(1, "b", Some(15)))];
        assert_eq!(
            verdict(granted_until(10, replaced)).map(|at| at.0),
            Some(s(5))
        );
    }

    #[test]
    fn a_grant_without_a_token_of_its_own_is_caught() {
        let of_thin_air = vec![(0, tries(1, 0)), (1, granted(1, Some(9)))];
        assert_eq!(verdict(of_thin_air).map(|at| at.0), Some(s(1)));
        let foreign = vec![
            (0, tries(1, 0)),
            (1, stores(1, "b", Some(11))),
            (1, granted(1, Some(9))),
        ];
        assert_eq!(verdict(foreign).map(|at| at.0), Some(s(1)));
    }

    #[test]
    fn an_extended_expiry_carries_a_renewed_deadline() {
        let renewed = |stored| {
            verdict(granted_until(
                10,
                vec![
                    (5, renews(2, 0, 1)),
                    (5, stores(0, "a", Some(stored))),
                    (5, granted(2, Some(14))),
                ],
            ))
        };
        assert_eq!(renewed(15), None);
        assert!(renewed(13).is_some());
    }
}
