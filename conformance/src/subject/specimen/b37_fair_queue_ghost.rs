//! B37: the queue of a fair lock keeps crashed waiters, or drops living ones.

use super::{
    Held, Site, Specimen, exhibit,
    fair_queue::{self, BEGIN, END, ENTER, HEARD, PURGE},
};
use crate::{
    backend::View,
    checker::Property::{Fairness, WakeUp},
    subject::{BoxError, Expected::Convicted, Row},
    vocabulary::Promises,
};
use std::time::Duration;

/// Mistake in the queue.
#[derive(Clone, Copy)]
enum Ghost {
    /// Crashed waiters stay in the queue.
    Stays,
    /// Each check of a waiter adds to its deadline instead of setting it.
    TimeDrifts,
    /// A waiter's deadline is set once, on arrival; the waiter is removed although it keeps checking.
    LivingPurged,
}

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "dead-waiter-heads-queue",
        make: || exhibit(Ghost::Stays),
        expected: Convicted(&[WakeUp]),
        summary: "fair: a crashed waiter stays at the head of the queue",
    },
    Row {
        name: "queue-timeouts-add-up",
        make: || exhibit(Ghost::TimeDrifts),
        expected: Convicted(&[WakeUp]),
        summary: "fair: the longer a waiter waited, the longer its place outlives it",
    },
    Row {
        name: "live-waiter-purged",
        make: || exhibit(Ghost::LivingPurged),
        expected: Convicted(&[Fairness]),
        summary: "fair: a waiter that waits too long is taken for crashed and goes last",
    },
];

/// The mistake of `TimeDrifts`: it adds.
const ADDS: &str = "redis.call('HINCRBY', alive, me, ARGV[3]) ";

impl Specimen for Ghost {
    fn id(&self) -> &'static str {
        match self {
            Self::Stays => "B37a",
            Self::TimeDrifts => "B37b",
            Self::LivingPurged => "B37c",
        }
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node()
            .with_deadline()
            .waiting(Some(2))
            .fair()
    }

    async fn acquire(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        self.wait(site, Duration::ZERO).await
    }

    async fn wait(&self, site: &Site, wait: Duration) -> Result<Option<Held>, BoxError> {
        let (purge, heard) = match self {
            Self::Stays => ("", HEARD), // the mistake
            Self::TimeDrifts => (PURGE, ADDS),
            Self::LivingPurged => (PURGE, ""), // the mistake
        };
        let script = [BEGIN, purge, ENTER, heard, END].concat();
        fair_queue::wait(site, &script, wait).await
    }

    fn queued(&self, view: &dyn View, key: &str) -> Vec<Vec<u8>> {
        fair_queue::queued(view, key)
    }
}
