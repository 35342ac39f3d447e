//! P22, admission: a counter admits at most N clients. If fewer than N admissions are certain, calls with unknown
//! outcomes must be able to make up for the rest. A client that asks again under the same name gets the same answer,
//! and counts once.
//!
//! Some counters start again at zero. They do so when the lease of their first admission is over, and not before: see
//! `anew`.

mod anew;

use super::{Checker, Finding, Property, Witness, seconds};
use crate::history::{Call, Kind, Moment, OpId, Reading, Refusal, What};
use std::collections::BTreeMap;

/// Judges P22.
pub struct Admission;

impl Checker for Admission {
    fn property(&self) -> Property {
        Property::Admission
    }

    fn judge(&self, history: &Reading<'_>) -> Finding {
        let Kind::Admission(places) = history.kind else {
            return Finding::Unknown("it is no counter that lets the first in");
        };
        let asked = asked(history);
        let places = usize::try_from(places).unwrap_or(usize::MAX);
        let witness = if history.terms.anew {
            anew::judge(history, &asked, places)
        } else {
            let of_names = forgotten(&asked, |_, _| false);
            of_names.or_else(|| of_all(&asked, places, open_from(history)))
        };
        let witness = witness.or_else(|| kept(history, places));
        witness.map_or(Finding::Valid, Finding::Violation)
    }
}

/// Counterexample: a server stores more names of admitted clients than the counter has places.
fn kept(history: &Reading<'_>, places: usize) -> Option<Witness> {
    history.iter().find_map(|(at, what)| {
        let What::Queue { waiting, .. } = what else {
            return None;
        };
        let (names, since) = (waiting.len(), seconds(at.at));
        let message = format!(
            "at {since} a server stored the names of {names} admitted clients (at most {places})"
        );
        (names > places).then(|| witness(at, message))
    })
}

/// A call that asks for admission.
struct Asked {
    op: OpId,
    name: OpId,
    from: Moment,
    /// End of the call; [`Moment::NEVER`] if it got no answer, since it may then take effect at any time.
    to: Moment,
    told: Told,
    /// True if the lock may have sent the request twice: one copy of it may still arrive at any time.
    astray: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// The client is admitted, perhaps with this place.
    In(Option<u32>),
    Out,
    Nothing,
}

/// Returns all calls that asked for admission, in the order of their starts. Calls that failed before they could ask
/// are left out.
fn asked(history: &Reading<'_>) -> Vec<Asked> {
    let ends = history.ends();
    let calls = history.calls().iter();
    let asked = calls.filter_map(|(&op, &(from, actor, call))| {
        let name = if let Call::AdmitAgain { of } = call {
            of
        } else if call == Call::Admit {
            op
        } else {
            return None;
        };
        let (to, told) = match ends.get(&op) {
            Some(&(at, &What::Ok { number, .. })) => (at, Told::In(number)),
            Some(&(at, &What::Fail { why, .. }))
                if !matches!(why, Refusal::Other | Refusal::NotOffered) =>
            {
                (at, Told::Out)
            }
            Some((_, What::Fail { .. })) => return None,
            _ => (Moment::NEVER, Told::Nothing),
        };
        let heard = history.fault_intervals().heard(actor.host, from.at, to.at);
        Some(Asked {
            op,
            name,
            from,
            to,
            told,
            astray: told == Told::Nothing || !heard,
        })
    });
    asked.collect()
}

/// Returns the moment from which the counter certainly has places.
fn open_from(history: &Reading<'_>) -> Moment {
    if !history.terms.set_up {
        return Moment::at(std::time::Duration::ZERO);
    }
    let calls = history.calls();
    let ends = history.ends().iter().filter(|(op, (_, end))| {
        let sets_up = calls.get(op).is_some_and(|&(.., call)| call == Call::SetUp);
        let before = matches!(end, What::Fail { why, .. } if *why == Refusal::Contended);
        sets_up && (before || matches!(end, What::Ok { .. }))
    });
    ends.map(|(_, &(at, _))| at).min().unwrap_or(Moment::NEVER)
}

/// Counterexample: the counter admitted too many clients, or too few.
fn of_all(asked: &[Asked], places: usize, open: Moment) -> Option<Witness> {
    let (mut winners, mut perhaps) = (BTreeMap::new(), BTreeMap::new());
    let mut refused = BTreeMap::new();
    for it in asked {
        match it.told {
            Told::In(_) => {
                let first = winners.entry(it.name).or_insert(it.to);
                *first = it.to.min(*first);
            }
            Told::Out if open < it.from => drop(refused.insert(it.name, it.to)),
            Told::Out => {}
            Told::Nothing => drop(perhaps.insert(it.name, it.to)),
        }
    }
    perhaps.retain(|name, _| !winners.contains_key(name));
    refused.retain(|name, _| !winners.contains_key(name) && !perhaps.contains_key(name));
    let mut ends: Vec<Moment> = winners.into_values().collect();
    ends.sort_unstable();
    if let Some(&at) = ends.get(places) {
        let at_time = seconds(at.at);
        return Some(witness(
            at,
            format!("at {at_time} one more was let in, {places} being all that may"),
        ));
    }
    let (certain, unknown) = (ends.len(), perhaps.len());
    let askers = certain + unknown + refused.len();
    let last = refused.into_values().max().unwrap_or(Moment::NEVER);
    (certain + unknown < places.min(askers)).then(|| {
        witness(
            last,
            format!(
                "{askers} asked for {places} places: {certain} were let in and {unknown} do not \
                 know"
            ),
        )
    })
}

/// Counterexample: an admitted client asks again and gets another answer, although the counter did not start again in
/// between.
fn forgotten(asked: &[Asked], anew: impl Fn(&Asked, &Asked) -> bool) -> Option<Witness> {
    let pairs = asked.iter().flat_map(|first| {
        let again = asked.iter();
        let again = again.filter(|it| it.name == first.name && first.to < it.from);
        again.map(move |again| (first, again))
    });
    let mut pairs = pairs.filter(|(first, again)| {
        let (is_in, told) = (matches!(first.told, Told::In(_)), again.told);
        is_in && told != Told::Nothing && told != first.told
    });
    let (first, again) = pairs.find(|(first, again)| !anew(first, again))?;
    let at = seconds(again.to.at);
    let told = |told| match told {
        Told::In(Some(place)) => format!("admitted as number {place}"),
        Told::In(None) => "admitted".to_owned(),
        Told::Out | Told::Nothing => "refused".to_owned(),
    };
    Some(witness(
        again.to,
        format!(
            "the subject told a client \"{}\", and \"{}\" when it asked again, at {at}",
            told(first.told),
            told(again.told)
        ),
    ))
}

const fn witness(at: Moment, message: String) -> Witness {
    Witness {
        at,
        until: None,
        grants: vec![],
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        checker::hand_made::*,
        history::{Actor, Cause, History, OpId, Terms},
    };

    fn told(ends: &[fn(OpId) -> What]) -> Option<String> {
        let mut entries = Vec::new();
        for (op, end) in (1..).zip(ends) {
            let actor = Actor::on(u8::try_from(op).unwrap());
            let call = Call::Admit;
            entries.push((u64::from(op), What::Invoke { op, actor, call }));
            entries.push((u64::from(op), end(op)));
        }
        let history = History {
            kind: Kind::Admission(2),
            ..history(entries)
        };
        let finding = Admission.check(&history);
        finding.witness().map(|witness| witness.message.clone())
    }

    fn unsure(op: OpId) -> What {
        What::Info {
            op,
            error: "timed out".into(),
        }
    }

    fn unreachable(op: OpId) -> What {
        let why = Refusal::Other;
        What::Fail { op, why }
    }

    #[test]
    fn the_first_n_are_let_in() {
        assert_eq!(told(&[done, done, refused, refused]), None);
        assert_eq!(told(&[done, unsure, refused]), None);
        assert_eq!(told(&[done]), None);
        assert_eq!(told(&[done, unreachable]), None);
    }

    #[test]
    fn one_too_many_is_caught() {
        assert_eq!(
            told(&[done, done, done]).as_deref(),
            Some("at 3.000 s one more was let in, 2 being all that may")
        );
    }

    #[test]
    fn one_too_few_is_caught() {
        assert_eq!(
            told(&[done, refused]).as_deref(),
            Some("2 asked for 2 places: 1 were let in and 0 do not know")
        );
        assert!(told(&[refused]).is_some());
        assert!(told(&[unsure, refused, refused]).is_some());
    }

    fn calls(op: OpId, call: Call) -> What {
        let actor = Actor::on(u8::try_from(op).unwrap());
        What::Invoke { op, actor, call }
    }

    fn placed(op: OpId, number: u32) -> What {
        What::Ok {
            op,
            deadline: None,
            fence: None,
            number: Some(number),
            token: None,
        }
    }

    fn broken(entries: Vec<(u64, What)>, terms: impl Fn(&mut Terms)) -> Option<String> {
        let mut history = History {
            kind: Kind::Admission(2),
            ..history(entries)
        };
        terms(&mut history.terms);
        let finding = Admission.check(&history);
        finding.witness().map(|witness| witness.message.clone())
    }

    #[test]
    fn a_name_counts_once_and_is_told_the_same() {
        let asked = |again: What| {
            let entries = vec![
                (1, calls(1, Call::Admit)),
                (1, placed(1, 1)),
                (2, calls(2, Call::AdmitAgain { of: 1 })),
                (2, again),
                (3, calls(3, Call::Admit)),
                (3, placed(3, 2)),
                (4, calls(4, Call::Admit)),
                (4, refused(4)),
            ];
            broken(entries, |_| {})
        };
        assert_eq!(asked(placed(2, 1)), None);
        assert_eq!(asked(unsure(2)), None);
        assert_eq!(
            asked(placed(2, 2)).as_deref(),
            Some(
                "the subject told a client \"admitted as number 1\", and \"admitted as number 2\" when it asked again, at 2.000 s"
            )
        );
        assert_eq!(
            asked(refused(2)).as_deref(),
            Some(
                "the subject told a client \"admitted as number 1\", and \"refused\" when it asked again, at 2.000 s"
            )
        );
        // A refused client may ask again, and does not count as another client.
        let out = |again: What| {
            let entries = vec![
                (1, calls(1, Call::Admit)),
                (1, refused(1)),
                (2, calls(2, Call::AdmitAgain { of: 1 })),
                (2, again),
            ];
            broken(entries, |_| {})
        };
        assert_eq!(out(placed(2, 1)), None);
        assert!(out(refused(2)).is_some_and(|it| it.starts_with("1 asked for 2 places")));
    }

    #[test]
    fn a_counter_refuses_clients_until_it_is_set_up() {
        let asked = |set_up: What| {
            let entries = vec![
                (1, calls(1, Call::Admit)),
                (1, refused(1)),
                (2, calls(2, Call::SetUp)),
                (2, set_up),
                (3, calls(3, Call::Admit)),
                (3, refused(3)),
            ];
            broken(entries, |terms| terms.set_up = true)
        };
        assert_eq!(asked(unsure(2)), None);
        assert_eq!(
            asked(done(2)).as_deref(),
            Some("1 asked for 2 places: 0 were let in and 0 do not know")
        );
        assert!(asked(refused(2)).is_some());
    }

    #[test]
    fn a_server_stores_no_names_of_refused_clients() {
        let keeps = |names: &[&str]| {
            let queue = What::Queue {
                node: 0,
                cause: Cause::Client(0),
                waiting: names.iter().map(|name| name.as_bytes().to_vec()).collect(),
            };
            broken(vec![(1, queue)], |_| {})
        };
        assert_eq!(keeps(&["a", "b"]), None);
        assert_eq!(
            keeps(&["a", "b", "c"]).as_deref(),
            Some("at 1.000 s a server stored the names of 3 admitted clients (at most 2)")
        );
    }

    #[test]
    fn the_checker_gives_no_verdict_on_a_lock() {
        let lock = history(vec![(0, tries(1, 0)), (0, granted(1, Some(9)))]);
        assert!(matches!(Admission.check(&lock), Finding::Unknown(_)));
    }
}
