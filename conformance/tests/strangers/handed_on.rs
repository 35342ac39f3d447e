//! A release that gives the lock to the next waiter: it stores the token of that waiter, which does not know it yet.

use crate::{
    is_cleared, is_convicted,
    kit::{Handle, Token},
    opens_a_handle,
};
use redis::RedisResult;
use redouble_conformance::{
    BoxError, Promises, Subject, backend::View, checker::Property, subject::Observed,
};
use std::time::Duration;

/// What the release checks before it gives the lock to a waiter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HandOn {
    /// The caller holds the lock, and the waiter has asked lately.
    Checked,
    /// The waiter has asked lately.
    Unchecked,
}

/// Longest pause between two requests of a waiter.
const POLL: Duration = Duration::from_millis(200);

/// Gives the lock to the first waiter that has asked lately, for as long as it may take to ask again. Deletes the key if there is
/// none.
const GIVE: &str = "local t = redis.call('time') \
    local now = t[1] * 1000 + math.floor(t[2] / 1000) \
    redis.call('del', KEYS[1]) \
    local next = redis.call('lpop', KEYS[2]) \
    while next do \
        local seen = redis.call('hget', KEYS[3], next) \
        redis.call('hdel', KEYS[3], next) \
        if seen and now - seen < tonumber(ARGV[2]) then \
            redis.call('set', KEYS[1], next, 'px', ARGV[2]) break end \
        next = redis.call('lpop', KEYS[2]) \
    end return 1";

/// Takes what was handed on, or a lock that is free and has no other waiter; else joins the queue.
const ASK: &str = "local t = redis.call('time') \
    local now = t[1] * 1000 + math.floor(t[2] / 1000) \
    local holder = redis.call('get', KEYS[1]) \
    if holder == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end \
    local head = redis.call('lindex', KEYS[2], 0) \
    while not holder and head and head ~= ARGV[1] do \
        local seen = redis.call('hget', KEYS[3], head) \
        if seen and now - seen < tonumber(ARGV[3]) then break end \
        redis.call('lpop', KEYS[2]) redis.call('hdel', KEYS[3], head) \
        head = redis.call('lindex', KEYS[2], 0) \
    end \
    if not holder and (not head or head == ARGV[1]) then \
        redis.call('lpop', KEYS[2]) redis.call('hdel', KEYS[3], ARGV[1]) \
        redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2]) return 1 end \
    if not redis.call('hget', KEYS[3], ARGV[1]) then redis.call('rpush', KEYS[2], ARGV[1]) end \
    redis.call('hset', KEYS[3], ARGV[1], now) \
    return 0";

impl HandOn {
    /// Time without a request after which a waiter counts as dead.
    fn patience(lock: &Handle) -> String {
        let patience = POLL + 2 * lock.host.request_timeout();
        patience.min(lock.lease).as_millis().to_string()
    }

    async fn run<T: redis::FromRedisValue>(
        lock: &Handle,
        script: &str,
        args: &[&str],
    ) -> RedisResult<T> {
        let (queue, seen) = (lock.beside("queue"), lock.beside("seen"));
        lock.eval(script, &[&lock.key, &queue, &seen], args).await
    }
}

impl Subject for HandOn {
    opens_a_handle!(Token);

    fn name(&self) -> &'static str {
        match self {
            Self::Checked => "gives-to-the-next",
            Self::Unchecked => "gives-what-it-lost",
        }
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node()
            .untidy()
            .waiting(None)
            .polling(POLL)
            .skipping_after(2)
    }

    async fn try_lock(&self, lock: &Handle) -> Result<Option<Token>, BoxError> {
        let token = lock.host.random_token();
        let set: Option<String> = lock
            .ask(&["SET", &lock.key, &token, "NX", "PX", &lock.lease_ms()])
            .await?;
        Ok(set.map(|_| Token(token)))
    }

    async fn lock_timeout(&self, lock: &Handle, wait: Duration) -> Result<Option<Token>, BoxError> {
        let (token, until) = (lock.host.random_token(), lock.host.now() + wait);
        let args = [&*token, &lock.lease_ms(), &Self::patience(lock)];
        loop {
            if Self::run(lock, ASK, &args).await? {
                return Ok(Some(Token(token)));
            }
            let left = until.saturating_sub(lock.host.now());
            if left.is_zero() {
                let leave = format!(
                    "redis.call('lrem', KEYS[2], 0, ARGV[1]) redis.call('hdel', KEYS[3], ARGV[1]) \
                     if redis.call('get', KEYS[1]) ~= ARGV[1] then return 1 end {GIVE}"
                );
                let args = [&*token, &Self::patience(lock)];
                let _: u32 = Self::run(lock, &leave, &args).await?;
                return Ok(None);
            }
            lock.host.sleep(POLL.min(left)).await;
        }
    }

    async fn release(&self, lock: &Handle, Token(token): Token) -> Result<bool, BoxError> {
        let check = match self {
            Self::Checked => "redis.call('get', KEYS[1]) ~= ARGV[1]",
            Self::Unchecked => "redis.call('exists', KEYS[1]) == 0",
        };
        let script = format!("if {check} then return 0 end {GIVE}");
        let args = [&*token, &Self::patience(lock)];
        Ok(Self::run(lock, &script, &args).await?)
    }

    fn observe(&self, view: &dyn View, key: &str) -> Observed {
        Observed::string(view, key).waiting(Observed::queue(view, &format!("{key}:queue")))
    }
}

#[test]
fn a_release_gives_the_lock_to_the_next_waiter() {
    is_cleared(HandOn::Checked);
}

#[test]
fn a_release_that_gives_away_the_lock_of_another_is_convicted() {
    is_convicted(HandOn::Unchecked, Property::Ownership);
}
