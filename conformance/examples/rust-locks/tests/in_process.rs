//! The same locks without adapters, as part of the program: `rslock` in its plain form, in virtual time; `redlock`,
//! which blocks, on threads.

#![cfg(unix)]

mod late_reply;
mod subject;

use late_reply::overlap;
use redouble_conformance::{
    backend::{Double, WallClock},
    check,
    checker::Property,
    history::{Actor, Mode},
    runner::{Trial, judge},
    scenario::{Direction, Event, Fault, Happening, Op, Scenario, Schedule, Topology},
    subject::Threads,
};
use std::{collections::BTreeSet, ops::Range, sync::RwLock};
use subject::{redlock::Redlock, rslock::Rslock};

/// A test that measures times runs alone; tests in virtual time share the machine.
static TIMES: RwLock<()> = RwLock::new(());

/// What a lock breaks of what it promises, after having shown enough.
fn broken(trial: &Trial) -> BTreeSet<Property> {
    for example in &trial.counterexamples {
        let (property, steps) = (example.property, example.scenario.events.len());
        let witness = example.judged.witness(property);
        let message = witness.map_or("", |it| &*it.message);
        eprintln!("{}: {property}, {steps} steps: {message}", trial.name);
    }
    let runs = trial.coverage.runs;
    let probes: Vec<_> = trial.coverage.probes().collect();
    let seen = |what| probes.iter().find(|it| it.0 == what).map_or(0, |it| it.1);
    assert!(
        seen("contended") * 2 >= runs && seen("expiry while held") > 0,
        "{probes:?}"
    );
    trial.broken().into_iter().collect()
}

fn rslock(nodes: u8, extends: bool, seeds: Range<u64>) -> BTreeSet<Property> {
    broken(
        &check(Rslock { nodes, extends })
            .plain()
            .seeds(seeds)
            .trial(),
    )
}

/// It refuses a client for any reason with the same answer: that others hold the lock.
#[test]
fn rslock_keeps_holders_apart_who_do_not_extend() {
    let _beside = TIMES.read();
    for nodes in [1, 3] {
        let broken = rslock(nodes, false, 0..100);
        assert!(
            broken.is_subset(&BTreeSet::from([Property::Truth])),
            "{broken:?}"
        );
    }
}

/// An extension that is not granted by enough nodes in time sends releases, and only then tells its caller.
/// Neither does it look whether the lease was over when the answer came. The next test shows that another client gets the lock (P1).
#[test]
fn rslock_gives_a_lock_away_that_it_cannot_extend_before_its_holder_knows() {
    let _beside = TIMES.read();
    let wrong = [
        Property::Ownership,
        Property::GroundedBelief,
        Property::Continuity,
    ];
    for nodes in [1, 3] {
        let mut seen = BTreeSet::new();
        let mut seeds = (0..SEEDS_MAX).step_by(60);
        while !wrong.iter().all(|it| seen.contains(it)) {
            let first = seeds.next();
            let first = first.unwrap_or_else(|| panic!("{SEEDS_MAX} seeds showed only {seen:?}"));
            seen.extend(rslock(nodes, true, first..first + 60));
        }
    }
}

/// Largest number of seeds that are played until a lock has broken what it is known to break.
const SEEDS_MAX: u64 = 420;

/// The same in real time, where it has all of its own clocks and timers: the replies to its extension are late,
/// its holder waits for them, and another takes the lock.
#[test]
fn rslock_gives_a_lock_away_before_its_holder_knows_in_real_time() {
    let _alone = TIMES.write();
    let slow = Fault::Delay {
        host: 0,
        node: None,
        direction: Direction::Replies,
        by_ms: 1_500,
    };
    let op = |at_ms, host, op| {
        let actor = Actor::on(host);
        (at_ms, Happening::Op { actor, op })
    };
    let (for_ms, mode) = (200, Mode::Exclusive);
    let waits = Op::Acquire {
        mode,
        wait_ms: 2_500,
    };
    // What the second asks for teaches the server the script of a release.
    let happenings = [
        op(0, 0, Op::TRY),
        op(100, 1, waits),
        (
            200,
            Happening::Fault {
                for_ms,
                fault: slow,
            },
        ),
        op(500, 0, Op::Renew),
        op(3_000, 1, Op::Release),
    ];
    let events = (0..).zip(happenings);
    let scenario = Scenario {
        seed: 1,
        lease_ms: 4_000,
        schedule: Schedule::Random,
        latency_ms: 0,
        timeout_ms: None,
        topology: Topology::ONE,
        events: events
            .map(|(id, (at_ms, happening))| Event {
                id,
                at_ms,
                happening,
            })
            .collect(),
    };
    let lock = Threads::new(Rslock {
        nodes: 1,
        extends: true,
    });
    let backend = WallClock::new(Double, scenario.lease_ms);
    let judged = judge(&lock, &backend, &scenario).expect("the double is there");
    let told = judged.witness(Property::Exclusion).map(|it| &*it.message);
    let both = "both c1 and c2 believe that they hold the lock";
    assert!(told.is_some_and(|it| it.contains(both)), "{told:?}");
}

/// See `verdicts.rs`: what it takes from the lease may be more than the lease.
#[test]
fn redlock_believes_in_a_lease_that_was_over_when_its_reply_came() {
    let _alone = TIMES.write();
    let told = overlap(&Threads::new(Redlock { nodes: 1 }));
    let both = "both c1 and c2 believe that they hold the lock";
    assert!(
        told.as_ref().is_some_and(|it| it.contains(both)),
        "{told:?}"
    );
}

#[test]
fn redlock_keeps_holders_apart_while_replies_are_in_time() {
    let _alone = TIMES.write();
    let broken = broken(&check(Redlock { nodes: 3 }).threads().trial());
    let safety = [
        Property::NoPanics,
        Property::Exclusion,
        Property::Ownership,
        Property::Progress,
    ];
    assert!(safety.iter().all(|it| !broken.contains(it)), "{broken:?}");
}
