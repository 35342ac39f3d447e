//! Generates a scenario from a seed. proptest strategies define the possible scenarios; the seed alone
//! selects one.
//!
//! Seeds take turns: one without faults, one for each nemesis alone, some with several at once. So each row
//! of the verdict matrix gets its share of runs.

use super::{
    Event, Fault, Happening, Lost, Op, Scenario, Schedule, Topology,
    chance::below,
    nemesis::{HOSTS_MAX, NEMESES, Nemesis, Strike, UNITS_PER_LEASE},
    workload,
};
use crate::vocabulary::{OpId, Promises};
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use std::{
    collections::BTreeSet,
    ops::{Range, RangeInclusive},
};

/// Lease in milliseconds of proportional scenarios before they are scaled to their own lease.
const LEASE_MS: u64 = 30_000;

/// Longest time of a message on the slowest network, in milliseconds.
const SLOWEST_MS: u64 = 1_000;

/// Leases to which proportional scenarios are scaled.
const LEASES_MS: Range<u64> = 2_000..60_000;

/// A lease is at least as long as this number of successive messages on the slowest network.
const MESSAGES_PER_LEASE: u64 = 30;

/// Shortest and longest request timeout, in milliseconds.
const TIMEOUT_MS: RangeInclusive<u64> = 20..=10_000;

/// A request timeout is at least as long as this number of successive messages on the slowest network.
const MESSAGES_PER_TIMEOUT: u64 = 10;

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
            Timing::DrawnTimes => scenarios(self.promises, nemeses, times()),
            Timing::DrawnLease | Timing::Lease(_) => {
                scenarios(self.promises, nemeses, proportional())
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

/// Times of a scenario that depend on the seed alone, in milliseconds.
#[derive(Clone, Copy, Debug)]
struct Times {
    lease: u64,
    /// Longest time of a message.
    latency: u64,
    /// Time for which a request waits for its reply; `None` if this is a fixed part of the lease.
    timeout: Option<u64>,
}

impl Times {
    /// Converts units to milliseconds.
    const fn ms(self, units: u64) -> u64 {
        units * self.lease / UNITS_PER_LEASE
    }
}

/// Times of a scenario that is scaled to its lease later: a fast network, or a slow one with at least 30 one-way delays
/// per lease.
fn proportional() -> BoxedStrategy<Times> {
    let latency = prop_oneof![2 => 0..4_u64, 1 => 100..LEASE_MS / MESSAGES_PER_LEASE];
    let times = latency.prop_map(|latency| Times {
        lease: LEASE_MS,
        latency,
        timeout: None,
    });
    times.boxed()
}

/// Leases from a tenth of a second to ten minutes, with networks and timeouts under which a client can hold such a
/// lease.
fn times() -> BoxedStrategy<Times> {
    let lease = prop_oneof![
        2 => 100..400_u64,
        2 => 400..2_000_u64,
        3 => 2_000..10_000_u64,
        4 => 10_000..60_000_u64,
        1 => 60_000..=600_000_u64,
    ];
    // A fast network, or a slow one.
    let slow = prop_oneof![2 => Just(None), 1 => (0..1_000_u64).prop_map(Some)];
    let parts = (lease, slow, 0..4_u64, 0..1_000_u64);
    let times = parts.prop_map(|(lease, slow, near, patience)| {
        let slowest = (lease / MESSAGES_PER_LEASE).min(SLOWEST_MS);
        let latency = match slow {
            Some(part) => slowest / 10 + slowest * part * 9 / 10_000,
            None => near.min(slowest),
        };
        let least = (MESSAGES_PER_TIMEOUT * latency).max(*TIMEOUT_MS.start());
        let most = (2 * lease).min(*TIMEOUT_MS.end()).max(2 * least);
        // Short timeouts are as frequent as long ones.
        let timeout = least + (most - least) * patience * patience / 1_000_000;
        Times {
            lease,
            latency,
            timeout: Some(timeout),
        }
    });
    times.boxed()
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
                let mut last = None;
                let faults: Vec<_> = faults
                    .map(|(strike, fault)| {
                        let aim = Aim {
                            at: strike.at,
                            length: strike.length,
                            host: fault.host(),
                        };
                        let is_last = is_last(aim, &fault);
                        let aimed = aimed(aim, fault, &events, times, workload.visits());
                        if is_last {
                            last = Some(last.map_or(aimed.0, |last: u64| last.min(aimed.0)));
                        }
                        aimed
                    })
                    .collect();
                events.extend(faults);
                if let Some(last) = last {
                    ended(&mut events, last);
                }
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

/// Number of an operation's first messages at which faults are aimed.
const MESSAGES: u64 = 5;

/// Draws of a fault that decide at what it is aimed. They come from its drawn start and length, in units, so a choice more
/// changes no other one.
#[derive(Clone, Copy, Debug)]
struct Aim {
    at: u64,
    length: u64,
    host: Option<u8>,
}

/// Purpose of a draw of an [`Aim`].
#[derive(Clone, Copy, Debug)]
enum Choice {
    Aims,
    Step,
    Freed,
    Replies,
    Outlasts,
    Until,
    Visits,
    Messages,
    Last,
}

impl Aim {
    fn below(self, bound: u64, choice: Choice) -> u64 {
        let host = self.host.map_or(0, |host| 1 + u64::from(host));
        below(bound, [choice as u64, self.at, self.length, host])
    }

    /// Returns true for one of `n` faults.
    fn one_in(self, n: u64, choice: Choice) -> bool {
        self.below(n, choice) == 0
    }
}

/// Moves a part of the faults to the start of an operation, or some messages later, where faults do the most
/// harm. A pause that is moved begins when replies of the operation arrive, and every other one outlasts the lease. If holders
/// mostly access the resource, half of the faults that delay clients strike before an access, and last until the next holder's access. On
/// average a message takes half of the maximal latency. The fault is drawn for a time in `units`.
fn aimed(
    aim: Aim,
    fault: Happening,
    ops: &[(u64, Happening)],
    times: Times,
    visits: bool,
) -> (u64, Happening) {
    let at = times.ms(aim.at);
    let struck = match fault {
        Happening::Fault { fault, .. } if aim.below(8, Choice::Aims) < aimed_of_8(fault) => fault,
        Happening::Fault { .. } | Happening::Op { .. } => return (at, fault),
    };
    let visits = visits && makes_late(struck) && aim.below(4, Choice::Visits) < 3;
    // A fault of a node strikes the next operation of any client.
    let next = |is: &dyn Fn(Op) -> bool| {
        let theirs = ops.iter().filter_map(|&(begins, ref op)| match *op {
            Happening::Op { actor, op } => {
                let ahead = begins >= at && aim.host.is_none_or(|host| host == actor.host);
                (ahead && is(op)).then_some((begins, op))
            }
            Happening::Fault { .. } => None,
        });
        theirs.min_by_key(|&(begins, _)| begins)
    };
    let step = if is_last(aim, &fault) && aim.one_in(2, Choice::Step) {
        Step::End
    } else {
        Step::drawn(aim)
    };
    let access = || next(&|op| op == Op::Access);
    let next = visits
        .then(access)
        .flatten()
        .or_else(|| next(&|op| step.is(op)))
        .or_else(|| next(&|_| true));
    let after = if visits { AFTER_ACCESS } else { AFTER };
    let outlasts = times.lease + times.ms(aim.below(after, Choice::Until));
    if let (Fault::Pause { host, .. }, Some((begins, op))) = (struck, next) {
        let begins = when_it_is_free(aim, host, (begins, op), ops);
        let pause = after_replies(aim, host, op, fault);
        let pause = if visits || aim.one_in(2, Choice::Outlasts) {
            until_the_next(begins, pause, ops, outlasts)
        } else {
            pause
        };
        return (begins, pause);
    }
    let into = aim.below(MESSAGES, Choice::Messages) * times.latency / 2;
    let begins = next.map_or(at, |(begins, _)| begins + into);
    if visits && lasts(struck) {
        (begins, until_the_next(begins, fault, ops, outlasts))
    } else {
        (begins, fault)
    }
}

/// Returns how many of eight faults of this kind are aimed. A pause does harm mostly between two steps of an operation.
const fn aimed_of_8(fault: Fault) -> u64 {
    if matches!(fault, Fault::Pause { .. }) {
        6
    } else {
        4
    }
}

/// Operation at which a fault is aimed. Extensions are rarer than acquisitions and releases, so some faults are aimed at them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Acquisition,
    Extension,
    End,
    Any,
}

impl Step {
    fn drawn(aim: Aim) -> Self {
        match aim.below(4, Choice::Step) {
            0 => Self::Acquisition,
            1 => Self::Extension,
            _ => Self::Any,
        }
    }

    fn is(self, op: Op) -> bool {
        match self {
            Self::Acquisition => op.mode().is_some(),
            Self::Extension => matches!(op, Op::Renew | Op::CancelledRenew { .. }),
            Self::End => op.gives_back(),
            Self::Any => true,
        }
    }
}

/// Returns true for a part of the aimed cuts that lose a request: no client asks for the lock after them. What the lost request should
/// have removed then remains to be seen, because no other client takes the lock or waits for it.
fn is_last(aim: Aim, fault: &Happening) -> bool {
    let Happening::Fault { fault, .. } = *fault else {
        return false;
    };
    loses_request(fault)
        && aim.below(8, Choice::Aims) < aimed_of_8(fault)
        && aim.one_in(2, Choice::Last)
}

const fn loses_request(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::Cut {
            lost: Lost::Request,
            ..
        }
    )
}

/// Removes what clients would begin after a time: each acquisition, what its client does afterwards, and each fault.
fn ended(events: &mut Vec<(u64, Happening)>, last: u64) {
    let mut over = BTreeSet::new();
    events.retain(|&(at, ref happening)| match *happening {
        Happening::Op { actor, op } => {
            if at > last && op.mode().is_some() {
                over.insert(actor);
            }
            !over.contains(&actor)
        }
        Happening::Fault { .. } => at <= last,
    });
}

/// Returns the time from which the replies to an operation count that begins at `begins`. A client that waits for the lock gets
/// only refusals at first. So for every other acquisition that waits, the replies count from the next release by another client process.
fn when_it_is_free(aim: Aim, host: u8, (begins, op): (u64, Op), ops: &[(u64, Happening)]) -> u64 {
    let (Op::Acquire { wait_ms, .. } | Op::Cancelled { wait_ms, .. }) = op else {
        return begins;
    };
    if aim.one_in(2, Choice::Freed) {
        return begins;
    }
    let freed = ops
        .iter()
        .filter_map(|&(at, ref happening)| match *happening {
            Happening::Op { actor, op } => {
                let waits = begins < at && at < begins + wait_ms;
                (waits && actor.host != host && op.gives_back()).then_some(at)
            }
            Happening::Fault { .. } => None,
        });
    freed.min().unwrap_or(begins)
}

/// Numbers of replies after which a pause begins: most operations take one or two requests.
const REPLIES: [u32; 6] = [1, 1, 1, 2, 2, 3];

/// Lets a pause begin when one to three replies have reached the client. So the client stops between two requests of an operation,
/// or between its read and its write of the resource, however short the time between them is.
fn after_replies(aim: Aim, host: u8, op: Op, pause: Happening) -> Happening {
    let Happening::Fault { for_ms, .. } = pause else {
        return pause;
    };
    let drawn = usize::try_from(aim.below(REPLIES.len() as u64, Choice::Replies)).unwrap_or(0);
    let after = if op == Op::Access { 1 } else { REPLIES[drawn] };
    let fault = Fault::Pause { host, after };
    Happening::Fault { for_ms, fault }
}

/// Largest distance, in units, between the end of a lease and the end of a fault that outlasts it.
const AFTER: u64 = 32;

/// The same if the next holder accesses the resource meanwhile, which it does after a part of its own time.
const AFTER_ACCESS: u64 = 72;

/// Extends a fault with a duration until `after` milliseconds past the acquisition of the client that it strikes. The
/// lease of this client is over by then.
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
    let over = taken.map(|&(at, _)| at + after).max();
    let for_ms = over
        .and_then(|over| over.checked_sub(begins))
        .unwrap_or(for_ms);
    Happening::Fault { for_ms, fault }
}

/// Returns true if the fault delays a client for its whole duration.
const fn lasts(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::Pause { .. } | Fault::Suspend { .. } | Fault::Partition { .. }
    )
}

/// Returns true if the fault makes operations that have started end later.
const fn makes_late(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::Pause { .. } | Fault::Suspend { .. } | Fault::Delay { .. } | Fault::Partition { .. }
    )
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
    use std::collections::BTreeMap;

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
            let shapes = [fixed(seed), lease(seed)].map(|it| it.scaled(LEASE_MS).events.len());
            assert_eq!(shapes[0], shapes[1], "seed {seed}");
            assert_eq!(lease(seed).timeout_ms, None);
            assert!(times(seed).timeout_ms.is_some());
        }
        let short = (0..50).any(|seed| times(seed).lease_ms < LEASES_MS.start);
        let long = (0..50).any(|seed| LEASES_MS.end < times(seed).lease_ms);
        assert!(short && long);
    }

    #[test]
    fn pauses_strike_between_the_requests_of_every_kind_of_operation() {
        let generator = Generator::new(Some("pause")).timed(Timing::Lease(30_000));
        let (mut at, mut freed, mut long) = (BTreeMap::<_, u32>::new(), 0, 0);
        for scenario in (0..500).map(|seed| generator.scenario(seed)) {
            for (from, to, fault) in scenario.faults() {
                let Fault::Pause { host, after: 1.. } = fault else {
                    continue;
                };
                let mut ops = scenario.ops();
                match ops.find(|&(event, actor, _)| actor.host == host && event.at_ms == from) {
                    Some((.., op)) if op.mode().is_some() => {
                        *at.entry("acquisition").or_default() += 1;
                    }
                    Some((.., Op::Renew | Op::CancelledRenew { .. })) => {
                        *at.entry("extension").or_default() += 1;
                    }
                    Some(_) => *at.entry("other").or_default() += 1,
                    // Another client process releases the lock.
                    None => freed += 1,
                }
                long += u32::from(to - from > 30_000);
            }
        }
        assert!(
            at.len() == 3 && at.values().all(|&count| count > 100) && freed > 30 && long > 150,
            "{at:?}, at a release: {freed}, longer than the lease: {long}"
        );
    }

    #[test]
    fn a_lost_request_is_sometimes_the_last_thing_that_happens() {
        let generator = Generator::new(Some("cut"));
        let (mut releases, mut others) = (0, 0);
        for scenario in (0..400).map(|seed| generator.scenario(seed)) {
            let asks = scenario.ops().filter(|(.., op)| op.mode().is_some());
            let last = asks.map(|(event, ..)| event.at_ms).max();
            let cuts = scenario.faults().filter_map(|(from, _, fault)| {
                let host = fault.host().filter(|_| loses_request(fault))?;
                (Some(from) >= last).then_some((from, host))
            });
            for (from, host) in cuts {
                let theirs = scenario
                    .ops()
                    .filter(|&(event, actor, _)| actor.host == host && event.at_ms <= from);
                match theirs.last() {
                    Some((.., op)) if op.gives_back() => releases += 1,
                    _ => others += 1,
                }
            }
        }
        assert!(
            releases > 20 && others > 20,
            "{releases} releases, {others} others"
        );
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
