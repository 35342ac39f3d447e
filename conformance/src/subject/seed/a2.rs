//! A2: a counter that admits the first N clients.

use crate::{
    checker::Property::Admission,
    subject::{
        Expected::{Convicted, Sound},
        Row, boxed,
        specimen::Counter,
    },
};

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "first-n-incr",
        make: || boxed(Counter::Up("seed-A2")),
        expected: Sound,
        summary: "admits the first N by INCR",
    },
    Row {
        name: "first-n-incr-with-expiry",
        make: || boxed(Counter::UpExpiring("seed-A2a")),
        expected: Convicted(&[Admission]),
        summary: "admits the first N by INCR of a key that expires; then N more get in",
    },
    Row {
        name: "first-n-decr-preset",
        make: || boxed(Counter::Down("seed-A2b")),
        expected: Sound,
        summary: "admits the first N by DECR from N; admits none after the key expired",
    },
];
