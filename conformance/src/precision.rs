//! Limits of real time: the order of two events within a few milliseconds around the end of a lease is
//! unknown. In virtual time it is exact.

use crate::{
    checker::{Finding, Property, Witness},
    history::{History, What},
};
use std::time::Duration;

/// Withdraws findings that depend on this order. The order of events at the resource and at the callers needs
/// no clock, so only the servers' data and the deadlines are in doubt.
pub(crate) fn doubt(history: &History, findings: &mut [(Property, Finding)]) {
    let close = history.lease / 40 + history.terms.slack;
    let ends = ends(history);
    let near = |at: Duration| ends.iter().any(|end| end.abs_diff(at) <= close);
    let doubtful = |witness: &Witness| match witness.until {
        Some(until) => until.saturating_sub(witness.at.at) <= close,
        None => near(witness.at.at),
    };
    for (property, finding) in findings {
        let by_clock = property.needs_observation() || *property == Property::Continuity;
        if by_clock && finding.witness().is_some_and(doubtful) {
            *finding =
                Finding::Unknown("too close to the end of a lease to be judged in real time");
        }
    }
}

/// Returns the times at which leases ended, at the servers and for their holders.
fn ends(history: &History) -> Vec<Duration> {
    let mut ends = Vec::new();
    for (_, what) in history.iter() {
        match what {
            What::Server { stored, .. } => ends.extend(stored.iter().filter_map(|it| it.gone_at())),
            What::Ok {
                deadline: Some(deadline),
                ..
            }
            | What::Deadline {
                deadline: Some(deadline),
                ..
            } => ends.push(*deadline),
            What::Invoke { .. }
            | What::Attempt { .. }
            | What::Ok { .. }
            | What::Fail { .. }
            | What::Info { .. }
            | What::Deadline { .. }
            | What::Lost { .. }
            | What::Pause { .. }
            | What::Resume { .. }
            | What::Crash { .. }
            | What::Restart { .. }
            | What::Panic { .. }
            | What::Cut { .. }
            | What::Strikes { .. }
            | What::Heals { .. }
            | What::Promoted { .. }
            | What::Queue { .. }
            | What::Reserved { .. }
            | What::Remains { .. }
            | What::Resource { .. } => {}
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        checker::hand_made::*,
        history::{Cause, Holder, Moment},
    };

    /// Returns true if the finding stands. The lease of the token ends at 9 s; leases last 10 s.
    fn stands(property: Property, at_ms: u64, until_ms: Option<u64>) -> bool {
        let stored = Holder {
            token: b"t".to_vec(),
            expires: Some(s(9)),
            ..Holder::default()
        };
        let stores = What::Server {
            node: 0,
            cause: Cause::Client(0),
            stored: vec![stored],
            anonymous: 0,
        };
        let witness = Witness {
            at: Moment::at(Duration::from_millis(at_ms)),
            until: until_ms.map(Duration::from_millis),
            grants: vec![],
            message: String::new(),
        };
        let mut findings = [(property, Finding::Violation(witness))];
        doubt(&history(vec![(0, stores)]), &mut findings);
        findings[0].1.witness().is_some()
    }

    #[test]
    fn findings_from_servers_are_withdrawn_only_near_the_end_of_a_lease() {
        assert!(!stands(Property::Ownership, 9_200, None));
        assert!(!stands(Property::Continuity, 8_800, None));
        assert!(stands(Property::Ownership, 9_300, None));
        assert!(stands(Property::Ownership, 4_000, None));
        assert!(stands(Property::Exclusion, 9_001, None));
    }

    #[test]
    fn a_lasting_violation_is_withdrawn_only_if_it_is_short() {
        assert!(!stands(Property::GroundedBelief, 9_001, Some(9_100)));
        assert!(stands(Property::GroundedBelief, 9_001, Some(9_600)));
    }
}
