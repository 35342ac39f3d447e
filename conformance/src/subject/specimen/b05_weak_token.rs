//! B05: clients share a token, so comparing it proves nothing.

use super::{Held, Site, Specimen, exhibit};
use crate::{
    checker::Property::{Exclusion, Ownership},
    subject::{
        BoxError,
        Expected::{self, Convicted},
        Row,
    },
};

/// Sources of the token.
pub(in crate::subject) enum WeakToken {
    /// A constant.
    Constant,
    /// The number of the thread. Every process has a first thread.
    Thread(&'static str),
    /// The caller supplies it: the number of its request.
    Caller(&'static str),
    /// A random generator that every process inherited from its parent in the same state.
    Forked,
}

const BREAKS: Expected = Convicted(&[Exclusion, Ownership]);

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "constant-token",
        make: || exhibit(WeakToken::Constant),
        expected: BREAKS,
        summary: "the token is a constant",
    },
    Row {
        name: "thread-number-token",
        make: || exhibit(WeakToken::Thread("B05b")),
        expected: BREAKS,
        summary: "the token is the number of the thread",
    },
    Row {
        name: "caller-supplied-token",
        make: || exhibit(WeakToken::Caller("B05c")),
        expected: BREAKS,
        summary: "callers supply the token and count requests, so tokens repeat",
    },
    Row {
        name: "forked-generator-token",
        make: || exhibit(WeakToken::Forked),
        expected: BREAKS,
        summary: "the token comes from a random generator that fork copied",
    },
];

impl Specimen for WeakToken {
    fn id(&self) -> &'static str {
        match self {
            Self::Constant => "B05a",
            Self::Thread(id) | Self::Caller(id) => id,
            Self::Forked => "B05d",
        }
    }

    async fn acquire(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        // The mistake: the token is unique only within its process.
        let token = match self {
            Self::Constant => "locked".to_owned(),
            Self::Thread(_) => format!("thread-{}", site.host.worker_id()),
            Self::Caller(_) => format!("request-{}", site.count()),
            Self::Forked => {
                // Knuth's multiplier. Each process draws the same sequence of numbers.
                let drawn = site.count().wrapping_mul(6_364_136_223_846_793_005);
                format!("{drawn:016x}")
            }
        };
        site.acquire_as(token).await
    }
}
