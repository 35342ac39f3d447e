//! Locks whose waiters hear of a release: by a message on a channel, or by a notification about the key.

use crate::{
    is_cleared, is_convicted,
    kit::{Handle, Token},
    opens_a_handle,
    simple::COMPARE_AND_DELETE,
};
use redis::RedisResult;
use redouble_conformance::{BoxError, Promises, Subject, checker::Property};
use std::time::Duration;

/// How often a waiter looks in a lease, at least.
const LOOKS: u32 = 10;

/// Way in which a waiter learns that the lock is free.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hears {
    /// The release publishes a message; the waiter subscribes before it asks.
    AChannel,
    /// As `AChannel`, but the waiter asks before it subscribes, and not again.
    AChannelTooLate,
    /// The server notifies about changes of the key.
    TheKey,
}

impl Hears {
    async fn take(lock: &Handle) -> RedisResult<Option<Token>> {
        let token = lock.host.random_token();
        let set: Option<String> = lock
            .ask(&["SET", &lock.key, &token, "NX", "PX", &lock.lease_ms()])
            .await?;
        Ok(set.map(|_| Token(token)))
    }

    fn channel(self, lock: &Handle) -> String {
        match self {
            Self::TheKey => format!("__keyspace@0__:{}", lock.key),
            Self::AChannel | Self::AChannelTooLate => lock.beside("freed"),
        }
    }
}

impl Subject for Hears {
    opens_a_handle!(Token);

    fn name(&self) -> &'static str {
        match self {
            Self::AChannel => "hears-a-message",
            Self::AChannelTooLate => "subscribes-too-late",
            Self::TheKey => "hears-of-its-key",
        }
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node().untidy().waiting(Some(LOOKS))
    }

    async fn try_lock(&self, lock: &Handle) -> Result<Option<Token>, BoxError> {
        Ok(Self::take(lock).await?)
    }

    async fn lock_timeout(&self, lock: &Handle, wait: Duration) -> Result<Option<Token>, BoxError> {
        let until = lock.host.now() + wait;
        if *self == Self::TheKey {
            let words = ["CONFIG", "SET", "notify-keyspace-events", "Kgx"];
            let _: String = lock.ask(&words).await?;
        }
        if *self == Self::AChannelTooLate
            && let Some(token) = Self::take(lock).await?
        {
            return Ok(Some(token));
        }
        loop {
            // Anew each time: the connection may have ended.
            let mut listener = lock.host.listen(0, &self.channel(lock)).await?;
            if *self != Self::AChannelTooLate
                && let Some(token) = Self::take(lock).await?
            {
                return Ok(Some(token));
            }
            let ttl: i64 = lock.ask(&["PTTL", &lock.key]).await?;
            // The lease may be extended, or the connection may end: the waiter looks from time to time.
            let look = Duration::from_millis(u64::try_from(ttl).unwrap_or(0) + 1);
            let look = match self {
                Self::AChannelTooLate => lock.lease,
                Self::AChannel | Self::TheKey => look.min(lock.lease / LOOKS),
            };
            let left = until.saturating_sub(lock.host.now());
            tokio::select! {
                biased;
                // Heard, or the connection has ended: it looks at once in both cases.
                _ = listener.heard_or_closed() => {}
                () = lock.host.sleep(look.min(left)) => {}
            }
            drop(listener);
            if let Some(token) = Self::take(lock).await? {
                return Ok(Some(token));
            }
            if until <= lock.host.now() {
                return Ok(None);
            }
        }
    }

    async fn release(&self, lock: &Handle, Token(token): Token) -> Result<bool, BoxError> {
        let script = match self {
            Self::TheKey => COMPARE_AND_DELETE,
            Self::AChannel | Self::AChannelTooLate => {
                "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end \
                redis.call('del', KEYS[1]) redis.call('publish', ARGV[2], '') return 1"
            }
        };
        let args = [&*token, &self.channel(lock)];
        Ok(lock.eval(script, &[&lock.key], &args).await?)
    }
}

#[test]
fn a_waiter_hears_a_message() {
    is_cleared(Hears::AChannel);
}

#[test]
fn a_waiter_hears_of_its_key() {
    is_cleared(Hears::TheKey);
}

#[test]
fn a_waiter_that_subscribes_too_late_is_convicted() {
    is_convicted(Hears::AChannelTooLate, Property::WakeUp);
}
