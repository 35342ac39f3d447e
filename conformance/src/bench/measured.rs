//! Results of a measurement.

use super::{latencies::Latencies, load::Load, server_work::ServerWork};
use std::{collections::BTreeMap, time::Duration};

/// Kinds of failed cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    /// Other clients held the lock for the whole wait.
    Contended,
    /// The lock was refused for another reason, or the lease ended before the grant arrived.
    Refused,
    /// The outcome of the acquisition is unknown, for example without a reply.
    Unknown,
    /// The lock was lost before its release.
    Lost,
    /// The outcome of the release is unknown.
    ReleaseUnknown,
    /// The code of the lock panicked.
    Panicked,
}

impl Failure {
    /// All kinds.
    pub const ALL: [Self; 6] = [
        Self::Contended,
        Self::Refused,
        Self::Unknown,
        Self::Lost,
        Self::ReleaseUnknown,
        Self::Panicked,
    ];

    /// Returns the name in the results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Contended => "contended",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
            Self::Lost => "lost",
            Self::ReleaseUnknown => "release_unknown",
            Self::Panicked => "panicked",
        }
    }
}

/// Grants beyond the number of clients that may hold the lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overlaps {
    /// Number of such grants.
    pub count: u64,
    /// Description of the first one.
    pub first: Option<String>,
}

/// Results of one lock.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Name of the lock.
    pub lock: &'static str,
    /// Name of the backend.
    pub place: String,
    /// The load.
    pub load: Load,
    /// Measured time; less than the load's if interrupted.
    pub elapsed: Duration,
    /// True if it was interrupted.
    pub interrupted: bool,
    /// Number of acquisitions that were started.
    pub asked: u64,
    /// Number of successful cycles of each caller.
    pub cycles: Vec<u64>,
    /// Times from the request (in an open loop: from its intended start) to the grant.
    pub acquire: Latencies,
    /// Times from the start of a release to the grant of a client that was waiting.
    pub hand_over: Latencies,
    /// Number of grants to a client while another one has been waiting for longer.
    pub overtaken: u64,
    /// Number of failed cycles by kind.
    pub failures: BTreeMap<Failure, u64>,
    /// First message of each kind of failure.
    pub complaints: BTreeMap<Failure, String>,
    /// In an open loop: number of cycles whose start time had passed and that had not started at the end.
    pub unserved: u64,
    /// Work of the servers.
    pub work: ServerWork,
    /// Grants beyond the number of clients that may hold the lock.
    pub overlaps: Overlaps,
    /// Figures of each round, of which this is one.
    pub rounds: Vec<Round>,
}

impl Measured {
    /// Returns the number of successful cycles of all callers.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.cycles.iter().sum()
    }

    /// Returns the number of successful cycles per second.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        self.total() as f64 / self.elapsed.as_secs_f64().max(f64::EPSILON)
    }

    /// Returns the number of failed cycles.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }

    /// Returns the number of cycles that were unfinished at the end.
    #[must_use]
    pub fn unfinished(&self) -> u64 {
        self.asked
            .saturating_sub(self.total())
            .saturating_sub(self.failed())
    }

    /// Returns Jain's index of the callers' cycles: 1 if all callers had equally many, 1/n if one of n had
    /// all. `None` if there were no cycles.
    #[must_use]
    pub fn fairness(&self) -> Option<f64> {
        let sum = self.total() as f64;
        let squares: f64 = self.cycles.iter().map(|&it| (it as f64).powi(2)).sum();
        (squares > 0.0).then(|| sum * sum / (self.cycles.len() as f64 * squares))
    }

    /// Returns the number of executed commands per successful cycle, including those in scripts.
    #[must_use]
    pub fn commands_per_cycle(&self) -> Option<f64> {
        self.per_cycle(self.work.commands.values().sum::<u64>() as f64)
    }

    /// Returns the number of requests per successful cycle, more precisely [`ServerWork::reads`].
    #[must_use]
    pub fn requests_per_cycle(&self) -> Option<f64> {
        self.per_cycle(self.work.reads as f64)
    }

    /// Returns the CPU time of the servers per successful cycle, in microseconds.
    #[must_use]
    pub fn server_us_per_cycle(&self) -> Option<f64> {
        self.per_cycle(self.work.cpu.as_secs_f64() * 1e6)
    }

    /// Returns a part of the servers' work per cycle; `None` if the servers do not report it.
    fn per_cycle(&self, sum: f64) -> Option<f64> {
        let cycles = self.total();
        (cycles > 0 && sum > 0.0).then(|| sum / cycles as f64)
    }

    /// Returns true if the lock never had more holders than allowed, and no code panicked.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.overlaps.count == 0 && !self.failures.contains_key(&Failure::Panicked)
    }
}

/// Figures of one round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Round {
    /// Successful cycles per second.
    pub cycles_per_second: f64,
    /// Failed cycles.
    pub failed: u64,
    /// Median time from a request to its grant.
    pub acquire_p50: Option<Duration>,
    /// 99th percentile of this time.
    pub acquire_p99: Option<Duration>,
    /// Jain's index of the callers' cycles.
    pub fairness: Option<f64>,
    /// Commands per cycle, including those in scripts.
    pub commands_per_cycle: Option<f64>,
    /// Requests per cycle: see [`ServerWork::reads`](super::ServerWork::reads).
    pub requests_per_cycle: Option<f64>,
    /// CPU time of the servers per cycle, in microseconds.
    pub server_us_per_cycle: Option<f64>,
}

impl Round {
    /// Returns the figures of a measurement.
    pub(super) fn of(measured: &Measured) -> Self {
        Self {
            cycles_per_second: measured.per_second(),
            failed: measured.failed(),
            acquire_p50: measured.acquire.within(0.5),
            acquire_p99: measured.acquire.within(0.99),
            fairness: measured.fairness(),
            commands_per_cycle: measured.commands_per_cycle(),
            requests_per_cycle: measured.requests_per_cycle(),
            server_us_per_cycle: measured.server_us_per_cycle(),
        }
    }
}

/// A measurement without anything unusual.
#[cfg(test)]
pub(super) fn sample(cycles: Vec<u64>) -> Measured {
    Measured {
        lock: "mutex",
        place: "double".to_owned(),
        load: Load::default(),
        elapsed: Duration::from_secs(2),
        interrupted: false,
        asked: cycles.iter().sum(),
        cycles,
        acquire: Latencies::default(),
        hand_over: Latencies::default(),
        overtaken: 0,
        failures: BTreeMap::new(),
        complaints: BTreeMap::new(),
        unserved: 0,
        work: ServerWork::default(),
        overlaps: Overlaps::default(),
        rounds: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_is_one_for_equal_shares_and_an_nth_for_a_single_winner() {
        assert_eq!(sample(vec![5; 4]).fairness(), Some(1.0));
        assert_eq!(sample(vec![0, 0, 0, 9]).fairness(), Some(0.25));
        assert_eq!(sample(vec![0; 4]).fairness(), None);
    }

    #[test]
    fn every_request_succeeds_fails_or_is_unfinished() {
        let mut measured = sample(vec![3, 4]);
        measured.asked = 10;
        measured.failures.insert(Failure::Contended, 2);
        assert_eq!((measured.failed(), measured.unfinished()), (2, 1));
        assert_eq!(measured.per_second(), 3.5);
        assert!(measured.is_sound());
        measured.overlaps.count = 1;
        assert!(!measured.is_sound());
    }
}
