//! Medians, quantiles and ratios of any values.

/// Returns the middle value, or the mean of the two in the middle. NaN for no values.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// Returns the smallest value that at least `share` (0 to 1) of the values do not exceed (nearest rank).
/// Sorts the values. 0 for no values.
pub fn quantile(values: &mut [u32], share: f64) -> u32 {
    if values.is_empty() {
        return 0;
    }
    let rank = (share * values.len() as f64).ceil() as usize;
    let index = rank.clamp(1, values.len()) - 1;
    *values.select_nth_unstable(index).1
}

/// Returns `ours / theirs`; NaN, which meets no target, if there is nothing to compare with.
pub fn ratio(ours: f64, theirs: f64) -> f64 {
    if theirs > 0.0 && ours.is_finite() && theirs.is_finite() {
        ours / theirs
    } else {
        f64::NAN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle_and_ignores_outliers() {
        for (values, expected) in [
            (&[3.0][..], 3.0),
            (&[9.0, 1.0, 2.0], 2.0),
            (&[1.0, 2.0, 3.0, 1000.0], 2.5),
            (&[5.0, 4.0, 1e9, 4.5, 0.0], 4.5),
        ] {
            assert_eq!(median(values), expected, "{values:?}");
        }
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn quantiles_are_values_that_were_seen() {
        let mut hundred: Vec<u32> = (1..=100).rev().collect();
        for (share, expected) in [(0.0, 1), (0.5, 50), (0.99, 99), (0.991, 100), (1.0, 100)] {
            assert_eq!(quantile(&mut hundred, share), expected, "{share}");
        }
        assert_eq!((quantile(&mut [7], 0.99), quantile(&mut [], 0.99)), (7, 0));
    }

    #[test]
    fn a_ratio_needs_two_measurements() {
        assert_eq!(ratio(3.0, 2.0), 1.5);
        for (ours, theirs) in [
            (1.0, 0.0),
            (f64::NAN, 1.0),
            (1.0, f64::INFINITY),
            (f64::INFINITY, 1.0),
        ] {
            assert!(ratio(ours, theirs).is_nan(), "{ours} / {theirs}");
        }
    }
}
