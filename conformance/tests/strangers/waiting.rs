//! Locks that wait by themselves: with pauses that double, by an element of a list, or in a queue.

use crate::{
    is_cleared, is_convicted,
    kit::{Handle, Token},
    opens_a_handle,
    simple::COMPARE_AND_DELETE,
};
use redis::RedisResult;
use redouble_conformance::{
    BoxError, Host, Promises, Subject, backend::View, checker::Property, subject::Observed,
};
use std::time::Duration;

/// Way to wait for the lock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// The pauses double, up to half a second.
    BackOff,
    /// The call pops an element that a release pushed to a list, and then sets the key.
    PoppedToken,
    /// The same, with a list that never ends.
    EndlessList,
    /// The call gives up after twice the wait.
    TooLong,
    /// The call gives up after half of the wait.
    TooShort,
}

struct Waiter(Wait);

/// Longest pause between two requests.
const LONGEST: Duration = Duration::from_millis(500);

impl Waiter {
    async fn take(lock: &Handle, token: &str) -> RedisResult<bool> {
        let words = ["SET", &*lock.key, token, "NX", "PX", &*lock.lease_ms()];
        let set: Option<String> = lock.ask(&words).await?;
        Ok(set.is_some())
    }
}

impl Subject for Waiter {
    opens_a_handle!(Token);

    fn name(&self) -> &'static str {
        match self.0 {
            Wait::BackOff => "backs-off",
            Wait::PoppedToken => "pops-a-wake-up",
            Wait::EndlessList => "leaves-a-wake-up",
            Wait::TooLong => "waits-too-long",
            Wait::TooShort => "waits-too-short",
        }
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node().untidy().waiting(None)
    }

    async fn try_lock(&self, lock: &Handle) -> Result<Option<Token>, BoxError> {
        let token = lock.host.random_token();
        let taken = Self::take(lock, &token).await?;
        Ok(taken.then_some(Token(token)))
    }

    async fn lock_timeout(&self, lock: &Handle, wait: Duration) -> Result<Option<Token>, BoxError> {
        let (token, begun) = (lock.host.random_token(), lock.host.now());
        let until = match self.0 {
            Wait::TooShort => begun + wait / 2,
            Wait::TooLong => begun + wait * 2,
            Wait::BackOff | Wait::PoppedToken | Wait::EndlessList => begun + wait,
        };
        let mut pause = Duration::from_millis(10);
        loop {
            if Self::take(lock, &token).await? {
                return Ok(Some(Token(token)));
            }
            let left = until.saturating_sub(lock.host.now());
            if left.is_zero() {
                return Ok(None);
            }
            let random = u32::from(lock.host.random()[0]);
            lock.host
                .sleep((pause / 2 + pause * random / 512).min(left))
                .await;
            pause = (pause * 2).min(LONGEST);
            if matches!(self.0, Wait::PoppedToken | Wait::EndlessList) {
                let _: Option<String> = lock.ask(&["LPOP", &lock.beside("freed")]).await?;
            }
        }
    }

    async fn release(&self, lock: &Handle, Token(token): Token) -> Result<bool, BoxError> {
        if self.0 == Wait::EndlessList {
            let script = "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end \
                redis.call('del', KEYS[1], KEYS[2]) return redis.call('rpush', KEYS[2], 1)";
            let freed = lock.beside("freed");
            return Ok(lock.eval(script, &[&lock.key, &freed], &[&token]).await?);
        }
        if self.0 == Wait::PoppedToken {
            let script = "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end \
                redis.call('del', KEYS[1], KEYS[2]) redis.call('rpush', KEYS[2], 1) \
                redis.call('pexpire', KEYS[2], 1000) return 1";
            let freed = lock.beside("freed");
            return Ok(lock.eval(script, &[&lock.key, &freed], &[&token]).await?);
        }
        Ok(lock
            .eval(COMPARE_AND_DELETE, &[&lock.key], &[&token])
            .await?)
    }
}

/// Entry that a waiter removes from the queue when it gives up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaving {
    /// Its own place.
    OwnPlace,
    /// The head of the queue, even if it is the place of another waiter.
    TheHead,
}

/// A list of waiters beside the key. Each waiter records in a sorted set that it is alive.
struct Queue(Leaving);

const ASK: &str = "local t = redis.call('time') \
    local now = t[1] * 1000 + math.floor(t[2] / 1000) \
    if not redis.call('zscore', KEYS[3], ARGV[1]) then redis.call('rpush', KEYS[2], ARGV[1]) end \
    redis.call('zadd', KEYS[3], now, ARGV[1]) \
    local head = redis.call('lindex', KEYS[2], 0) \
    while head and head ~= ARGV[1] do \
        local seen = redis.call('zscore', KEYS[3], head) \
        if seen and now - seen < tonumber(ARGV[3]) then break end \
        redis.call('lpop', KEYS[2]) redis.call('zrem', KEYS[3], head) \
        head = redis.call('lindex', KEYS[2], 0) \
    end \
    if head == ARGV[1] and redis.call('exists', KEYS[1]) == 0 then \
        redis.call('lpop', KEYS[2]) redis.call('zrem', KEYS[3], head) \
        redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2]) return 1 end \
    return 0";

impl Queue {
    /// Time without a request after which a waiter counts as dead.
    fn patience(lock: &Handle) -> Duration {
        LONGEST + 2 * lock.host.request_timeout()
    }

    async fn leave(&self, lock: &Handle, token: &str) -> RedisResult<()> {
        let script = match self.0 {
            Leaving::OwnPlace => {
                "redis.call('lrem', KEYS[1], 0, ARGV[1]) return redis.call('zrem', KEYS[2], ARGV[1])"
            }
            Leaving::TheHead => {
                "redis.call('lpop', KEYS[1]) return redis.call('zrem', KEYS[2], ARGV[1])"
            }
        };
        let (queue, seen) = (lock.beside("queue"), lock.beside("seen"));
        let _: u64 = lock.eval(script, &[&queue, &seen], &[token]).await?;
        Ok(())
    }
}

impl Subject for Queue {
    opens_a_handle!(Token);

    fn name(&self) -> &'static str {
        match self.0 {
            Leaving::OwnPlace => "queue-in-a-list",
            Leaving::TheHead => "pops-the-head",
        }
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node()
            .untidy()
            .waiting(None)
            .fair()
            .polling(LONGEST)
            .skipping_after(2)
    }

    async fn try_lock(&self, lock: &Handle) -> Result<Option<Token>, BoxError> {
        let token = lock.host.random_token();
        let script = "if redis.call('llen', KEYS[2]) > 0 then return 0 end \
            if redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', ARGV[2]) then return 1 end return 0";
        let args = [&*token, &lock.lease_ms()];
        let taken: bool = lock
            .eval(script, &[&lock.key, &lock.beside("queue")], &args)
            .await?;
        Ok(taken.then_some(Token(token)))
    }

    async fn lock_timeout(&self, lock: &Handle, wait: Duration) -> Result<Option<Token>, BoxError> {
        let (token, until) = (lock.host.random_token(), lock.host.now() + wait);
        let (queue, seen) = (lock.beside("queue"), lock.beside("seen"));
        let patience = Self::patience(lock).as_millis().to_string();
        loop {
            let args = [&*token, &lock.lease_ms(), &patience];
            if lock.eval(ASK, &[&lock.key, &queue, &seen], &args).await? {
                return Ok(Some(Token(token)));
            }
            let left = until.saturating_sub(lock.host.now());
            if left.is_zero() {
                self.leave(lock, &token).await?;
                return Ok(None);
            }
            lock.host
                .sleep(LONGEST.min(left).min(lock.lease / 10))
                .await;
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
}

#[test]
fn a_lock_may_wait_as_it_likes() {
    is_cleared(Waiter(Wait::BackOff));
    is_cleared(Waiter(Wait::PoppedToken));
}

#[test]
fn an_untidy_lock_leaves_no_key_for_ever() {
    is_convicted(Waiter(Wait::EndlessList), Property::CleanUp);
}

#[test]
fn a_wait_ends_in_time_and_not_before() {
    is_convicted(Waiter(Wait::TooLong), Property::Timeouts);
    is_convicted(Waiter(Wait::TooShort), Property::Timeouts);
}

#[test]
fn a_waiter_that_gives_up_leaves_its_own_place() {
    is_cleared(Queue(Leaving::OwnPlace));
    is_convicted(Queue(Leaving::TheHead), Property::Fairness);
}

/// The same lock, whose `open` first sends a request. A waiter asks for the last time at the end of its wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AsksInOpen {
    /// An error ends `open`.
    Once,
    /// After an error `open` waits for ever.
    Hangs,
}

impl Subject for AsksInOpen {
    type Lock = Handle;
    type Grant = Token;

    fn name(&self) -> &'static str {
        match self {
            Self::Once => "asks-in-open",
            Self::Hangs => "hangs-in-open",
        }
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node().untidy().waiting(None)
    }

    async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<Handle, BoxError> {
        let lock = Handle::open(host, key, lease).await?;
        let asked: RedisResult<String> = lock.ask(&["PING"]).await;
        if asked.is_err() && *self == Self::Hangs {
            std::future::pending::<()>().await;
        }
        asked?;
        Ok(lock)
    }

    async fn try_lock(&self, lock: &Handle) -> Result<Option<Token>, BoxError> {
        Waiter(Wait::BackOff).try_lock(lock).await
    }

    async fn lock_timeout(&self, lock: &Handle, wait: Duration) -> Result<Option<Token>, BoxError> {
        Waiter(Wait::BackOff).lock_timeout(lock, wait).await
    }

    async fn release(&self, lock: &Handle, token: Token) -> Result<bool, BoxError> {
        Waiter(Wait::BackOff).release(lock, token).await
    }
}

#[test]
fn a_waiter_whose_open_sends_a_request_is_cleared() {
    is_cleared(AsksInOpen::Once);
    is_convicted(AsksInOpen::Hangs, Property::Liveness);
}
