//! Results of a measurement.

use super::{latencies::Latencies, load::Load};
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
    /// Number of successful cycles of each client.
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
    /// Number of commands that the servers executed, including those in scripts.
    pub commands: BTreeMap<String, u64>,
    /// Grants beyond the number of clients that may hold the lock.
    pub overlaps: Overlaps,
}

impl Measured {
    /// Returns the number of successful cycles of all clients.
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

    /// Returns Jain's index of the clients' cycles: 1 if all clients had equally many, 1/n if one of n had
    /// all. `None` if there were no cycles.
    #[must_use]
    pub fn fairness(&self) -> Option<f64> {
        let sum = self.total() as f64;
        let squares: f64 = self.cycles.iter().map(|&it| (it as f64).powi(2)).sum();
        (squares > 0.0).then(|| sum * sum / (self.cycles.len() as f64 * squares))
    }

    /// Returns the number of executed commands per successful cycle.
    #[must_use]
    pub fn commands_per_cycle(&self) -> Option<f64> {
        let cycles = self.total();
        (cycles > 0).then(|| self.commands.values().sum::<u64>() as f64 / cycles as f64)
    }

    /// Returns true if the lock never had more holders than allowed, and no code panicked.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.overlaps.count == 0 && !self.failures.contains_key(&Failure::Panicked)
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
        commands: BTreeMap::new(),
        overlaps: Overlaps::default(),
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
