//! The local clock of a host: a piecewise linear, rising function of true time.
//!
//! True time starts at 0 with the run. A scenario has absolute times, so the course of each clock is known
//! before the run. The function can therefore be inverted exactly, and no sleeper has to wake up early to
//! check again.

use std::time::Duration;

const PPM: i128 = 1_000_000;

/// Longest time that a clock covers: 584 years.
const LONGEST: Duration = Duration::from_nanos(u64::MAX);

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
    /// Local time at the start of a run. It differs from 0, so code that confuses the two times fails
    /// visibly.
    pub const ORIGIN: Duration = Duration::from_secs(1_000);

    /// Rate of a clock that stands still, in parts per million.
    pub const STANDSTILL: i64 = -1_000_000;

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

    /// A clock that gains `ppm` microseconds per second (loses, if negative) in each of the given spans
    /// `(from, to, ppm)` of true time. Where spans overlap, their rates add up, but not below -90 %, so a
    /// clock never runs backwards. A span with rate [`STANDSTILL`](Self::STANDSTILL) stops the clock,
    /// whatever the other spans say.
    #[must_use]
    pub fn drifting(spans: &[(Duration, Duration, i64)]) -> Self {
        let mut edges: Vec<Duration> = spans.iter().flat_map(|&(from, to, _)| [from, to]).collect();
        edges.sort_unstable();
        edges.dedup();
        let mut clock = Self::exact();
        for edge in edges {
            let rates = spans
                .iter()
                .filter(|&&(from, to, _)| from <= edge && edge < to)
                .map(|&(_, _, ppm)| ppm);
            let rate_ppm = if rates.clone().any(|ppm| ppm == Self::STANDSTILL) {
                Self::STANDSTILL
            } else {
                rates.sum::<i64>().max(-900_000)
            };
            let local_from = clock.local(edge);
            clock.pieces.push(Piece {
                true_from: edge,
                local_from,
                rate_ppm,
            });
        }
        clock
    }

    /// Returns the local time at a true time.
    #[must_use]
    pub fn local(&self, true_time: Duration) -> Duration {
        let piece = self.piece(|piece| piece.true_from <= true_time);
        let elapsed = true_time.saturating_sub(piece.true_from);
        if piece.rate_ppm == 0 {
            // This branch is a fast path: most clocks are exact, and all are read often.
            return piece.local_from + elapsed.min(LONGEST);
        }
        let elapsed = nanos(elapsed);
        piece.local_from + duration(elapsed * (PPM + i128::from(piece.rate_ppm)) / PPM)
    }

    /// Returns the first true time at which the local time is `local` or later.
    #[must_use]
    pub fn true_time(&self, local: Duration) -> Duration {
        // A clock that stands still at `local` showed it first when the standstill began.
        let piece = self.piece(|piece| piece.local_from < local);
        let elapsed = local.saturating_sub(piece.local_from);
        if piece.rate_ppm == 0 {
            return piece.true_from + elapsed.min(LONGEST);
        }
        let elapsed = nanos(elapsed);
        let rate = PPM + i128::from(piece.rate_ppm);
        if rate == 0 {
            return Duration::MAX;
        }
        piece.true_from + duration((elapsed * PPM + rate - 1) / rate)
    }

    fn piece(&self, begins_before: impl Fn(&Piece) -> bool) -> Piece {
        let at = self.pieces.partition_point(begins_before).saturating_sub(1);
        self.pieces[at]
    }
}

/// A host's wall clock: it drifts like the monotonic clock, runs during a suspension, and can be set.
#[derive(Clone, Debug)]
pub(crate) struct WallClock {
    /// Time that it shows at the start of a run, since 1970.
    origin: Duration,
    course: HostClock,
    /// True time of each change, and its amount in milliseconds.
    jumps: Vec<(Duration, i64)>,
}

impl WallClock {
    /// Wall-clock time at the start of a run in virtual time, since 1970: 2024-01-01.
    pub(crate) const ORIGIN: Duration = Duration::from_secs(1_704_067_200);

    pub(crate) const fn new(origin: Duration, course: HostClock) -> Self {
        Self {
            origin,
            course,
            jumps: Vec::new(),
        }
    }

    /// Moves the clock at a true time, backwards if `by_ms` is negative.
    pub(crate) fn set(&mut self, at: Duration, by_ms: i64) {
        self.jumps.push((at, by_ms));
    }

    /// Returns the wall-clock time at a true time.
    pub(crate) fn at(&self, true_time: Duration) -> Duration {
        let past = self.jumps.iter().filter(|&&(at, _)| at <= true_time);
        let by_ms: i64 = past.map(|&(_, by_ms)| by_ms).sum();
        let size = Duration::from_millis(by_ms.unsigned_abs());
        let shown = self.origin
            + self
                .course
                .local(true_time)
                .saturating_sub(HostClock::ORIGIN);
        if by_ms < 0 {
            shown.saturating_sub(size)
        } else {
            shown + size
        }
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
    fn a_clock_that_stood_still_is_behind_for_good() {
        let clock = HostClock::drifting(&[(S(10), S(40), HostClock::STANDSTILL)]);
        assert_eq!(clock.local(S(25)), HostClock::ORIGIN + S(10));
        assert_eq!(clock.local(S(45)), HostClock::ORIGIN + S(15));
        assert_eq!(clock.true_time(HostClock::ORIGIN + S(10)), S(10));
        assert_eq!(clock.true_time(HostClock::ORIGIN + S(12)), S(42));
    }

    #[test]
    fn an_unreachable_time_stays_in_range_on_every_clock() {
        // A sleeper adds this time to an instant, and instants have a bound of their own.
        for spans in [&[][..], &[(S(0), S(9), 3)], &[(S(0), S(1 << 40), 3)]] {
            let clock = HostClock::drifting(spans);
            let far = clock.true_time(Duration::MAX);
            assert!(far > S(1 << 30), "{far:?}");
            assert!(clock.local(Duration::MAX) > S(1 << 30));
            assert!(std::time::Instant::now().checked_add(far).is_some());
        }
    }

    #[test]
    fn a_wall_clock_is_set_and_goes_on() {
        let mut clock = WallClock::new(WallClock::ORIGIN, HostClock::exact());
        clock.set(S(10), -5_000);
        clock.set(S(20), 60_000);
        assert_eq!(clock.at(S(9)), WallClock::ORIGIN + S(9));
        assert_eq!(clock.at(S(11)), WallClock::ORIGIN + S(6));
        assert_eq!(clock.at(S(20)), WallClock::ORIGIN + S(75));
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
