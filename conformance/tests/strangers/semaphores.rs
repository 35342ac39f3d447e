//! Semaphores with two permits. A call takes one of them.

use crate::{
    is_cleared, is_convicted,
    kit::{Handle, Token},
    opens_a_handle,
};
use redis::RedisResult;
use redouble_conformance::{
    BoxError, NotOffered, Promises, Subject,
    backend::View,
    check,
    checker::Property,
    history::{Kind, Mode},
    subject::Observed,
};

const PERMITS: u32 = 2;

fn promises() -> Promises {
    Promises::of(Kind::Semaphore(PERMITS)).untidy()
}

fn one_permit(mode: Mode) -> Result<(), BoxError> {
    match mode {
        Mode::Permits(1) => Ok(()),
        _ => Err(NotOffered.into()),
    }
}

/// A sorted set of tokens, whose scores are deadlines on the clock of the server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SortedSet {
    /// One script counts the permits and adds one.
    Script,
    /// The client counts the permits, and adds one in the next request.
    CountThenAdd,
    /// The script grants one permit less than there are.
    OneTooFew,
}

const TAKE: &str = "local t = redis.call('time') \
    local now = t[1] * 1000 + math.floor(t[2] / 1000) \
    redis.call('zremrangebyscore', KEYS[1], '-inf', now - 1) \
    if redis.call('zcard', KEYS[1]) >= tonumber(ARGV[1]) then return 0 end \
    redis.call('zadd', KEYS[1], now + ARGV[3], ARGV[2]) \
    return 1";

impl SortedSet {
    async fn count_then_add(lock: &Handle, token: &str) -> RedisResult<bool> {
        let (seconds, micros): (u64, u64) = lock.ask(&["TIME"]).await?;
        let now = seconds * 1_000 + micros / 1_000;
        let over = now.saturating_sub(1).to_string();
        let _: u64 = lock
            .ask(&["ZREMRANGEBYSCORE", &lock.key, "-inf", &over])
            .await?;
        let taken: u32 = lock.ask(&["ZCARD", &lock.key]).await?;
        if taken >= PERMITS {
            return Ok(false);
        }
        let until = (u128::from(now) + lock.lease.as_millis()).to_string();
        let _: u64 = lock.ask(&["ZADD", &lock.key, &until, token]).await?;
        Ok(true)
    }
}

impl Subject for SortedSet {
    opens_a_handle!(Token);

    fn name(&self) -> &'static str {
        match self {
            Self::Script => "sorted-set-in-a-script",
            Self::CountThenAdd => "zcard-then-zadd",
            Self::OneTooFew => "one-permit-too-few",
        }
    }

    fn promises(&self) -> Promises {
        promises()
    }

    async fn try_lock(&self, _: &Handle) -> Result<Option<Token>, BoxError> {
        Err(NotOffered.into())
    }

    async fn try_mode(&self, lock: &Handle, mode: Mode) -> Result<Option<Token>, BoxError> {
        one_permit(mode)?;
        let token = lock.host.random_token();
        let taken = match self {
            Self::Script | Self::OneTooFew => {
                let permits = PERMITS - u32::from(*self == Self::OneTooFew);
                let args = [&*permits.to_string(), &token, &lock.lease_ms()];
                lock.eval(TAKE, &[&lock.key], &args).await?
            }
            Self::CountThenAdd => Self::count_then_add(lock, &token).await?,
        };
        Ok(taken.then_some(Token(token)))
    }

    async fn release(&self, lock: &Handle, Token(token): Token) -> Result<bool, BoxError> {
        // The set may still contain a permit whose deadline has passed.
        let script = "local t = redis.call('time') \
            local until_ms = redis.call('zscore', KEYS[1], ARGV[1]) \
            redis.call('zrem', KEYS[1], ARGV[1]) \
            if until_ms and tonumber(until_ms) >= t[1] * 1000 + math.floor(t[2] / 1000) then return 1 end \
            return 0";
        Ok(lock.eval(script, &[&lock.key], &[&token]).await?)
    }

    fn observe(&self, view: &dyn View, key: &str) -> Observed {
        Observed::sorted_set(view, key)
    }
}

/// A key with an expiry for each permit.
struct Slots;

impl Subject for Slots {
    opens_a_handle!((String, String));

    fn name(&self) -> &'static str {
        "a-key-per-permit"
    }

    fn promises(&self) -> Promises {
        promises()
    }

    async fn try_lock(&self, _: &Handle) -> Result<Option<(String, String)>, BoxError> {
        Err(NotOffered.into())
    }

    async fn try_mode(
        &self,
        lock: &Handle,
        mode: Mode,
    ) -> Result<Option<(String, String)>, BoxError> {
        one_permit(mode)?;
        let token = lock.host.random_token();
        for slot in 0..PERMITS {
            let slot = lock.beside(&slot.to_string());
            let words = ["SET", &slot, &token, "NX", "PX", &lock.lease_ms()];
            let set: Option<String> = lock.ask(&words).await?;
            if set.is_some() {
                return Ok(Some((slot, token)));
            }
        }
        Ok(None)
    }

    async fn release(
        &self,
        lock: &Handle,
        (slot, token): (String, String),
    ) -> Result<bool, BoxError> {
        let script = crate::simple::COMPARE_AND_DELETE;
        Ok(lock.eval(script, &[&slot], &[&token]).await?)
    }

    fn observe(&self, view: &dyn View, key: &str) -> Observed {
        let slots = (0..PERMITS).map(|slot| Observed::string(view, &format!("{key}:{slot}")));
        slots.fold(Observed::default(), Observed::and)
    }
}

/// A counter with an expiry. An attempt above the limit stays counted.
struct Counter;

const COUNT: &str = "local n = redis.call('incr', KEYS[1]) \
    if n == 1 then redis.call('pexpire', KEYS[1], ARGV[2]) end \
    if n <= tonumber(ARGV[1]) then redis.call('pexpire', KEYS[1], ARGV[2]) return 1 end \
    return 0";

impl Subject for Counter {
    opens_a_handle!(());

    fn name(&self) -> &'static str {
        "incr-without-decr"
    }

    fn promises(&self) -> Promises {
        promises()
    }

    async fn try_lock(&self, _: &Handle) -> Result<Option<()>, BoxError> {
        Err(NotOffered.into())
    }

    async fn try_mode(&self, lock: &Handle, mode: Mode) -> Result<Option<()>, BoxError> {
        one_permit(mode)?;
        let args = [&*PERMITS.to_string(), &lock.lease_ms()];
        let taken: bool = lock.eval(COUNT, &[&lock.key], &args).await?;
        Ok(taken.then_some(()))
    }

    async fn release(&self, lock: &Handle, (): ()) -> Result<bool, BoxError> {
        let script = "if redis.call('exists', KEYS[1]) == 1 then \
            if redis.call('decr', KEYS[1]) <= 0 then redis.call('del', KEYS[1]) end return 1 end return 0";
        Ok(lock.eval(script, &[&lock.key], &[]).await?)
    }

    fn observe(&self, view: &dyn View, key: &str) -> Observed {
        Observed::counter(view, key)
    }
}

/// A list of permits, which is filled once. A call pops a permit and a release pushes it back.
struct Tokens;

impl Subject for Tokens {
    opens_a_handle!(String);

    fn name(&self) -> &'static str {
        "popped-permits"
    }

    fn promises(&self) -> Promises {
        promises()
    }

    async fn try_lock(&self, _: &Handle) -> Result<Option<String>, BoxError> {
        Err(NotOffered.into())
    }

    async fn try_mode(&self, lock: &Handle, mode: Mode) -> Result<Option<String>, BoxError> {
        one_permit(mode)?;
        // A process that crashes takes its permit with it.
        let script = "if redis.call('set', KEYS[2], 1, 'nx') then redis.call('rpush', KEYS[1], 'a', 'b') end \
            return redis.call('lpop', KEYS[1])";
        let filled = lock.beside("filled");
        Ok(lock.eval(script, &[&lock.key, &filled], &[]).await?)
    }

    async fn release(&self, lock: &Handle, permit: String) -> Result<bool, BoxError> {
        let _: u64 = lock.ask(&["RPUSH", &lock.key, &permit]).await?;
        Ok(true)
    }

    fn observe(&self, _: &dyn View, _: &str) -> Observed {
        Observed::default()
    }

    fn outlasts(&self, _: &[u8]) -> bool {
        true
    }
}

/// A hash with a field per permit, which goes at its own deadline (Redis 7.4).
#[derive(Clone, Copy, PartialEq, Eq)]
enum FieldPerPermit {
    Right,
    /// The field gets its deadline in another request.
    DeadlineLater,
}

impl Subject for FieldPerPermit {
    opens_a_handle!(Token);

    fn name(&self) -> &'static str {
        match self {
            Self::Right => "a-field-per-permit",
            Self::DeadlineLater => "a-field-per-permit-with-a-later-deadline",
        }
    }

    fn promises(&self) -> Promises {
        promises()
    }

    async fn try_lock(&self, _: &Handle) -> Result<Option<Token>, BoxError> {
        Err(NotOffered.into())
    }

    async fn try_mode(&self, lock: &Handle, mode: Mode) -> Result<Option<Token>, BoxError> {
        one_permit(mode)?;
        let token = lock.host.random_token();
        let (lease, permits) = (lock.lease_ms(), PERMITS.to_string());
        let take = "if redis.call('hlen', KEYS[1]) >= tonumber(ARGV[1]) then return 0 end \
            redis.call('hset', KEYS[1], ARGV[2], 1) \
            if ARGV[3] then redis.call('hpexpire', KEYS[1], ARGV[3], 'FIELDS', 1, ARGV[2]) end \
            return 1";
        let args = [&*permits, &token, &lease];
        let args = match self {
            Self::Right => &args[..],
            Self::DeadlineLater => &args[..2],
        };
        let taken: bool = lock.eval(take, &[&lock.key], args).await?;
        if taken && *self == Self::DeadlineLater {
            let words = ["HPEXPIRE", &lock.key, &lease, "FIELDS", "1", &token];
            let _: Vec<i64> = lock.ask(&words).await?;
        }
        Ok(taken.then_some(Token(token)))
    }

    async fn release(&self, lock: &Handle, Token(token): Token) -> Result<bool, BoxError> {
        Ok(lock.ask(&["HDEL", &lock.key, &token]).await?)
    }

    fn observe(&self, view: &dyn View, key: &str) -> Observed {
        Observed::hash(view, key)
    }
}

/// The scenarios are many: in a few of them a server crashes, and its data come back with their deadlines.
#[test]
fn fields_with_deadlines_are_permits() {
    let played = |subject, seeds| {
        check(subject)
            .compat(redouble::Profile::REDIS_7_4)
            .seeds(seeds)
    };
    played(FieldPerPermit::Right, 0..800).assert_sound();
    played(FieldPerPermit::DeadlineLater, 0..2_000).assert_convicted(&[Property::Progress]);
}

#[test]
fn a_sorted_set_is_read_and_changed_at_once() {
    is_cleared(SortedSet::Script);
    is_convicted(SortedSet::CountThenAdd, Property::Exclusion);
}

#[test]
fn a_key_per_permit_is_sound() {
    is_cleared(Slots);
}

#[test]
fn an_attempt_that_fails_is_not_counted() {
    is_convicted(Counter, Property::Truth);
}

#[test]
fn a_permit_of_a_dead_process_comes_back() {
    is_convicted(Tokens, Property::Progress);
}

#[test]
fn a_semaphore_that_grants_one_permit_too_few_is_convicted() {
    is_convicted(SortedSet::OneTooFew, Property::Progress);
    is_convicted(SortedSet::OneTooFew, Property::Truth);
}
