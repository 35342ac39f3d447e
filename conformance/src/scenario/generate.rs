//! From a seed to a scenario. proptest's strategies say what there can be; the seed alone decides
//! what there is.
//!
//! Seeds take turns: one without faults, one for each nemesis alone, one with several at once. So
//! each row of the verdict matrix gets its share of runs.

use super::{
    Event, Fault, Happening, Op, Scenario, Schedule,
    nemesis::{HOSTS_MAX, NEMESES, Nemesis, Strike, UNITS_PER_LEASE},
};
use crate::history::{Actor, OpId};
use proptest::{
    collection::vec,
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

/// The lease of generated scenarios, in milliseconds.
pub const LEASE_MS: u64 = 30_000;

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
    /// A generator that takes turns, or one that stays with the nemesis of a given name.
    #[must_use]
    pub fn new(only: Option<&str>) -> Self {
        let calm: [&[&dyn Nemesis]; 1] = [&[]];
        let single = NEMESES.chunks(1);
        let turns = calm.into_iter().chain(single).chain([NEMESES]);
        let chosen = turns.filter(|nemeses| match only {
            None => true,
            Some(name) => nemeses.len() == 1 && nemeses[0].name() == name,
        });
        Self {
            turns: chosen.map(scenarios).collect(),
        }
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

/// One round of an actor; times in units.
#[derive(Clone, Copy, Debug)]
struct Cycle {
    gap: u64,
    how: How,
    hold: u64,
    renew: bool,
    end: Op,
}

#[derive(Clone, Copy, Debug)]
enum How {
    Try,
    Wait(u64),
    Cancel(u64, u32),
}

fn cycle(overwork: bool) -> impl Strategy<Value = Cycle> {
    let how = prop_oneof![
        2 => Just(How::Try),
        6 => (10..240_u64).prop_map(How::Wait),
        1 => (10..240_u64, 1..8_u32).prop_map(|(wait, polls)| How::Cancel(wait, polls)),
    ];
    // Near the end of the lease is where checks and acts fall apart.
    let short = prop_oneof![5 => 0..80_u64, 1 => 108..120_u64];
    let hold = if overwork {
        prop_oneof![1 => short, 1 => 121..220_u64].boxed()
    } else {
        short.boxed()
    };
    let end = prop_oneof![4 => Just(Op::Release), 1 => Just(Op::Drop)];
    (0..40_u64, how, hold, prop::bool::weighted(0.2), end).prop_map(
        |(gap, how, hold, renew, end)| Cycle {
            gap,
            how,
            hold,
            renew,
            end,
        },
    )
}

fn scenarios(nemeses: &[&dyn Nemesis]) -> BoxedStrategy<Scenario> {
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
    let cycles = vec(vec(cycle(overwork), 2..6), usize::from(HOSTS_MAX) + 1);
    let shape = (
        2..=HOSTS_MAX,
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.3),
    );
    // A near network, or a slow one: a lease in thirty round trips.
    let latency_ms = prop_oneof![2 => 0..4_u64, 1 => 100..LEASE_MS / 30];
    (shape, cycles, strikes, latency_ms, schedule)
        .prop_map(
            |((hosts, second_task, kept), cycles, strikes, latency_ms, schedule)| {
                let mut actors: Vec<Actor> = (0..hosts).map(Actor::on).collect();
                if second_task {
                    actors.push(Actor { host: 0, task: 1 });
                }
                let mut events: Vec<(u64, Happening)> = Vec::new();
                for (actor, cycles) in actors.into_iter().zip(&cycles) {
                    events.extend(play(actor, cycles, kept));
                }
                let faults = strikes
                    .into_iter()
                    .flatten()
                    .map(|strike| strike.event(hosts));
                let faults: Vec<_> = faults.map(|fault| aimed(fault, &events)).collect();
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
                    events: events.collect(),
                }
            },
        )
        .boxed()
}

const fn ms(units: u64) -> u64 {
    units * LEASE_MS / UNITS_PER_LEASE
}

/// Every other fault begins together with an operation of its client: that is where it hurts.
fn aimed((at, fault): (u64, Happening), ops: &[(u64, Happening)]) -> (u64, Happening) {
    let host = match fault {
        Happening::Fault { fault, .. } if at % ms(2) == 0 => fault.host(),
        Happening::Fault { .. } | Happening::Op { .. } => return (at, fault),
    };
    let theirs = ops
        .iter()
        .filter(|(_, op)| matches!(op, Happening::Op { actor, .. } if actor.host == host));
    let next = theirs
        .map(|&(begins, _)| begins)
        .filter(|&begins| begins >= at)
        .min();
    (next.unwrap_or(at), fault)
}

/// The events of one actor. `kept`: its last grant is never given back.
fn play(actor: Actor, cycles: &[Cycle], kept: bool) -> Vec<(u64, Happening)> {
    let mut events = Vec::new();
    let mut at = 0;
    let mut push = |at, op| events.push((ms(at), Happening::Op { actor, op }));
    for (index, cycle) in cycles.iter().enumerate() {
        at += cycle.gap;
        push(
            at,
            match cycle.how {
                How::Try => Op::Try,
                How::Wait(wait) => Op::Acquire { wait_ms: ms(wait) },
                How::Cancel(wait, polls) => Op::Cancelled {
                    wait_ms: ms(wait),
                    polls,
                },
            },
        );
        if cycle.renew {
            push(at + cycle.hold / 2, Op::Renew);
        }
        at += cycle.hold;
        if !(kept && index + 1 == cycles.len()) {
            push(at, cycle.end);
        }
    }
    events
}

impl Strike {
    fn event(self, hosts: u8) -> (u64, Happening) {
        let fault = match self.fault {
            Fault::Pause { host } => Fault::Pause { host: host % hosts },
            Fault::Delay {
                host,
                direction,
                by_ms,
            } => Fault::Delay {
                host: host % hosts,
                direction,
                by_ms: ms(by_ms),
            },
            Fault::Cut { host, lost } => Fault::Cut {
                host: host % hosts,
                lost,
            },
            Fault::Crash { host } => Fault::Crash { host: host % hosts },
            // A drift of a host that is not there stays without effect.
            Fault::Drift { .. } => self.fault,
        };
        (
            ms(self.at),
            Happening::Fault {
                for_ms: ms(self.length),
                fault,
            },
        )
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
        for (nemesis, seed) in NEMESES.iter().zip(1..) {
            let others: BTreeSet<_> = of(seed)
                .into_iter()
                .filter(|name| *name != nemesis.name())
                .collect();
            assert_eq!(others, BTreeSet::new(), "seed {seed}");
        }
        let only = Generator::new(Some("cut"));
        assert!((0..20).all(|seed| only.scenario(seed).nemeses().into_iter().eq(["cut"])));
    }
}
