//! A distribution of durations.

use hdrhistogram::Histogram;
use std::time::Duration;

/// A histogram of durations in microseconds, with three significant digits.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

/// Number of significant digits.
const DIGITS: u8 = 3;
const LONGEST: Duration = Duration::from_secs(3_600);

impl Default for Latencies {
    fn default() -> Self {
        let histogram = Histogram::new(DIGITS);
        Self(histogram.unwrap_or_else(|error| unreachable!("{DIGITS} digits are allowed: {error}")))
    }
}

impl Latencies {
    /// Adds a duration; longer ones count as an hour.
    pub fn add(&mut self, took: Duration) {
        let micros = took.min(LONGEST).as_micros();
        // The histogram grows with its values, so every value is in range.
        let _ = self.0.record(u64::try_from(micros).unwrap_or(u64::MAX));
    }

    /// Adds all durations of another distribution.
    pub fn merge(&mut self, others: &Self) {
        let _ = self.0.add(&others.0);
    }

    /// Returns the number of durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns the time that a share (0 to 1) of the durations did not exceed; `None` without durations.
    #[must_use]
    pub fn within(&self, share: f64) -> Option<Duration> {
        (!self.0.is_empty()).then(|| {
            let value = self.0.value_at_quantile(share).min(self.0.max());
            Duration::from_micros(value)
        })
    }

    /// Returns the longest duration.
    #[must_use]
    pub fn longest(&self) -> Option<Duration> {
        self.within(1.0)
    }

    /// Returns shares and times for a curve, as fine as the number of values allows: the remaining share
    /// shrinks by a constant factor, down to a single value.
    #[must_use]
    pub fn curve(&self) -> Vec<(f64, Duration)> {
        const STEPS_PER_NINE: u32 = 10;
        let nines = (self.count() as f64).log10();
        let mut points: Vec<(f64, Duration)> = (0..)
            .map(|step| f64::from(step) / f64::from(STEPS_PER_NINE))
            .take_while(|&at| at <= nines)
            .map(|at| 1.0 - 10_f64.powf(-at))
            .filter_map(|share| Some((share, self.within(share)?)))
            .collect();
        points.extend(self.longest().map(|longest| (1.0, longest)));
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(micros: impl IntoIterator<Item = u64>) -> Latencies {
        let mut all = Latencies::default();
        micros
            .into_iter()
            .for_each(|it| all.add(Duration::from_micros(it)));
        all
    }

    #[test]
    fn shares_count_all_added_durations() {
        let mut all = of(1..=600);
        all.merge(&of(601..=1_000));
        assert_eq!(all.count(), 1_000);
        assert_eq!(all.within(0.5), Some(Duration::from_micros(500)));
        assert_eq!(all.within(0.99), Some(Duration::from_micros(990)));
        assert_eq!(all.longest(), Some(Duration::from_micros(1_000)));
        assert_eq!(Latencies::default().within(0.5), None);
        all.add(Duration::from_secs(7_200));
        assert!(all.longest() > Some(Duration::from_secs(3_596)));
    }

    #[test]
    fn a_curve_rises_and_ends_with_the_longest() {
        let curve = of((1..=1_000).chain([250_000])).curve();
        assert!(
            curve
                .windows(2)
                .all(|two| two[0].0 < two[1].0 && two[0].1 <= two[1].1)
        );
        let (share, longest) = *curve.last().unwrap();
        assert!(
            share == 1.0 && longest.as_micros().abs_diff(250_000) < 250,
            "{longest:?}"
        );
        assert_eq!(curve[0].0, 0.0);
        assert!(of([]).curve().is_empty());
        assert_eq!(of([7]).curve().len(), 2);
    }
}
