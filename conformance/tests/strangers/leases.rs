//! Ways to give a key its expiry.

use crate::{
    is_cleared, is_convicted,
    kit::{Handle, Token},
    opens_a_handle,
    simple::COMPARE_AND_DELETE,
};
use redouble_conformance::{
    BoxError, Promises, Subject, backend::View, checker::Property, subject::Observed,
};
use std::time::Duration;

/// Way in which the lease begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lease {
    /// A script reads the clock of the server, and sets the time at which the key expires.
    UntilATimeOfTheServer,
    /// The client sets the time at which the key expires, by its wall clock.
    UntilATimeOfTheClient,
    /// The client sets a quarter of the lease, and asks for all of it once it has the reply.
    InTwoSteps,
    /// As `InTwoSteps`, but the second request does not compare the token.
    InTwoStepsUnchecked,
}

impl Subject for Lease {
    opens_a_handle!(Token);

    fn name(&self) -> &'static str {
        match self {
            Self::UntilATimeOfTheServer => "expires-at-server-time",
            Self::UntilATimeOfTheClient => "expires-at-client-time",
            Self::InTwoSteps => "lengthens-at-once",
            Self::InTwoStepsUnchecked => "lengthens-unchecked",
        }
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node().untidy()
    }

    async fn try_lock(&self, lock: &Handle) -> Result<Option<Token>, BoxError> {
        let (token, lease) = (lock.host.random_token(), lock.lease_ms());
        let until = lock.host.wall_clock() + lock.lease;
        let (until, short) = (
            until.as_millis().to_string(),
            (lock.lease / 4).as_millis().to_string(),
        );
        let set = |unit, time| {
            let words = ["SET", &lock.key, &token, "NX", unit, time].map(str::to_owned);
            async move {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let set: Option<String> = lock.ask(&words).await?;
                Ok::<_, BoxError>(set.is_some())
            }
        };
        let taken = match self {
            Self::UntilATimeOfTheServer => {
                let script = "local t = redis.call('time') \
                    local until_ms = t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[2] \
                    if redis.call('set', KEYS[1], ARGV[1], 'nx', 'pxat', string.format('%.0f', until_ms)) then \
                        return 1 end return 0";
                lock.eval(script, &[&lock.key], &[&token, &lease]).await?
            }
            Self::UntilATimeOfTheClient => set("PXAT", &until).await?,
            Self::InTwoSteps | Self::InTwoStepsUnchecked => {
                let taken = set("PX", &short).await?;
                if taken {
                    let check = match self {
                        Self::InTwoSteps => "redis.call('get', KEYS[1]) ~= ARGV[1]",
                        _ => "false",
                    };
                    let script = format!(
                        "if {check} then return 0 end return redis.call('pexpire', KEYS[1], ARGV[2])"
                    );
                    let args = [&*token, &*lease];
                    let kept: bool = lock.eval(&script, &[&lock.key], &args).await?;
                    if !kept {
                        return Err("the first part of the lease was over".into());
                    }
                }
                taken
            }
        };
        Ok(taken.then_some(Token(token)))
    }

    async fn release(&self, lock: &Handle, Token(token): Token) -> Result<bool, BoxError> {
        Ok(lock
            .eval(COMPARE_AND_DELETE, &[&lock.key], &[&token])
            .await?)
    }
}

/// What keeps the place of a waiter in the sorted set of tickets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A key that the waiter sets with an expiry each time it asks.
    WhileItAsks,
    /// Nothing: the place stays.
    ForEver,
}

/// Longest pause between two requests of a waiter.
const POLL: Duration = Duration::from_millis(200);

const ASK: &str = "if not redis.call('zscore', KEYS[2], ARGV[1]) then \
        redis.call('zadd', KEYS[2], redis.call('incr', KEYS[3]), ARGV[1]) \
        redis.call('pexpire', KEYS[3], 86400000) end \
    redis.call('set', KEYS[2] .. ':' .. ARGV[1], 1, 'px', ARGV[3]) \
    local head = redis.call('zrange', KEYS[2], 0, 0)[1] \
    while ARGV[4] == '1' and head and redis.call('exists', KEYS[2] .. ':' .. head) == 0 do \
        redis.call('zrem', KEYS[2], head) \
        head = redis.call('zrange', KEYS[2], 0, 0)[1] \
    end \
    if head == ARGV[1] and redis.call('exists', KEYS[1]) == 0 then \
        redis.call('zrem', KEYS[2], head) redis.call('del', KEYS[2] .. ':' .. head) \
        redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2]) return 1 end \
    return 0";

impl Subject for Place {
    opens_a_handle!(Token);

    fn name(&self) -> &'static str {
        match self {
            Self::WhileItAsks => "tickets-in-a-sorted-set",
            Self::ForEver => "tickets-that-stay",
        }
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node()
            .untidy()
            .waiting(None)
            .fair()
            .polling(POLL)
            .skipping_after(2)
    }

    async fn try_lock(&self, lock: &Handle) -> Result<Option<Token>, BoxError> {
        let token = lock.host.random_token();
        let script = "if redis.call('zcard', KEYS[2]) > 0 then return 0 end \
            if redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', ARGV[2]) then return 1 end return 0";
        let (keys, args) = (
            [&*lock.key, &lock.beside("queue")],
            [&*token, &lock.lease_ms()],
        );
        let taken: bool = lock.eval(script, &keys, &args).await?;
        Ok(taken.then_some(Token(token)))
    }

    async fn lock_timeout(&self, lock: &Handle, wait: Duration) -> Result<Option<Token>, BoxError> {
        let (token, until) = (lock.host.random_token(), lock.host.now() + wait);
        let (queue, count) = (lock.beside("queue"), lock.beside("tickets"));
        let patience = (POLL + 2 * lock.host.request_timeout()).as_millis();
        let (patience, removes) = (patience.to_string(), u8::from(*self == Self::WhileItAsks));
        loop {
            let args = [&*token, &lock.lease_ms(), &patience, &removes.to_string()];
            let keys = [&*lock.key, &queue, &count];
            if lock.eval(ASK, &keys, &args).await? {
                return Ok(Some(Token(token)));
            }
            let left = until.saturating_sub(lock.host.now());
            if left.is_zero() {
                let _: u32 = lock.ask(&["ZREM", &queue, &token]).await?;
                return Ok(None);
            }
            lock.host.sleep(POLL.min(left)).await;
        }
    }

    async fn release(&self, lock: &Handle, Token(token): Token) -> Result<bool, BoxError> {
        Ok(lock
            .eval(COMPARE_AND_DELETE, &[&lock.key], &[&token])
            .await?)
    }

    fn observe(&self, view: &dyn View, key: &str) -> Observed {
        Observed::string(view, key).waiting(Observed::queue(view, &format!("{key}:queue")))
    }

    fn outlasts(&self, key: &[u8]) -> bool {
        key.ends_with(b":tickets")
    }
}

#[test]
fn a_key_may_expire_at_a_time_of_the_server() {
    is_cleared(Lease::UntilATimeOfTheServer);
}

#[test]
fn a_time_of_the_client_is_no_lease() {
    is_convicted(Lease::UntilATimeOfTheClient, Property::Truth);
}

#[test]
fn a_lease_may_be_asked_for_in_two_steps() {
    is_cleared(Lease::InTwoSteps);
}

#[test]
fn a_second_step_that_compares_nothing_is_convicted() {
    is_convicted(Lease::InTwoStepsUnchecked, Property::Ownership);
}

#[test]
fn tickets_lie_in_a_sorted_set() {
    is_cleared(Place::WhileItAsks);
}

#[test]
fn tickets_that_stay_are_convicted() {
    is_convicted(Place::ForEver, Property::Progress);
}

/// A lock whose deadline leaves so much of the lease for clocks that run at different rates, in parts per million. It promises
/// to tolerate [`TOLERATED_PPM`].
struct Allowing(u32);

/// Difference in rate between the clock of a client and that of the server.
const TOLERATED_PPM: u32 = 9_000;

struct Dated {
    token: String,
    until: Duration,
}

impl Subject for Allowing {
    opens_a_handle!(Dated);

    fn name(&self) -> &'static str {
        match self.0 {
            0 => "allows-for-no-drift",
            _ => "allows-for-some-drift",
        }
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node()
            .untidy()
            .with_deadline()
            .with_drift_ppm(TOLERATED_PPM)
    }

    async fn try_lock(&self, lock: &Handle) -> Result<Option<Dated>, BoxError> {
        let (token, begun) = (lock.host.random_token(), lock.host.now());
        let words = ["SET", &*lock.key, &*token, "NX", "PX", &*lock.lease_ms()];
        let set: Option<String> = lock.ask(&words).await?;
        let allowance = lock.lease.mul_f64(f64::from(self.0) * 1e-6) + Duration::from_millis(2);
        let until = begun + lock.lease.saturating_sub(allowance);
        let grant = Dated { token, until };
        Ok(set.map(|_| grant).filter(|it| lock.host.now() < it.until))
    }

    async fn release(&self, lock: &Handle, grant: Dated) -> Result<bool, BoxError> {
        Ok(lock
            .eval(COMPARE_AND_DELETE, &[&lock.key], &[&grant.token])
            .await?)
    }

    fn deadline(&self, grant: &Dated) -> Option<Duration> {
        Some(grant.until)
    }
}

#[test]
fn a_deadline_leaves_time_for_the_drift_that_a_lock_tolerates() {
    is_cleared(Allowing(TOLERATED_PPM));
    is_convicted(Allowing(0), Property::GroundedBelief);
}
