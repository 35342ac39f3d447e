//! P22, admission: of those who ask no more than N are let in; and if not all of N places are taken
//! for certain, then those who do not know whether they were let in can make up for it.

use super::{Checker, Finding, Property, Witness, seconds};
use crate::history::{Call, Kind, Moment, Reading, Refusal, What};

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
        let places = usize::try_from(places).unwrap_or(usize::MAX);
        let ends = history.ends();
        let (mut winners, mut refused, mut unknown): (Vec<Moment>, usize, usize) =
            Default::default();
        let mut last = Moment::NEVER;
        let calls = history.calls().iter();
        for (op, _) in calls.filter(|(_, (.., call))| *call == Call::Admit) {
            match ends.get(op) {
                Some(&(at, What::Ok { .. })) => winners.push(at),
                Some(&(at, What::Fail { why, .. })) => {
                    // Whoever never got as far as asking is no asker.
                    if *why != Refusal::Other {
                        refused += 1;
                        last = at;
                    }
                }
                _ => unknown += 1,
            }
        }
        winners.sort_unstable();
        if let Some(&at) = winners.get(places) {
            return Finding::Violation(Witness {
                at,
                until: None,
                grants: vec![],
                message: format!(
                    "at {} one more was let in, {places} being all that may",
                    seconds(at.at)
                ),
            });
        }
        let (certain, askers) = (winners.len(), winners.len() + refused + unknown);
        if certain + unknown < places.min(askers) {
            return Finding::Violation(Witness {
                at: last,
                until: None,
                grants: vec![],
                message: format!(
                    "{askers} asked for {places} places: {certain} were let in and {unknown} \
                     do not know"
                ),
            });
        }
        Finding::Valid
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        checker::hand_made::*,
        history::{Actor, History, OpId},
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

    #[test]
    fn it_is_no_matter_of_locks() {
        let lock = history(vec![(0, tries(1, 0)), (0, granted(1, Some(9)))]);
        assert!(matches!(Admission.check(&lock), Finding::Unknown(_)));
    }
}
