//! Re-entry: an owner that takes a lock again while it holds it.
//!
//! The owner's process counts the levels, as the number of guards that share one grant. Redis
//! knows one token per grant, so no request can count twice.

use crate::{
    environment::{Environment, within},
    error::LockError,
    guard::Guard,
    kind::{Exclusive, Kind},
    lock::Lock,
    options::Wait,
    release::Release,
    retry,
};
use std::{
    fmt,
    ops::Deref,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};
use tokio::sync::Notify;

/// An owner of a [`Mutex`](crate::Mutex), which may take it again while it holds it.
pub type ReentrantMutex = Owner<Exclusive>;

/// An owner of a lock, which may take the lock again while it holds it.
///
/// Made by [`Lock::owner`], of any kind of lock. Identity is the handle and nothing else: not the thread, not
/// the task, not the process. A clone acts for the same owner; two owners exclude each
/// other, also in one process.
///
/// **Guarantee.** What the lock guarantees, for owners instead of guards. The lock is free when as many guards were
/// released or dropped as were handed out. All of them share one grant: they have one token, one
/// deadline, one watchdog, and are lost together. A lost grant never comes back: the owner that locks
/// again gets a new one, and guards of the old one stay lost.
///
/// **Re-entry** costs one round trip, which extends the grant to at least a whole lease and so proves that it still
/// stands. Neither re-entry nor an inner release ever shortens it.
///
/// **Deadlock.** The lock of an owner that died is free when its lease is over.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = redouble::Server::builder().clock(redouble::Clock::Tokio).start().await?;
/// # let locks = redouble_lock::LockManager::new(server.connection().await?);
/// use redouble_lock::{LockError, Release};
///
/// let lock = locks.mutex("order:17").build()?;
/// let (clerk, other) = (lock.owner(), lock.owner());
///
/// let outer = clerk.lock().await?;
/// let inner = clerk.lock().await?; // does not wait for itself
/// assert_eq!(other.try_lock().await.unwrap_err(), LockError::Contended);
///
/// assert_eq!(inner.release().await, Release::StillHeld);
/// assert_eq!(outer.release().await, Release::Released);
/// assert!(other.try_lock().await.is_ok());
/// # Ok(())
/// # }
/// ```
pub struct Owner<K: Kind> {
    shared: Arc<Shared<K>>,
}

struct Shared<K: Kind> {
    lock: Lock<K>,
    /// The grant that new levels join. Alive as long as one of its guards is.
    grant: Mutex<Weak<K::Guard>>,
    /// Notified of each new grant.
    granted: Notify,
}

impl<K: Kind> Lock<K> {
    /// Makes an owner of this lock, which may take it again while it holds it. Nothing is sent to Redis.
    #[must_use]
    pub fn owner(&self) -> Owner<K> {
        Owner {
            shared: Arc::new(Shared {
                lock: self.clone(),
                grant: Mutex::default(),
                granted: Notify::new(),
            }),
        }
    }
}

impl<K: Kind> Owner<K> {
    /// Enters the lock if it is free or held by this owner. One round trip.
    ///
    /// # Errors
    ///
    /// As [`Lock::try_lock`]. If the owner holds the lock, and Redis does not confirm that,
    /// [`LockError::Unknown`] or [`LockError::Redis`]; the levels that it has are not affected.
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::try_lock`].
    pub async fn try_lock(&self) -> Result<ReentrantGuard<K>, LockError> {
        self.enter(Wait::Not).await
    }

    /// Enters the lock, and waits for as long as other owners hold it, or as the lock's
    /// [`wait`](crate::LockBuilder::wait) says.
    ///
    /// # Errors
    ///
    /// As [`Lock::lock`].
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::lock`].
    pub async fn lock(&self) -> Result<ReentrantGuard<K>, LockError> {
        self.enter(self.shared.lock.options().wait()).await
    }

    /// Enters the lock, and waits at most for `wait`.
    ///
    /// # Errors
    ///
    /// As [`Lock::lock_timeout`].
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::lock`].
    pub async fn lock_timeout(&self, wait: Duration) -> Result<ReentrantGuard<K>, LockError> {
        self.enter(Wait::AtMost(wait)).await
    }

    /// Returns how many levels this owner has, calls under way included. Zero once the grant is lost.
    #[must_use]
    pub fn levels(&self) -> usize {
        let grant = self.shared.grant();
        let valid = grant
            .upgrade()
            .is_some_and(|grant| (*grant).as_ref().is_valid());
        if valid { grant.strong_count() } else { 0 }
    }

    async fn enter(&self, wait: Wait) -> Result<ReentrantGuard<K>, LockError> {
        let shared = &*self.shared;
        let env = shared.lock.env();
        let begun = env.now();
        let end = match wait {
            Wait::Not => begun,
            Wait::AtMost(wait) => begun.saturating_add(wait),
            Wait::Forever => Duration::MAX,
        };
        loop {
            // Made before the look, so that a grant between the two is not missed.
            let mut granted = pin!(shared.granted.notified());
            granted.as_mut().enable();
            let standing = shared.grant().upgrade();
            if let Some(grant) = standing
                && (*grant).as_ref().is_valid()
            {
                match shared.reenter(&grant, end).await {
                    // What follows a loss is a new grant.
                    Err(error) if error.is_lost() => {}
                    outcome => return outcome.map(|()| ReentrantGuard { grant }),
                }
                continue;
            }
            let rest = match wait {
                Wait::AtMost(_) => Wait::AtMost(end.saturating_sub(env.now())),
                Wait::Not | Wait::Forever => wait,
            };
            let outcome = tokio::select! {
                biased;
                // Another task of this owner got the grant first.
                () = &mut granted => continue,
                outcome = shared.lock.acquire(rest) => outcome,
            };
            return match outcome {
                Ok(guard) => match shared.settle_on(guard) {
                    Ok(grant) => {
                        (*grant).as_ref().start_hold();
                        Ok(ReentrantGuard { grant })
                    }
                    Err(surplus) => {
                        let _ = surplus.into().release().await;
                        continue;
                    }
                },
                Err(LockError::TimedOut { .. }) => Err(LockError::TimedOut {
                    waited: env.now().saturating_sub(begun),
                }),
                Err(error) => Err(error),
            };
        }
    }
}

impl<K: Kind> Shared<K> {
    fn grant(&self) -> MutexGuard<'_, Weak<K::Guard>> {
        self.grant.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a new grant the one that levels join. Returns it if there is a grant already: of a lock that several owners can hold
    /// at once, another task of this owner on another thread may have got one at the same time.
    fn settle_on(&self, guard: K::Guard) -> Result<Arc<K::Guard>, K::Guard> {
        let mut grant = self.grant();
        let standing = grant.upgrade();
        if standing.is_some_and(|standing| (*standing).as_ref().is_valid()) {
            return Err(guard);
        }
        let new = Arc::new(guard);
        *grant = Arc::downgrade(&new);
        self.granted.notify_waiters();
        Ok(new)
    }

    /// Confirms a grant for one more level. Failures of Redis that may pass are waited out, until `end` or the
    /// loss of the grant.
    async fn reenter(&self, grant: &K::Guard, end: Duration) -> Result<(), LockError> {
        let env: &dyn Environment = &**self.lock.env();
        let guard: &Guard = grant.as_ref();
        let mut failure = 0;
        loop {
            let error = match guard.extend(self.lock.options().lease).await {
                Err(error) if error.is_retryable() && !error.is_lost() => error,
                outcome => return outcome,
            };
            let pauses = self.lock.options().retrying();
            let pause = pauses.before(failure, retry::draw(env.random()));
            failure = failure.saturating_add(1);
            let next = env.now().saturating_add(pause);
            if next >= end {
                return Err(error);
            }
            if let Some(reason) = within(env, next, guard.lost()).await {
                return Err(LockError::Lost(reason));
            }
        }
    }
}

impl<K: Kind> Clone for Owner<K> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<K: Kind> fmt::Debug for Owner<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owner")
            .field("lock", &self.shared.lock)
            .field("levels", &self.levels())
            .finish_non_exhaustive()
    }
}

/// One level of a lock that its [`Owner`] has entered. Shares the grant with the other levels.
///
/// Dropping the last one of a grant releases the lock, as dropping a [`Guard`] does.
#[must_use = "a guard that is dropped leaves its lock"]
pub struct ReentrantGuard<K: Kind> {
    grant: Arc<K::Guard>,
}

impl<K: Kind> ReentrantGuard<K> {
    /// Leaves this level, and gives the lock back if it was the last one.
    ///
    /// [`Release::StillHeld`] says that other levels remain; Redis is not asked. A lost grant is lost for all its levels: the
    /// first level that is released gives back what Redis may still keep of it.
    ///
    /// # Cancel safety
    ///
    /// As [`Guard::release`]. If the grant is lost and has other levels, the last of them releases it.
    pub async fn release(self) -> Release {
        let valid = (*self.grant).as_ref().is_valid();
        if !valid && Arc::strong_count(&self.grant) > 1 {
            return (*self.grant).as_ref().give_back().await;
        }
        match Arc::into_inner(self.grant) {
            Some(guard) => guard.into().release().await,
            None => Release::StillHeld,
        }
    }
}

impl<K: Kind> Deref for ReentrantGuard<K> {
    type Target = K::Guard;

    fn deref(&self) -> &K::Guard {
        &self.grant
    }
}

impl<K: Kind> fmt::Debug for ReentrantGuard<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReentrantGuard").field(&self.grant).finish()
    }
}
