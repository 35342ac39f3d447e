//! The mutex on one Redis node, as its user sees it.

use crate::{
    acquire::{Wait, acquire},
    algorithm::{Claim, single::Single},
    error::LockError,
    guard::Guard,
    manager::Core,
    options::{LockBuilder, Options},
    token::Token,
};
use std::{fmt, sync::Arc, time::Duration};

/// A lock on a key of one Redis node that one owner at a time can hold.
///
/// Made by [`LockManager::mutex`](crate::LockManager::mutex). Cheap to clone; a clone, another mutex of the same key
/// and another process all compete alike, and a holder that asks again waits for itself like
/// anybody else.
///
/// **Guarantee.** No two guards of one key are valid at the same time: holds if the node keeps
/// the key until its TTL is over and the clocks run within `drift` of each other; lost when the
/// node forgets early (failover to a replica without the key, restart without its data, eviction, a
/// clock that jumps ahead) or while the holder's machine is suspended with its clock.
///
/// **Deadlock.** The lock of a holder that died is free when its lease is over.
///
/// **Order.** None: waiters are not served in the order in which they came.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = redouble::Server::builder().clock(redouble::Clock::Tokio).start().await?;
/// # let connection = server.connection().await?;
/// use redouble_lock::{LockError, LockManager, Release};
///
/// let locks = LockManager::new(connection);
/// let lock = locks.mutex("order:17").build();
///
/// let guard = lock.try_lock().await?;
/// assert_eq!(lock.try_lock().await.unwrap_err(), LockError::Contended);
/// assert_eq!(guard.release().await, Release::Released);
/// assert!(lock.try_lock().await.is_ok());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Mutex {
    core: Arc<Core>,
    key: Arc<[u8]>,
    options: Options,
}

impl LockBuilder<Mutex> {
    /// Makes the mutex. Nothing is sent to Redis.
    pub fn build(self) -> Mutex {
        Mutex {
            core: self.core,
            key: self.key,
            options: self.options,
        }
    }
}

impl Mutex {
    /// Takes the lock if it is free. One round trip.
    ///
    /// # Errors
    ///
    /// * [`LockError::Contended`] if another one holds it.
    /// * [`LockError::Unknown`] if Redis did not answer within the reply timeout. If the request was
    ///   executed all the same, the key is removed in the background, at the latest by its TTL.
    /// * [`LockError::Redis`] if Redis could not be reached or answered with an error.
    /// * [`LockError::Lost`] if the answer came too late for this lease.
    /// * [`LockError::InvalidLease`], [`LockError::NoRuntime`] as they say.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a request that was sent is undone in the background over the same connection.
    /// Without a runtime for that (see [`Guard`]), or if the connection dies first, the key may
    /// stand until its lease is over.
    pub async fn try_lock(&self) -> Result<Guard, LockError> {
        self.acquire(Wait::Not).await
    }

    /// Takes the lock, and waits for as long as others hold it.
    ///
    /// # Errors
    ///
    /// As [`try_lock`](Self::try_lock), except for contention. Failures of Redis that may pass are
    /// waited out for one lease; [`lock_timeout`](Self::lock_timeout) sets another bound.
    ///
    /// # Cancel safety
    ///
    /// As [`try_lock`](Self::try_lock). A waiter has no place in a queue to lose.
    pub async fn lock(&self) -> Result<Guard, LockError> {
        self.acquire(Wait::Forever).await
    }

    /// Takes the lock, and waits at most for `wait`. Returns at the latest one reply timeout after
    /// that.
    ///
    /// # Errors
    ///
    /// * [`LockError::TimedOut`] if others held the lock, at the last look too.
    /// * The other errors as [`try_lock`](Self::try_lock); failures of Redis that may pass are
    ///   waited out.
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
    /// let lock = locks.mutex("order:17").lease(Duration::from_secs(10)).build();
    /// std::mem::forget(lock.try_lock().await?); // a holder that died
    ///
    /// let error = lock.lock_timeout(Duration::from_secs(3)).await.unwrap_err();
    /// assert!(error.is_contended() && error.is_timed_out());
    /// assert!(lock.lock_timeout(Duration::from_secs(8)).await.is_ok()); // its lease was over
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lock_timeout(&self, wait: Duration) -> Result<Guard, LockError> {
        self.acquire(Wait::AtMost(wait)).await
    }

    async fn acquire(&self, wait: Wait) -> Result<Guard, LockError> {
        acquire(self.core.node.env(), &self.options, wait, |token| {
            self.claim(token)
        })
        .await
    }

    fn claim(&self, token: Token) -> Arc<dyn Claim> {
        let (node, key) = (Arc::clone(&self.core.node), Arc::clone(&self.key));
        Arc::new(Single::new(node, key, token, self.options.reply_timeout))
    }
}

impl fmt::Debug for Mutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex")
            .field("key", &String::from_utf8_lossy(&self.key))
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
