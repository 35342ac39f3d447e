//! Work that outlasts the lease: it is no fault, but the classic way to lose a lock.

use super::{Nemesis, Strike};
use proptest::prelude::*;

/// Lets clients work longer than their lease.
pub(super) struct Overwork;

impl Nemesis for Overwork {
    fn name(&self) -> &'static str {
        "overwork"
    }

    fn summary(&self) -> &'static str {
        "clients work for longer than their lease"
    }

    fn strikes(&self) -> BoxedStrategy<Vec<Strike>> {
        Just(vec![]).boxed()
    }

    fn overworks(&self) -> bool {
        true
    }
}
