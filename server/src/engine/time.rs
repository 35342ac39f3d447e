//! Points in time on a node's wall clock. Both may be negative and may go backwards.

use std::time::Duration;

/// Milliseconds since the Unix epoch; what deadlines of keys are kept in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMillis(pub i64);

/// Microseconds since the Unix epoch; what `now` is given in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMicros(pub i64);

impl UnixMicros {
    /// The millisecond this instant lies in.
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
