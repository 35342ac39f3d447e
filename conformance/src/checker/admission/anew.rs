//! Counters that start again at zero. Clients do not learn of rounds, but of places. Each round lasts for one lease,
//! counted from its place 1. So if a client learns that places are taken, other clients must have taken them within
//! such a time. Two clients with the same place belong to two rounds.

use super::{Asked, Told, Witness, forgotten, witness};
use crate::{
    checker::seconds,
    history::{Call, FaultEffect, Moment, OpId, Reading},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Judges a counter that starts again at zero one lease after its first admission. If a fault changes the clock of a
/// server, this check finds nothing.
pub(super) fn judge(history: &Reading<'_>, asked: &[Asked], places: usize) -> Option<Witness> {
    let over = history.entries.last().map_or(Duration::ZERO, |it| it.at);
    let clock = [FaultEffect::ServerClock]; // the host does not matter: the clock of a server concerns all clients
    if history
        .fault_intervals()
        .any(&clock, 0, Duration::ZERO, over)
    {
        return None;
    }
    let rounds = Rounds {
        asked,
        longest: history.lease,
        shortest: history.shortest_lease(),
        leeway: history.lease / 50 + history.terms.timing_tolerance(),
    };
    let fresh = |it: &&Asked| {
        let calls = history.calls();
        calls.get(&it.op).is_some_and(|it| it.2 == Call::Admit)
    };
    rounds
        .unbacked(places)
        .or_else(|| rounds.too_soon(fresh))
        .or_else(|| rounds.twice())
        .or_else(|| rounds.too_many(places))
        .or_else(|| forgotten(asked, |first, again| rounds.begins_between(first, again)))
}

struct Rounds<'a> {
    asked: &'a [Asked],
    /// Longest and shortest time for which a round may last.
    longest: Duration,
    shortest: Duration,
    leeway: Duration,
}

impl Rounds<'_> {
    /// True if a round may begin between two calls.
    fn begins_between(&self, first: &Asked, later: &Asked) -> bool {
        self.asked.iter().any(|it| {
            let begins = matches!(it.told, Told::In(None | Some(1))) && first.from < it.to;
            (begins && it.op != first.op || it.astray) && it.from < later.to
        })
    }

    /// Counterexample: a client learned that places are taken that no client can have taken.
    fn unbacked(&self, places: usize) -> Option<Witness> {
        self.asked.iter().find_map(|it| {
            let needed = match it.told {
                Told::In(Some(place)) => usize::try_from(place).ok()?.checked_sub(1)?,
                Told::Out => places,
                Told::In(None) | Told::Nothing => return None,
            };
            let since = it.from.at.saturating_sub(self.longest + self.leeway);
            let others = self.asked.iter().filter(|other| {
                let lately = since <= other.to.at || other.astray;
                other.op != it.op && lately && other.from < it.to
            });
            let (mut taken, mut perhaps) = (BTreeSet::new(), 0);
            for other in others {
                match other.told {
                    Told::In(Some(place)) if usize::try_from(place).is_ok_and(|it| it <= needed) => {
                        taken.insert(place);
                    }
                    Told::In(_) | Told::Out | Told::Nothing => {}
                }
                perhaps += usize::from(other.astray || other.told == Told::In(None));
            }
            (taken.len() + perhaps < needed).then(|| {
                let (at, taken) = (seconds(it.to.at), taken.len());
                let message = format!(
                    "at {at} the subject told a client that {needed} places are taken, but in its round only {taken} \
                     were, and {perhaps} more may have been"
                );
                witness(it.to, message)
            })
        })
    }

    /// Counterexample: a round admitted more clients than it has places. Where no round can be open, the next admission begins
    /// one, and all that follow in less than the length of a round belong to it.
    fn too_many(&self, places: usize) -> Option<Witness> {
        let takes_place = |it: &Asked| it.told != Told::Out || it.astray;
        self.asked.iter().find_map(|first| {
            let since = first.from.at.saturating_sub(self.longest + self.leeway);
            let may_be_open = self.asked.iter().any(|it| {
                it.from < first.from && takes_place(it) && (it.astray || since <= it.to.at)
            });
            if may_be_open {
                return None;
            }
            let over = (first.from.at + self.shortest).saturating_sub(self.leeway);
            let mut admitted: BTreeMap<OpId, Moment> = BTreeMap::new();
            for it in self.asked {
                if matches!(it.told, Told::In(_)) && first.from <= it.from && it.to.at < over {
                    let to = admitted.entry(it.name).or_insert(it.to);
                    *to = it.to.min(*to);
                }
            }
            let mut ends: Vec<Moment> = admitted.into_values().collect();
            ends.sort_unstable();
            let &at = ends.get(places)?;
            let message = format!(
                "at {} one more was let in, {places} being all that may in a round",
                seconds(at.at)
            );
            Some(witness(at, message))
        })
    }

    /// Counterexample: two clients got place 1, with less than the length of a round between them.
    fn too_soon(&self, fresh: impl Fn(&&Asked) -> bool) -> Option<Witness> {
        let firsts = self.asked.iter().filter(fresh);
        let firsts: Vec<_> = firsts.filter(|it| it.told == Told::In(Some(1))).collect();
        let apart = |one: &Asked, other: &Asked| {
            let (early, late) = (one.from.min(other.from), one.to.max(other.to));
            late.at.saturating_sub(early.at) + self.leeway
        };
        let mut pairs = (1..firsts.len()).flat_map(|later| {
            let earlier = firsts[..later].iter().copied();
            let later = firsts[later];
            earlier.map(move |earlier| (earlier, later))
        });
        let (_, later) = pairs.find(|(earlier, later)| apart(earlier, later) < self.shortest)?;
        let at: Moment = later.to;
        let message = format!(
            "at {} the counter started a new round less than a lease after the start of the one before",
            seconds(at.at)
        );
        Some(witness(at, message))
    }

    /// Counterexample: two clients got the same place, and no round began in between.
    fn twice(&self) -> Option<Witness> {
        let pairs = self.asked.iter().flat_map(|first| {
            let later = self.asked.iter().filter(|it| first.from < it.from);
            later.map(move |later| (first, later))
        });
        let mut pairs = pairs.filter(|(first, later)| {
            first.name != later.name
                && matches!(first.told, Told::In(Some(_)))
                && first.told == later.told
        });
        let (_, later) = pairs.find(|(first, later)| !self.begins_between(first, later))?;
        let at = seconds(later.to.at);
        Some(witness(
            later.to,
            format!(
                "the client admitted at {at} got a place that another client had in the same round"
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        checker::{Admission, Checker, hand_made::*},
        history::{Actor, Call, History, Kind, OpId, What},
        scenario::{Fault, Lost},
    };

    /// Answer of a call: a place, that there was one, a refusal, or none.
    enum Told {
        In(u32),
        Admitted,
        Out,
        Nothing,
    }
    use Told::{Admitted, In, Nothing, Out};

    /// A counter of two places with a lease of 10 s. Each item: when a client asks, under the name of which call, and
    /// the answer that it gets at once.
    fn entries(asked: Vec<(u64, Option<OpId>, Told)>) -> Vec<(u64, What)> {
        let calls = (1..).zip(asked).flat_map(|(op, (at, of, told))| {
            let call = of.map_or(Call::Admit, |of| Call::AdmitAgain { of });
            let actor = Actor::on(u8::try_from(op).unwrap());
            let end = match told {
                In(number) => What::Ok {
                    op,
                    deadline: None,
                    fence: None,
                    number: Some(number),
                    token: None,
                },
                Admitted => granted(op, None),
                Out => refused(op),
                Nothing => What::Info {
                    op,
                    error: "timed out".into(),
                },
            };
            [(at, What::Invoke { op, actor, call }), (at, end)]
        });
        calls.collect()
    }

    fn judged(entries: Vec<(u64, What)>) -> Option<String> {
        judged_with(entries, 0)
    }

    /// The lock declares that it makes a lease of 10 s, or one that is shorter by up to so many seconds.
    fn judged_with(entries: Vec<(u64, What)>, lease_spread: u64) -> Option<String> {
        let mut history = History {
            kind: Kind::Admission(2),
            ..history(entries)
        };
        history.terms.anew = true;
        history.terms.lease_spread = s(lease_spread);
        let finding = Admission.check(&history);
        finding.witness().map(|witness| witness.message.clone())
    }

    fn broken(asked: Vec<(u64, Option<OpId>, Told)>) -> Option<String> {
        judged(entries(asked))
    }

    #[test]
    fn a_round_that_ends_in_time_passes() {
        let rounds = vec![
            (0, None, In(1)),
            (4, None, In(2)),
            (9, None, Out),
            (11, None, In(1)),
            (12, None, In(2)),
            (12, None, Out),
            (23, None, In(1)),
        ];
        assert_eq!(broken(rounds), None);
    }

    #[test]
    fn a_round_that_does_not_end_is_caught() {
        let late = |told| broken(vec![(0, None, In(1)), (4, None, In(2)), (12, None, told)]);
        assert_eq!(
            late(Out).as_deref(),
            Some(
                "at 12.000 s the subject told a client that 2 places are taken, but in its round only 1 were, and 0 more may have been"
            )
        );
        assert!(late(In(3)).is_some());
        assert_eq!(late(In(1)), None);
        let unsure = vec![(0, None, In(1)), (4, None, In(2)), (5, None, Nothing)];
        let unsure = unsure.into_iter().chain([(12, None, Out)]);
        assert_eq!(broken(unsure.collect()), None);
    }

    #[test]
    fn one_that_was_refused_too_early_is_caught() {
        assert!(broken(vec![(0, None, In(1)), (1, None, Out)]).is_some());
        assert_eq!(
            broken(vec![(0, None, In(1)), (0, None, Nothing), (1, None, Out)]),
            None
        );
        assert!(broken(vec![(0, None, In(2))]).is_some());
    }

    #[test]
    fn a_round_admits_no_more_than_it_has_places_for() {
        let third = |at, told| {
            let first = vec![(0, None, Admitted), (4, None, Admitted)];
            broken(first.into_iter().chain([(at, None, told)]).collect())
        };
        let too_many = "at 9.000 s one more was let in, 2 being all that may in a round";
        assert_eq!(third(9, Admitted).as_deref(), Some(too_many));
        assert_eq!(third(10, Admitted), None, "the round is over");
        assert_eq!(third(9, Nothing), None);
        let again = vec![
            (0, None, Admitted),
            (4, None, Admitted),
            (5, Some(2), Admitted),
        ];
        assert_eq!(broken(again), None, "it asks again under its name");
        // A call without an answer may have begun a round that ends between the others.
        let unsure = vec![
            (0, None, Nothing),
            (8, None, Admitted),
            (9, None, Admitted),
            (11, None, Admitted),
        ];
        assert_eq!(broken(unsure), None);
        let later = vec![
            (0, None, Admitted),
            (21, None, Admitted),
            (22, None, Admitted),
            (23, None, Admitted),
        ];
        assert!(broken(later).is_some(), "the first round has ended");
    }

    #[test]
    fn a_round_that_ends_too_early_is_caught() {
        let again = |at| broken(vec![(0, None, In(1)), (at, None, In(1))]);
        assert_eq!(again(10), None);
        assert_eq!(
            again(9).as_deref(),
            Some(
                "at 9.000 s the counter started a new round less than a lease after the start of the one before"
            )
        );
    }

    /// Seed 8 of a counter that rounds its lease to whole seconds.
    #[test]
    fn a_round_of_a_rounded_lease_may_be_shorter() {
        let with = |at, told: fn(u32) -> Told, spread| {
            let asked = vec![(0, None, told(1)), (1, None, told(2)), (at, None, told(1))];
            judged_with(entries(asked), spread)
        };
        let any = |_| Admitted;
        assert_eq!(with(7, In, 3), None);
        assert!(with(6, In, 3).is_some());
        assert_eq!(with(7, any, 3), None);
        assert!(with(6, any, 3).is_some());
        assert!(with(7, In, 0).is_some() && with(7, any, 0).is_some());
        let kept = |told| {
            judged_with(
                entries(vec![(0, None, In(1)), (1, None, In(2)), (9, None, told)]),
                3,
            )
        };
        assert_eq!(kept(Out), None, "it may last for as long");
    }

    #[test]
    fn a_place_is_given_once_a_round() {
        let twice = |at, between, again| {
            let asked = vec![(0, None, In(1)), (at, None, In(2)), between];
            broken(asked.into_iter().chain([(again, None, In(2))]).collect())
        };
        assert_eq!(
            twice(4, (5, Some(2), In(2)), 8).as_deref(),
            Some(
                "the client admitted at 8.000 s got a place that another client had in the same round"
            )
        );
        assert_eq!(twice(4, (9, None, Nothing), 11), None);
        assert_eq!(twice(9, (10, None, In(1)), 11), None);
    }

    #[test]
    fn a_name_keeps_its_place_for_a_round() {
        let again = |between, at, told| {
            broken(vec![
                (0, None, In(1)),
                (5, None, In(2)),
                between,
                (at, Some(2), told),
            ])
        };
        let refused = || (9, None, Out);
        assert_eq!(again(refused(), 9, In(2)), None);
        assert_eq!(
            again(refused(), 9, Out).as_deref(),
            Some(
                "the subject told a client \"admitted as number 2\", and \"refused\" when it asked again, at 9.000 s"
            )
        );
        assert_eq!(again(refused(), 11, In(1)), None);
        assert_eq!(again((11, None, In(1)), 12, In(2)), None);
    }

    #[test]
    fn a_late_request_may_have_taken_a_place_in_a_later_round() {
        let late = |lost| {
            let mut entries = entries(vec![(0, None, In(1)), (11, None, In(2))]);
            entries.insert(
                1,
                (
                    0,
                    What::Cut {
                        host: 1,
                        node: 0,
                        lost,
                    },
                ),
            );
            judged(entries)
        };
        assert_eq!(late(Lost::Late), None);
        let calm = entries(vec![(0, None, In(1)), (11, None, In(2))]);
        assert!(judged(calm).is_some());
    }

    #[test]
    fn the_checker_finds_nothing_if_the_clock_of_a_server_was_changed() {
        let fault = Fault::NodeClock {
            node: 0,
            by_ms: -3_000,
        };
        let mut late = entries(vec![(0, None, In(1)), (4, None, In(2)), (12, None, Out)]);
        late.insert(2, (1, What::Strikes { fault }));
        assert_eq!(judged(late), None);
    }
}
