//! The correct lock on one node: a connection, a key, and the correct commands.

use super::{Held, SoundLock, Sweep};
use crate::subject::{BoxError, Connection, Host, Refusal};
use redis::FromRedisValue;
use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Deletes a key that holds a token.
const RELEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
                       return redis.call('DEL', KEYS[1]) else return 0 end";
/// Extends the expiry of a key that holds a token.
const EXTEND: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
                      return redis.call('PEXPIRE', KEYS[1], ARGV[2]) else return 0 end";

/// The lock object of a client process. Clones share its state.
#[derive(Clone)]
pub(in crate::subject) struct Site {
    redis: Connection,
    /// The client process.
    pub(in crate::subject) host: Host,
    /// The key of the lock.
    pub(in crate::subject) key: String,
    /// Duration of a grant.
    pub(in crate::subject) lease: Duration,
    /// Identity of the lock object, drawn when it was made.
    pub(in crate::subject) me: String,
    latest: Arc<Mutex<Option<Held>>>,
    counted: Arc<AtomicU64>,
    farewell: &'static str,
    /// Number of levels that the owner holds, for locks that count. A call holds this mutex while it waits
    /// for its reply.
    pub(in crate::subject) depth: Arc<tokio::sync::Mutex<u64>>,
}

impl Site {
    /// Makes the lock object on one of several nodes.
    pub(in crate::subject) async fn on(
        node: u8,
        host: &Host,
        key: &str,
        lease: Duration,
        patience: Duration,
    ) -> Result<Self, BoxError> {
        Ok(Self {
            redis: host.patient_connection(node, patience).await?,
            host: host.clone(),
            key: key.to_owned(),
            lease,
            me: host.random_token(),
            latest: Arc::default(),
            counted: Arc::default(),
            farewell: RELEASE,
            depth: Arc::default(),
        })
    }

    /// Sets the script that releases.
    pub(in crate::subject) fn releasing_by(mut self, script: &'static str) -> Self {
        self.farewell = script;
        self
    }

    /// Makes the same object with another lease.
    pub(in crate::subject) fn leasing(&self, lease: Duration) -> Self {
        Self {
            lease,
            ..self.clone()
        }
    }

    /// Returns the lease in milliseconds, as an argument.
    pub(in crate::subject) fn lease_ms(&self) -> String {
        self.lease.as_millis().to_string()
    }

    /// Sends a command.
    pub(in crate::subject) async fn ask<T: FromRedisValue>(
        &self,
        words: &[&str],
    ) -> Result<T, BoxError> {
        let mut command = redis::Cmd::new();
        command.arg(words);
        Ok(command.query_async(&mut self.redis.clone()).await?)
    }

    /// Runs a script on the key.
    pub(in crate::subject) async fn eval<T: FromRedisValue>(
        &self,
        script: &str,
        args: &[&str],
    ) -> Result<T, BoxError> {
        let words = ["EVAL", script, "1", &self.key];
        self.ask(&[&words, args].concat()).await
    }

    /// Sets the key to a token for a lease, if the key does not exist.
    pub(in crate::subject) async fn set_nx(&self, token: &str) -> Result<bool, BoxError> {
        let set: Option<String> = self
            .ask(&["SET", &self.key, token, "NX", "PX", &self.lease_ms()])
            .await?;
        Ok(set.is_some())
    }

    /// Returns the token at the key.
    pub(in crate::subject) async fn get(&self) -> Result<Option<String>, BoxError> {
        self.ask(&["GET", &self.key]).await
    }

    /// Deletes the key without checking its owner.
    pub(in crate::subject) async fn del(&self) -> Result<bool, BoxError> {
        self.ask(&["DEL", &self.key]).await
    }

    /// Sets the expiry of the key to one lease, without checking its owner.
    pub(in crate::subject) async fn expire(&self) -> Result<bool, BoxError> {
        self.ask(&["PEXPIRE", &self.key, &self.lease_ms()]).await
    }

    /// Acquires the lock for a token if it is free.
    pub(in crate::subject) async fn acquire_as(
        &self,
        token: String,
    ) -> Result<Option<Held>, BoxError> {
        let (sweep, sent) = (Sweep::over(self, &token), self.host.now());
        let set = self.set_nx(&token).await?;
        let until = sent + self.lease;
        if set && until <= self.host.now() {
            return Err(Refusal::Lost.into());
        }
        sweep.done();
        Ok(set.then(|| Held::until(token, until)))
    }

    /// Extends the expiry of the key if it holds the token.
    pub(in crate::subject) async fn extend_as(&self, token: &str) -> Result<bool, BoxError> {
        self.eval(EXTEND, &[token, &self.lease_ms()]).await
    }

    /// Loads the extending script into the server's cache and returns its SHA-1.
    pub(in crate::subject) async fn load_extend(&self) -> Result<String, BoxError> {
        self.ask(&["SCRIPT", "LOAD", EXTEND]).await
    }

    /// Extends by EVALSHA.
    pub(in crate::subject) async fn extend_by_sha(
        &self,
        sha: &str,
        held: &Held,
    ) -> Result<bool, BoxError> {
        let sent = self.host.now();
        let lease = self.lease_ms();
        let words = ["EVALSHA", sha, "1", &self.key, &held.token, &lease];
        let extended = self.ask(&words).await?;
        Ok(extended && held.prolong(self.host.now(), sent + self.lease))
    }

    /// Deletes the key if it holds the token.
    pub(in crate::subject) async fn release_as(&self, token: &str) -> Result<bool, BoxError> {
        self.eval(self.farewell, &[token]).await
    }

    /// Returns the next number: 1, 2, 3.
    pub(in crate::subject) fn count(&self) -> u64 {
        1 + self.counted.fetch_add(1, Ordering::Relaxed)
    }

    /// Stores a number for [`kept`](Self::kept).
    pub(in crate::subject) fn keep(&self, number: u64) {
        self.counted.store(number, Ordering::Relaxed);
    }

    /// Takes the stored number.
    pub(in crate::subject) fn kept(&self) -> Option<u64> {
        let kept = self.counted.swap(0, Ordering::Relaxed);
        (kept != 0).then_some(kept)
    }

    /// Returns the grant that the lock object remembers, if it remembers one.
    pub(in crate::subject) fn latest(&self) -> MutexGuard<'_, Option<Held>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SoundLock for Site {
    async fn open(
        host: &Host,
        key: &str,
        lease: Duration,
        patience: Duration,
    ) -> Result<Self, BoxError> {
        Self::on(0, host, key, lease, patience).await
    }

    fn of_task(&self) -> Self {
        let me = self.host.random_token();
        Self {
            me,
            latest: Arc::default(),
            depth: Arc::default(),
            ..self.clone()
        }
    }

    async fn acquire(&self) -> Result<Option<Held>, BoxError> {
        self.acquire_as(self.host.random_token()).await
    }

    async fn extend(&self, held: &Held) -> Result<bool, BoxError> {
        let sent = self.host.now();
        let extended = self.extend_as(&held.token).await?;
        Ok(extended && held.prolong(self.host.now(), sent + self.lease))
    }

    async fn release(&self, held: &Held) -> Result<bool, BoxError> {
        let sweep = Sweep::over(self, &held.token);
        let released = self.release_as(&held.token).await?;
        sweep.done();
        Ok(released)
    }

    fn sweep(&self, token: String) {
        let site = self.clone();
        self.host.spawn(async move {
            let until = site.host.now() + site.lease;
            while site.release_as(&token).await.is_err() && site.host.now() < until {
                site.host.sleep(site.lease / 60).await;
            }
        });
    }
}
