//! Points in time on a node's wall clock. Both may be negative and may go backwards.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since the Unix epoch, the unit of the deadlines of keys. Converts from and to
/// [`SystemTime`].
///
/// ```
/// # extern crate redouble_core as redouble;
/// use redouble::engine::UnixMillis;
/// use std::time::{Duration, SystemTime, UNIX_EPOCH};
///
/// let time = UNIX_EPOCH + Duration::from_micros(1_500_999);
/// assert_eq!(UnixMillis::from(time), UnixMillis(1_500)); // the millisecond that it lies in
/// assert_eq!(SystemTime::from(UnixMillis(1_500)), UNIX_EPOCH + Duration::from_millis(1_500));
/// assert_eq!(UnixMillis::from(SystemTime::from(UnixMillis(-7))), UnixMillis(-7));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMillis(pub i64);

/// Microseconds since the Unix epoch, the unit of a node's clock. Converts from and to [`SystemTime`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMicros(pub i64);

impl UnixMicros {
    /// The millisecond this instant lies in.
    #[inline]
    pub fn millis(self) -> UnixMillis {
        UnixMillis(self.0.div_euclid(1000))
    }

    /// This instant moved forward, saturating at the end of time.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(
            self.0
                .saturating_add(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)),
        )
    }
}

impl UnixMillis {
    /// The first microsecond of this millisecond.
    pub fn micros(self) -> UnixMicros {
        UnixMicros(self.0.saturating_mul(1000))
    }
}

/// Microseconds from the Unix epoch to `time`, rounded down, saturating.
fn micros_of(time: SystemTime) -> i64 {
    let nanos = |duration: Duration| i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX);
    let nanos = match time.duration_since(UNIX_EPOCH) {
        Ok(since) => nanos(since),
        Err(before) => -nanos(before.duration()),
    };
    let micros = nanos.div_euclid(1_000);
    i64::try_from(micros).unwrap_or(if micros < 0 { i64::MIN } else { i64::MAX })
}

/// The instant at this distance from the Unix epoch. Where [`SystemTime`] does not reach that far
/// (Windows), it is the start or the end of the years that ISO 8601 writes with four digits.
fn instant_at(is_past: bool, distance: Duration) -> SystemTime {
    const YEAR_0: Duration = Duration::from_secs(62_167_219_200);
    const YEAR_10_000: Duration = Duration::from_secs(253_402_300_800);
    let found = if is_past {
        let known = UNIX_EPOCH.checked_sub(distance);
        known.or_else(|| UNIX_EPOCH.checked_sub(YEAR_0))
    } else {
        let known = UNIX_EPOCH.checked_add(distance);
        known.or_else(|| UNIX_EPOCH.checked_add(YEAR_10_000))
    };
    found.unwrap_or(UNIX_EPOCH)
}

impl From<SystemTime> for UnixMicros {
    /// The microsecond that `time` lies in; saturates 292,000 years from 1970.
    fn from(time: SystemTime) -> Self {
        Self(micros_of(time))
    }
}

impl From<SystemTime> for UnixMillis {
    /// The millisecond that `time` lies in; saturates 292,000 years from 1970.
    fn from(time: SystemTime) -> Self {
        UnixMicros::from(time).millis()
    }
}

impl From<UnixMicros> for SystemTime {
    fn from(time: UnixMicros) -> Self {
        instant_at(time.0 < 0, Duration::from_micros(time.0.unsigned_abs()))
    }
}

impl From<UnixMillis> for SystemTime {
    fn from(time: UnixMillis) -> Self {
        instant_at(time.0 < 0, Duration::from_millis(time.0.unsigned_abs()))
    }
}

impl From<UnixMillis> for UnixMicros {
    fn from(time: UnixMillis) -> Self {
        time.micros()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_time_goes_there_and_back() {
        for micros in [
            0,
            1,
            -1,
            999,
            -999,
            1_000,
            1_704_067_200_000_123,
            i64::MAX,
            i64::MIN,
        ] {
            let time = UnixMicros(micros);
            assert_eq!(UnixMicros::from(SystemTime::from(time)), time, "{micros}");
        }
        let before = UNIX_EPOCH - Duration::from_nanos(1);
        assert_eq!(UnixMicros::from(before), UnixMicros(-1));
        assert_eq!(UnixMillis::from(before), UnixMillis(-1));
        for millis in [i64::MIN, i64::MAX] {
            let _no_panic = SystemTime::from(UnixMillis(millis));
        }
    }
}
