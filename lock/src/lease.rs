//! The arithmetic of leases: how long a grant may be trusted. No clock, no Redis; every instant is
//! an argument, a time on the holder's own monotonic clock.
//!
//! A grant that was asked for at `sent` with a lease of `ttl` is trusted until
//!
//! ```text
//! sent + ttl x (1 - drift) - safety margin
//! ```
//!
//! `sent` is read *before* the request leaves: Redis starts the TTL later than that, so its key
//! outlives the deadline of the holder by whatever the request took. `drift` covers clocks that run at
//! different rates, `safety_margin` what does not grow with the lease (timer granularity, a replica whose
//! clock leads). The time of the reply plays no part, except that it must be before the deadline.

use crate::error::{LockError, LossReason};
use std::time::Duration;

/// The longest lease: far longer than any sensible one, far from any overflow.
pub(crate) const MAX_LEASE: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

/// A valid lease: the time to live that Redis gets, and the time for which the holder may rely on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lease {
    ttl_ms: u64,
    validity: Duration,
}

impl Lease {
    /// One that extends nothing that lasts longer than an instant.
    pub(crate) const SHORTEST: Self = Self {
        ttl_ms: 1,
        validity: Duration::ZERO,
    };

    /// Checks a lease. Redis counts in whole milliseconds; a fraction is cut off, so that the key
    /// never outlives the requested lease.
    pub(crate) fn new(
        lease: Duration,
        drift_ppm: u32,
        safety_margin: Duration,
    ) -> Result<Self, LockError> {
        let invalid = LockError::InvalidLease { lease };
        if lease > MAX_LEASE {
            return Err(invalid);
        }
        let Ok(ttl_ms) = u64::try_from(lease.as_millis()) else {
            return Err(invalid);
        };
        let trusted_ppm = 1_000_000_u32.saturating_sub(drift_ppm);
        let validity = (Duration::from_millis(ttl_ms) / 1_000_000 * trusted_ppm)
            .checked_sub(safety_margin)
            .filter(|validity| *validity >= Duration::from_millis(1));
        match validity {
            Some(validity) => Ok(Self { ttl_ms, validity }),
            None => Err(invalid),
        }
    }

    /// Returns the rest of the lease after some time; `None` if that is less than a millisecond.
    pub(crate) fn rest(self, elapsed: Duration) -> Option<Self> {
        let left = self.ttl().checked_sub(elapsed)?;
        let ttl_ms = u64::try_from(left.as_millis()).ok().filter(|&ms| ms > 0)?;
        let validity = self.validity.saturating_sub(elapsed);
        Some(Self { ttl_ms, validity })
    }

    /// The TTL in milliseconds that Redis is asked for; never zero.
    pub(crate) fn ttl_ms(self) -> u64 {
        self.ttl_ms
    }

    /// The same as a duration.
    pub(crate) fn ttl(self) -> Duration {
        Duration::from_millis(self.ttl_ms)
    }

    /// How long a grant is trusted, from the moment it was asked for.
    pub(crate) fn validity(self) -> Duration {
        self.validity
    }

    /// Until when a grant is trusted that was asked for at `sent`.
    pub(crate) fn deadline(self, sent: Duration) -> Duration {
        sent.saturating_add(self.validity)
    }

    /// When to renew a grant that ends at `deadline`: after the first third of its validity.
    pub(crate) fn renew_at(self, deadline: Duration) -> Duration {
        deadline.saturating_sub(self.validity / 3 * 2)
    }
}

/// The state of a lease, as far as its holder knows. Its end is final: nothing makes the lease valid again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseState {
    /// The lock is held until this instant, unless that is moved on before it comes.
    HeldUntil(Duration),
    /// The lease was lost.
    Lost(LossReason),
    /// The holder gave the lock back.
    Released,
}

impl LeaseState {
    /// The state at `now`: a deadline that was reached ends the lease for its holder.
    pub(crate) fn at(&mut self, now: Duration) -> Self {
        if matches!(self, Self::HeldUntil(deadline) if *deadline <= now) {
            *self = Self::Lost(LossReason::Expired);
        }
        *self
    }

    /// Takes in a confirmed extension to `deadline`, of which the holder learns at `now`. Comes it
    /// after the old deadline, it comes too late: the loss may have been seen already. It never
    /// moves a deadline back.
    pub(crate) fn extend(&mut self, now: Duration, deadline: Duration) -> Self {
        if let Self::HeldUntil(old) = self.at(now) {
            *self = Self::HeldUntil(old.max(deadline));
        }
        *self
    }

    /// Ends the lease, if it has not ended before.
    pub(crate) fn end(&mut self, now: Duration, end: Self) -> Self {
        if matches!(self.at(now), Self::HeldUntil(_)) {
            *self = end;
        }
        *self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn validity_is_the_lease_less_drift_and_margin() {
        let lease = Lease::new(ms(30_000), 10_000, ms(2)).unwrap();
        assert_eq!(lease.ttl_ms(), 30_000);
        assert_eq!(lease.validity(), ms(29_698));
        assert_eq!(lease.deadline(ms(1_000)), ms(30_698));
        let exact = Lease::new(ms(30_000), 0, Duration::ZERO).unwrap();
        assert_eq!(exact.validity(), ms(30_000));
    }

    #[test]
    fn a_fraction_of_a_millisecond_is_cut_off() {
        let lease = Lease::new(Duration::from_micros(5_999), 0, ms(0)).unwrap();
        assert_eq!((lease.ttl_ms(), lease.validity()), (5, ms(5)));
    }

    #[test]
    fn a_lease_that_could_not_be_trusted_is_refused() {
        let refused =
            |lease, drift_ppm, safety_margin| Lease::new(lease, drift_ppm, safety_margin).is_err();
        assert!(refused(Duration::ZERO, 0, ms(0)));
        assert!(refused(Duration::from_micros(999), 0, ms(0)));
        assert!(refused(ms(2), 10_000, ms(2)), "nothing is left of it");
        assert!(refused(ms(10), 0, ms(11)), "no underflow");
        assert!(refused(ms(10), 1_000_000, ms(0)));
        assert!(refused(ms(10), u32::MAX, ms(0)));
        assert!(refused(Duration::MAX, 0, ms(0)));
        assert!(!refused(ms(1), 0, ms(0)));
        assert!(!refused(MAX_LEASE, 0, ms(0)));
    }

    #[test]
    fn renewal_falls_due_after_a_third() {
        let lease = Lease::new(ms(30_000), 0, ms(0)).unwrap();
        assert_eq!(lease.renew_at(lease.deadline(ms(500))), ms(10_500));
    }

    #[test]
    fn a_lease_ends_at_its_deadline_for_good() {
        let mut state = LeaseState::HeldUntil(ms(100));
        assert_eq!(state.at(ms(99)), LeaseState::HeldUntil(ms(100)));
        assert_eq!(state.extend(ms(99), ms(50)), LeaseState::HeldUntil(ms(100)));
        assert_eq!(
            state.extend(ms(99), ms(200)),
            LeaseState::HeldUntil(ms(200))
        );
        let lost = LeaseState::Lost(LossReason::Expired);
        assert_eq!(state.extend(ms(200), ms(300)), lost);
        assert_eq!(state.extend(ms(201), ms(300)), lost);
        assert_eq!(state.end(ms(201), LeaseState::Released), lost);
    }
}
