//! A1: `SET NX PX` with a token of its own, released by a script that compares and deletes.

use crate::{
    checker::Property::{Exclusion, Honesty, LostReply, Ownership},
    subject::{
        Expected::{Convicted, Sound},
        Promises, Row,
        specimen::{GhostAcquire, ReleaseLies, Right, Site, WeakToken, exhibit},
    },
};

pub(super) const ROWS: &[Row] = &[
    Row {
        make: || exhibit::<Site>(Right("seed-A1", Promises::mutex_on_one_node().untidy())),
        expected: Sound,
        summary: "SET NX PX, released by a script that compares and deletes",
    },
    Row {
        make: || exhibit(ReleaseLies::OkWhenGone("seed-A1a")),
        expected: Convicted(&[Honesty]),
        summary: "the same, whose release answers 1 for a lock that is gone",
    },
    Row {
        make: || exhibit(GhostAcquire("seed-A1b")),
        expected: Convicted(&[LostReply]),
        summary: "the same behind a wrapper that turns every error into `no`",
    },
    Row {
        make: || exhibit(WeakToken::Caller("seed-A1c")),
        expected: Convicted(&[Exclusion, Ownership]),
        summary: "the same, whose callers bring the token",
    },
];
