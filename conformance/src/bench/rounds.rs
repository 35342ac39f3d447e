//! The round that stands for several rounds of one lock.

use super::measured::{Failure, Measured, Overlaps};

/// Returns the round with the median of the cycles per second (of an even number, the slower one of the two in the middle);
/// `None` without rounds. Its figures are its own, but the overlaps and panics of all rounds count, so that no round hides them.
/// `rounds` lists the figures of each round, in order.
#[must_use]
pub fn median(all: Vec<Measured>) -> Option<Measured> {
    let rounds = all.iter().flat_map(|it| it.rounds.clone()).collect();
    let mut overlaps = Overlaps::default();
    let (mut panics, mut panic) = (0, None);
    for it in &all {
        panics += it.failures.get(&Failure::Panicked).unwrap_or(&0);
        panic = panic.or_else(|| it.complaints.get(&Failure::Panicked).cloned());
        overlaps.count += it.overlaps.count;
        overlaps.first = overlaps.first.or_else(|| it.overlaps.first.clone());
    }
    let interrupted = all.iter().any(|it| it.interrupted);
    let mut all = all;
    all.sort_by(|one, other| one.per_second().total_cmp(&other.per_second()));
    let middle = all.len().checked_sub(1)? / 2;
    let mut median = Measured {
        overlaps,
        interrupted,
        rounds,
        ..all.swap_remove(middle)
    };
    if panics > 0 {
        median.failures.insert(Failure::Panicked, panics);
        median
            .complaints
            .extend(panic.map(|why| (Failure::Panicked, why)));
    }
    Some(median)
}

#[cfg(test)]
mod tests {
    use super::{
        super::measured::{Round, sample},
        *,
    };

    fn round(cycles: u64) -> Measured {
        let mut measured = sample(vec![cycles]);
        measured.rounds = vec![Round::of(&measured)];
        measured
    }

    #[test]
    fn the_median_round_counts_and_no_round_hides_a_second_holder_or_a_panic() {
        let mut fastest = round(300);
        fastest.overlaps.count = 1;
        fastest.overlaps.first = Some("caller 1".to_owned());
        let mut slowest = round(100);
        slowest.failures.insert(Failure::Panicked, 2);
        slowest.failures.insert(Failure::Lost, 1);
        let all = vec![fastest, slowest, round(200)];
        let median = median(all).unwrap();
        assert_eq!((median.total(), median.failed()), (200, 2));
        assert_eq!(median.overlaps.count, 1);
        let rates: Vec<f64> = median
            .rounds
            .iter()
            .map(|it| it.cycles_per_second)
            .collect();
        assert_eq!(rates, [150.0, 50.0, 100.0]);
    }

    #[test]
    fn of_two_rounds_the_slower_one_counts() {
        assert_eq!(median(vec![round(7), round(5)]).unwrap().total(), 5);
        assert!(median(Vec::new()).is_none());
    }
}
