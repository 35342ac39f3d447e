//! Workloads per kind of lock: rounds of acquiring, using and releasing it, or calls on a counter or a latch.
//! Times are in units.

use super::{Op, nemesis::HOSTS_MAX};
use crate::vocabulary::{Actor, Kind, Mode, Promises};
use proptest::{collection::vec, prelude::*};

/// The rounds of every actor, for a kind of lock.
#[derive(Clone, Debug)]
pub(super) struct Workload {
    kind: Kind,
    /// A client has to set the lock up.
    set_up: bool,
    /// Clients ask under a name.
    named: bool,
    /// True if holders mostly access the resource.
    visits: bool,
    /// True if clients take one permit each, so several hold a semaphore side by side while others ask.
    one_each: bool,
    cycles: Vec<Vec<Cycle>>,
}

/// One round of an actor.
#[derive(Clone, Copy, Debug)]
struct Cycle {
    gap: u64,
    how: How,
    /// Selects the mode of a lock with several modes.
    mode: u8,
    hold: u64,
    extra: Extra,
    end: Op,
}

#[derive(Clone, Copy, Debug)]
enum How {
    Try,
    Wait(u64),
    Cancel(u64, u32),
}

/// Operations while the lock is held.
#[derive(Clone, Copy, Debug)]
enum Extra {
    Nothing,
    Renew,
    RenewTwice,
    /// An extension near the end of the lease, this long after the acquisition.
    RenewLate(u64),
    CancelledRenew(u32),
    /// An extension, and the end of the use past the end of the first lease, each this long after the acquisition: the holder relies
    /// on the extension.
    RenewAndStay(u64, u64),
    Access,
    /// The holder acquires the lock again, and releases that level.
    Nested,
    /// The same in the other mode: a reader asks to write, or a writer to read.
    NestedOther,
    /// The holder acquires the lock again so long after the acquisition, and keeps that level for so long, perhaps past the end
    /// of the first lease.
    NestedLate(u64, u64),
}

/// A time past the end of a lease of 120 units.
const PAST_LEASE: u64 = 122;

/// The most actors of a scenario.
const ACTORS_MAX: usize = 8;

/// Numbers of rounds of an actor.
const ROUNDS: std::ops::Range<usize> = 2..6;

/// Workloads of a lock. With `overwork` clients work longer than their lease; with `accesses` holders mostly access the resource in half of
/// the workloads, otherwise in a third or less.
pub(super) fn of(promises: Promises, overwork: bool, accesses: bool) -> BoxedStrategy<Workload> {
    let (kind, set_up, named) = (promises.kind, promises.set_up, promises.named);
    let workload = move |visits, one_each| {
        let cycle = cycle(promises, overwork, visits);
        let actors = if one_each {
            ACTORS_MAX
        } else {
            usize::from(HOSTS_MAX) + 1
        };
        let cycles = vec(vec(cycle, ROUNDS), actors);
        cycles.prop_map(move |cycles| Workload {
            kind,
            set_up,
            named,
            visits,
            one_each,
            cycles,
        })
    };
    let visits = if accesses { 2 } else { 1 };
    match kind {
        Kind::Semaphore(2..) => prop_oneof![
            2 => workload(false, false),
            visits => workload(true, false),
            3 => workload(false, true),
        ]
        .boxed(),
        Kind::Semaphore(_)
        | Kind::Mutex
        | Kind::ReadWrite
        | Kind::Admission(_)
        | Kind::Latch(_) => prop_oneof![
            2 => workload(false, false),
            visits => workload(true, false),
        ]
        .boxed(),
    }
}

fn cycle(promises: Promises, overwork: bool, visits: bool) -> impl Strategy<Value = Cycle> {
    let how = prop_oneof![
        2 => Just(How::Try),
        6 => (10..240_u64).prop_map(How::Wait),
        1 => (10..240_u64, 1..8_u32).prop_map(|(wait, polls)| How::Cancel(wait, polls)),
    ];
    // Readers share the lock, so a writer seldom waits to the end of a long wait.
    let how = match promises.kind {
        Kind::ReadWrite => prop_oneof![
            3 => how,
            1 => (2..40_u64).prop_map(How::Wait),
        ]
        .boxed(),
        Kind::Mutex | Kind::Semaphore(_) | Kind::Admission(_) | Kind::Latch(_) => how.boxed(),
    };
    // Holding times near the end of the lease are where a check and its action drift apart.
    let short = prop_oneof![5 => 0..80_u64, 1 => 108..120_u64];
    let hold = if overwork {
        prop_oneof![1 => short, 1 => 121..220_u64].boxed()
    } else {
        short.boxed()
    };
    let nested = if promises.reentrant { 6 } else { 0 };
    let other = match promises.kind {
        Kind::ReadWrite => nested / 2,
        Kind::Mutex | Kind::Semaphore(_) | Kind::Admission(_) | Kind::Latch(_) => 0,
    };
    let (nothing, renew, access) = if visits { (3, 2, 13) } else { (9, 4, 4) };
    // A holder that stays past its first lease relies on its extension.
    let stays = if promises.renews { 3 } else { 2 };
    let extra = prop_oneof![
        nothing => Just(Extra::Nothing),
        renew => Just(Extra::Renew),
        1 => Just(Extra::RenewTwice),
        2 => (108..122_u64).prop_map(Extra::RenewLate),
        1 => (1..6_u32).prop_map(Extra::CancelledRenew),
        stays => (40..110_u64, 12..100_u64)
            .prop_map(|(renews, stays)| Extra::RenewAndStay(renews, (renews + stays).max(PAST_LEASE))),
        access => Just(Extra::Access),
        nested => Just(Extra::Nested),
        other => Just(Extra::NestedOther),
        nested / 3 => (60..118_u64, 10..110_u64).prop_map(|(enters, stays)| Extra::NestedLate(enters, stays)),
    ];
    let end = prop_oneof![
        7 => Just(Op::Release),
        1 => (1..6_u32).prop_map(|polls| Op::CancelledRelease { polls }),
        2 => Just(Op::Drop),
    ];
    (0..40_u64, how, any::<u8>(), hold, extra, end).prop_map(
        |(gap, how, mode, hold, extra, end)| Cycle {
            gap,
            how,
            mode,
            hold,
            extra,
            end,
        },
    )
}

impl Cycle {
    fn mode(&self, kind: Kind, one_each: bool) -> Mode {
        match kind {
            Kind::Semaphore(_) if one_each => Mode::Permits(1),
            Kind::ReadWrite if !self.mode.is_multiple_of(3) => Mode::Shared,
            Kind::Semaphore(permits) => Mode::Permits(1 + u32::from(self.mode) % permits.max(1)),
            Kind::Mutex | Kind::ReadWrite | Kind::Admission(_) | Kind::Latch(_) => Mode::Exclusive,
        }
    }

    fn takes(&self, kind: Kind, one_each: bool) -> Op {
        let mode = self.mode(kind, one_each);
        match self.how {
            How::Try => Op::Try { mode },
            How::Wait(wait_ms) => Op::Acquire { mode, wait_ms },
            How::Cancel(wait_ms, polls) => Op::Cancelled {
                mode,
                wait_ms,
                polls,
            },
        }
    }

    fn waits(&self) -> u64 {
        match self.how {
            How::Try => 0,
            How::Wait(wait) | How::Cancel(wait, _) => wait,
        }
    }
}

impl Workload {
    /// Returns true if holders mostly access the resource.
    pub(super) const fn visits(&self) -> bool {
        self.visits
    }

    /// Returns the actors of `hosts` processes: a task each, and with `second_task` a second one of the first process. Where clients
    /// take one permit each, there are more actors than permits.
    pub(super) fn actors(&self, hosts: u8, second_task: bool) -> Vec<Actor> {
        let permits = match self.kind {
            Kind::Semaphore(permits) if self.one_each => {
                usize::try_from(permits).unwrap_or(usize::MAX)
            }
            Kind::Semaphore(_)
            | Kind::Mutex
            | Kind::ReadWrite
            | Kind::Admission(_)
            | Kind::Latch(_) => 0,
        };
        let count = usize::from(hosts) + usize::from(second_task);
        let count = count.max(permits.saturating_add(1)).min(ACTORS_MAX);
        let tasks = (0..).flat_map(|task| (0..hosts).map(move |host| Actor { host, task }));
        tasks.take(count).collect()
    }

    /// Returns the operations of the n-th actor with their times in units. With `kept` its last grant is
    /// never released.
    pub(super) fn ops(&self, nth: usize, kept: bool) -> Vec<(u64, Op)> {
        let none = Vec::new();
        let cycles = self.cycles.get(nth).unwrap_or(&none);
        match self.kind {
            Kind::Mutex | Kind::ReadWrite | Kind::Semaphore(_) => self.holds(cycles, kept),
            Kind::Admission(_) => self.spaced(cycles, |cycle| match cycle.mode % 3 {
                0 if self.named => Op::AdmitAgain,
                _ => Op::Admit,
            }),
            Kind::Latch(_) => self.spaced(cycles, |cycle| match cycle.mode % 4 {
                0 => Op::Await {
                    wait_ms: cycle.waits(),
                },
                _ => Op::CountDown,
            }),
        }
    }

    /// Returns one operation per round. For a lock that has to be set up, either most actors do that first or
    /// none does; some actors do it later.
    fn spaced(&self, cycles: &[Cycle], op: impl Fn(&Cycle) -> Op) -> Vec<(u64, Op)> {
        let (mut at, mut ops) = (0, Vec::new());
        let first = self.cycles.first().and_then(|cycles| cycles.first());
        let early = first.is_some_and(|first| first.mode.is_multiple_of(2));
        for (nth, cycle) in cycles.iter().enumerate() {
            at += cycle.gap;
            let sets_up = match nth {
                0 => early && !cycle.hold.is_multiple_of(3),
                _ => cycle.hold.is_multiple_of(if early { 6 } else { 3 }),
            };
            if self.set_up && sets_up {
                ops.push((at, Op::SetUp));
            }
            ops.push((at, op(cycle)));
        }
        ops
    }

    fn holds(&self, cycles: &[Cycle], kept: bool) -> Vec<(u64, Op)> {
        let mut ops = Vec::new();
        let mut at = 0;
        for (index, cycle) in cycles.iter().enumerate() {
            at += cycle.gap;
            ops.push((at, cycle.takes(self.kind, self.one_each)));
            let midway = at + cycle.hold / 2;
            match cycle.extra {
                Extra::Nothing => {}
                Extra::Renew => ops.push((midway, Op::Renew)),
                Extra::RenewTwice => {
                    ops.extend([at + cycle.hold / 4, midway].map(|at| (at, Op::Renew)));
                }
                Extra::RenewLate(late) => ops.push((at + late, Op::Renew)),
                Extra::RenewAndStay(renews, _) => ops.push((at + renews, Op::Renew)),
                Extra::CancelledRenew(polls) => ops.push((midway, Op::CancelledRenew { polls })),
                Extra::Access => ops.push((midway, Op::Access)),
                Extra::Nested => {
                    ops.push((at + cycle.hold / 4, cycle.takes(self.kind, self.one_each)));
                    ops.push((midway, Op::Release));
                }
                Extra::NestedOther => {
                    let mode = match cycle.mode(self.kind, self.one_each) {
                        Mode::Shared => Mode::Exclusive,
                        Mode::Exclusive | Mode::Permits(_) => Mode::Shared,
                    };
                    ops.push((at + cycle.hold / 4, Op::Try { mode }));
                    ops.push((midway, Op::Release));
                }
                Extra::NestedLate(enters, stays) => {
                    ops.push((at + enters, cycle.takes(self.kind, self.one_each)));
                    ops.push((at + enters + stays, Op::Release));
                }
            }
            let late = match cycle.extra {
                Extra::RenewLate(late) | Extra::RenewAndStay(_, late) => late,
                Extra::NestedLate(enters, stays) => enters + stays,
                Extra::Nothing
                | Extra::Renew
                | Extra::RenewTwice
                | Extra::CancelledRenew(_)
                | Extra::Access
                | Extra::Nested
                | Extra::NestedOther => 0,
            };
            at += cycle.hold.max(late);
            if !(kept && index + 1 == cycles.len()) {
                ops.push((at, cycle.end));
            }
        }
        ops
    }
}
