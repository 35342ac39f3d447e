//! B2: as B1, with a hash that counts the owner's acquisitions.

use crate::{
    checker::Property::{Exclusion, Truth},
    subject::{
        Expected::Convicted,
        Row,
        specimen::{Counts, SharedIdentity, exhibit},
    },
};

pub(super) const ROWS: &[Row] = &[
    // Counting is not idempotent: a lost reply leaves the count one too high.
    Row {
        name: "reentrant-hash-watchdog",
        make: || exhibit(Counts::Told("seed-B2")),
        expected: Convicted(&[Truth]),
        summary: "a hash that counts how often its owner took the lock, and a watchdog",
    },
    Row {
        name: "reentrant-hash-release-ok-when-gone",
        make: || exhibit(Counts::OkWhenGone("seed-B2a")),
        expected: Convicted(&[Truth]),
        summary: "reentrant-hash-watchdog whose release returns 1 for a lock that is gone",
    },
    Row {
        name: "reentrant-hash-release-0-when-nested",
        make: || exhibit(Counts::Ambiguous("seed-B2b")),
        expected: Convicted(&[Truth]),
        summary: "reentrant-hash-watchdog whose release returns 0 while a level is left",
    },
    Row {
        name: "reentrant-hash-owner-is-object",
        make: || exhibit(SharedIdentity::Object("seed-B2c")),
        expected: Convicted(&[Exclusion]),
        summary: "reentrant-hash-watchdog whose owner is the lock object: two tasks that share it both enter",
    },
];
