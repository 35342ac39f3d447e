//! `redlock` 2.0, which blocks: played on threads of its own.

use redlock::{Lock as Held, RedLock};
use redouble_conformance::{BoxError, Host, Promises, Subject};
use std::time::Duration;

pub(crate) struct Redlock {
    pub(crate) nodes: u8,
}

pub(crate) struct Lock {
    /// Its grants borrow it for as long as they are there: for ever.
    manager: &'static RedLock,
    host: Host,
    key: String,
    lease_ms: usize,
}

pub(crate) struct Grant {
    held: Held<'static>,
    until: Duration,
}

impl Subject for Redlock {
    type Lock = Lock;
    type Grant = Grant;

    fn name(&self) -> &'static str {
        "redlock"
    }

    fn promises(&self) -> Promises {
        super::promises(self.nodes)
    }

    async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<Lock, BoxError> {
        let urls: Result<Vec<_>, _> = (0..host.nodes()).map(|node| host.url(node)).collect();
        let mut manager = RedLock::new(urls?);
        manager.set_retry(1, 1); // the suite repeats
        Ok(Lock {
            manager: Box::leak(Box::new(manager)),
            host: host.clone(),
            key: key.to_owned(),
            lease_ms: usize::try_from(lease.as_millis())?,
        })
    }

    async fn try_lock(&self, lock: &Lock) -> Result<Option<Grant>, BoxError> {
        let held = lock.manager.lock(lock.key.as_bytes(), lock.lease_ms)?;
        Ok(held.map(|held| {
            let valid = u64::try_from(held.validity_time).unwrap_or(u64::MAX);
            let until = lock.host.now().saturating_add(Duration::from_millis(valid));
            Grant { held, until }
        }))
    }

    async fn release(&self, lock: &Lock, grant: Grant) -> Result<bool, BoxError> {
        lock.manager.unlock(&grant.held);
        Err("its release says nothing".into())
    }

    fn deadline(&self, grant: &Grant) -> Option<Duration> {
        Some(grant.until)
    }
}
