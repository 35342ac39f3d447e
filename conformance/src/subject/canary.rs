//! The canary: a lock that releases by a bare DEL. If the suite does not convict it, the suite is broken.

use super::{BoxError, Connection, Host, Promises, Subject};
use redis::{AsyncCommands, ExistenceCheck::NX, SetExpiry::PX, SetOptions};
use std::time::Duration;

/// Acquires by `SET NX PX` and releases by `DEL`, without checking that the key still holds its token.
#[derive(Clone, Copy, Debug, Default)]
pub struct Canary;

/// The canary's lock object.
pub struct CanaryLock {
    redis: Connection,
    host: Host,
    key: String,
    lease_ms: u64,
}

impl Subject for Canary {
    type Lock = CanaryLock;
    type Grant = ();

    fn name(&self) -> &'static str {
        "canary"
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node()
    }

    async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<CanaryLock, BoxError> {
        let lease_ms = u64::try_from(lease.as_millis())?;
        let redis = host.connection().await?;
        Ok(CanaryLock {
            redis,
            host: host.clone(),
            key: key.to_owned(),
            lease_ms,
        })
    }

    async fn try_lock(&self, lock: &CanaryLock) -> Result<Option<()>, BoxError> {
        let once = SetOptions::default()
            .conditional_set(NX)
            .with_expiration(PX(lock.lease_ms));
        let mut redis = lock.redis.clone();
        let set: Option<String> = redis
            .set_options(&lock.key, lock.host.random_token(), once)
            .await?;
        Ok(set.map(drop))
    }

    async fn release(&self, lock: &CanaryLock, (): ()) -> Result<bool, BoxError> {
        let deleted: u64 = lock.redis.clone().del(&lock.key).await?; // the bug
        Ok(deleted == 1)
    }
}
