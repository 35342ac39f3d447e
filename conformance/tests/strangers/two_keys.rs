//! Locks that need two keys, or that reply with what was there before.

use crate::{
    is_cleared, is_convicted,
    kit::{Handle, Token},
    opens_a_handle,
    simple::COMPARE_AND_DELETE,
};
use redis::RedisResult;
use redouble_conformance::{
    BoxError, Promises, Subject,
    backend::View,
    checker::Property,
    history::{Kind, Mode},
    subject::Observed,
};

/// Order of the two keys.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Both {
    /// The second key after the first one, by `SET` with `NX` and `GET`.
    InOrder,
    /// One of them, whichever is free.
    Either,
}

impl Both {
    /// Sets a key. The reply is the former value.
    async fn take(lock: &Handle, key: &str, token: &str) -> RedisResult<bool> {
        let words = ["SET", key, token, "NX", "GET", "PX", &*lock.lease_ms()];
        let former: Option<String> = lock.ask(&words).await?;
        Ok(former.is_none_or(|former| former == token))
    }

    async fn give_back(lock: &Handle, key: &str, token: &str) -> RedisResult<bool> {
        lock.eval(COMPARE_AND_DELETE, &[key], &[token]).await
    }
}

impl Subject for Both {
    opens_a_handle!(Token);

    fn name(&self) -> &'static str {
        match self {
            Self::InOrder => "two-keys",
            Self::Either => "one-of-two-keys",
        }
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node().untidy()
    }

    async fn try_lock(&self, lock: &Handle) -> Result<Option<Token>, BoxError> {
        let (token, other) = (lock.host.random_token(), lock.beside("other"));
        let first = Self::take(lock, &lock.key, &token).await?;
        if first == (*self == Self::Either) {
            return Ok(first.then_some(Token(token)));
        }
        if Self::take(lock, &other, &token).await? {
            return Ok(Some(Token(token)));
        }
        if first {
            let _ = Self::give_back(lock, &lock.key, &token).await; // it expires with its lease
        }
        Ok(None)
    }

    async fn release(&self, lock: &Handle, Token(token): Token) -> Result<bool, BoxError> {
        let script = "local freed = 0 for _, key in ipairs(KEYS) do \
            if redis.call('get', key) == ARGV[1] then redis.call('del', key) freed = 1 end end \
            return freed";
        let keys = [&*lock.key, &lock.beside("other")];
        Ok(lock.eval(script, &keys, &[&token]).await?)
    }

    fn observe(&self, view: &dyn View, key: &str) -> Observed {
        let (mut both, other) = (
            Observed::string(view, key),
            Observed::string(view, &format!("{key}:other")),
        );
        for holder in other.holders {
            // The holder has the lock until the later of its two keys expires.
            both.holders.retain(|it| it.token != holder.token);
            both.holders.push(holder);
        }
        both
    }
}

/// Writers announce themselves by a key of their own: readers that come later wait.
struct Announced;

const READ: &str = "local t = redis.call('time') \
    local now = t[1] * 1000 + math.floor(t[2] / 1000) \
    redis.call('zremrangebyscore', KEYS[2], '-inf', now - 1) \
    if redis.call('exists', KEYS[1], KEYS[3]) > 0 then return 0 end \
    redis.call('zadd', KEYS[2], now + ARGV[2], ARGV[1]) return 1";
const WRITE: &str = "local t = redis.call('time') \
    local now = t[1] * 1000 + math.floor(t[2] / 1000) \
    redis.call('zremrangebyscore', KEYS[2], '-inf', now - 1) \
    local next = redis.call('get', KEYS[3]) \
    if redis.call('exists', KEYS[1]) + redis.call('zcard', KEYS[2]) > 0 \
        or next and next ~= ARGV[1] then \
        if ARGV[3] ~= '0' and (not next or next == ARGV[1]) then \
            redis.call('set', KEYS[3], ARGV[1], 'px', ARGV[3]) end \
        return 0 end \
    redis.call('del', KEYS[3]) \
    redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2]) return 1";

/// Longest pause between two requests of a waiter.
const POLL: std::time::Duration = std::time::Duration::from_millis(100);

impl Announced {
    /// Asks once. A writer announces itself for this time.
    async fn ask(
        lock: &Handle,
        token: &str,
        mode: Mode,
        announces: std::time::Duration,
    ) -> RedisResult<bool> {
        let (readers, next) = (lock.beside("readers"), lock.beside("next"));
        let script = match mode {
            Mode::Shared => READ,
            _ => WRITE,
        };
        let announces = announces.as_millis().to_string();
        let args = [token, &lock.lease_ms(), &announces];
        lock.eval(script, &[&lock.key, &readers, &next], &args)
            .await
    }
}

impl Subject for Announced {
    opens_a_handle!((String, Mode));

    fn name(&self) -> &'static str {
        "announced-writers"
    }

    fn promises(&self) -> Promises {
        Promises::of(Kind::ReadWrite)
            .untidy()
            .waiting(None)
            .polling(POLL)
    }

    async fn try_lock(&self, lock: &Handle) -> Result<Option<(String, Mode)>, BoxError> {
        self.try_mode(lock, Mode::Exclusive).await
    }

    async fn try_mode(
        &self,
        lock: &Handle,
        mode: Mode,
    ) -> Result<Option<(String, Mode)>, BoxError> {
        let token = lock.host.random_token();
        let taken = Self::ask(lock, &token, mode, std::time::Duration::ZERO).await?;
        Ok(taken.then_some((token, mode)))
    }

    async fn lock_timeout(
        &self,
        lock: &Handle,
        wait: std::time::Duration,
    ) -> Result<Option<(String, Mode)>, BoxError> {
        self.lock_mode(lock, Mode::Exclusive, wait).await
    }

    async fn lock_mode(
        &self,
        lock: &Handle,
        mode: Mode,
        wait: std::time::Duration,
    ) -> Result<Option<(String, Mode)>, BoxError> {
        let (token, until) = (lock.host.random_token(), lock.host.now() + wait);
        let announces = (POLL + 2 * lock.host.request_timeout()).min(lock.lease);
        loop {
            if Self::ask(lock, &token, mode, announces).await? {
                return Ok(Some((token, mode)));
            }
            let left = until.saturating_sub(lock.host.now());
            if left.is_zero() {
                Both::give_back(lock, &lock.beside("next"), &token).await?;
                return Ok(None);
            }
            lock.host.sleep(left.min(POLL)).await;
        }
    }

    async fn release(
        &self,
        lock: &Handle,
        (token, mode): (String, Mode),
    ) -> Result<bool, BoxError> {
        if mode == Mode::Shared {
            let script = "local t = redis.call('time') \
                local now = t[1] * 1000 + math.floor(t[2] / 1000) \
                redis.call('zremrangebyscore', KEYS[1], '-inf', now - 1) \
                return redis.call('zrem', KEYS[1], ARGV[1])";
            let readers = lock.beside("readers");
            return Ok(lock.eval(script, &[&readers], &[&token]).await?);
        }
        Ok(Both::give_back(lock, &lock.key, &token).await?)
    }

    fn observe(&self, view: &dyn View, key: &str) -> Observed {
        let writer = Observed::string(view, key).in_mode(Mode::Exclusive);
        let readers = Observed::sorted_set(view, &format!("{key}:readers"));
        let next = view.string(&format!("{key}:next")).map(|it| it.token);
        let all = writer.and(readers.in_mode(Mode::Shared));
        all.reserving(next.into_iter().collect())
    }
}

#[test]
fn a_lock_may_need_two_keys() {
    is_cleared(Both::InOrder);
}

#[test]
fn one_of_two_keys_is_not_the_lock() {
    is_convicted(Both::Either, Property::Exclusion);
}

#[test]
fn writers_announce_themselves() {
    is_cleared(Announced);
}
