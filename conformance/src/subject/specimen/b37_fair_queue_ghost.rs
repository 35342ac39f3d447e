//! B37: the queue of a fair lock holds those who are dead, or loses those who are alive.

use super::{
    Held, Site, Specimen, exhibit,
    fair_queue::{self, BEGIN, END, ENTER, HEARD, PURGE},
};
use crate::{
    backend::View,
    checker::Property::{Fairness, WakeUp},
    subject::{BoxError, Expected::Convicted, Promises, Row},
};
use std::time::Duration;

/// What is wrong about the queue.
#[derive(Clone, Copy)]
enum Ghost {
    /// Nobody removes those who died.
    Stays,
    /// Each time that a waiter asks adds to its time, instead of setting it.
    TimeDrifts,
    /// A waiter's time is set when it comes; it is removed although it asks.
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

/// The mistake of the second: it adds.
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
