//! A1: `SET NX PX` with a random token; a script compares the token and deletes the key.

use crate::{
    checker::Property::{Exclusion, LostReply, Ownership, Truth},
    subject::{
        Expected::{Convicted, Sound},
        Row,
        specimen::{GhostAcquire, ReleaseLies, Right, Site, WeakToken, exhibit},
    },
    vocabulary::Promises,
};

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "set-nx-px",
        make: || exhibit::<Site>(Right("seed-A1", Promises::mutex_on_one_node().untidy())),
        expected: Sound,
        summary: "SET NX PX with a random token; a script compares the token and deletes the key",
    },
    Row {
        name: "set-nx-px-release-ok-when-gone",
        make: || exhibit(ReleaseLies::OkWhenGone("seed-A1a")),
        expected: Convicted(&[Truth]),
        summary: "set-nx-px whose release returns 1 for a lock that is gone",
    },
    Row {
        name: "set-nx-px-errors-read-as-no",
        make: || exhibit(GhostAcquire("seed-A1b")),
        expected: Convicted(&[LostReply]),
        summary: "set-nx-px behind a wrapper that turns every error into \"not acquired\"",
    },
    Row {
        name: "set-nx-px-token-from-caller",
        make: || exhibit(WeakToken::Caller("seed-A1c")),
        expected: Convicted(&[Exclusion, Ownership]),
        summary: "set-nx-px whose callers supply the token",
    },
];
