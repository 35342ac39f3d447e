//! From findings to verdicts: the promises of a lock under the faults of a scenario, and whether it kept
//! them.
//!
//! Verdicts are per property. A violation outside of the promises is reported as such and does not convict
//! the lock.

mod quorum;

use crate::{
    checker::{CHECKERS, Property, Witness},
    history::{History, Reading},
    scenario::{Event, Happening, Scenario, Topology},
    subject::{Fencing, Promises},
};
use std::{collections::BTreeSet, time::Duration};

/// Claim of a lock about a property under certain faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The property must hold.
    Holds,
    /// The property must hold while few enough of the lock's nodes fail.
    Quorum,
    /// The property is outside of the guarantee.
    Outside,
}

impl Claim {
    /// Returns true if the lock is to blame for a violation.
    #[must_use]
    pub fn blames(self, history: &History, property: Property, witness: &Witness) -> bool {
        match self {
            Self::Holds => true,
            Self::Quorum => quorum::stands(history, property, witness),
            Self::Outside => false,
        }
    }
}

/// Returns true if a lock keeps all of its promises under a nemesis, except for accesses of a resource
/// without fencing tokens.
#[must_use]
pub fn keeps(promises: Promises, nemesis: &str) -> bool {
    let mut judged = Property::ALL.into_iter().filter(|property| {
        *property != Property::Accesses && claim_of(promises, [], *property) != Claim::Outside
    });
    judged.all(|it| claim_of(promises, [nemesis], it) != Claim::Outside)
}

/// Returns the nemeses of a scenario as they are for a lock with these promises: a clock may be off by more or less than it
/// tolerates.
#[must_use]
pub fn nemeses_for(promises: Promises, scenario: &Scenario) -> BTreeSet<&'static str> {
    let faults = scenario.faults();
    faults
        .map(|(.., fault)| fault.nemesis_for(promises.drift_ppm))
        .collect()
}

/// Returns the time of the first fault under which a lock claims nothing about a property; `None` without
/// such a fault.
#[must_use]
pub fn first_outside(
    promises: Promises,
    scenario: &Scenario,
    property: Property,
) -> Option<Duration> {
    let outside = scenario.faults().filter(|(.., fault)| {
        let nemesis = fault.nemesis_for(promises.drift_ppm);
        claim_of(promises, [nemesis], property) == Claim::Outside
    });
    let first = outside.map(|(from, ..)| from).min();
    first.map(Duration::from_millis)
}

/// Returns the scenario without the faults that weaken the claim about a property; `None` without such
/// faults. A violation in this scenario convicts a lock that broke the property under those faults. A run
/// without a violation does not clear it.
#[must_use]
pub fn without_outside(
    promises: Promises,
    scenario: &Scenario,
    property: Property,
) -> Option<Scenario> {
    let stays = |event: &&Event| match event.happening {
        Happening::Fault { fault, .. } => {
            let nemesis = fault.nemesis_for(promises.drift_ppm);
            claim_of(promises, [nemesis], property) == Claim::Holds
        }
        Happening::Op { .. } => true,
    };
    let events: Vec<Event> = scenario.events.iter().filter(stays).cloned().collect();
    (events.len() < scenario.events.len()).then(|| Scenario {
        events,
        ..scenario.clone()
    })
}

/// Returns true if a safety property was broken before the first fault outside of the claim. Liveness
/// properties are excluded: the awaited event may still have happened in time.
#[must_use]
pub fn broke_before(
    promises: Promises,
    scenario: &Scenario,
    history: &History,
    property: Property,
) -> bool {
    let Some(at) = first_outside(promises, scenario, property).filter(|_| property.is_safety())
    else {
        return false;
    };
    let before = history.before(at);
    let checkers = CHECKERS
        .iter()
        .filter(|checker| checker.property() == property);
    let reading = Reading::of(&before);
    let mut findings = checkers.map(|checker| checker.judge(&reading));
    // All other faults remain part of the claim.
    let others = nemeses_for(promises, scenario).into_iter();
    let others = others.filter(|it| claim_of(promises, [*it], property) != Claim::Outside);
    let claim = claim(promises, &others.collect(), property);
    findings.any(|finding| {
        // A witness in the future has not happened yet.
        let witness = finding.witness().filter(|witness| witness.at.at < at);
        witness.is_some_and(|witness| claim.blames(&before, property, witness))
    })
}

fn claim_of<const N: usize>(promises: Promises, nemeses: [&str; N], property: Property) -> Claim {
    claim(promises, &BTreeSet::from(nemeses), property)
}

/// Effect of a fault on the guarantees of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cost {
    /// It affects availability at most.
    Nothing,
    /// A holder's message may arrive when it no longer holds the lock.
    Punctuality,
    /// Clock rates differ, within what most locks tolerate.
    Drift,
    /// A holder trusts its lease for longer than the servers keep it: its clock stood still.
    Belief,
    /// The same, and it takes the grants of others for expired: the rate of its clock exceeds any bound.
    Rate,
    /// A server drops a grant before the end of its lease.
    Memory,
    /// A server drops one key of a grant, and others may stay.
    Part,
    /// A server drops a grant, and released grants come back, because the writes were not replicated.
    Resurrection,
    /// There are two masters, and grants that were released at one of them come back.
    Unity,
    /// Leases end late: holders keep their locks, but waiters wait longer.
    Patience,
}

/// Returns the effect of a nemesis on a lock on one node.
fn cost(nemesis: &str) -> Cost {
    match nemesis {
        "pause" | "crash" | "delay" | "cut" | "partition" => Cost::Punctuality,
        "drift" | "node-drift" => Cost::Drift,
        "suspend" => Cost::Belief,
        "drift-beyond" => Cost::Rate,
        "node-amnesia" | "node-clock-forward" | "node-fast" => Cost::Memory,
        "eviction" => Cost::Part,
        "failover" => Cost::Resurrection,
        "split-brain" => Cost::Unity,
        "node-clock-back" | "node-slow" | "node-freeze" => Cost::Patience,
        _ => Cost::Nothing,
    }
}

/// Returns the claim of a lock with these promises about a property in a scenario with these nemeses.
///
/// On one node, delays, cuts, partitions, pauses, crashes and work past the lease do not affect exclusion
/// among holders: a holder with a deadline stops trusting its lease in time, and a lock without deadlines
/// claims nothing past the lease. Without fencing tokens they do affect the resource. Differing clock rates
/// depend on the promised tolerance. Servers that drop grants early can only be countered by more servers.
#[must_use]
pub fn claim(promises: Promises, nemeses: &BTreeSet<&str>, property: Property) -> Claim {
    // Keys without an end are judged of untidy locks too, and so are calls that wait and promise an answer.
    let tidies = match promises.answers && promises.waits {
        true => property == Property::Cancellation,
        false => matches!(property, Property::Cancellation | Property::LostReply),
    };
    if tidies && !promises.tidy {
        return Claim::Outside;
    }
    let borne = |nemesis: &str| match nemesis {
        // The promise is about grants: a release that the replica did not receive is undone until the lease ends.
        "failover" => promises.survives_failover && property != Property::CleanUp,
        "node-amnesia" | "eviction" => promises.survives_amnesia,
        _ => false,
    };
    let claims = nemeses
        .iter()
        .filter(|nemesis| !borne(nemesis))
        .map(|nemesis| under(promises, cost(nemesis), property));
    let weaker = |one, other| match (one, other) {
        (Claim::Outside, _) | (_, Claim::Outside) => Claim::Outside,
        (Claim::Quorum, _) | (_, Claim::Quorum) => Claim::Quorum,
        (Claim::Holds, Claim::Holds) => Claim::Holds,
    };
    claims.fold(Claim::Holds, weaker)
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "most properties are treated alike here"
)]
fn under(promises: Promises, cost: Cost, property: Property) -> Claim {
    let only_if = |holds: bool| if holds { Claim::Holds } else { Claim::Outside };
    let quorum = match promises.topology {
        Topology::Nodes(3..) => Claim::Quorum,
        Topology::Nodes(_) | Topology::Replicated { .. } => Claim::Outside,
    };
    let fenced = promises.fencing != Fencing::None;
    let lasting = promises.fencing == Fencing::Lasting;
    let guarded = fenced || promises.guards_resource;
    let unfenced = property == Property::Accesses && !guarded;
    let believed = believes(property) || unfenced;
    // A process that does not know how long it was suspended cannot be signalled in time.
    let unaware = property == Property::Renewal && matches!(cost, Cost::Belief | Cost::Rate);
    let is_by_clocks = property == Property::Ownership;
    match cost {
        Cost::Nothing => Claim::Holds,
        Cost::Punctuality => only_if(!unfenced),
        // A drift beyond the promise is another nemesis: see [`nemeses_for`]. A lock that compares deadlines on its clients' clocks
        // takes the grants of others for expired.
        Cost::Drift => only_if(promises.drift_ppm > 0 || !(believed || is_by_clocks)),
        Cost::Rate => only_if(!believed && !unaware && !is_by_clocks),
        Cost::Belief => only_if(!believed && !unaware),
        Cost::Resurrection | Cost::Unity if property == Property::CleanUp => Claim::Outside,
        Cost::Part if needs_all_keys(property) => only_if(quorum != Claim::Outside),
        Cost::Memory | Cost::Part | Cost::Resurrection if believed => quorum,
        // These counts exist only on the server.
        Cost::Memory | Cost::Part | Cost::Resurrection => match property {
            Property::Accesses | Property::Fencing => only_if(lasting),
            // The same clock orders the queue, and the same keys store it.
            Property::Admission | Property::Latch | Property::Fairness => Claim::Outside,
            // A renewal has to find the lease on the servers. On one node the checker accounts for that
            // itself.
            Property::Renewal => match quorum {
                Claim::Outside => Claim::Holds,
                Claim::Holds | Claim::Quorum => quorum,
            },
            _ => Claim::Holds,
        },
        // Two masters may mint equal tokens; the resource refuses the second.
        Cost::Unity => match property {
            Property::Fencing
            | Property::Admission
            | Property::Latch
            | Property::Fairness
            | Property::Renewal => Claim::Outside,
            _ => only_if(!believed),
        },
        Cost::Patience if waits_for_leases(property) => quorum,
        Cost::Patience => Claim::Holds,
    }
}

/// Returns true if a property is about the beliefs of holders.
const fn believes(property: Property) -> bool {
    matches!(
        property,
        Property::Exclusion | Property::Linearizable | Property::GroundedBelief
    )
}

/// Returns true if a property is about what the keys of a grant say together: some of them without the others are no grant.
const fn needs_all_keys(property: Property) -> bool {
    matches!(
        property,
        Property::Ownership | Property::CleanUp | Property::Truth
    )
}

/// Returns true if a property is about an effect that the end of a lease has at the latest.
const fn waits_for_leases(property: Property) -> bool {
    matches!(
        property,
        Property::Progress | Property::Liveness | Property::Cancellation
    )
}

/// Returns the row of the verdict matrix to which a scenario belongs.
#[must_use]
pub fn row_of(nemeses: &BTreeSet<&'static str>) -> &'static str {
    match nemeses.len() {
        0 => CALM,
        1 => nemeses.first().copied().unwrap_or(CALM),
        _ => MIXED,
    }
}

/// Row of scenarios without faults.
pub const CALM: &str = "no fault";
/// Row of scenarios with several nemeses.
pub const MIXED: &str = "several faults";

/// Results of a property in the runs of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Number of runs in which the property held.
    pub held: u64,
    /// Number of runs without enough evidence.
    pub unknown: u64,
    /// Number of runs in which the property broke although it was promised.
    pub broken: u64,
    /// Number of runs in which the property broke outside of the promises.
    pub outside: u64,
    /// First seed that broke it.
    pub seed: Option<u64>,
}

impl Cell {
    /// Adds the results of other runs.
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
    use crate::scenario::{Fault, generate::Generator};

    #[test]
    fn drift_counts_only_for_locks_that_promise_to_tolerate_it() {
        let drift = BTreeSet::from(["drift"]);
        let naive = Promises::mutex_on_one_node();
        assert_eq!(claim(naive, &drift, Property::Exclusion), Claim::Outside);
        assert_eq!(claim(naive, &drift, Property::Ownership), Claim::Outside);
        assert_eq!(claim(naive, &drift, Property::CleanUp), Claim::Holds);
        let careful = naive.with_deadline().with_drift_ppm(10_000);
        assert_eq!(claim(careful, &drift, Property::Exclusion), Claim::Holds);
        assert_eq!(claim(careful, &drift, Property::Ownership), Claim::Holds);
        let beyond = BTreeSet::from(["drift-beyond"]);
        assert_eq!(claim(careful, &beyond, Property::Ownership), Claim::Outside);
        let suspended = BTreeSet::from(["suspend"]);
        assert_eq!(
            claim(careful, &suspended, Property::Ownership),
            Claim::Holds
        );
        assert_eq!(
            claim(naive, &BTreeSet::from(["pause"]), Property::Exclusion),
            Claim::Holds
        );
    }

    #[test]
    fn a_clock_may_be_off_by_half_of_the_drift_that_a_lock_tolerates() {
        let of = |tolerated, ppm| {
            let client = Fault::Drift { host: 0, ppm };
            let node = Fault::NodeDrift { node: 0, ppm };
            [client, node].map(|fault| fault.nemesis_for(tolerated))
        };
        assert_eq!(of(0, 9_000), ["drift-beyond", "node-fast"]);
        assert_eq!(of(0, 100), ["drift", "node-drift"]);
        assert_eq!(of(9_000, 4_500), ["drift", "node-drift"]);
        assert_eq!(of(9_000, 4_501), ["drift-beyond", "node-fast"]);
        assert_eq!(of(9_000, -4_501), ["drift-beyond", "node-slow"]);
        assert_eq!(of(100_000, -50_000), ["drift", "node-drift"]);
        let promises = Promises::mutex_on_one_node().with_drift_ppm(1_000);
        let scenarios = |name| {
            let generator = Generator::of(promises, Some(name));
            (0..20).map(move |seed| generator.scenario(seed))
        };
        let all = scenarios("drift").chain(scenarios("node-drift"));
        let names: BTreeSet<_> = all.flat_map(|it| nemeses_for(promises, &it)).collect();
        assert_eq!(names, BTreeSet::from(["drift", "node-drift"]));
    }

    #[test]
    fn a_server_that_drops_grants_is_outside_and_a_late_one_delays() {
        let careful = Promises::mutex_on_one_node().with_drift_ppm(10_000);
        let on = |nemesis, property| claim(careful, &BTreeSet::from([nemesis]), property);
        for nemesis in ["node-amnesia", "failover", "suspend"] {
            assert_eq!(on(nemesis, Property::Exclusion), Claim::Outside);
            assert_eq!(on(nemesis, Property::Ownership), Claim::Holds);
        }
        // A grant may consist of several keys, one of which is evicted.
        let evicted = [
            Property::Exclusion,
            Property::Ownership,
            Property::Truth,
            Property::CleanUp,
        ];
        for property in evicted {
            assert_eq!(on("eviction", property), Claim::Outside);
        }
        assert_eq!(on("eviction", Property::Progress), Claim::Holds);
        assert_eq!(on("node-freeze", Property::Exclusion), Claim::Holds);
        assert_eq!(on("node-freeze", Property::Progress), Claim::Outside);
        assert_eq!(on("node-freeze", Property::Liveness), Claim::Outside);
        assert_eq!(on("answer-error", Property::Progress), Claim::Holds);
        assert_eq!(on("failover", Property::CleanUp), Claim::Outside);
        let surviving = careful.surviving_failover();
        let failover = BTreeSet::from(["failover"]);
        assert_eq!(
            claim(surviving, &failover, Property::CleanUp),
            Claim::Outside
        );
        assert_eq!(
            claim(surviving, &failover, Property::Exclusion),
            Claim::Holds
        );
        assert_eq!(on("node-crash", Property::CleanUp), Claim::Holds);
        for nemesis in [
            "cut",
            "delay",
            "partition",
            "pause",
            "suspend",
            "node-freeze",
        ] {
            for property in [Property::Truth, Property::Timeouts] {
                assert_eq!(on(nemesis, property), Claim::Holds, "{nemesis}, {property}");
            }
            // A process on a suspended machine cannot be signalled in time.
            let renewal = match nemesis {
                "suspend" => Claim::Outside,
                _ => Claim::Holds,
            };
            assert_eq!(on(nemesis, Property::Renewal), renewal, "{nemesis}");
        }
    }

    #[test]
    fn a_stronger_claim_has_to_hold() {
        let on =
            |promises, nemesis, property| claim(promises, &BTreeSet::from([nemesis]), property);
        let bare = Promises::mutex_on_one_node();
        let bold = bare.surviving_amnesia().guarding_the_resource();
        for nemesis in ["node-amnesia", "eviction"] {
            assert_eq!(on(bold, nemesis, Property::Exclusion), Claim::Holds);
            assert_eq!(on(bare, nemesis, Property::Exclusion), Claim::Outside);
        }
        assert_eq!(on(bold, "failover", Property::Exclusion), Claim::Outside);
        for nemesis in ["pause", "delay", "suspend"] {
            assert_eq!(on(bold, nemesis, Property::Accesses), Claim::Holds);
            assert_eq!(on(bare, nemesis, Property::Accesses), Claim::Outside);
        }
    }

    #[test]
    fn the_resource_needs_fencing_tokens_if_messages_are_late() {
        let bare = Promises::mutex_on_one_node().with_deadline();
        let on =
            |promises, nemesis, property| claim(promises, &BTreeSet::from([nemesis]), property);
        let fenced = |fencing| bare.with_fencing(fencing);
        for nemesis in [
            "pause",
            "crash",
            "delay",
            "cut",
            "partition",
            "suspend",
            "drift-beyond",
        ] {
            assert_eq!(on(bare, nemesis, Property::Accesses), Claim::Outside);
            let counter = fenced(Fencing::Counter);
            assert_eq!(on(counter, nemesis, Property::Accesses), Claim::Holds);
        }
        assert_eq!(on(bare, "overwork", Property::Accesses), Claim::Holds);
        for property in [Property::Accesses, Property::Fencing] {
            let forgotten = |fencing| on(fenced(fencing), "failover", property);
            assert_eq!(forgotten(Fencing::Counter), Claim::Outside);
            assert_eq!(forgotten(Fencing::Lasting), Claim::Holds);
        }
        let two_masters = |property| on(fenced(Fencing::Lasting), "split-brain", property);
        assert_eq!(two_masters(Property::Accesses), Claim::Holds);
        assert_eq!(two_masters(Property::Fencing), Claim::Outside);
    }

    #[test]
    fn several_nodes_tolerate_that_few_of_them_drop_a_grant() {
        let redlock = Promises::mutex_on_one_node()
            .with_deadline()
            .with_drift_ppm(10_000)
            .on(Topology::Nodes(5));
        let on = |nemeses: &[&'static str], property| {
            claim(redlock, &nemeses.iter().copied().collect(), property)
        };
        assert_eq!(on(&["node-amnesia"], Property::Exclusion), Claim::Quorum);
        assert_eq!(on(&["node-slow"], Property::Progress), Claim::Quorum);
        assert_eq!(on(&["suspend"], Property::Exclusion), Claim::Outside);
        let both = on(&["eviction", "suspend"], Property::GroundedBelief);
        assert_eq!(both, Claim::Outside);
        assert_eq!(on(&["node-amnesia"], Property::Continuity), Claim::Holds);
    }

    #[test]
    fn rows_are_named_after_the_only_nemesis() {
        assert_eq!(row_of(&BTreeSet::new()), CALM);
        assert_eq!(row_of(&BTreeSet::from(["cut"])), "cut");
        assert_eq!(row_of(&BTreeSet::from(["cut", "pause"])), MIXED);
    }
}
