//! An example: a lock of one's own. `tests/checked.rs` shows how it is checked.
//!
//! It is the simplest lock that keeps its promise: `SET NX PX` with a token, released by a script that
//! compares and deletes. One case needs more than these two requests: a request with an unknown outcome,
//! because its connection broke or its caller dropped it. So the guard exists *before* the request. It
//! releases what the request may have taken.

use redis::{
    AsyncCommands, ExistenceCheck::NX, RedisResult, Script, SetExpiry::PX, SetOptions,
    aio::ConnectionLike,
};
use std::{future::Future, time::Duration};

/// A connection that many may use at once.
pub trait Redis: ConnectionLike + Clone + Send + Sync + 'static {}
impl<C: ConnectionLike + Clone + Send + Sync + 'static> Redis for C {}

/// What a lock needs from the program around it. A test brings its own, and has time and chance in
/// its hands.
pub trait Surroundings: Clone + Send + Sync + 'static {
    /// Draws a token that no other client has.
    fn token(&self) -> String;
    /// Runs a task in the background.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static);
    /// Waits.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send;
}

/// A lock on one key of one server.
#[derive(Clone)]
pub struct Lock<C, S> {
    redis: C,
    around: S,
    key: String,
    lease: Duration,
}

/// How a grant is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// By a script that compares and deletes.
    Atomic,
    /// By a GET and then a DEL: what many write, and what is wrong.
    GetThenDel,
}

/// Deletes the key if it holds the token.
const COMPARE_AND_DELETE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
                                  return redis.call('DEL', KEYS[1]) else return 0 end";
/// The background task that removes a token tries again after a sixtieth of the lease, until the lease is over.
const SHARES: u32 = 60;
/// Longest pause between two tries.
const PAUSE: Duration = Duration::from_secs(1);
/// A token that the task does not find may still arrive: the task looks for it during a twentieth of the lease.
const LOOKS_SHARE: u128 = 20;

impl<C: Redis, S: Surroundings> Lock<C, S> {
    /// A lock whose grants last for a lease.
    pub fn new(redis: C, around: S, key: impl Into<String>, lease: Duration) -> Self {
        let key = key.into();
        Self {
            redis,
            around,
            key,
            lease,
        }
    }

    /// Takes the lock if it is free.
    ///
    /// # Errors
    /// If it is not known whether it was taken; then it is given back in the background.
    pub async fn try_lock(&self) -> RedisResult<Option<Guard<C, S>>> {
        let mut guard = Guard::on(self);
        let lease_ms = u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX);
        let once = SetOptions::default()
            .conditional_set(NX)
            .with_expiration(PX(lease_ms));
        let mut redis = self.redis.clone();
        let set = redis.set_options(&self.key, guard.token(), once).await;
        guard.in_doubt = set.is_err();
        let set: Option<String> = set?;
        if set.is_none() {
            guard.disarm();
            return Ok(None);
        }
        Ok(Some(guard))
    }

    async fn remove(&self, token: &str, how: Release) -> RedisResult<bool> {
        let mut redis = self.redis.clone();
        match how {
            Release::Atomic => {
                let script = Script::new(COMPARE_AND_DELETE);
                let mut call = script.key(&self.key);
                call.arg(token).invoke_async(&mut redis).await
            }
            Release::GetThenDel => {
                let stored: Option<String> = redis.get(&self.key).await?;
                // Here the lease may end, and another take the lock.
                Ok(stored.as_deref() == Some(token) && redis.del::<_, u64>(&self.key).await? == 1)
            }
        }
    }

    /// Removes a token that may be there. In doubt it may also come yet: the request that sets it can be under
    /// way on a connection that no task reads any more.
    async fn sweep(self, token: String, in_doubt: bool) {
        let pause = (self.lease / SHARES).min(PAUSE);
        let sweeps = self.lease.as_nanos().div_ceil(pause.as_nanos().max(1));
        let (mut not_found, looks) = (0, sweeps.div_ceil(LOOKS_SHARE));
        for nth in 0..sweeps {
            match self.remove(&token, Release::Atomic).await {
                Ok(true) => return,
                Ok(false) if !in_doubt || not_found == looks => return,
                Ok(false) => not_found += 1,
                Err(_) => {}
            }
            // A connection that is found broken is soon another one: the second try comes at once.
            if nth > 0 {
                self.around.sleep(pause).await;
            }
        }
    }
}

/// A grant, or what may become one. Dropped, it gives back in the background what it may have.
pub struct Guard<C: Redis, S: Surroundings> {
    lock: Lock<C, S>,
    token: Option<String>,
    /// The request that sets it ended with an error.
    in_doubt: bool,
}

impl<C: Redis, S: Surroundings> Guard<C, S> {
    fn on(lock: &Lock<C, S>) -> Self {
        Self {
            lock: lock.clone(),
            token: Some(lock.around.token()),
            in_doubt: false,
        }
    }

    fn token(&self) -> &str {
        self.token.as_deref().unwrap_or_default()
    }

    /// There is nothing to give back any more.
    fn disarm(mut self) {
        self.token = None;
    }

    /// Gives the lock back; whether it was still held.
    ///
    /// # Errors
    /// If that is not known; then it is tried again in the background.
    pub async fn release(self, how: Release) -> RedisResult<bool> {
        let released = self.lock.remove(self.token(), how).await?;
        self.disarm();
        Ok(released)
    }
}

impl<C: Redis, S: Surroundings> Drop for Guard<C, S> {
    fn drop(&mut self) {
        if let Some(token) = self.token.take() {
            self.lock
                .around
                .spawn(self.lock.clone().sweep(token, self.in_doubt));
        }
    }
}
