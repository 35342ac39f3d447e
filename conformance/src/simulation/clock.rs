//! The local clock of a host: a piecewise linear, rising function of true time.
//!
//! True time starts at 0 with the run. The whole course of a clock is known before the run, since
//! a scenario gives absolute times; so the map can be inverted exactly and a sleeper never has to
//! be woken early to look again.

use std::time::Duration;

const PPM: i128 = 1_000_000;

/// A host's monotonic clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostClock {
    /// Rising in both coordinates; never empty.
    pieces: Vec<Piece>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    true_from: Duration,
    local_from: Duration,
    rate_ppm: i64,
}

impl HostClock {
    /// Local time at the start of a run. Not 0, so that confusing the two times shows.
    pub const ORIGIN: Duration = Duration::from_secs(1_000);

    /// A clock that runs at the rate of true time.
    #[must_use]
    pub fn exact() -> Self {
        Self {
            pieces: vec![Piece {
                true_from: Duration::ZERO,
                local_from: Self::ORIGIN,
                rate_ppm: 0,
            }],
        }
    }

    /// A clock that gains `ppm` microseconds per second (loses, if negative) in each of the given
    /// spans `(from, to, ppm)` of true time. Where spans overlap, their rates add up; the total
    /// rate is kept above -90 %, so a clock never stands still or runs backwards.
    #[must_use]
    pub fn drifting(spans: &[(Duration, Duration, i64)]) -> Self {
        let mut edges: Vec<Duration> = spans.iter().flat_map(|&(from, to, _)| [from, to]).collect();
        edges.sort_unstable();
        edges.dedup();
        let mut clock = Self::exact();
        for edge in edges {
            let rate_ppm: i64 = spans
                .iter()
                .filter(|&&(from, to, _)| from <= edge && edge < to)
                .map(|&(_, _, ppm)| ppm)
                .sum();
            let local_from = clock.local(edge);
            clock.pieces.push(Piece {
                true_from: edge,
                local_from,
                rate_ppm: rate_ppm.max(-900_000),
            });
        }
        clock
    }

    /// What the clock shows at a true time.
    #[must_use]
    pub fn local(&self, true_time: Duration) -> Duration {
        let piece = self.piece(|piece| piece.true_from <= true_time);
        let elapsed = nanos(true_time.saturating_sub(piece.true_from));
        piece.local_from + duration(elapsed * (PPM + i128::from(piece.rate_ppm)) / PPM)
    }

    /// The first true time at which the clock shows `local` or more.
    #[must_use]
    pub fn true_time(&self, local: Duration) -> Duration {
        let piece = self.piece(|piece| piece.local_from <= local);
        let elapsed = nanos(local.saturating_sub(piece.local_from));
        let rate = PPM + i128::from(piece.rate_ppm);
        piece.true_from + duration((elapsed * PPM + rate - 1) / rate)
    }

    fn piece(&self, begins_before: impl Fn(&Piece) -> bool) -> Piece {
        let at = self.pieces.partition_point(begins_before).saturating_sub(1);
        self.pieces[at]
    }
}

fn nanos(duration: Duration) -> i128 {
    i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX)
}

fn duration(nanos: i128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn an_exact_clock_keeps_its_distance() {
        let clock = HostClock::exact();
        assert_eq!(clock.local(S(7)), HostClock::ORIGIN + S(7));
        assert_eq!(clock.true_time(HostClock::ORIGIN + S(7)), S(7));
        assert_eq!(clock.true_time(S(1)), S(0), "before the origin: at once");
    }

    #[test]
    fn a_fast_clock_reaches_a_local_time_earlier() {
        let clock = HostClock::drifting(&[(S(10), S(20), 500_000)]);
        assert_eq!(clock.local(S(10)), HostClock::ORIGIN + S(10));
        assert_eq!(clock.local(S(20)), HostClock::ORIGIN + S(25));
        assert_eq!(clock.local(S(30)), HostClock::ORIGIN + S(35));
        assert_eq!(clock.true_time(HostClock::ORIGIN + S(13)), S(12));
        assert_eq!(clock.true_time(HostClock::ORIGIN + S(30)), S(25));
    }

    #[test]
    fn overlapping_spans_add_up_and_the_inverse_never_comes_early() {
        let clock = HostClock::drifting(&[(S(0), S(10), 30), (S(5), S(15), -700)]);
        for ms in (0..20_000).step_by(37) {
            let local = HostClock::ORIGIN + Duration::from_millis(ms);
            let at = clock.true_time(local);
            assert!(clock.local(at) >= local, "{ms}");
            assert!(
                clock.local(at.saturating_sub(Duration::from_nanos(3))) <= local,
                "{ms}"
            );
        }
    }
}
