//! Pauses before the next attempt. Pure: the holder's time to live, the number of the attempt and the random bits are
//! arguments.

use std::time::Duration;

/// Time over which the waiters of a dead holder spread out after the end of its lease.
const SPREAD: Duration = Duration::from_millis(5);

/// The longest pause of a waiter that no message wakes, unless an option says otherwise.
const POLL: Duration = Duration::from_millis(100);

/// The longest pause of any waiter.
pub(crate) const LONGEST_RECHECK: Duration = Duration::from_secs(1);

/// Pauses that double from the first one to the longest one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pauses {
    pub(crate) first: Duration,
    pub(crate) longest: Duration,
}

impl Pauses {
    /// The pauses after failures, unless an option says otherwise.
    pub(crate) const RETRY: Self = Self {
        first: Duration::from_millis(10),
        longest: Duration::from_secs(1),
    };

    /// The pauses of a waiter that no message wakes, unless an option says otherwise.
    pub(crate) fn of_a_poll(max_poll_interval: Option<Duration>) -> Self {
        Self {
            first: Duration::from_millis(5),
            longest: max_poll_interval.unwrap_or(POLL).min(LONGEST_RECHECK),
        }
    }

    /// The same, none of them longer than `longest`.
    pub(crate) fn at_most(self, longest: Duration) -> Self {
        Self {
            longest: self.longest.min(longest),
            ..self
        }
    }

    /// The pause before attempt number `attempt` (from 0), drawn from its upper half, so that waiters that start
    /// together spread out.
    pub(crate) fn before(self, attempt: u32, random: u64) -> Duration {
        let times = 1_u32.checked_shl(attempt).unwrap_or(u32::MAX);
        jittered(self.first.saturating_mul(times).min(self.longest), random)
    }
}

/// The pause before a waiter asks again for a lock that another client holds; `look` is the number of refusals before (from 0).
///
/// The waiter asks at the latest when the holder's time to live ends, plus the one millisecond after which Redis expires the key.
pub(crate) fn recheck(
    look: u32,
    holder_ttl: Option<Duration>,
    pauses: Pauses,
    random: u64,
) -> Duration {
    not_far_past(holder_ttl, pauses.before(look, random), random)
}

/// The pause of a waiter that a message wakes, in case the message is lost.
pub(crate) fn until_message(
    holder_ttl: Option<Duration>,
    max_poll_interval: Option<Duration>,
    random: u64,
) -> Duration {
    not_far_past(
        holder_ttl,
        jittered(longest_pause(max_poll_interval), random),
        random,
    )
}

/// The longest pause of a waiter that a message will wake.
pub(crate) fn longest_pause(max_poll_interval: Option<Duration>) -> Duration {
    max_poll_interval
        .unwrap_or(LONGEST_RECHECK)
        .min(LONGEST_RECHECK)
}

fn not_far_past(holder_ttl: Option<Duration>, pause: Duration, random: u64) -> Duration {
    match holder_ttl {
        Some(ttl) => pause.min(ttl + Duration::from_millis(1) + jittered(SPREAD, random)),
        None => pause,
    }
}

/// The pause before the retry that follows failure number `failure` (from 0) in a row, never
/// longer than `longest`, where no option says anything else.
pub(crate) fn back_off(failure: u32, longest: Duration, random: u64) -> Duration {
    Pauses::RETRY.at_most(longest).before(failure, random)
}

/// Draws from the upper half of `pause`, and at least 1 ms: a waiter must not spin.
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
        let own = Pauses {
            first: Duration::from_millis(3),
            longest: Duration::from_millis(700),
        };
        for pauses in [Pauses::of_a_poll(UP_TO), Pauses::RETRY, own] {
            for look in 0..40 {
                let full = pauses.first * (1 << look.min(10));
                let full = full.min(pauses.longest);
                for random in [0, 1, u64::MAX / 3, u64::MAX] {
                    let pause = recheck(look, None, pauses, random);
                    assert!(
                        full / 2 <= pause && pause <= full,
                        "{look}: {pause:?} of {full:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_waiter_never_sleeps_far_past_the_end_of_the_holder() {
        let ttl = Duration::from_millis(20);
        for random in [0, 7, u64::MAX] {
            for pause in [
                recheck(30, Some(ttl), Pauses::of_a_poll(UP_TO), random),
                until_message(Some(ttl), None, random),
            ] {
                assert!(pause > ttl && pause <= ttl + Duration::from_millis(6));
            }
        }
    }

    #[test]
    fn no_option_makes_a_waiter_spin_or_stall() {
        let none = Some(Duration::ZERO);
        let poll = |max_poll_interval| Pauses::of_a_poll(max_poll_interval);
        assert!(recheck(3, none, poll(none), 0) >= Duration::from_millis(1));
        assert!(until_message(none, none, 0) >= Duration::from_millis(1));
        assert!(recheck(99, None, poll(Some(Duration::MAX)), u64::MAX) <= LONGEST_RECHECK);
        assert!(until_message(None, Some(Duration::MAX), u64::MAX) <= LONGEST_RECHECK);
        assert!(back_off(99, Duration::MAX, u64::MAX) <= Pauses::RETRY.longest);
    }
}
