//! B2: as B1, with a hash that counts how often its owner has taken it.

use crate::{
    checker::Property::{Exclusion, Honesty},
    subject::{
        Expected::Convicted,
        Row,
        specimen::{Counts, SharedIdentity, exhibit},
    },
};

pub(super) const ROWS: &[Row] = &[
    // Counting is not idempotent: after an answer that was lost one level too many is left.
    Row {
        make: || exhibit(Counts::Told("seed-B2")),
        expected: Convicted(&[Honesty]),
        summary: "a hash that counts how often its owner took it, and a watchdog",
    },
    Row {
        make: || exhibit(Counts::OkWhenGone("seed-B2a")),
        expected: Convicted(&[Honesty]),
        summary: "the same, whose release answers 1 for a lock that is gone",
    },
    Row {
        make: || exhibit(Counts::Ambiguous("seed-B2b")),
        expected: Convicted(&[Honesty]),
        summary: "the same, whose release answers 0 when a level is left",
    },
    Row {
        make: || exhibit(SharedIdentity::Object("seed-B2c")),
        expected: Convicted(&[Exclusion]),
        summary: "the same, whose owner is the lock object: two tasks that share it enter",
    },
];
