//! P0, conduct: a panic of the code under test is a finding. Stray tasks are counted by the
//! runner, since a history cannot know of them.

use super::{Checker, Finding, Property, Witness, seconds};
use crate::history::{Actor, Reading, What};

/// Judges P0.
pub struct Conduct;

impl Checker for Conduct {
    fn property(&self) -> Property {
        Property::Conduct
    }

    fn judge(&self, history: &Reading<'_>) -> Finding {
        let panic = history.iter().find_map(|(at, what)| {
            let What::Panic { host, message } = what else {
                return None;
            };
            Some((at, Actor::on(*host), message))
        });
        let Some((at, client, message)) = panic else {
            return Finding::Valid;
        };
        Finding::Violation(Witness {
            at,
            until: None,
            grants: vec![],
            message: format!("{client} panicked at {}: {message}", seconds(at.at)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::hand_made::*;

    #[test]
    fn a_panic_is_a_finding() {
        let quiet = history(vec![(0, tries(1, 0)), (0, granted(1, Some(9)))]);
        assert_eq!(Conduct.check(&quiet), Finding::Valid);
        let loud = history(vec![(
            3,
            What::Panic {
                host: 1,
                message: "overflow".into(),
            },
        )]);
        let Finding::Violation(witness) = Conduct.check(&loud) else {
            panic!()
        };
        assert_eq!(witness.message, "c2 panicked at 3.000 s: overflow");
    }
}
