//! Scenarios written by hand: each plays one known mistake in locks, at times that a real clock can keep.
//! They are the same on every backend, so verdicts can be compared.
//!
//! Times are in sixths of a lease, and no event happens exactly at the end of a lease. An event between two
//! messages does not depend on time but waits at a gate ([`Fault::Hold`]).

mod clients;
mod contention;
mod kinds;
mod network;
mod nodes;

use super::{Event, Fault, Happening, Op, Scenario, Schedule, Topology};
use crate::vocabulary::{Actor, Fencing, Kind, Mode, OpId, Promises};

/// The lease in milliseconds: longer than the gaps in which the machine does not run the program, shorter
/// than the timeouts of waiters.
pub const LEASE_MS: u64 = 360;

/// Number of time units per lease.
const UNITS_PER_LEASE: u64 = 6;

/// Longest delay of a message.
const LATENCY_MS: u64 = 2;

/// A scenario with a name.
pub struct Fixed {
    /// Name of the scenario.
    pub name: &'static str,
    /// Short description.
    pub summary: &'static str,
    fits: Fits,
    steps: &'static [Step],
}

/// The locks for which a scenario is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fits {
    /// Locks with one owner at a time, or that one client can take as a whole.
    Locks,
    /// Reentrant locks among them.
    Reentrant,
    /// Locks on several nodes among them.
    SeveralNodes,
    /// Locks on a master with replicas among them.
    Replicated,
    /// Locks for readers and writers.
    ReadWrite,
    /// Locks that serve waiters in order.
    Fair,
    /// Locks with fencing tokens.
    Fenced,
    /// Semaphores of this many permits.
    Semaphores(u32),
    /// Latches.
    Latches,
    /// Counters that admit the first N clients.
    Admissions,
    /// Counters among them that clients ask under a name.
    Named,
    /// Counters among them that have to be set up.
    Stocks,
}

/// An event, with times in sixths of a lease.
#[derive(Clone, Copy)]
struct Step {
    at: u64,
    happening: What,
}

#[derive(Clone, Copy)]
enum What {
    Op(Actor, Op),
    /// The fault with the time of its end.
    Fault(u64, Fault),
}

/// Returns all hand-written scenarios.
pub fn all() -> impl Iterator<Item = &'static Fixed> {
    let lists = [
        contention::ALL,
        clients::ALL,
        network::ALL,
        nodes::ALL,
        kinds::ALL,
    ];
    lists.into_iter().flatten()
}

impl Fixed {
    /// Returns the scenario for a lock with these promises; `None` if it is not written for such locks.
    #[must_use]
    pub fn scenario(&self, promises: Promises) -> Option<Scenario> {
        if !self.fits.suits(promises) {
            return None;
        }
        let nodes = promises.topology.servers();
        let steps = (0..).zip(self.steps);
        let there = steps.filter(|(_, step)| match step.happening {
            What::Op(..) => true,
            What::Fault(_, fault) => fault.node().is_none_or(|node| node < nodes),
        });
        let mut events: Vec<Event> = there.map(|(id, step)| step.event(id, promises)).collect();
        events.sort_by_key(|event| event.at_ms);
        Some(Scenario {
            seed: 0,
            lease_ms: LEASE_MS,
            schedule: Schedule::Random,
            latency_ms: LATENCY_MS,
            timeout_ms: None,
            topology: promises.topology,
            events,
        })
    }
}

impl Fits {
    fn suits(self, promises: Promises) -> bool {
        let is_lock = promises.kind.whole().is_some();
        let is_counter = matches!(promises.kind, Kind::Admission(_));
        match self {
            Self::Locks => is_lock,
            Self::Reentrant => is_lock && promises.reentrant,
            Self::SeveralNodes => is_lock && matches!(promises.topology, Topology::Nodes(2..)),
            Self::Replicated => is_lock && matches!(promises.topology, Topology::Replicated { .. }),
            Self::Fair => is_lock && promises.fair,
            Self::Fenced => is_lock && promises.fencing != Fencing::None,
            Self::ReadWrite => promises.kind == Kind::ReadWrite,
            Self::Semaphores(permits) => promises.kind == Kind::Semaphore(permits),
            Self::Latches => matches!(promises.kind, Kind::Latch(_)),
            Self::Admissions => is_counter,
            Self::Named => is_counter && promises.named,
            Self::Stocks => is_counter && promises.set_up,
        }
    }
}

const fn ms(units: u64) -> u64 {
    units * LEASE_MS / UNITS_PER_LEASE
}

impl Step {
    fn event(self, id: OpId, promises: Promises) -> Event {
        let happening = match self.happening {
            What::Op(actor, op) => Happening::Op {
                actor,
                op: taking(op, promises.kind).map_ms(ms),
            },
            What::Fault(to, fault) => {
                let fault = match promises.topology.addresses() {
                    1 => fault.on_all_links(),
                    _ => fault,
                };
                Happening::Fault {
                    for_ms: ms(to.saturating_sub(self.at)),
                    fault: fault.map_ms(ms),
                }
            }
        };
        Event {
            id,
            at_ms: ms(self.at),
            happening,
        }
    }
}

/// Makes an acquisition of a semaphore take all permits, as an acquisition of a mutex does.
fn taking(op: Op, kind: Kind) -> Op {
    let all = |mode: Mode| match kind.whole() {
        Some(whole) if mode.is_exclusive() => whole,
        _ => mode,
    };
    match op {
        Op::Try { mode } => Op::Try { mode: all(mode) },
        Op::Acquire { mode, wait_ms } => Op::Acquire {
            mode: all(mode),
            wait_ms,
        },
        Op::Cancelled {
            mode,
            wait_ms,
            polls,
        } => Op::Cancelled {
            mode: all(mode),
            wait_ms,
            polls,
        },
        Op::Renew
        | Op::CancelledRenew { .. }
        | Op::Release
        | Op::CancelledRelease { .. }
        | Op::Drop
        | Op::Access
        | Op::SetUp
        | Op::Admit
        | Op::AdmitAgain
        | Op::CountDown
        | Op::Await { .. } => op,
    }
}

// Builders of steps. The clients are called A to D.
const A: u8 = 0;
const B: u8 = 1;
const C: u8 = 2;
const D: u8 = 3;

const fn op(at: u64, host: u8, op: Op) -> Step {
    let happening = What::Op(Actor::on(host), op);
    Step { at, happening }
}

/// A step of the second task of a process.
const fn second(at: u64, host: u8, op: Op) -> Step {
    let happening = What::Op(Actor { host, task: 1 }, op);
    Step { at, happening }
}

const fn fault(at: u64, to: u64, fault: Fault) -> Step {
    let happening = What::Fault(to, fault);
    Step { at, happening }
}

const fn takes(at: u64, host: u8, wait: u64) -> Step {
    op(at, host, Op::acquire(wait))
}

const fn tries(at: u64, host: u8) -> Step {
    op(at, host, Op::TRY)
}

const fn renews(at: u64, host: u8) -> Step {
    op(at, host, Op::Renew)
}

const fn releases(at: u64, host: u8) -> Step {
    op(at, host, Op::Release)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{subject::subjects, vocabulary::Capability};
    use std::collections::BTreeSet;

    fn played_scenarios() -> impl Iterator<Item = (&'static Fixed, Scenario)> {
        let promises: Vec<Promises> = subjects().map(|row| (row.make)().promises()).collect();
        all().flat_map(move |fixed| {
            let theirs: Vec<Scenario> = promises
                .iter()
                .filter_map(|promises| fixed.scenario(*promises))
                .collect();
            theirs.into_iter().map(move |scenario| (fixed, scenario))
        })
    }

    #[test]
    fn each_has_a_unique_name_and_a_lock_to_play_it() {
        let names: BTreeSet<_> = all().map(|fixed| fixed.name).collect();
        assert_eq!(names.len(), all().count());
        assert!(names.len() >= 50, "{}", names.len());
        let played: BTreeSet<_> = played_scenarios().map(|(fixed, _)| fixed.name).collect();
        assert_eq!(names, played);
    }

    #[test]
    fn times_are_on_the_grid_and_runs_are_short() {
        for (fixed, scenario) in played_scenarios() {
            assert_eq!(scenario.snapped().events, scenario.events, "{}", fixed.name);
            assert!(
                scenario.end_ms() <= 4 * LEASE_MS,
                "{}: {} ms",
                fixed.name,
                scenario.end_ms()
            );
        }
    }

    #[test]
    fn gates_wait_for_existing_operations() {
        let mut gates = 0;
        for (fixed, scenario) in played_scenarios() {
            let ids: BTreeSet<OpId> = scenario.ops().map(|(event, ..)| event.id).collect();
            for (.., fault) in scenario.faults() {
                if let Fault::Hold {
                    until: Some(until), ..
                } = fault
                {
                    gates += 1;
                    assert!(ids.contains(&until), "{}: {until}", fixed.name);
                }
            }
        }
        assert!(gates > 0);
    }

    #[test]
    fn most_kinds_of_faults_strike_somewhere() {
        let needs: BTreeSet<Capability> = played_scenarios()
            .flat_map(|(_, scenario)| scenario.needs())
            .collect();
        for need in [
            Capability::SeveralNodes,
            Capability::Replicas,
            Capability::NodeCrash,
            Capability::Forgetting,
            Capability::ClientPause,
            Capability::ClientClock,
            Capability::ClientWallClock,
            Capability::NodeClock,
            Capability::ErrorReplies,
        ] {
            assert!(needs.contains(&need), "{}", need.name());
        }
    }
}
