//! Locks as strangers write them. They differ from the locks of this project, and no checker was written for one of
//! them. The suite clears the sound locks and convicts each broken one of its own mistake. A broken lock differs from a
//! sound one in one point.

#![allow(clippy::unwrap_used, reason = "tests that fail")]
#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "most locks of a file share all but one thing"
)]

mod counters;
mod fences;
mod handed_on;
mod hashes;
mod kit;
mod leases;
mod notified;
mod readers;
mod redlock;
mod releases;
mod semaphores;
mod several_entries;
mod simple;
mod strings;
mod two_keys;
mod unusual;
mod waiting;
mod watchdog;

use redouble_conformance::{
    Subject, check,
    checker::Property,
    runner::{CONVICTION, QUICK},
};
use std::{env, ops::Range};

/// Returns the seeds of `REDOUBLE_SEEDS`, as in `0..20000`; without it `these`.
fn seeds(these: Range<u64>) -> Range<u64> {
    let Ok(chosen) = env::var("REDOUBLE_SEEDS") else {
        return these;
    };
    let seeds = chosen.split_once("..");
    let seeds = seeds.and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    seeds.unwrap_or_else(|| panic!("REDOUBLE_SEEDS is a range, as in 0..20000, not {chosen}"))
}

/// Checks that the suite clears a lock.
fn is_cleared(subject: impl Subject) {
    check(subject).seeds(seeds(0..QUICK / 4)).assert_sound();
}

/// Checks that the suite convicts a lock of its mistake. Some mistakes show in one of thousands of scenarios.
fn is_convicted(subject: impl Subject, of: Property) {
    let of = Box::leak(Box::new([of]));
    check(subject)
        .seeds(seeds(0..CONVICTION * 3))
        .assert_convicted(of);
}
