//! A scenario in real time: the reply to the first client's request takes longer than the lease, and the second
//! takes the lock.

use redouble_conformance::{
    backend::{Double, WallClock},
    checker::Property,
    history::Actor,
    report::terminal,
    runner::judge,
    scenario::{Direction, Event, Fault, Happening, Op, Scenario, Schedule, Topology},
    subject::DynSubject,
};

pub(crate) const LEASE_MS: u64 = 400;

fn late_reply() -> Scenario {
    let late = Fault::Partition {
        host: 0,
        node: None,
        direction: Some(Direction::Replies),
    };
    let op = |at_ms, host, op| {
        let actor = Actor::on(host);
        (at_ms, Happening::Op { actor, op })
    };
    let (for_ms, fault) = (LEASE_MS + 300, late);
    let happenings = [
        (0, Happening::Fault { for_ms, fault }),
        op(100, 0, Op::TRY),
        op(1_500, 1, Op::TRY),
        op(1_700, 1, Op::Release),
        op(2_000, 0, Op::Release),
    ];
    let events = (0..).zip(happenings).map(|(id, (at_ms, happening))| Event {
        id,
        at_ms,
        happening,
    });
    Scenario {
        seed: 1,
        lease_ms: LEASE_MS,
        schedule: Schedule::Random,
        latency_ms: 0,
        timeout_ms: None,
        topology: Topology::ONE,
        events: events.collect(),
    }
}

/// How the first two are said to hold the lock at the same time, if they are.
pub(crate) fn overlap(lock: &dyn DynSubject) -> Option<String> {
    let backend = WallClock::new(Double, LEASE_MS);
    let judged = judge(lock, &backend, &late_reply()).expect("the double is there");
    let mut lanes = Vec::new();
    terminal::lanes(&mut lanes, &judged.run.history, None).expect("it is written to memory");
    eprintln!("{}", String::from_utf8_lossy(&lanes));
    let witness = judged.witness(Property::Exclusion);
    witness.map(|witness| witness.message.clone())
}
