//! Strings that are released in other ways, and refusals that are remembered.

use crate::{
    is_cleared, is_convicted,
    kit::{Handle, Token},
    opens_a_handle,
    simple::COMPARE_AND_DELETE,
};
use redouble_conformance::{BoxError, Promises, Subject, checker::Property};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

/// Way to release.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Release {
    /// A script deletes the key by `GETDEL`, and stores the value of another holder again with the rest of its lease.
    PutBackInAScript,
    /// The client deletes the key by `GETDEL`, and stores the value of another holder again.
    PutBack,
    /// A script deletes by `UNLINK`, and a failed request is sent once more: if the key is gone then, the first one deleted it, or
    /// the lease is over.
    TwiceThenUnknown,
}

impl Subject for Release {
    opens_a_handle!(Token);

    fn name(&self) -> &'static str {
        match self {
            Self::PutBackInAScript => "puts-back-in-a-script",
            Self::PutBack => "puts-back",
            Self::TwiceThenUnknown => "releases-twice",
        }
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node().untidy()
    }

    async fn try_lock(&self, lock: &Handle) -> Result<Option<Token>, BoxError> {
        let token = lock.host.random_token();
        let words = ["SET", &lock.key, &token, "NX", "PX", &lock.lease_ms()];
        let set: Option<String> = lock.ask(&words).await?;
        Ok(set.map(|_| Token(token)))
    }

    async fn release(&self, lock: &Handle, Token(token): Token) -> Result<bool, BoxError> {
        match self {
            Self::PutBackInAScript => {
                let script = "local ttl = redis.call('pttl', KEYS[1]) \
                    local stored = redis.call('getdel', KEYS[1]) \
                    if stored == ARGV[1] then return 1 end \
                    if stored then redis.call('set', KEYS[1], stored, 'px', ttl) end return 0";
                Ok(lock.eval(script, &[&lock.key], &[&token]).await?)
            }
            Self::PutBack => {
                let stored: Option<String> = lock.ask(&["GETDEL", &lock.key]).await?;
                match stored {
                    Some(stored) if stored != token => {
                        let words = ["SET", &lock.key, &stored, "NX", "PX", &lock.lease_ms()];
                        let _: Option<String> = lock.ask(&words).await?;
                        Ok(false)
                    }
                    stored => Ok(stored.is_some()),
                }
            }
            Self::TwiceThenUnknown => {
                let script = "if redis.call('get', KEYS[1]) == ARGV[1] then \
                    return redis.call('unlink', KEYS[1]) end return 0";
                let (keys, args) = ([&*lock.key], [&*token]);
                let ask = || lock.eval::<bool>(script, &keys, &args);
                match ask().await {
                    Ok(freed) => Ok(freed),
                    Err(first) => match ask().await {
                        Ok(true) => Ok(true),
                        _ => Err(first.into()),
                    },
                }
            }
        }
    }
}

/// A process remembers how long the lease of a holder lasts, and refuses without a request until then.
struct Remembers;

impl Subject for Remembers {
    type Lock = (Handle, Arc<Mutex<Duration>>);
    type Grant = Token;

    fn name(&self) -> &'static str {
        "remembers-a-refusal"
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node().untidy()
    }

    async fn open(
        &self,
        host: &redouble_conformance::Host,
        key: &str,
        lease: Duration,
    ) -> Result<Self::Lock, BoxError> {
        Ok((Handle::open(host, key, lease).await?, Arc::default()))
    }

    async fn try_lock(&self, (lock, until): &Self::Lock) -> Result<Option<Token>, BoxError> {
        if lock.host.now() < *until.lock().unwrap() {
            return Ok(None);
        }
        let token = lock.host.random_token();
        let words = ["SET", &lock.key, &token, "NX", "PX", &lock.lease_ms()];
        let set: Option<String> = lock.ask(&words).await?;
        if set.is_none() {
            let left: i64 = lock.ask(&["PTTL", &lock.key]).await?;
            let left = Duration::from_millis(u64::try_from(left).unwrap_or(0));
            *until.lock().unwrap() = lock.host.now() + left;
        }
        Ok(set.map(|_| Token(token)))
    }

    async fn release(&self, (lock, _): &Self::Lock, Token(token): Token) -> Result<bool, BoxError> {
        Ok(lock
            .eval(COMPARE_AND_DELETE, &[&lock.key], &[&token])
            .await?)
    }
}

#[test]
fn a_value_may_be_put_back_in_a_script() {
    is_cleared(Release::PutBackInAScript);
}

#[test]
fn a_value_that_is_put_back_by_the_client_is_convicted() {
    is_convicted(Release::PutBack, Property::Ownership);
}

#[test]
fn a_failed_release_is_sent_again() {
    is_cleared(Release::TwiceThenUnknown);
}

#[test]
fn a_refusal_that_is_remembered_is_convicted() {
    is_convicted(Remembers, Property::Truth);
}
