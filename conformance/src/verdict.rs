//! From findings to verdicts: what a lock promised under which faults, and whether it kept it.
//!
//! Verdicts are per property. What breaks outside of what was promised is reported as such and
//! convicts nobody.

use crate::{checker::Property, scenario::nemesis::DRIFT_PPM_MAX, subject::Promises};
use std::collections::BTreeSet;

/// What a lock claims about a property under certain faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It must hold.
    Holds,
    /// It is outside of the guarantee.
    Outside,
}

/// What a fault takes from the guarantees of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cost {
    /// Nothing: it costs availability at most.
    Nothing,
    /// Clocks run apart, within what most locks allow for.
    Drift,
    /// A holder believes for longer than the servers do: clocks beyond any bound, a server that
    /// forgets early, two masters.
    Belief,
    /// Leases end late: nobody loses a lock, everybody waits for longer.
    Patience,
}

/// The column of faults: what each one costs a lock on one node, and one on several nodes whose
/// majority it strikes.
fn cost(nemesis: &str) -> Cost {
    match nemesis {
        "drift" | "node-drift" => Cost::Drift,
        "suspend" | "drift-beyond" | "node-amnesia" | "eviction" | "node-clock-forward"
        | "node-fast" | "failover" | "split-brain" => Cost::Belief,
        "node-clock-back" | "node-slow" | "node-freeze" => Cost::Patience,
        _ => Cost::Nothing,
    }
}

/// What a lock with these promises claims about a property in a scenario in which these nemeses
/// strike.
///
/// On one node, delays, cuts, partitions, pauses, crashes and work past the lease change nothing:
/// whoever still believes has a deadline that protects the others, and whoever has no deadline
/// claims nothing past the lease. Clocks that run apart are a matter of what was promised. Against
/// servers that forget early nothing helps but more of them.
#[must_use]
pub fn claim(promises: Promises, nemeses: &BTreeSet<&'static str>, property: Property) -> Claim {
    let tolerated = i64::from(promises.drift_ppm) >= 2 * DRIFT_PPM_MAX;
    let outside = |cost| match cost {
        Cost::Nothing => false,
        Cost::Drift => !tolerated && believes(property),
        Cost::Belief => believes(property),
        Cost::Patience => property == Property::Progress,
    };
    let borne = |nemesis: &str| promises.survives_failover && nemesis == "failover";
    if nemeses
        .iter()
        .any(|nemesis| !borne(nemesis) && outside(cost(nemesis)))
    {
        Claim::Outside
    } else {
        Claim::Holds
    }
}

/// Whether a property is about what holders believe.
const fn believes(property: Property) -> bool {
    matches!(property, Property::Exclusion | Property::Truth)
}

/// The row of the verdict matrix that a scenario counts for.
#[must_use]
pub fn row_of(nemeses: &BTreeSet<&'static str>) -> &'static str {
    match nemeses.len() {
        0 => CALM,
        1 => nemeses.first().copied().unwrap_or(CALM),
        _ => MIXED,
    }
}

/// The row of scenarios in which nothing strikes.
pub const CALM: &str = "no fault";
/// The row of scenarios in which several nemeses strike.
pub const MIXED: &str = "several at once";

/// What the runs of a row say about a property.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Runs in which it held.
    pub held: u64,
    /// Runs that did not say enough.
    pub unknown: u64,
    /// Runs in which it broke although it was promised.
    pub broken: u64,
    /// Runs in which it broke outside of what was promised.
    pub outside: u64,
    /// The first seed that broke it.
    pub seed: Option<u64>,
}

impl Cell {
    /// Adds what other runs say.
    pub fn add(&mut self, other: &Self) {
        self.held += other.held;
        self.unknown += other.unknown;
        self.broken += other.broken;
        self.outside += other.outside;
        self.seed = match (self.seed, other.seed) {
            (Some(one), Some(two)) => Some(one.min(two)),
            (one, two) => one.or(two),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drift_counts_only_for_those_who_promised_to_bear_it() {
        let drift = BTreeSet::from(["drift"]);
        let naive = Promises::mutex_on_one_node();
        assert_eq!(claim(naive, &drift, Property::Exclusion), Claim::Outside);
        assert_eq!(claim(naive, &drift, Property::Ownership), Claim::Holds);
        let careful = naive.with_deadline().with_drift_ppm(10_000);
        assert_eq!(claim(careful, &drift, Property::Exclusion), Claim::Holds);
        assert_eq!(
            claim(naive, &BTreeSet::from(["pause"]), Property::Exclusion),
            Claim::Holds
        );
    }

    #[test]
    fn a_server_that_forgets_is_outside_and_one_that_is_late_delays() {
        let careful = Promises::mutex_on_one_node().with_drift_ppm(10_000);
        let on = |nemesis, property| claim(careful, &BTreeSet::from([nemesis]), property);
        for nemesis in ["node-amnesia", "eviction", "failover", "suspend"] {
            assert_eq!(on(nemesis, Property::Exclusion), Claim::Outside);
            assert_eq!(on(nemesis, Property::Ownership), Claim::Holds);
        }
        assert_eq!(on("node-freeze", Property::Exclusion), Claim::Holds);
        assert_eq!(on("node-freeze", Property::Progress), Claim::Outside);
        assert_eq!(on("error-reply", Property::Progress), Claim::Holds);
    }

    #[test]
    fn rows_are_named_after_the_only_nemesis() {
        assert_eq!(row_of(&BTreeSet::new()), CALM);
        assert_eq!(row_of(&BTreeSet::from(["cut"])), "cut");
        assert_eq!(row_of(&BTreeSet::from(["cut", "pause"])), MIXED);
    }
}
