//! When to try again. Pure: what was learnt, the number of the attempt and the random bits are
//! arguments.

use std::time::Duration;

/// The first pause of a waiter, before it is known how long the holder may stay.
const FIRST_RECHECK: Duration = Duration::from_millis(5);

/// The first and the longest pause after a failure.
const FIRST_RETRY: Duration = Duration::from_millis(10);
const LONGEST_RETRY: Duration = Duration::from_secs(1);

/// The longest pause of a waiter that nothing wakes, unless told otherwise.
const POLL: Duration = Duration::from_millis(100);

/// A waiter looks again at least this often, whatever it was told.
const LONGEST_RECHECK: Duration = Duration::from_secs(1);

/// The pause before look number `look` (from 0) at a lock that another one holds.
///
/// A waiter looks again at the latest when the holder's TTL ends (plus the one millisecond that
/// Redis takes to see it), after `foreign_poll`, and after a second. The pauses double up to that
/// and are drawn from their upper half, so that waiters that start together spread out.
pub(crate) fn recheck(
    look: u32,
    holder_ttl: Option<Duration>,
    foreign_poll: Option<Duration>,
    random: u64,
) -> Duration {
    let longest = foreign_poll.unwrap_or(POLL).min(LONGEST_RECHECK);
    let pause = jittered(doubled(FIRST_RECHECK, look, longest), random);
    not_far_past(holder_ttl, pause, random)
}

/// The pause of a waiter that a message will wake, in case that none comes.
pub(crate) fn listen(
    holder_ttl: Option<Duration>,
    foreign_poll: Option<Duration>,
    random: u64,
) -> Duration {
    let longest = foreign_poll.unwrap_or(LONGEST_RECHECK).min(LONGEST_RECHECK);
    not_far_past(holder_ttl, jittered(longest, random), random)
}

fn not_far_past(holder_ttl: Option<Duration>, pause: Duration, random: u64) -> Duration {
    match holder_ttl {
        // Waiters of a dead holder spread out over some milliseconds after its end.
        Some(ttl) => pause.min(ttl + Duration::from_millis(1) + jittered(FIRST_RECHECK, random)),
        None => pause,
    }
}

/// The pause before the retry that follows failure number `failure` (from 0) in a row, never
/// longer than `longest`.
pub(crate) fn back_off(failure: u32, longest: Duration, random: u64) -> Duration {
    jittered(
        doubled(FIRST_RETRY, failure, longest.min(LONGEST_RETRY)),
        random,
    )
}

fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    first
        .saturating_mul(1_u32.checked_shl(times).unwrap_or(u32::MAX))
        .min(longest)
}

/// Draws from the upper half of `pause`, and never nothing: a waiter must not spin.
fn jittered(pause: Duration, random: u64) -> Duration {
    let half = pause / 2;
    let micros = u64::try_from(half.as_micros()).unwrap_or(u64::MAX - 1);
    (half + Duration::from_micros(random % (micros + 1))).max(Duration::from_millis(1))
}

/// The first half of 128 random bits, for a pause.
pub(crate) fn draw(random: [u8; 16]) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = random;
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

#[cfg(test)]
mod tests {
    use super::*;

    const UP_TO: Option<Duration> = Some(Duration::from_millis(200));

    #[test]
    fn pauses_double_and_stay_in_their_upper_half() {
        for look in 0..40 {
            let full = FIRST_RECHECK
                .saturating_mul(1 << look.min(10))
                .min(UP_TO.unwrap());
            for random in [0, 1, u64::MAX / 3, u64::MAX] {
                let pause = recheck(look, None, UP_TO, random);
                assert!(
                    full / 2 <= pause && pause <= full,
                    "{look}: {pause:?} of {full:?}"
                );
            }
        }
    }

    #[test]
    fn a_waiter_never_sleeps_far_past_the_end_of_the_holder() {
        let ttl = Duration::from_millis(20);
        for random in [0, 7, u64::MAX] {
            for pause in [
                recheck(30, Some(ttl), UP_TO, random),
                listen(Some(ttl), None, random),
            ] {
                assert!(pause > ttl && pause <= ttl + Duration::from_millis(6));
            }
        }
    }

    #[test]
    fn no_option_makes_a_waiter_spin_or_stall() {
        let none = Some(Duration::ZERO);
        assert!(recheck(3, none, none, 0) >= Duration::from_millis(1));
        assert!(listen(none, none, 0) >= Duration::from_millis(1));
        assert!(recheck(99, None, Some(Duration::MAX), u64::MAX) <= LONGEST_RECHECK);
        assert!(listen(None, Some(Duration::MAX), u64::MAX) <= LONGEST_RECHECK);
        assert!(back_off(99, Duration::MAX, u64::MAX) <= LONGEST_RETRY);
    }
}
