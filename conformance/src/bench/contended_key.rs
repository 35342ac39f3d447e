//! A contended key: its holders, its waiters, and the times between a release and the next grant.

use super::latencies::Latencies;
use crate::{simulation::held, subject::AnyGrant};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

/// A contended key. All clients share one clock.
pub(super) struct ContendedKey {
    /// Number of clients that may hold the lock at once.
    capacity: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    inside: Vec<Inside>,
    waiting: usize,
    /// Time of the last release with a waiting client, if there was no grant since.
    freed: Option<Duration>,
    seen: Seen,
}

/// Results at a key.
#[derive(Clone, Default)]
pub(super) struct Seen {
    /// Times from a release to the next grant, if that client was already waiting.
    pub(super) hand_overs: Latencies,
    /// Number of grants to a client while another one has been waiting for longer.
    pub(super) overtaken: u64,
    /// Number of grants beyond the capacity.
    pub(super) overlaps: u64,
    /// Description of the first of them.
    pub(super) first: Option<String>,
}

struct Inside {
    caller: u16,
    since: Duration,
    grant: Arc<dyn AnyGrant>,
    /// Deadline of a grant without one: one lease after the request.
    lease_end: Duration,
}

impl Inside {
    /// Returns the time until which the client may rely on the lock.
    fn until(&self) -> Duration {
        self.grant.deadline().unwrap_or(self.lease_end)
    }
}

/// A waiting client. Dropping this value ends its wait.
pub(super) struct Waiting<'a> {
    contended_key: &'a ContendedKey,
    since: Duration,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        held(&self.contended_key.state).waiting -= 1;
    }
}

impl ContendedKey {
    pub(super) fn new(capacity: u32) -> Self {
        Self {
            capacity: usize::try_from(capacity).unwrap_or(usize::MAX),
            state: Mutex::default(),
        }
    }

    /// Starts a client's wait.
    pub(super) fn wait(&self, now: Duration) -> Waiting<'_> {
        held(&self.state).waiting += 1;
        Waiting {
            contended_key: self,
            since: now,
        }
    }

    /// Records the grant of a waiting client.
    pub(super) fn enter(
        &self,
        caller: u16,
        waited: Waiting<'_>,
        grant: &Arc<dyn AnyGrant>,
        lease_end: Duration,
        now: Duration,
    ) {
        let mut state = held(&self.state);
        let inside = state.inside.iter().filter(|it| it.until() > now);
        if inside.clone().count() >= self.capacity {
            let other = inside.clone().next();
            let message = other.map(|other| {
                let ms = |at: Duration| at.saturating_sub(other.since).as_secs_f64() * 1e3;
                format!(
                    "caller {caller} acquired the lock {:.3} ms after caller {}, which held it for {:.0} ms",
                    ms(now),
                    other.caller,
                    ms(other.until())
                )
            });
            state.seen.overlaps += 1;
            state.seen.first = state.seen.first.take().or(message);
        }
        state.inside.push(Inside {
            caller,
            since: now,
            grant: Arc::clone(grant),
            lease_end,
        });
        if let Some(freed) = state.freed.take() {
            if waited.since <= freed {
                state.seen.hand_overs.add(now.saturating_sub(freed));
            } else {
                state.seen.overtaken += 1;
            }
        }
        drop(state);
        drop(waited);
    }

    /// Records the start of a release.
    pub(super) fn leave(&self, caller: u16, now: Duration) {
        let mut state = held(&self.state);
        state.inside.retain(|it| it.caller != caller);
        state.freed = (state.waiting > 0).then_some(now);
    }

    /// Returns the results so far.
    pub(super) fn seen(&self) -> Seen {
        held(&self.state).seen.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{backend::Later, subject::BoxError};

    struct Until(Option<Duration>);

    impl AnyGrant for Until {
        fn extend(&self) -> Later<'_, Result<bool, BoxError>> {
            unreachable!("the bench extends no grant")
        }
        fn release(self: Arc<Self>) -> Later<'static, Result<bool, BoxError>> {
            unreachable!("this test releases no grant")
        }
        fn deadline(&self) -> Option<Duration> {
            self.0
        }
        fn lost(&self) -> Later<'_, ()> {
            unreachable!("this test waits for no signal")
        }
        fn fencing_token(&self) -> Option<u64> {
            None
        }
        fn token(&self) -> Option<crate::history::Token> {
            None
        }
    }

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn grant(until: Option<u64>) -> Arc<dyn AnyGrant> {
        Arc::new(Until(until.map(MS)))
    }

    #[test]
    fn a_second_holder_counts_unless_the_first_has_expired() {
        let contended_key = ContendedKey::new(1);
        contended_key.enter(0, contended_key.wait(MS(0)), &grant(Some(50)), MS(0), MS(1));
        contended_key.enter(1, contended_key.wait(MS(0)), &grant(None), MS(90), MS(20));
        let seen = contended_key.seen();
        assert_eq!(seen.overlaps, 1);
        let first = seen.first.unwrap();
        assert!(
            first.contains("caller 1")
                && first.contains("after caller 0")
                && first.contains("19.000 ms"),
            "{first}"
        );
        contended_key.leave(1, MS(30));
        contended_key.enter(2, contended_key.wait(MS(40)), &grant(None), MS(90), MS(60));
        assert_eq!(
            contended_key.seen().overlaps,
            1,
            "the first grant has expired"
        );
        contended_key.enter(3, contended_key.wait(MS(60)), &grant(None), MS(200), MS(89));
        assert_eq!(
            contended_key.seen().overlaps,
            2,
            "a grant without a deadline holds for its lease"
        );
        let permits = ContendedKey::new(2);
        permits.enter(0, permits.wait(MS(0)), &grant(None), MS(90), MS(1));
        permits.enter(1, permits.wait(MS(0)), &grant(None), MS(90), MS(1));
        assert_eq!(permits.seen().overlaps, 0);
        permits.enter(2, permits.wait(MS(0)), &grant(None), MS(90), MS(1));
        assert_eq!(permits.seen().overlaps, 1);
    }

    #[test]
    fn a_hand_over_goes_to_a_waiter() {
        let contended_key = ContendedKey::new(1);
        contended_key.enter(0, contended_key.wait(MS(0)), &grant(None), MS(900), MS(1));
        let second = contended_key.wait(MS(5));
        contended_key.leave(0, MS(10));
        contended_key.enter(1, second, &grant(None), MS(900), MS(12));
        let seen = contended_key.seen();
        assert_eq!((seen.hand_overs.count(), seen.overtaken), (1, 0));
        assert_eq!(seen.hand_overs.longest(), Some(MS(2)));

        let third = contended_key.wait(MS(13));
        contended_key.leave(1, MS(14));
        contended_key.enter(0, contended_key.wait(MS(15)), &grant(None), MS(900), MS(16));
        assert_eq!(contended_key.seen().overtaken, 1, "a later client overtook");
        drop(third);
        contended_key.leave(0, MS(20));
        contended_key.enter(0, contended_key.wait(MS(21)), &grant(None), MS(900), MS(22));
        assert_eq!(
            contended_key.seen().hand_overs.count(),
            1,
            "no client waited"
        );
    }
}
