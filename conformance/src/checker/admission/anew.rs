//! Counters that begin anew. Rounds are not told of, but places are: each round lasts as long as it should,
//! counted from its place 1. So who is told of places that are taken needs others who took them, no longer ago than that; and
//! two that have the same place are of two rounds.

use super::{Asked, Told, Witness, forgotten, witness};
use crate::{
    checker::seconds,
    history::{Call, Moment, Reading, Trouble},
};
use std::{collections::BTreeSet, time::Duration};

/// Judges a counter that begins anew a lease after it has let the first one in. Where the clock of the server is bent nothing
/// is said.
pub(super) fn judge(history: &Reading<'_>, asked: &[Asked], places: usize) -> Option<Witness> {
    let over = history.entries.last().map_or(Duration::ZERO, |it| it.at);
    let clock = [Trouble::ServerClock]; // everybody's
    if history.troubles().any(&clock, 0, Duration::ZERO, over) {
        return None;
    }
    let rounds = Rounds {
        asked,
        life: history.lease,
        leeway: history.lease / 50 + history.terms.grain(),
    };
    let fresh = |it: &&Asked| {
        let calls = history.calls();
        calls.get(&it.op).is_some_and(|it| it.2 == Call::Admit)
    };
    rounds
        .unbacked(places)
        .or_else(|| rounds.too_soon(fresh))
        .or_else(|| rounds.twice())
        .or_else(|| forgotten(asked, |first, again| rounds.begins_between(first, again)))
}

struct Rounds<'a> {
    asked: &'a [Asked],
    life: Duration,
    leeway: Duration,
}

impl Rounds<'_> {
    /// Whether a round may begin between two calls.
    fn begins_between(&self, first: &Asked, later: &Asked) -> bool {
        self.asked.iter().any(|it| {
            let begins = matches!(it.told, Told::In(None | Some(1)) | Told::Nothing);
            begins && it.op != first.op && first.from < it.to && it.from < later.to
        })
    }

    /// Somebody who was told of places that nobody can have taken.
    fn unbacked(&self, places: usize) -> Option<Witness> {
        self.asked.iter().find_map(|it| {
            let needed = match it.told {
                Told::In(Some(place)) => usize::try_from(place).ok()?.checked_sub(1)?,
                Told::Out => places,
                Told::In(None) | Told::Nothing => return None,
            };
            let since = it.from.at.saturating_sub(self.life + self.leeway);
            let others = self.asked.iter().filter(|other| {
                other.op != it.op && since <= other.to.at && other.from < it.to
            });
            let (mut taken, mut perhaps) = (BTreeSet::new(), 0);
            for other in others {
                match other.told {
                    Told::In(Some(place)) if usize::try_from(place).is_ok_and(|it| it <= needed) => {
                        taken.insert(place);
                    }
                    Told::In(None) | Told::Nothing => perhaps += 1,
                    Told::In(Some(_)) | Told::Out => {}
                }
            }
            (taken.len() + perhaps < needed).then(|| {
                let (at, taken) = (seconds(it.to.at), taken.len());
                let message = format!(
                    "who was told at {at} that {needed} places are taken has seen a round in which {taken} \
                     were, and {perhaps} do not know"
                );
                witness(it.to, message)
            })
        })
    }

    /// Two that were the first one, with less than the life of a round between them.
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
        let (_, later) = pairs.find(|(earlier, later)| apart(earlier, later) < self.life)?;
        let at: Moment = later.to;
        let message = format!(
            "at {} the counter began anew, less than a lease after it had begun",
            seconds(at.at)
        );
        Some(witness(at, message))
    }

    /// Two that have one place, and nobody began a round in between.
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
            format!("who was let in at {at} was given the place of another"),
        ))
    }
}
