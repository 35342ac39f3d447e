//! LATENCY: the slow events of a node, and how long commands take, as Redis groups it.
//!
//! Sources: `latency.c`, `hdr_histogram.c`. A command that sleeps takes time; other events do on the system clock.

use std::collections::{BTreeMap, VecDeque};

/// Samples kept of an event (`LATENCY_TS_LEN`).
const SAMPLES_MAX: usize = 160;

/// The samples of one event.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spikes {
    /// Seconds since 1970 and milliseconds, oldest first.
    samples: VecDeque<(i64, i64)>,
    max: i64,
}

impl Spikes {
    pub(crate) fn max(&self) -> i64 {
        self.max
    }

    pub(crate) fn samples(&self) -> impl Iterator<Item = (i64, i64)> {
        self.samples.iter().copied()
    }

    pub(crate) fn latest(&self) -> Option<(i64, i64)> {
        self.samples.back().copied()
    }
}

/// The slow events of a node, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latency(BTreeMap<&'static str, Spikes>);

impl Latency {
    /// Records an event of `millis` milliseconds. Of the events in one second the longest is kept.
    pub(in crate::engine) fn add(&mut self, event: &'static str, at: i64, millis: i64) {
        let spikes = self.0.entry(event).or_default();
        spikes.max = spikes.max.max(millis);
        match spikes.samples.back_mut() {
            Some((last, longest)) if *last == at => *longest = millis.max(*longest),
            _ => {
                if spikes.samples.len() == SAMPLES_MAX {
                    spikes.samples.pop_front();
                }
                spikes.samples.push_back((at, millis));
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, &Spikes)> {
        self.0.iter().map(|(event, spikes)| (*event, spikes))
    }

    pub(crate) fn of(&self, event: &[u8]) -> Option<&Spikes> {
        let mut all = self.iter();
        all.find(|(name, _)| name.as_bytes() == event)
            .map(|(_, spikes)| spikes)
    }

    /// Forgets an event; true if there was one.
    pub(crate) fn forget(&mut self, event: &[u8]) -> bool {
        let before = self.0.len();
        self.0.retain(|name, _| name.as_bytes() != event);
        self.0.len() < before
    }

    /// Forgets all events; how many there were.
    pub(crate) fn clear(&mut self) -> usize {
        std::mem::take(&mut self.0).len()
    }
}

/// Resolution of a histogram: nanoseconds, of which the two highest digits count.
const NANOS: std::ops::RangeInclusive<u64> = 1..=1_000_000_000;
/// Values below this are counted one by one. Above it, the width of a step doubles with the value.
const EXACT: u64 = 256;
/// The highest value that has a place.
const HIGHEST: u64 = (1 << 30) - 1;
/// The bound of the first group.
const FIRST_BOUND: u64 = 1024;

/// The lowest and the highest value that a histogram does not tell from `nanos`.
fn equivalent(nanos: u64) -> (u64, u64) {
    let step = (nanos / EXACT + 1).next_power_of_two();
    let lowest = nanos / step * step;
    (lowest, (lowest + step - 1).min(HIGHEST))
}

fn recorded(micros: u64) -> u64 {
    micros
        .saturating_mul(1000)
        .clamp(*NANOS.start(), *NANOS.end())
}

/// The duration in microseconds, as INFO prints it, below which so many percent of the calls were.
/// `durations` are microseconds and how often they were seen, shortest first.
pub(crate) fn percentile(durations: &[(u64, u64)], percent: f64) -> f64 {
    let total: u64 = durations.iter().map(|(_, count)| count).sum();
    let wanted = (percent / 100.0 * total as f64 + 0.5) as u64;
    let mut seen = 0;
    for (micros, count) in durations {
        seen += count;
        if seen >= wanted.max(1) {
            let (lowest, highest) = equivalent(recorded(*micros));
            let nanos = if percent == 0.0 { lowest } else { highest };
            return nanos as f64 / 1000.0;
        }
    }
    0.0
}

/// The groups of a histogram with doubling bounds: the bound in microseconds, and the number of calls up to it.
pub(crate) fn groups(durations: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut groups: Vec<(u64, u64)> = Vec::new();
    let (mut bound, mut seen) = (FIRST_BOUND, 0);
    for (micros, count) in durations {
        while equivalent(recorded(*micros)).0 > bound {
            bound *= 2;
        }
        seen += count;
        let until = equivalent(bound).1.min(HIGHEST) / 1000;
        match groups.last_mut() {
            Some((last, total)) if *last == until => *total = seen,
            _ => groups.push((until, seen)),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measured on a server of 7.0.15.
    #[test]
    fn histograms_are_those_of_redis() {
        for (micros, group, median) in [
            (0, 1, "0.001"),
            (33_575, 33_816, "33816.575"),
            (300_060, 541_065, "301989.887"),
            (600_060, 1_073_741, "603979.775"),
            (2_000_000, 1_073_741, "1002438.655"),
        ] {
            assert_eq!(groups(&[(micros, 3)]), [(group, 3)], "{micros}");
            assert_eq!(format!("{:.3}", percentile(&[(micros, 3)], 50.0)), median);
        }
        let many = [(0, 2), (1, 1), (40_000, 1)];
        assert_eq!(groups(&many), [(1, 3), (67_633, 4)]);
        let median = |percent| percentile(&many, percent);
        assert_eq!((median(50.0), median(99.0)), (0.001, 40_108.031));
    }

    #[test]
    fn samples_of_one_second_are_one() {
        let mut latency = Latency::default();
        for (at, millis) in [(1, 30), (1, 20), (2, 10)] {
            latency.add("command", at, millis);
        }
        let spikes = latency.of(b"command").expect("was added");
        assert!(spikes.samples().eq([(1, 30), (2, 10)]));
        assert_eq!((spikes.max(), spikes.latest()), (30, Some((2, 10))));
        for at in 3..1000 {
            latency.add("command", at, 1);
        }
        let count = latency.iter().map(|(_, spikes)| spikes.samples().count());
        assert_eq!(count.sum::<usize>(), SAMPLES_MAX);
        assert!(latency.forget(b"command") && !latency.forget(b"command"));
        assert_eq!(latency.clear(), 0);
    }
}
