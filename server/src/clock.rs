//! The invertible map between true time (the time of the clock source) and a node's own clock.
//!
//! The map is a straight line between two changes. Only the current piece is kept, because past
//! readings are never needed. Results are rounded so that a timer never fires early: at the true
//! time that the map gives for a deadline, the node's clock shows that deadline or slightly more.

use crate::engine::UnixMicros;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The rate of a clock that runs true: a million microseconds per second.
const MILLION: i64 = 1_000_000;

/// A straight line from true time to a node's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClockMap {
    /// Start of the current piece, in true time and on the node's clock.
    true_origin: i64,
    node_origin: i64,
    /// Microseconds gained per second of true time. At `-MILLION`, the minimum, the clock stands
    /// still.
    drift_ppm: i64,
    is_frozen: bool,
}

impl ClockMap {
    /// Microseconds of the node's clock per second of true time.
    fn rate(&self) -> i128 {
        if self.is_frozen {
            0
        } else {
            i128::from(MILLION) + i128::from(self.drift_ppm)
        }
    }

    /// The reading of the node's clock at a true time.
    pub(crate) fn at(&self, true_time: UnixMicros) -> UnixMicros {
        let passed = i128::from(true_time.0) - i128::from(self.true_origin);
        let shown = (passed * self.rate()).div_euclid(i128::from(MILLION));
        UnixMicros(saturated(i128::from(self.node_origin) + shown))
    }

    /// The first true time at which the node's clock shows `node_time` or more; `None` if it never
    /// does.
    pub(crate) fn when(&self, node_time: UnixMicros) -> Option<UnixMicros> {
        let ahead = i128::from(node_time.0) - i128::from(self.node_origin);
        let rate = self.rate();
        if rate == 0 {
            // The clock stands still: it has always shown this time, or it never will.
            return (ahead <= 0).then_some(UnixMicros(i64::MIN));
        }
        // Rounded up, which for a negative number is towards zero.
        let passed = -(-ahead * i128::from(MILLION)).div_euclid(rate);
        let when = saturated(i128::from(self.true_origin) + passed);
        (when < i64::MAX).then_some(UnixMicros(when))
    }

    /// Moves the node's clock by `by_us` microseconds.
    pub(crate) fn jump(&mut self, by_us: i64) {
        self.node_origin = self.node_origin.saturating_add(by_us);
    }

    /// Sets a clock that stands still.
    pub(crate) fn jump_to(&mut self, node_time: UnixMicros) {
        self.node_origin = node_time.0;
    }

    /// From `now` (true time) on, the node's clock gains `ppm` microseconds per second, or loses
    /// them if `ppm` is negative. A clock never runs backwards.
    pub(crate) fn drift(&mut self, ppm: i32, now: UnixMicros) {
        self.begin(now);
        self.drift_ppm = i64::from(ppm).max(-MILLION);
    }

    /// Stops the node's clock at `now` (true time).
    pub(crate) fn freeze(&mut self, now: UnixMicros) {
        self.begin(now);
        self.is_frozen = true;
    }

    /// Lets the node's clock run again from where it stands.
    pub(crate) fn thaw(&mut self, now: UnixMicros) {
        self.begin(now);
        self.is_frozen = false;
    }

    pub(crate) fn drift_ppm(&self) -> i32 {
        i32::try_from(self.drift_ppm).unwrap_or(i32::MAX)
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.is_frozen
    }

    pub(crate) fn stands_still(&self) -> bool {
        self.rate() == 0
    }

    /// Starts a new piece at the current reading.
    fn begin(&mut self, now: UnixMicros) {
        self.node_origin = self.at(now).0;
        self.true_origin = now.0;
    }

    /// Offset from true time, if it is the same at all times.
    fn constant_offset(&self) -> Option<i64> {
        (self.rate() == i128::from(MILLION))
            .then(|| self.node_origin.checked_sub(self.true_origin))?
    }
}

fn saturated(micros: i128) -> i64 {
    micros.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// A node's clock. Without drift and freeze, a reading costs one addition.
#[derive(Debug, Default)]
pub(crate) struct NodeClock {
    /// Offset from true time in microseconds, or [`BENT`] if the offset changes with time.
    offset: AtomicI64,
    map: Mutex<ClockMap>,
}

/// Value of [`NodeClock::offset`] if the map has to be read.
const BENT: i64 = i64::MIN;

impl NodeClock {
    /// The reading of the node's clock at a true time.
    #[inline]
    pub(crate) fn at(&self, true_time: UnixMicros) -> UnixMicros {
        match self.offset.load(Ordering::Acquire) {
            BENT => self.map().at(true_time),
            offset => UnixMicros(true_time.0.saturating_add(offset)),
        }
    }

    /// The true time at which the node's clock shows `node_time`; `None` if it never does.
    #[inline]
    pub(crate) fn when(&self, node_time: UnixMicros) -> Option<UnixMicros> {
        match self.offset.load(Ordering::Acquire) {
            BENT => self.map().when(node_time),
            offset => Some(node_time.0.saturating_sub(offset))
                .filter(|when| *when < i64::MAX)
                .map(UnixMicros),
        }
    }

    /// The current map.
    #[cold]
    pub(crate) fn map(&self) -> ClockMap {
        *self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the map.
    pub(crate) fn change(&self, change: impl FnOnce(&mut ClockMap)) {
        let mut map = self.map.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut map);
        let offset = map.constant_offset().unwrap_or(BENT);
        self.offset.store(offset, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A change that a test can make to a clock, at a true time.
    #[derive(Clone, Copy, Debug)]
    enum Change {
        Jump(i64),
        Drift(i32),
        Freeze,
        Thaw,
    }

    fn any_change() -> impl Strategy<Value = Change> {
        prop_oneof![
            any::<i64>().prop_map(Change::Jump),
            (-10_000_000_000..10_000_000_000_i64).prop_map(Change::Jump),
            any::<i32>().prop_map(Change::Drift),
            (-1_000_000..1_000_000).prop_map(Change::Drift),
            Just(Change::Freeze),
            Just(Change::Thaw),
        ]
    }

    fn any_time() -> impl Strategy<Value = i64> {
        prop_oneof![any::<i64>(), 0..4_000_000_000_000_000_i64]
    }

    fn changed(clock: &NodeClock, change: Change, now: i64) {
        clock.change(|map| match change {
            Change::Jump(by) => map.jump(by),
            Change::Drift(ppm) => map.drift(ppm, UnixMicros(now)),
            Change::Freeze => map.freeze(UnixMicros(now)),
            Change::Thaw => map.thaw(UnixMicros(now)),
        });
    }

    /// A clock after arbitrary changes, and a true time.
    fn any_clock() -> impl Strategy<Value = NodeClock> {
        prop::collection::vec((any_change(), any_time()), 0..8).prop_map(|changes| {
            let clock = NodeClock::default();
            for (change, now) in changes {
                changed(&clock, change, now);
            }
            clock
        })
    }

    proptest! {
        #[test]
        fn a_timer_never_fires_early_and_never_late(clock in any_clock(), node_time in any_time()) {
            let node_time = UnixMicros(node_time);
            match clock.when(node_time) {
                Some(when) => {
                    // A clock that has reached the end of time shows no later time.
                    prop_assert!(clock.at(when) >= node_time || when.0 == i64::MIN);
                    if when.0 > i64::MIN {
                        prop_assert!(clock.at(UnixMicros(when.0 - 1)) < node_time);
                    }
                }
                None => prop_assert!(clock.at(UnixMicros(i64::MAX - 1)) < node_time),
            }
        }

        #[test]
        fn the_clock_does_not_run_back_between_changes(clock in any_clock(), a in any_time(), b in any_time()) {
            let (a, b) = (UnixMicros(a.min(b)), UnixMicros(a.max(b)));
            prop_assert!(clock.at(a) <= clock.at(b));
        }

        #[test]
        fn the_short_way_is_the_map(clock in any_clock(), time in any_time()) {
            let time = UnixMicros(time);
            prop_assert_eq!(clock.at(time), clock.map().at(time));
            prop_assert_eq!(clock.when(time), clock.map().when(time));
        }

        /// Only a jump changes the reading at once.
        #[test]
        fn a_change_of_rate_does_not_move_the_clock(clock in any_clock(), change in any_change(), now in any_time()) {
            let before = clock.at(UnixMicros(now));
            changed(&clock, change, now);
            let after = clock.at(UnixMicros(now));
            match change {
                Change::Jump(by) if before.0.checked_add(by) == Some(after.0) => {}
                // The reading may be past the end of time in either direction.
                Change::Jump(_) => {}
                Change::Drift(_) | Change::Freeze | Change::Thaw => prop_assert_eq!(before, after),
            }
        }

        /// Within the usual range of times, mapping a true time to the node's clock and back gives
        /// the same time, except for what the resolution of the clock loses.
        #[test]
        fn it_is_its_own_inverse(ppm in -999_999..10_000_000, jump in -1_000_000_000_000_i64..1_000_000_000_000,
                origin in 0..4_000_000_000_000_000_i64, passed in 0..1_000_000_000_000_i64) {
            let clock = NodeClock::default();
            changed(&clock, Change::Jump(jump), origin);
            changed(&clock, Change::Drift(ppm), origin);
            let time = UnixMicros(origin + passed);
            let back = clock.when(clock.at(time)).expect("it runs");
            let tick = MILLION / (MILLION + i64::from(ppm)) + 1;
            prop_assert!(back <= time && time.0 - back.0 <= tick, "{time:?} {back:?} {tick}");
        }
    }

    #[test]
    fn a_clock_that_stands_still_goes_on_from_where_it_stood() {
        let clock = NodeClock::default();
        changed(&clock, Change::Drift(500_000), 100);
        changed(&clock, Change::Freeze, 200);
        assert_eq!(clock.at(UnixMicros(900)), UnixMicros(250));
        assert_eq!(clock.when(UnixMicros(251)), None);
        assert_eq!(clock.when(UnixMicros(250)), Some(UnixMicros(i64::MIN)));
        changed(&clock, Change::Thaw, 1_000);
        assert_eq!(clock.at(UnixMicros(1_100)), UnixMicros(400));
        assert_eq!(clock.when(UnixMicros(400)), Some(UnixMicros(1_100)));
        changed(&clock, Change::Jump(-1_000), 1_100);
        assert_eq!(clock.at(UnixMicros(1_100)), UnixMicros(-600));
    }

    #[test]
    fn a_time_beyond_the_end_of_the_clock_is_never_reached() {
        let clock = NodeClock::default();
        assert_eq!(clock.when(UnixMicros(i64::MAX)), None);
        changed(&clock, Change::Jump(-5), 0);
        assert_eq!(clock.when(UnixMicros(i64::MAX - 4)), None);
        changed(&clock, Change::Drift(-2_000_000), 0);
        assert_eq!(clock.when(UnixMicros(0)), None);
        assert_eq!(clock.at(UnixMicros(i64::MAX)), UnixMicros(-5));
    }
}
