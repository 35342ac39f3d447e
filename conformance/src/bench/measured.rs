//! What a measurement has shown.

use super::{latencies::Latencies, load::Load};
use std::{collections::BTreeMap, time::Duration};

/// How a cycle can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    /// Others held the lock for the whole wait.
    Contended,
    /// It was refused for another reason, or the lease was over before the grant arrived.
    Refused,
    /// It is not known whether it was granted: no answer, for instance.
    Unknown,
    /// It was gone when it was given back.
    Lost,
    /// It is not known whether it was given back.
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

    /// Its name in the results.
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

/// Grants of a lock that as many already held as may hold it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overlaps {
    /// How many there were.
    pub count: u64,
    /// The first one.
    pub first: Option<String>,
}

/// What a measurement of one lock has shown.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The lock.
    pub lock: &'static str,
    /// Where it was measured.
    pub place: String,
    /// The load.
    pub load: Load,
    /// How long it was measured; less than asked for if it was interrupted.
    pub elapsed: Duration,
    /// Whether it was interrupted.
    pub interrupted: bool,
    /// Acquisitions that were begun.
    pub asked: u64,
    /// Cycles of acquiring and giving back that went well, per client.
    pub cycles: Vec<u64>,
    /// From asking (in an open loop: from when it should have been asked) to the grant.
    pub acquire: Latencies,
    /// From the start of a release to the grant of a client that waited then.
    pub hand_over: Latencies,
    /// Grants to a client that asked later than another one that still waits.
    pub overtaken: u64,
    /// Cycles that failed.
    pub failures: BTreeMap<Failure, u64>,
    /// The message of the first of each kind.
    pub complaints: BTreeMap<Failure, String>,
    /// In an open loop: cycles that should have begun and had not when the time was over.
    pub unserved: u64,
    /// Commands that the servers executed, scripts' own included.
    pub commands: BTreeMap<String, u64>,
    /// Whether more held it at once than may.
    pub overlaps: Overlaps,
}

impl Measured {
    /// Cycles of all clients that went well.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.cycles.iter().sum()
    }

    /// The same in a second.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        self.total() as f64 / self.elapsed.as_secs_f64().max(f64::EPSILON)
    }

    /// Cycles that failed, in all ways.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }

    /// Cycles that were under way when the time was over.
    #[must_use]
    pub fn unfinished(&self) -> u64 {
        self.asked
            .saturating_sub(self.total())
            .saturating_sub(self.failed())
    }

    /// Jain's index of the cycles of all clients: 1 if all had equally many, 1/n if one of n had them all.
    /// `None` if no client had any.
    #[must_use]
    pub fn fairness(&self) -> Option<f64> {
        let sum = self.total() as f64;
        let squares: f64 = self.cycles.iter().map(|&it| (it as f64).powi(2)).sum();
        (squares > 0.0).then(|| sum * sum / (self.cycles.len() as f64 * squares))
    }

    /// Commands that the servers executed per cycle that went well.
    #[must_use]
    pub fn commands_per_cycle(&self) -> Option<f64> {
        let cycles = self.total();
        (cycles > 0).then(|| self.commands.values().sum::<u64>() as f64 / cycles as f64)
    }

    /// Whether the lock never had more holders than it may, and no code panicked.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.overlaps.count == 0 && !self.failures.contains_key(&Failure::Panicked)
    }
}

/// A measurement in which nothing was slow.
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
    fn fairness_is_one_for_equal_shares_and_an_nth_for_one_who_has_all() {
        assert_eq!(sample(vec![5; 4]).fairness(), Some(1.0));
        assert_eq!(sample(vec![0, 0, 0, 9]).fairness(), Some(0.25));
        assert_eq!(sample(vec![0; 4]).fairness(), None);
    }

    #[test]
    fn what_was_asked_went_well_or_failed_or_was_cut_off() {
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
