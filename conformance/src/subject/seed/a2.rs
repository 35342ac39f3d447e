//! A2: admission by counting. The first N who ask are let in.

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
        make: || boxed(Counter::Up("seed-A2")),
        expected: Sound,
        summary: "the first N by INCR",
    },
    Row {
        make: || boxed(Counter::UpExpiring("seed-A2a")),
        expected: Convicted(&[Admission]),
        summary: "the first N by INCR of a key that expires: then come N more",
    },
    Row {
        make: || boxed(Counter::Down("seed-A2b")),
        expected: Sound,
        summary: "the first N by DECR from N; nobody once that has expired",
    },
];
