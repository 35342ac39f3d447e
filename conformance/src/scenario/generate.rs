//! From a seed to a scenario. proptest's strategies say what there can be; the seed alone decides
//! what there is.
//!
//! Seeds take turns: one without faults, one for each nemesis alone, some with several at once. So
//! each row of the verdict matrix gets its share of runs.

use super::{
    Event, Fault, Happening, Op, Scenario, Schedule, Topology,
    nemesis::{HOSTS_MAX, NEMESES, Nemesis, Strike, UNITS_PER_LEASE},
    workload,
};
use crate::{
    history::{Actor, OpId},
    subject::Promises,
};
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

/// The lease of generated scenarios, in milliseconds.
pub const LEASE_MS: u64 = 30_000;

/// How often the turn of several nemeses at once comes while each comes alone once: that is where
/// the most happens.
const MIXED_TURNS: usize = 5;

/// So many of these turns draw from all nemeses. The others draw from those under which a lock keeps its promises, since a
/// run in which something else strikes as well can hardly convict it.
const OPEN_TURNS: usize = 1;

/// Makes scenarios; building the strategies once is cheaper than once per seed.
pub struct Generator {
    turns: Vec<BoxedStrategy<Scenario>>,
}

impl Default for Generator {
    fn default() -> Self {
        Self::new(None)
    }
}

impl Generator {
    /// A generator for a mutex on one node, see [`of`](Self::of).
    #[must_use]
    pub fn new(only: Option<&str>) -> Self {
        Self::of(Promises::mutex_on_one_node(), only)
    }

    /// A generator for locks of this kind that takes turns, or one that stays with the nemesis of a
    /// given name.
    #[must_use]
    pub fn of(promises: Promises, only: Option<&str>) -> Self {
        Self::within(promises, only, |_| true)
    }

    /// The same, where most turns of several nemeses at once draw from those whose names are `within` the promise.
    #[must_use]
    pub fn within(promises: Promises, only: Option<&str>, within: impl Fn(&str) -> bool) -> Self {
        let striking = || Self::nemeses(promises.topology);
        let single = striking().map(|nemesis| vec![nemesis]);
        let open: Vec<_> = striking().filter(|it| !it.is_beyond()).collect();
        let kept = open
            .iter()
            .copied()
            .filter(|it| within(it.name()))
            .collect();
        let open = std::iter::repeat_n(open, OPEN_TURNS);
        let mixed = std::iter::repeat_n(kept, MIXED_TURNS - OPEN_TURNS).chain(open);
        let turns = std::iter::once(vec![]).chain(single).chain(mixed);
        let chosen = turns.filter(|nemeses| match only {
            None => true,
            Some(name) => nemeses.len() == 1 && nemeses[0].name() == name,
        });
        Self {
            turns: chosen
                .map(|nemeses| scenarios(promises, &nemeses))
                .collect(),
        }
    }

    /// The nemeses that can strike on these servers, in the order of their turns.
    pub fn nemeses(topology: Topology) -> impl Iterator<Item = &'static dyn Nemesis> {
        let all = NEMESES.iter().copied();
        all.filter(move |nemesis| nemesis.applies(topology))
    }

    /// Whether there is anything to generate: not if the only nemesis does not apply.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// The scenario of a seed.
    ///
    /// # Panics
    /// If the generator was made for a nemesis that does not exist.
    #[must_use]
    pub fn scenario(&self, seed: u64) -> Scenario {
        let turns = u64::try_from(self.turns.len()).unwrap_or(1);
        let turn = usize::try_from(seed % turns).unwrap_or(0);
        let mut entropy = [0; 32];
        entropy[..8].copy_from_slice(&seed.to_le_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &entropy);
        let config = Config {
            failure_persistence: None,
            ..Config::default()
        };
        let mut runner = TestRunner::new_with_rng(config, rng);
        // A strategy without filters never refuses.
        let tree = self.turns[turn].new_tree(&mut runner);
        let mut scenario = tree.map_or_else(|why| unreachable!("{why}"), |tree| tree.current());
        scenario.seed = seed;
        scenario
    }
}

fn scenarios(promises: Promises, nemeses: &[&'static dyn Nemesis]) -> BoxedStrategy<Scenario> {
    let topology = promises.topology;
    let overwork = nemeses.iter().any(|nemesis| nemesis.overworks());
    let several = nemeses.len() > 1;
    let strikes: Vec<BoxedStrategy<Vec<Strike>>> = nemeses
        .iter()
        .map(|nemesis| {
            let strikes = nemesis.strikes();
            if several {
                prop_oneof![Just(vec![]), strikes].boxed()
            } else {
                strikes
            }
        })
        .collect();
    let schedule = prop_oneof![
        6 => Just(Schedule::Random),
        3 => Just(Schedule::Pct),
        1 => Just(Schedule::Fifo),
    ];
    let workload = workload::of(promises, overwork);
    let shape = (
        2..=HOSTS_MAX,
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.3),
    );
    // A near network, or a slow one: a lease in thirty round trips.
    let latency_ms = prop_oneof![2 => 0..4_u64, 1 => 100..LEASE_MS / 30];
    (shape, workload, strikes, latency_ms, schedule)
        .prop_map(
            move |((hosts, second_task, kept), workload, strikes, latency_ms, schedule)| {
                let mut actors: Vec<Actor> = (0..hosts).map(Actor::on).collect();
                if second_task {
                    actors.push(Actor { host: 0, task: 1 });
                }
                let mut events: Vec<(u64, Happening)> = Vec::new();
                for (nth, actor) in actors.into_iter().enumerate() {
                    let ops = workload.ops(nth, kept).into_iter();
                    events.extend(ops.map(|(at, op)| {
                        (
                            ms(at),
                            Happening::Op {
                                actor,
                                op: op.map_ms(ms),
                            },
                        )
                    }));
                }
                let faults = strikes
                    .into_iter()
                    .flatten()
                    .filter_map(|strike| strike.event(hosts, topology));
                let faults: Vec<_> = faults
                    .map(|fault| aimed(fault, &events, latency_ms, workload.visits()))
                    .collect();
                events.extend(faults);
                events.sort_by_key(|&(at, _)| at);
                let events = events.into_iter().zip(0..);
                let events = events.map(|((at_ms, happening), id): (_, OpId)| Event {
                    id,
                    at_ms,
                    happening,
                });
                Scenario {
                    seed: 0,
                    lease_ms: LEASE_MS,
                    schedule,
                    latency_ms,
                    timeout_ms: None,
                    topology,
                    events: events.collect(),
                }
            },
        )
        .boxed()
}

const fn ms(units: u64) -> u64 {
    units * LEASE_MS / UNITS_PER_LEASE
}

/// Up to so many messages of an operation are aimed at.
const MESSAGES: u64 = 5;

/// Every other fault begins together with an operation, or some messages later: that is where it
/// hurts. Where clients mostly go to the resource, half of those that make them late meet them on their
/// way there, and last until it is the next one's turn.
/// On average a message takes half of what it may take.
fn aimed(
    (at, fault): (u64, Happening),
    ops: &[(u64, Happening)],
    latency_ms: u64,
    visits: bool,
) -> (u64, Happening) {
    let (struck, host) = match fault {
        Happening::Fault { fault, .. } if at.is_multiple_of(ms(2)) => (fault, fault.host()),
        Happening::Fault { .. } | Happening::Op { .. } => return (at, fault),
    };
    // What befalls a node befalls whoever comes next.
    let theirs = ops.iter().filter_map(|&(begins, ref op)| match *op {
        Happening::Op { actor, op } => {
            let ahead = begins >= at && host.is_none_or(|host| host == actor.host);
            ahead.then_some((begins, op))
        }
        Happening::Fault { .. } => None,
    });
    let accesses = theirs.clone().filter(|&(_, op)| op == Op::Access);
    let visits = visits && makes_late(struck) && at.is_multiple_of(ms(4));
    let next = if visits {
        accesses.map(|(begins, _)| begins).min()
    } else {
        None
    };
    let next = next.or_else(|| theirs.map(|(begins, _)| begins).min());
    let into = at / ms(2) % MESSAGES * latency_ms / 2;
    let begins = next.map_or(at, |begins| begins + into);
    if visits && lasts(struck) {
        (
            begins,
            until_the_next(begins, fault, ops, ms(at / ms(4) % AFTER)),
        )
    } else {
        (begins, fault)
    }
}

/// So many units after the end of a lease the next one is at the resource.
const AFTER: u64 = 32;

/// The fault, if it ends, ends a while after the lease of the client that it strikes.
fn until_the_next(
    begins: u64,
    fault: Happening,
    ops: &[(u64, Happening)],
    after: u64,
) -> Happening {
    let Happening::Fault { for_ms, fault } = fault else {
        return fault;
    };
    let taken = ops.iter().filter(|(at, op)| match *op {
        Happening::Op { actor, op } => {
            Some(actor.host) == fault.host() && op.mode().is_some() && *at <= begins
        }
        Happening::Fault { .. } => false,
    });
    let over = taken.map(|&(at, _)| at + LEASE_MS + after).max();
    let for_ms = over
        .and_then(|over| over.checked_sub(begins))
        .unwrap_or(for_ms);
    Happening::Fault { for_ms, fault }
}

/// Whether a client is late for as long as the fault lasts.
const fn lasts(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::Pause { .. } | Fault::Suspend { .. } | Fault::Partition { .. }
    )
}

/// Whether what a client has begun ends late because of it.
const fn makes_late(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::Pause { .. } | Fault::Suspend { .. } | Fault::Delay { .. } | Fault::Partition { .. }
    )
}

impl Strike {
    /// The fault as an event, if it can strike there.
    fn event(self, hosts: u8, topology: Topology) -> Option<(u64, Happening)> {
        let servers = topology.servers();
        // Where such spans overlap they would add up past the bound.
        let fault = self.fault;
        let nowhere = fault.host().is_some_and(|host| host >= hosts)
            || fault.node().is_some_and(|node| node >= servers);
        if nowhere && matches!(fault.nemesis(), "drift" | "node-drift") {
            return None;
        }
        let fault = fault
            .with_host(|host| host % hosts)
            .with_node(|node| node % servers)
            .map_ms(ms);
        let fault = match topology.addresses() {
            1 => fault.on_all_links(),
            _ => fault,
        };
        let for_ms = ms(self.length);
        Some((ms(self.at), Happening::Fault { for_ms, fault }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_seed_is_a_scenario() {
        let (one, other) = (Generator::default(), Generator::default());
        for seed in 0..50 {
            assert_eq!(one.scenario(seed), other.scenario(seed));
        }
        assert_ne!(one.scenario(8).events, one.scenario(16).events);
    }

    #[test]
    fn seeds_take_turns() {
        let generator = Generator::default();
        let of = |seed| {
            generator
                .scenario(seed)
                .nemeses()
                .into_iter()
                .collect::<Vec<_>>()
        };
        assert_eq!(of(0), [] as [&str; 0]);
        for (nemesis, seed) in Generator::nemeses(Topology::ONE).zip(1..) {
            let others: BTreeSet<_> = of(seed)
                .into_iter()
                .filter(|name| *name != nemesis.name())
                .collect();
            assert_eq!(others, BTreeSet::new(), "seed {seed}");
        }
        let promises = Promises::mutex_on_one_node();
        let within = Generator::within(promises, None, |name| name != "drift");
        let turns = 1 + Generator::nemeses(Topology::ONE).count() + MIXED_TURNS;
        let drifts = |seed: usize| {
            let mut seeds = (seed..).step_by(turns).take(20);
            seeds.any(|seed| within.scenario(seed as u64).nemeses().contains("drift"))
        };
        let mixed: Vec<bool> = (turns - MIXED_TURNS..turns).map(drifts).collect();
        assert_eq!(mixed, [false, false, false, false, true]);
        let only = Generator::new(Some("cut"));
        assert!((0..20).all(|seed| only.scenario(seed).nemeses().into_iter().eq(["cut"])));
    }
}
