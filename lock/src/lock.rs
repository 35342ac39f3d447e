//! A lock as its user sees it, whatever its kind.

use crate::{
    acquire::{self, acquire, adopt},
    algorithm::Acquisition,
    builder::LockBuilder,
    core::Core,
    detached::DetachedLock,
    environment::Environment,
    error::LockError,
    guard::Guard,
    kind::{Asked, Kind},
    lease::Lease,
    manager::LockManager,
    options::{Options, Wait},
    token::Token,
};
use std::{fmt, sync::Arc, time::Duration};
use tracing::Instrument as _;

/// A lock that can be taken, with or without waiting: [`Mutex`](crate::Mutex) and its relatives.
///
/// Made by a [`LockManager`](crate::LockManager). Cheap to clone. A clone, another lock of the same key
/// and another process all compete alike. A holder that asks again waits for itself; [`owner`](Self::owner) makes a handle that does not.
///
/// **Deadlock.** The lock of a holder that died is free when its lease is over.
#[derive(Clone)]
pub struct Lock<K: Kind> {
    core: Arc<Core>,
    key: Arc<[u8]>,
    kind: K,
    options: Options,
    /// Of the options; checked.
    lease: Lease,
}

impl<K: Kind> LockBuilder<K> {
    /// Makes the lock. Nothing is sent to Redis.
    ///
    /// # Errors
    ///
    /// * [`LockError::InvalidLease`] if the [`lease`](Self::lease) cannot be kept.
    /// * [`LockError::InvalidPauses`] as [`poll_pauses`](Self::poll_pauses) and [`retry_pauses`](Self::retry_pauses) say.
    pub fn build(self) -> Result<Lock<K>, LockError> {
        Ok(Lock {
            lease: self.options.checked()?,
            core: self.core,
            key: self.key,
            kind: self.kind,
            options: self.options,
        })
    }
}

impl<K: Kind> Lock<K> {
    /// Takes the lock if it is free. One round trip.
    ///
    /// # Errors
    ///
    /// * [`LockError::Contended`] if another client holds it.
    /// * [`LockError::Unknown`] if Redis did not answer within the reply timeout. If the request was
    ///   executed all the same, the key is removed in the background, at the latest by its TTL.
    /// * [`LockError::Redis`] if Redis could not be reached or answered with an error.
    /// * [`LockError::Lost`] if the answer came too late for this lease.
    /// * [`LockError::NoRuntime`] if there is no runtime for the watchdog.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a request that was sent is undone in the background over the same connection.
    /// Without a runtime for that (see [`Guard`](crate::Guard)), or if the connection dies first, the key may
    /// stand until its lease is over.
    pub async fn try_lock(&self) -> Result<K::Guard, LockError> {
        self.take(Wait::Not).await
    }

    /// Takes the lock, and waits for as long as other clients hold it, or as the builder's
    /// [`wait`](LockBuilder::wait) says.
    ///
    /// # Errors
    ///
    /// As [`try_lock`](Self::try_lock), except for contention. Transient failures of Redis are retried
    /// for one lease; [`lock_timeout`](Self::lock_timeout) sets another bound. With
    /// [`wait`](LockBuilder::wait), as [`lock_timeout`](Self::lock_timeout).
    ///
    /// # Cancel safety
    ///
    /// As [`try_lock`](Self::try_lock). A waiter of a fair lock loses its place in the queue.
    pub async fn lock(&self) -> Result<K::Guard, LockError> {
        self.take(self.options.wait()).await
    }

    /// Takes the lock, and waits at most for `wait`. Returns at the latest one reply timeout after
    /// that.
    ///
    /// # Errors
    ///
    /// * [`LockError::TimedOut`] if other clients held the lock, also at the last request.
    /// * The other errors as [`try_lock`](Self::try_lock); transient failures of Redis are retried.
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = redouble::Server::builder().clock(redouble::Clock::Tokio).start().await?;
    /// # let locks = redouble_lock::LockManager::new(server.connection().await?);
    /// use std::time::Duration;
    ///
    /// let lock = locks.mutex("order:17").lease(Duration::from_secs(10)).build()?;
    /// std::mem::forget(lock.try_lock().await?); // a holder that died
    ///
    /// let error = lock.lock_timeout(Duration::from_secs(3)).await.unwrap_err();
    /// assert!(error.is_contended() && error.is_timed_out());
    /// assert!(lock.lock_timeout(Duration::from_secs(8)).await.is_ok()); // its lease was over
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lock_timeout(&self, wait: Duration) -> Result<K::Guard, LockError> {
        self.take(Wait::AtMost(wait)).await
    }

    /// Goes on with a grant that another process has [detached](crate::Guard::detach). One round trip extends the lease. From
    /// then on the grant has the lease and the watchdog of this lock, on the clock of this process.
    ///
    /// Of several processes that adopt the same detached lock all succeed, so give it to one process only.
    ///
    /// # Errors
    ///
    /// * [`LockError::OtherLock`] if the detached lock has another key.
    /// * [`LockError::Lost`] if that grant does not hold the lock any more.
    /// * [`LockError::Unknown`] or [`LockError::Redis`] if Redis failed; the grant stays as it is, and this can be
    ///   tried again until its lease is over.
    ///
    /// # Cancel safety
    ///
    /// As a failure: the grant stays as it is.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = redouble::Server::builder().clock(redouble::Clock::Tokio).start().await?;
    /// # let locks = redouble_lock::LockManager::new(server.connection().await?);
    /// use redouble_lock::{DetachedLock, Release};
    ///
    /// let lock = locks.mutex("order:17").build()?;
    /// let text = lock.try_lock().await?.detach()?.to_string();
    ///
    /// // In another process:
    /// let guard = lock.adopt(&text.parse::<DetachedLock>()?).await?;
    /// assert_eq!(guard.release().await, Release::Released);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn adopt(&self, detached: &DetachedLock) -> Result<K::Guard, LockError> {
        if detached.key != *self.key {
            return Err(LockError::OtherLock);
        }
        let acquisition = self.kind.acquisition(self.asked(detached.token));
        let (env, renewals) = (self.core.node.env(), &self.core.renewals);
        let guard = adopt(
            env,
            renewals,
            &self.options,
            self.lease,
            detached,
            acquisition,
        )
        .await?;
        guard.start_hold();
        Ok(guard.into())
    }

    /// Acquires the lock for the caller of the user.
    async fn take(&self, wait: Wait) -> Result<K::Guard, LockError> {
        let guard = self.acquire(wait).await?;
        guard.as_ref().start_hold();
        Ok(guard)
    }

    /// Acquires the lock. The minimum hold starts when the caller gets the guard; see [`Guard::start_hold`].
    pub(crate) async fn acquire(&self, wait: Wait) -> Result<K::Guard, LockError> {
        let acquisition = |token| self.kind.acquisition(self.asked(token));
        let span = tracing::debug_span!(target: "redouble_lock", "lock.wait", key = %self.key.escape_ascii());
        let (env, options) = (self.core.node.env(), &self.options);
        let begun = env.now();
        let granted = acquire(
            env,
            &self.core.renewals,
            options,
            self.lease,
            wait,
            acquisition,
        );
        let outcome = granted.instrument(span).await;
        let waited = env.now().saturating_sub(begun);
        options.observer.tell(|metrics| match &outcome {
            Ok(_) => metrics.granted(&self.key, waited),
            Err(error) => metrics.not_granted(&self.key, waited, error),
        });
        let guard = outcome?;
        Ok(guard.into())
    }

    pub(crate) fn asked(&self, token: Token) -> Asked<'_> {
        Asked {
            core: &self.core,
            key: &self.key,
            options: &self.options,
            token,
            fenced: false,
        }
    }

    /// Goes on with the grant of `guard` as `acquisition`; see [`acquire::replace`].
    pub(crate) async fn replace(
        &self,
        guard: Guard,
        acquisition: Arc<dyn Acquisition>,
    ) -> Result<Guard, LockError> {
        let (env, renewals) = (self.core.node.env(), &self.core.renewals);
        let guard =
            acquire::replace(env, renewals, &self.options, self.lease, guard, acquisition).await?;
        guard.start_hold();
        Ok(guard)
    }

    /// The manager that the lock is of.
    pub(crate) fn manager(&self) -> LockManager {
        LockManager::of(Arc::clone(&self.core))
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns true if `guard` is of this key and of the same manager.
    pub(crate) fn is_lock_of(&self, guard: &Guard) -> bool {
        guard.is_renewed_by(&self.core.renewals) && *guard.key() == *self.key
    }

    /// Returns true if both are the same lock of the same manager.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.core, &other.core) && self.key == other.key
    }

    /// A lock of another kind, of the same key and with the same options.
    pub(crate) fn of_kind<L: Kind>(&self, kind: L) -> Lock<L> {
        Lock {
            core: Arc::clone(&self.core),
            key: Arc::clone(&self.key),
            kind,
            options: self.options.clone(),
            lease: self.lease,
        }
    }

    pub(crate) fn env(&self) -> &Arc<dyn Environment> {
        self.core.node.env()
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }
}

impl<K: Kind> fmt::Debug for Lock<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock")
            .field("key", &String::from_utf8_lossy(&self.key))
            .field("kind", &self.kind)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
