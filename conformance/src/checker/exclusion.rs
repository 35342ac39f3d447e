//! P1, lease exclusion: beliefs of different owners never overlap in true time.
//!
//! The owner is the scenario's actor, never the identity that the lock itself uses. Only a definite ok counts as held.
//! Readers may overlap each other. Permits of a semaphore may overlap up to its limit. A pause does not end a belief:
//! while the holder's process stands still, its clock runs on, and the deadline on this clock protects all other
//! clients.

use super::{Checker, Finding, Property, Witness, seconds};
use crate::history::{Belief, Mode, Reading};

/// Judges P1.
pub struct Exclusion;

impl Checker for Exclusion {
    fn property(&self) -> Property {
        Property::Exclusion
    }

    fn judge(&self, history: &Reading<'_>) -> Finding {
        let mut beliefs: Vec<_> = history.beliefs().iter().collect();
        beliefs.sort_by_key(|belief| belief.from);
        // Each belief is compared with earlier ones only, so the checker reports the first overlap in time.
        for (index, late) in beliefs.iter().enumerate() {
            let standing: Vec<_> = beliefs[..index]
                .iter()
                .filter(|early| early.overlap(late).is_some())
                .collect();
            let foe = standing
                .iter()
                .find(|early| early.actor != late.actor && !get_along(early.mode, late.mode));
            if let Some(early) = foe {
                let until = early.to.min(late.to);
                return Finding::Violation(Witness {
                    at: late.from,
                    until: Some(until.at),
                    grants: vec![early.grant, late.grant],
                    message: format!(
                        "from {} to {} both {} and {} believe that they hold the lock",
                        seconds(late.from.at),
                        seconds(until.at),
                        early.actor,
                        late.actor,
                    ),
                });
            }
            let out = |belief: &Belief| u64::from(belief.mode.permits());
            let taken = out(late) + standing.iter().map(|early| out(early)).sum::<u64>();
            if taken > u64::from(history.permits()) {
                let grants = standing.iter().map(|early| early.grant).chain([late.grant]);
                return Finding::Violation(Witness {
                    at: late.from,
                    until: None,
                    grants: grants.collect(),
                    message: format!(
                        "at {} {taken} permits are out, {} being there: the last ones went to {}",
                        seconds(late.from.at),
                        history.permits(),
                        late.actor,
                    ),
                });
            }
        }
        Finding::Valid
    }
}

/// True if two owners may hold the lock in these modes at the same time. The number of permits is not checked.
pub(super) const fn get_along(one: Mode, other: Mode) -> bool {
    match (one, other) {
        (Mode::Shared, Mode::Shared) | (Mode::Permits(_), Mode::Permits(_)) => true,
        (Mode::Exclusive, _) | (_, Mode::Exclusive) => false,
        (Mode::Shared, Mode::Permits(_)) | (Mode::Permits(_), Mode::Shared) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        checker::hand_made::*,
        history::{Actor, Call, History, Kind, What},
    };

    fn passes(entries: Vec<(u64, What)>) -> bool {
        matches!(Exclusion.check(&history(entries)), Finding::Valid)
    }

    #[test]
    fn beliefs_one_after_the_other_pass() {
        assert!(passes(vec![
            (0, tries(1, 0)),
            (1, granted(1, Some(9))),
            (2, tries(2, 1)),
            (5, releases(3, 0, 1)),
            (5, granted(2, Some(15))),
            (6, done(3)),
        ]));
    }

    #[test]
    fn an_overlap_is_caught_with_its_span() {
        let history = history(vec![
            (0, tries(1, 0)),
            (1, granted(1, Some(9))),
            (2, tries(2, 1)),
            (4, granted(2, Some(12))),
            (5, releases(3, 0, 1)),
        ]);
        let Finding::Violation(witness) = Exclusion.check(&history) else {
            panic!()
        };
        assert_eq!((witness.at, witness.until), (history.moment(3), Some(s(5))));
        assert_eq!(witness.grants, [1, 2]);
    }

    #[test]
    fn belief_ends_at_the_deadline_at_once_and_not_before() {
        let until = |ok| {
            vec![
                (0, tries(1, 0)),
                (0, granted(1, Some(9))),
                (ok, tries(2, 1)),
                (ok, granted(2, Some(20))),
            ]
        };
        assert!(passes(until(9)));
        assert!(!passes(until(8)));
    }

    #[test]
    fn loss_and_crash_end_belief_and_a_pause_does_not() {
        let ended_by = |what| {
            passes(vec![
                (0, tries(1, 0)),
                (0, granted(1, Some(9))),
                (3, what),
                (4, tries(2, 1)),
                (4, granted(2, Some(13))),
            ])
        };
        assert!(ended_by(What::Lost { grant: 1 }));
        assert!(ended_by(What::Crash { host: 0 }));
        assert!(!ended_by(What::Crash { host: 1 }));
        assert!(!ended_by(What::Pause { host: 0 }));
    }

    #[test]
    fn a_renewed_deadline_counts() {
        let renewed = |by: What| {
            passes(vec![
                (0, tries(1, 0)),
                (0, granted(1, Some(9))),
                (5, renews(2, 0, 1)),
                (5, by),
                (11, tries(3, 1)),
                (11, granted(3, Some(20))),
            ])
        };
        assert!(!renewed(granted(2, Some(14))));
        assert!(!renewed(What::Deadline {
            grant: 1,
            deadline: Some(s(14))
        }));
        assert!(renewed(refused(2)));
    }

    #[test]
    fn without_a_deadline_nothing_is_claimed_past_the_lease() {
        let second = |ok| {
            passes(vec![
                (0, tries(1, 0)),
                (4, granted(1, None)), // the reply took 4 s: the lease counts from the request
                (ok, tries(2, 1)),
                (ok, granted(2, None)),
            ])
        };
        assert!(!second(9));
        assert!(second(10));
    }

    fn in_modes(kind: Kind, modes: &[Mode]) -> Finding {
        let mut entries = Vec::new();
        for (op, &mode) in (1..).zip(modes) {
            let actor = Actor::on(u8::try_from(op).unwrap());
            let call = Call::Try { mode };
            entries.push((0, What::Invoke { op, actor, call }));
            entries.push((1, granted(op, Some(9))));
        }
        let history = History {
            kind,
            ..history(entries)
        };
        Exclusion.check(&history)
    }

    #[test]
    fn readers_share_and_writers_do_not() {
        let (read, write) = (Mode::Shared, Mode::Exclusive);
        assert_eq!(
            in_modes(Kind::ReadWrite, &[read, read, read]),
            Finding::Valid
        );
        assert!(
            in_modes(Kind::ReadWrite, &[read, read, write])
                .witness()
                .is_some()
        );
        assert!(
            in_modes(Kind::ReadWrite, &[write, read])
                .witness()
                .is_some()
        );
    }

    #[test]
    fn permits_are_counted_by_weight() {
        let permits = |weights: &[u32]| {
            let modes: Vec<Mode> = weights.iter().map(|&count| Mode::Permits(count)).collect();
            in_modes(Kind::Semaphore(4), &modes)
        };
        assert_eq!(permits(&[1, 2, 1]), Finding::Valid);
        let finding = permits(&[1, 2, 2]);
        let witness = finding.witness().unwrap();
        assert_eq!(witness.grants, [1, 2, 3]);
        assert!(
            witness.message.contains("5 permits are out, 4 being there"),
            "{witness:?}"
        );
    }

    #[test]
    fn unknown_acquires_and_one_owner_alone_do_not_count() {
        assert!(passes(vec![
            (0, tries(1, 0)),
            (0, granted(1, Some(9))),
            (1, tries(2, 1)),
            (
                2,
                What::Info {
                    op: 2,
                    error: "timed out".into()
                }
            ),
            (3, tries(3, 0)),
            (3, granted(3, Some(12))),
        ]));
    }
}
