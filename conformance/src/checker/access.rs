//! P2, access exclusion at the resource: accesses by different grants never interleave. Each access reads and writes a
//! counter, and this counter loses no update.
//!
//! An access is a read and the write that follows it. An access does not count if the resource refused any of its
//! messages: the fencing token exists for such refusals. Owners that may hold the lock together may also access
//! together. Then the counter proves nothing.

use super::{Checker, Finding, Property, Witness, exclusion::get_along, seconds};
use crate::history::{Access, Actor, History, Mode, Moment, OpId, Reading, What};
use std::collections::BTreeMap;

/// Judges P2.
pub struct Accesses;

/// An access without a refused message, from its first message to its last.
#[derive(Clone, Copy)]
struct Span {
    grant: OpId,
    from: Moment,
    to: Moment,
    /// True if the access consists of a read and a write.
    complete: bool,
}

impl Checker for Accesses {
    fn property(&self) -> Property {
        Property::Accesses
    }

    fn judge(&self, history: &Reading<'_>) -> Finding {
        let (spans, counter) = spans(history);
        if spans.is_empty() {
            return Finding::Unknown("the resource was not accessed");
        }
        let calls = history.calls();
        let holder = |grant| {
            let call = calls.get(&grant);
            call.map(|&(_, actor, call)| (actor, call.mode().unwrap_or_default()))
        };
        let name = |grant| {
            holder(grant).map_or_else(String::new, |(actor, _): (Actor, _)| actor.to_string())
        };
        let mode = |grant| holder(grant).map_or(Mode::Exclusive, |(_, mode)| mode);
        for (index, late) in spans.iter().enumerate() {
            let foe = spans[..index].iter().find(|early| {
                let interleaved = late.from <= early.to;
                let together = may_meet(mode(early.grant), mode(late.grant), history.permits());
                early.grant != late.grant && interleaved && !together
            });
            if let Some(early) = foe {
                return Finding::Violation(Witness {
                    at: late.from,
                    until: Some(early.to.min(late.to).at),
                    grants: vec![early.grant, late.grant],
                    message: format!(
                        "at {} {} reads the resource while {} is between its read and its write",
                        seconds(late.from.at),
                        name(late.grant),
                        name(early.grant),
                    ),
                });
            }
        }
        let alone = spans.iter().all(|span| mode(span.grant).is_exclusive());
        let updates = spans.iter().filter(|span| span.complete).count();
        if let (true, Some((at, value))) = (alone, counter)
            && u64::try_from(updates) != Ok(value)
        {
            return Finding::Violation(Witness {
                at,
                until: None,
                grants: vec![],
                message: format!("the counter stands at {value} after {updates} updates"),
            });
        }
        Finding::Valid
    }
}

/// Returns all accesses, in the order of their starts, and the last value of the counter.
fn spans(history: &History) -> (Vec<Span>, Option<(Moment, u64)>) {
    let (mut spans, mut counter) = (Vec::new(), None);
    let mut open: BTreeMap<OpId, Span> = BTreeMap::new();
    for (at, what) in history.iter() {
        let &What::Resource {
            grant,
            access,
            value,
            refused,
            ..
        } = what
        else {
            continue;
        };
        let began = open.remove(&grant);
        if refused {
            continue;
        }
        let fresh = Span {
            grant,
            from: at,
            to: at,
            complete: false,
        };
        match access {
            Access::Read => {
                spans.extend(began);
                open.insert(grant, fresh);
            }
            Access::Write => {
                spans.push(Span {
                    to: at,
                    complete: true,
                    ..began.unwrap_or(fresh)
                });
                counter = Some((at, value));
            }
        }
    }
    spans.extend(open.into_values());
    spans.sort_by_key(|span| span.from);
    (spans, counter)
}

/// True if two owners may hold the lock in these modes at the same time.
fn may_meet(one: Mode, other: Mode, permits: u32) -> bool {
    let taken = u64::from(one.permits()) + u64::from(other.permits());
    get_along(one, other) && taken <= u64::from(permits.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        checker::hand_made::*,
        history::{Call, Kind},
    };

    const R: Access = Access::Read;
    const W: Access = Access::Write;

    fn asks(grant: OpId, access: Access, value: u64) -> What {
        What::Resource {
            grant,
            fence: None,
            access,
            value,
            refused: false,
        }
    }

    fn refusal(grant: OpId, access: Access) -> What {
        What::Resource {
            grant,
            fence: Some(1),
            access,
            value: 0,
            refused: true,
        }
    }

    fn by_two(messages: Vec<What>) -> Vec<(u64, What)> {
        let begin = vec![
            (0, tries(1, 0)),
            (0, granted(1, Some(5))),
            (5, tries(2, 1)),
            (5, granted(2, Some(15))),
        ];
        let messages = (6..).zip(messages);
        begin.into_iter().chain(messages).collect()
    }

    fn broken(messages: Vec<What>) -> Option<String> {
        let finding = Accesses.check(&history(by_two(messages)));
        assert!(!matches!(finding, Finding::Unknown(_)));
        finding.witness().map(|witness| witness.message.clone())
    }

    #[test]
    fn accesses_one_after_the_other_pass() {
        let ordered = vec![asks(1, R, 0), asks(1, W, 1), asks(2, R, 1), asks(2, W, 2)];
        assert_eq!(broken(ordered), None);
        let twice = vec![asks(1, R, 0), asks(1, W, 1), asks(1, R, 1), asks(1, W, 2)];
        assert_eq!(broken(twice), None);
        let died_in_between = vec![asks(1, R, 0), asks(2, R, 0), asks(2, W, 1)];
        assert_eq!(broken(died_in_between), None);
    }

    #[test]
    fn interleaved_accesses_are_caught() {
        let lost = vec![asks(1, R, 0), asks(2, R, 0), asks(2, W, 1), asks(1, W, 1)];
        assert_eq!(
            broken(lost).as_deref(),
            Some("at 7.000 s c2 reads the resource while c1 is between its read and its write")
        );
        let crossed = vec![asks(1, R, 0), asks(2, R, 0), asks(1, W, 1), asks(2, W, 1)];
        assert!(broken(crossed).is_some());
        let looked = vec![asks(1, R, 0), asks(2, R, 0), asks(1, W, 1)];
        assert!(broken(looked).is_some());
    }

    #[test]
    fn an_access_that_the_resource_refused_does_not_count() {
        let fenced = vec![asks(1, R, 0), asks(2, R, 0), refusal(1, W), asks(2, W, 1)];
        assert_eq!(broken(fenced), None);
        let late = vec![asks(2, R, 0), refusal(1, R), asks(2, W, 1)];
        assert_eq!(broken(late), None);
    }

    #[test]
    fn a_lost_update_is_caught() {
        let lost = vec![asks(1, R, 0), asks(1, W, 1), asks(2, R, 0), asks(2, W, 1)];
        let message = broken(lost).unwrap();
        assert_eq!(message, "the counter stands at 1 after 2 updates");
    }

    fn in_modes(kind: Kind, modes: [Mode; 2]) -> Finding {
        let mut entries = Vec::new();
        for (op, mode) in (1..).zip(modes) {
            let actor = Actor::on(u8::try_from(op).unwrap());
            let call = Call::Try { mode };
            entries.push((0, What::Invoke { op, actor, call }));
            entries.push((1, granted(op, Some(9))));
        }
        let crossed = [asks(1, R, 0), asks(2, R, 0), asks(1, W, 1), asks(2, W, 1)];
        entries.extend((2..).zip(crossed));
        Accesses.check(&History {
            kind,
            ..history(entries)
        })
    }

    #[test]
    fn holders_that_share_a_lock_may_access_the_resource_together() {
        let (read, write) = (Mode::Shared, Mode::Exclusive);
        assert_eq!(in_modes(Kind::ReadWrite, [read, read]), Finding::Valid);
        let mixed = in_modes(Kind::ReadWrite, [read, write]);
        assert!(mixed.witness().is_some());
        let permits = |one, other| {
            let modes = [Mode::Permits(one), Mode::Permits(other)];
            in_modes(Kind::Semaphore(3), modes)
        };
        assert_eq!(permits(1, 2), Finding::Valid);
        assert!(permits(2, 2).witness().is_some());
    }

    #[test]
    fn a_history_without_accesses_gives_no_verdict() {
        let finding = Accesses.check(&history(by_two(vec![])));
        assert!(matches!(finding, Finding::Unknown(_)));
    }
}
