//! Access frequency of a key: a counter that grows more slowly the higher it is, and decays with time.
//! Kept in the bits that hold the time of the last use under other policies, as in Redis.
//!
//! Source: `evict.c: LFULogIncr, LFUDecrAndReturn`.

use crate::engine::time::UnixMillis;

/// Counter of a new key (`LFU_INIT_VAL`).
pub(in crate::engine) const INITIAL: u8 = 5;

/// A counter, and the minute of its last use.
pub(in crate::engine) type Bits = [u8; 3];

fn minutes(now: UnixMillis) -> u16 {
    now.0.div_euclid(60_000) as u16
}

/// The bits of a counter that was looked at now.
pub(in crate::engine) fn bits(counter: u8, now: UnixMillis) -> Bits {
    let [low, high] = minutes(now).to_le_bytes();
    [counter, low, high]
}

/// Returns a counter after its decay: it loses one per `minutes_per_loss` minutes, or nothing if they are 0.
pub(in crate::engine) fn decayed(
    [counter, low, high]: Bits,
    now: UnixMillis,
    minutes_per_loss: i64,
) -> u8 {
    let (now, then) = (minutes(now), u16::from_le_bytes([low, high]));
    // The clock of minutes wraps.
    let elapsed = if now >= then {
        now - then
    } else {
        u16::MAX - then + now
    };
    let losses = i64::from(elapsed)
        .checked_div(minutes_per_loss)
        .unwrap_or(0);
    counter.saturating_sub(u8::try_from(losses).unwrap_or(u8::MAX))
}

/// A counter after one more use; `draw` gives a number from 0 to 1.
pub(in crate::engine) fn counted(counter: u8, log_factor: i64, draw: impl FnOnce() -> f64) -> u8 {
    if counter == u8::MAX {
        return counter;
    }
    let above = f64::from(counter.saturating_sub(INITIAL));
    let chance = 1.0 / (above * log_factor as f64 + 1.0);
    counter + u8::from(draw() < chance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_grows_with_uses_and_decays_with_minutes() {
        let at = |minutes: i64| UnixMillis(minutes * 60_000);
        assert_eq!(decayed(bits(7, at(10)), at(12), 1), 5);
        assert_eq!(decayed(bits(7, at(10)), at(12), 0), 7);
        assert_eq!(decayed(bits(7, at(10)), at(100), 1), 0);
        assert_eq!(decayed(bits(7, at(65_535)), at(65_536 + 1), 1), 6);
        assert_eq!(counted(5, 10, || 0.99), 6);
        assert_eq!(counted(6, 10, || 0.99), 6);
        assert_eq!(counted(6, 10, || 0.05), 7);
        assert_eq!(counted(255, 0, || 0.0), 255);
    }
}
