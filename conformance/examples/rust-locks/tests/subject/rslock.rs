//! `rslock` 0.10, asynchronous: played in its plain form.
//!
//! It takes the time that a request took from the clock of the standard library, which stands still there. It
//! does so only to subtract it from the lease; that is done here, on the clock of the host.

use redouble_conformance::{BoxError, Host, NotOffered, Promises, Subject};
use rslock::{Lock as Held, LockError, LockManager};
use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::watch;

pub(crate) struct Rslock {
    pub(crate) nodes: u8,
    /// Whether its grants are extended.
    pub(crate) extends: bool,
}

pub(crate) struct Lock {
    manager: LockManager,
    host: Host,
    key: String,
    lease: Duration,
}

pub(crate) struct Grant {
    held: Held,
    until: Mutex<Duration>,
    lost: watch::Sender<bool>,
}

impl Lock {
    /// Until when a grant holds that was asked for at some time.
    fn until(&self, asked: Duration, held: &Held) -> Result<Duration, BoxError> {
        let valid = Duration::from_millis(u64::try_from(held.validity_time)?);
        let until = asked + valid;
        let in_time = self.host.now() < until;
        in_time
            .then_some(until)
            .ok_or_else(|| LockError::TtlExceeded.into())
    }
}

impl Subject for Rslock {
    type Lock = Lock;
    type Grant = Grant;

    fn name(&self) -> &'static str {
        if self.nodes == 1 {
            "rslock"
        } else {
            "rslock on several"
        }
    }

    fn promises(&self) -> Promises {
        super::promises(self.nodes)
    }

    async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<Lock, BoxError> {
        let urls: Result<Vec<_>, _> = (0..host.nodes()).map(|node| host.url(node)).collect();
        let mut manager = LockManager::new(urls?);
        manager.set_retry(1, Duration::from_millis(1)); // its timers are its own; the suite repeats
        Ok(Lock {
            manager,
            host: host.clone(),
            key: key.to_owned(),
            lease,
        })
    }

    async fn try_lock(&self, lock: &Lock) -> Result<Option<Grant>, BoxError> {
        let asked = lock.host.now();
        match lock.manager.lock(lock.key.as_str(), lock.lease).await {
            Ok(held) => Ok(Some(Grant {
                until: Mutex::new(lock.until(asked, &held)?),
                held,
                lost: watch::Sender::new(false),
            })),
            // It says so whether another holds the lock or no server could be asked.
            Err(LockError::Unavailable) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn extend(&self, lock: &Lock, grant: &Grant) -> Result<bool, BoxError> {
        if !self.extends {
            return Err(NotOffered.into());
        }
        let asked = lock.host.now();
        match lock.manager.extend(&grant.held, lock.lease).await {
            Ok(held) => {
                let until = lock.until(asked, &held)?;
                *grant.until.lock().unwrap_or_else(PoisonError::into_inner) = until;
                Ok(true)
            }
            Err(LockError::Unavailable) => {
                // Its user does not go on as if nothing had happened.
                grant.lost.send_replace(true);
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn release(&self, _: &Lock, grant: Grant) -> Result<bool, BoxError> {
        grant.held.release().await;
        Err("its release says nothing".into())
    }

    fn deadline(&self, grant: &Grant) -> Option<Duration> {
        Some(*grant.until.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn lost(&self, grant: &Grant) {
        // The sender is there as long as the grant.
        let _ = grant.lost.subscribe().wait_for(|lost| *lost).await;
    }
}
