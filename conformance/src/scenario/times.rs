//! The times of a generated scenario: its lease, the latency of its network, and how long a request waits for its reply.

use super::nemesis::UNITS_PER_LEASE;
use proptest::prelude::*;
use std::ops::RangeInclusive;

/// Lease in milliseconds of proportional scenarios before they are scaled to their own lease.
pub(super) const LEASE_MS: u64 = 30_000;

/// Longest time of a message on the slowest network, in milliseconds.
const SLOWEST_MS: u64 = 1_000;

/// A lease is at least as long as this number of successive messages on the slowest network.
const MESSAGES_PER_LEASE: u64 = 30;

/// Shortest and longest request timeout, in milliseconds.
const TIMEOUT_MS: RangeInclusive<u64> = 20..=10_000;

/// A request timeout is at least as long as this number of successive messages on the slowest network.
const MESSAGES_PER_TIMEOUT: u64 = 10;

/// Number of request timeouts in a lease at the end of a scenario whose last fault leaves something to clean up.
const TIMEOUTS_PER_LEASE: u64 = 16;

/// Times of a scenario that depend on the seed alone, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) lease: u64,
    /// Longest time of a message.
    pub(super) latency: u64,
    /// Time for which a request waits for its reply; `None` if this is a fixed part of the lease.
    pub(super) timeout: Option<u64>,
}

impl Times {
    /// Converts units to milliseconds.
    pub(super) const fn ms(self, units: u64) -> u64 {
        units * self.lease / UNITS_PER_LEASE
    }

    /// Returns the times with a request timeout that leaves a client time to clean up before its lease ends: it may wait for two
    /// timeouts first.
    pub(super) fn to_clean_up(mut self) -> Self {
        let least = self.least_timeout();
        let most = (self.lease / TIMEOUTS_PER_LEASE).max(least);
        self.timeout = self.timeout.map(|timeout| timeout.min(most));
        self
    }

    fn least_timeout(self) -> u64 {
        (MESSAGES_PER_TIMEOUT * self.latency).max(*TIMEOUT_MS.start())
    }
}

/// Times of a scenario that is scaled to its lease later: a fast network, or a slow one with at least 30 one-way delays
/// per lease.
pub(super) fn proportional() -> BoxedStrategy<Times> {
    let latency = prop_oneof![2 => 0..4_u64, 1 => 100..LEASE_MS / MESSAGES_PER_LEASE];
    let times = latency.prop_map(|latency| Times {
        lease: LEASE_MS,
        latency,
        timeout: None,
    });
    times.boxed()
}

/// Leases from a tenth of a second to ten minutes, with networks and timeouts under which a client can hold such a
/// lease.
pub(super) fn drawn() -> BoxedStrategy<Times> {
    let lease = prop_oneof![
        2 => 100..400_u64,
        2 => 400..2_000_u64,
        3 => 2_000..10_000_u64,
        4 => 10_000..60_000_u64,
        1 => 60_000..=600_000_u64,
    ];
    // A fast network, or a slow one.
    let slow = prop_oneof![2 => Just(None), 1 => (0..1_000_u64).prop_map(Some)];
    let parts = (lease, slow, 0..4_u64, 0..1_000_u64);
    let times = parts.prop_map(|(lease, slow, near, patience)| {
        let slowest = (lease / MESSAGES_PER_LEASE).min(SLOWEST_MS);
        let latency = match slow {
            Some(part) => slowest / 10 + slowest * part * 9 / 10_000,
            None => near.min(slowest),
        };
        let mut times = Times {
            lease,
            latency,
            timeout: None,
        };
        let least = times.least_timeout();
        let most = (2 * lease).min(*TIMEOUT_MS.end()).max(2 * least);
        // Short timeouts are as frequent as long ones.
        times.timeout = Some(least + (most - least) * patience * patience / 1_000_000);
        times
    });
    times.boxed()
}
