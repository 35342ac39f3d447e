//! Generates a scenario from a seed. proptest strategies define the possible scenarios; the seed alone
//! selects one.
//!
//! Seeds take turns: one without faults, one for each nemesis alone, some with several at once. So each row
//! of the verdict matrix gets its share of runs.

use super::{
    Event, Happening, Scenario, Schedule, Topology,
    aim::{Aim, Aimed},
    nemesis::{HOSTS_MAX, NEMESES, Nemesis, Strike},
    times::{self, Times},
    workload,
};
use crate::vocabulary::{OpId, Promises};
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use std::ops::Range;

/// Leases to which proportional scenarios are scaled.
const LEASES_MS: Range<u64> = 2_000..60_000;

/// Number of turns with several nemeses per round in which each nemesis has one turn alone. Mixed turns find
/// the most violations.
const MIXED_TURNS: usize = 5;

/// Number of these turns that draw from all nemeses. The others draw from the nemeses under which the lock
/// keeps its promises: a run with any other fault can hardly convict the lock.
const OPEN_TURNS: usize = 1;

/// Share of scenarios in which the first client process has two tasks that use the lock. Mistakes with what a process keeps for
/// all its grants show in them.
const SECOND_TASK: f64 = 0.35;

/// How scenarios get their lease and their other times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timing {
    /// Each scenario draws its lease, from 100 ms to 10 minutes and in odd milliseconds, and on their own its latency and its
    /// request timeout.
    #[default]
    DrawnTimes,
    /// Each scenario draws its lease, from 2 to 60 seconds. All other times are in proportion to it: a request waits for a sixth
    /// of the lease.
    DrawnLease,
    /// All scenarios have this lease, in milliseconds, and all times in proportion to it.
    Lease(u64),
}

/// Generator of scenarios. It builds the strategies once, which is cheaper than once per seed.
pub struct Generator {
    promises: Promises,
    /// The nemeses of each turn.
    nemeses: Vec<Vec<&'static dyn Nemesis>>,
    turns: Vec<BoxedStrategy<Scenario>>,
    timing: Timing,
}

impl Default for Generator {
    fn default() -> Self {
        Self::new(None)
    }
}

impl Generator {
    /// Makes a generator for a mutex on one node; see [`of`](Self::of).
    #[must_use]
    pub fn new(only: Option<&str>) -> Self {
        Self::of(Promises::mutex_on_one_node(), only)
    }

    /// Makes a generator for locks with these promises. With `only` all turns use the nemesis of this name.
    #[must_use]
    pub fn of(promises: Promises, only: Option<&str>) -> Self {
        Self::within(promises, only, |_| true)
    }

    /// Makes a generator whose mixed turns mostly draw from the nemeses for which `within` returns true.
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
        let nemeses = chosen.collect();
        let generator = Self {
            promises,
            nemeses,
            turns: Vec::new(),
            timing: Timing::default(),
        };
        generator.built()
    }

    /// Returns the generator with other times.
    #[must_use]
    pub fn timed(mut self, timing: Timing) -> Self {
        let rebuilds = (self.timing == Timing::DrawnTimes) != (timing == Timing::DrawnTimes);
        self.timing = timing;
        if rebuilds { self.built() } else { self }
    }

    fn built(mut self) -> Self {
        let nemeses = self.nemeses.iter();
        let turns = nemeses.map(|nemeses| match self.timing {
            Timing::DrawnTimes => scenarios(self.promises, nemeses, times::drawn()),
            Timing::DrawnLease | Timing::Lease(_) => {
                scenarios(self.promises, nemeses, times::proportional())
            }
        });
        self.turns = turns.collect();
        self
    }

    /// Returns the nemeses that can strike on these servers, in the order of their turns.
    pub fn nemeses(topology: Topology) -> impl Iterator<Item = &'static dyn Nemesis> {
        let all = NEMESES.iter().copied();
        all.filter(move |nemesis| nemesis.applies(topology))
    }

    /// Returns true if there is nothing to generate, because the only nemesis does not apply.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Generates the scenario of a seed.
    ///
    /// # Panics
    /// If the generator was made for an unknown nemesis.
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
        let mut scenario = drawn(&self.turns[turn], &mut runner);
        scenario.seed = seed;
        match self.timing {
            Timing::DrawnTimes => scenario,
            Timing::DrawnLease => scenario.scaled(drawn(&LEASES_MS, &mut runner)),
            Timing::Lease(lease_ms) => scenario.scaled(lease_ms),
        }
    }
}

/// A strategy without filters always produces a value.
fn drawn<T>(strategy: &impl Strategy<Value = T>, runner: &mut TestRunner) -> T {
    let tree = strategy.new_tree(runner);
    tree.map_or_else(|why| unreachable!("{why}"), |tree| tree.current())
}

fn scenarios(
    promises: Promises,
    nemeses: &[&'static dyn Nemesis],
    times: BoxedStrategy<Times>,
) -> BoxedStrategy<Scenario> {
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
    let accesses = nemeses.iter().all(|nemesis| nemesis.strikes_accesses());
    let accesses = accesses && !nemeses.is_empty();
    let workload = workload::of(promises, overwork, accesses);
    let shape = (
        2..=HOSTS_MAX,
        prop::bool::weighted(SECOND_TASK),
        prop::bool::weighted(0.3),
    );
    (shape, workload, strikes, times, schedule)
        .prop_map(
            move |((hosts, second_task, kept), workload, strikes, times, schedule)| {
                let actors = workload.actors(hosts, second_task);
                let mut events: Vec<(u64, Happening)> = Vec::new();
                for (nth, actor) in actors.into_iter().enumerate() {
                    let ops = workload.ops(nth, kept).into_iter();
                    events.extend(ops.map(|(at, op)| {
                        (
                            times.ms(at),
                            Happening::Op {
                                actor,
                                op: op.map_ms(|units| times.ms(units)),
                            },
                        )
                    }));
                }
                let faults = strikes
                    .into_iter()
                    .flatten()
                    .map(|strike| Strike {
                        fault: strike.fault.within_drift(promises.drift_ppm),
                        ..strike
                    })
                    .filter_map(|strike| Some((strike, strike.event(hosts, topology, times)?)));
                let aims: Vec<_> = faults
                    .map(|(strike, fault)| {
                        let aim = Aim::new(strike.at, strike.length, fault.host());
                        aim.at_an_operation(fault, &events, times, workload.visits())
                    })
                    .collect();
                let lasts = aims.iter().filter_map(Aimed::last);
                let last = lasts.min_by_key(|last| last.at);
                events.extend(aims.into_iter().map(|it| (it.at, it.fault)));
                let times = match last {
                    Some(last) => {
                        last.end(&mut events);
                        times.to_clean_up()
                    }
                    None => times,
                };
                events.sort_by_key(|&(at, _)| at);
                let events = events.into_iter().zip(0..);
                let events = events.map(|((at_ms, happening), id): (_, OpId)| Event {
                    id,
                    at_ms,
                    happening,
                });
                Scenario {
                    seed: 0,
                    lease_ms: times.lease,
                    schedule,
                    latency_ms: times.latency,
                    timeout_ms: times.timeout,
                    topology,
                    events: events.collect(),
                }
            },
        )
        .boxed()
}

impl Strike {
    /// Returns the fault as an event, if it can strike on these servers.
    fn event(self, hosts: u8, topology: Topology, times: Times) -> Option<Happening> {
        let servers = topology.servers();
        // Where drifts overlap, their rates would add up past the bound.
        let fault = self.fault;
        let nowhere = fault.host().is_some_and(|host| host >= hosts)
            || fault.node().is_some_and(|node| node >= servers);
        if nowhere && matches!(fault.nemesis(), "drift" | "node-drift") {
            return None;
        }
        let fault = fault
            .with_host(|host| host % hosts)
            .with_node(|node| node % servers)
            .map_ms(|units| times.ms(units));
        let fault = match topology.addresses() {
            1 => fault.on_all_links(),
            _ => fault,
        };
        let for_ms = times.ms(self.length);
        Some(Happening::Fault { for_ms, fault })
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
    fn a_scenario_has_the_times_that_were_chosen() {
        let of = |timing| {
            let generator = Generator::default().timed(timing);
            move |seed| generator.scenario(seed)
        };
        let (fixed, lease, times) = (
            of(Timing::Lease(7_999)),
            of(Timing::DrawnLease),
            of(Timing::DrawnTimes),
        );
        let leases: BTreeSet<u64> = (0..50).map(|seed| lease(seed).lease_ms).collect();
        assert!(leases.len() > 40 && leases.iter().all(|it| LEASES_MS.contains(it)));
        for seed in 0..50 {
            assert_eq!(
                (fixed(seed).lease_ms, fixed(seed).timeout_ms),
                (7_999, None)
            );
            let shapes =
                [fixed(seed), lease(seed)].map(|it| it.scaled(times::LEASE_MS).events.len());
            assert_eq!(shapes[0], shapes[1], "seed {seed}");
            assert_eq!(lease(seed).timeout_ms, None);
            assert!(times(seed).timeout_ms.is_some());
        }
        let short = (0..50).any(|seed| times(seed).lease_ms < LEASES_MS.start);
        let long = (0..50).any(|seed| LEASES_MS.end < times(seed).lease_ms);
        assert!(short && long);
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
