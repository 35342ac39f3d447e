//! Servers that reply with errors for a while: loading, busy, out of memory, read-only.

use super::{NODES_MAX, Nemesis, SPAN, Strike};
use crate::scenario::{Fault, ServerError};
use proptest::{collection::vec, prelude::*};

/// Makes nodes reply with errors.
pub(super) struct AnswerError;

impl Nemesis for AnswerError {
    fn name(&self) -> &'static str {
        "answer-error"
    }

    fn summary(&self) -> &'static str {
        "nodes reply with LOADING, BUSY, READONLY, OOM or MASTERDOWN for a while"
    }

    fn strikes(&self) -> BoxedStrategy<Vec<Strike>> {
        let strike = (
            SPAN,
            2..80_u64,
            0..NODES_MAX,
            proptest::sample::select(&ServerError::ALL[..]),
        )
            .prop_map(|(at, length, node, error)| Strike {
                at,
                length,
                fault: Fault::AnswerError { node, error },
            });
        vec(strike, 1..5).boxed()
    }
}
