//! How long something took, many times over.

use hdrhistogram::Histogram;
use std::time::Duration;

/// Durations to the microsecond, of which three digits are kept.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

/// Of so many significant digits.
const DIGITS: u8 = 3;
const LONGEST: Duration = Duration::from_secs(3_600);

impl Default for Latencies {
    fn default() -> Self {
        let histogram = Histogram::new(DIGITS);
        Self(histogram.unwrap_or_else(|error| unreachable!("{DIGITS} digits are allowed: {error}")))
    }
}

impl Latencies {
    /// Adds one; longer ones count as an hour.
    pub fn add(&mut self, took: Duration) {
        let micros = took.min(LONGEST).as_micros();
        // It grows with its values, so none is out of range.
        let _ = self.0.record(u64::try_from(micros).unwrap_or(u64::MAX));
    }

    /// Adds all others.
    pub fn merge(&mut self, others: &Self) {
        let _ = self.0.add(&others.0);
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The time within which this share of them was done, 0 to 1; `None` if there are none.
    #[must_use]
    pub fn within(&self, share: f64) -> Option<Duration> {
        (!self.0.is_empty()).then(|| {
            let value = self.0.value_at_quantile(share).min(self.0.max());
            Duration::from_micros(value)
        })
    }

    /// The longest.
    #[must_use]
    pub fn longest(&self) -> Option<Duration> {
        self.within(1.0)
    }

    /// Shares and times for a curve, as fine as so many values say anything: from the shortest on, with
    /// equal steps of the remaining ones, down to a single one.
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
    fn shares_are_of_what_was_added() {
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
