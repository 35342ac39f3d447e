//! A bounded number of permits.

use super::{Asked, Kind, sealed::Sealed};
use crate::{
    algorithm::{Acquisition, number, semaphore},
    builder::LockBuilder,
    error::LockError,
    guard::Guard,
    lock::Lock,
    manager::LockManager,
    operator::senseless,
    wire::Reply,
};
use std::sync::Arc;

/// A number of permits that several holders share.
///
/// Made by [`LockManager::semaphore`]. [`acquire_many`](Self::acquire_many) takes a number of permits at once or waits for them. Its guard
/// gives them back. [`permits`](Self::permits) makes a lock of them, with a time limit for the wait and all else that a lock has.
///
/// **Guarantee.** The permits of all valid guards of one key are never more than there are: holds and is lost as with a
/// [`Mutex`](crate::Mutex), as long as all programs use the same capacity. Each holder has its own lease, so the permits
/// of a dead holder are free when its lease ends, whatever the other holders do.
///
/// **Order.** None: a client that wants many permits may wait for long while other clients take and release few.
///
/// **Cost.** One round trip to take, one to give back. A request takes Redis O(log n) with n holders, also one that is refused.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = redouble::Server::builder().clock(redouble::Clock::Tokio).start().await?;
/// # let locks = redouble_lock::LockManager::new(server.connection().await?);
/// let presses = locks.semaphore("presses", 3).build()?;
///
/// let two = presses.try_acquire_many(2).await?;
/// assert_eq!(presses.available_permits().await?, 1);
/// assert!(presses.try_acquire_many(2).await.unwrap_err().is_contended());
/// let one = presses.acquire().await?;
///
/// drop(two);
/// assert!(presses.acquire_many(2).await.is_ok());
/// assert!(presses.acquire_many(4).await.is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Semaphore {
    one: Lock<Permits>,
    capacity: u32,
}

impl Semaphore {
    /// Returns the number of permits that are free at this moment. The answer may be outdated when it arrives. One round trip.
    ///
    /// # Errors
    ///
    /// [`LockError::Redis`] or [`LockError::Unknown`] if Redis did not answer.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn available_permits(&self) -> Result<u32, LockError> {
        let keys = [self.one.key().to_vec()];
        // As those of the other scripts.
        let unused = || number(0);
        let capacity = number(self.capacity.into());
        let args = vec![unused(), unused(), unused(), unused(), capacity, unused()];
        let locks = self.one.manager();
        match locks
            .run_on(&semaphore::AVAILABLE, &keys, args, false)
            .await?
        {
            Reply::Integer(free) => Ok(u32::try_from(free).unwrap_or(0)),
            Reply::Okay | Reply::Nil | Reply::Bytes(_) | Reply::Array(_) => Err(senseless()),
        }
    }

    /// Takes one permit, and waits for it; as [`Lock::lock`].
    ///
    /// # Errors
    ///
    /// As [`Lock::lock`].
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::lock`].
    pub async fn acquire(&self) -> Result<Guard, LockError> {
        self.one.lock().await
    }

    /// Takes `permits` permits at once, and waits for them; as [`Lock::lock`].
    ///
    /// # Errors
    ///
    /// * [`LockError::InvalidPermits`] if `permits` is zero or more than the capacity.
    /// * The errors of [`Lock::lock`].
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::lock`].
    pub async fn acquire_many(&self, permits: u32) -> Result<Guard, LockError> {
        self.permits(permits)?.lock().await
    }

    /// Takes `permits` permits at once if they are free; as [`Lock::try_lock`].
    ///
    /// # Errors
    ///
    /// * [`LockError::InvalidPermits`] if `permits` is zero or more than the capacity.
    /// * The errors of [`Lock::try_lock`].
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::try_lock`].
    pub async fn try_acquire_many(&self, permits: u32) -> Result<Guard, LockError> {
        self.permits(permits)?.try_lock().await
    }

    /// Returns the lock that takes `permits` permits, and whose guard gives them back.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidPermits`] if that is none at all, or more than there are.
    pub fn permits(&self, permits: u32) -> Result<Lock<Permits>, LockError> {
        let capacity = self.capacity;
        if permits == 0 || permits > capacity {
            return Err(LockError::InvalidPermits { permits, capacity });
        }
        Ok(self.one.of_kind(Permits { capacity, permits }))
    }
}

/// What a [`Semaphore`] is built with; not a kind of lock by itself.
#[derive(Clone, Copy, Debug)]
pub struct Capacity(u32);

impl LockManager {
    /// Starts to build a semaphore on `key` with `capacity` permits.
    pub fn semaphore(&self, key: impl AsRef<[u8]>, capacity: u32) -> LockBuilder<Capacity> {
        LockBuilder::new(self.core(), key.as_ref(), Capacity(capacity))
    }
}

impl LockBuilder<Capacity> {
    /// Makes the semaphore. Nothing is sent to Redis.
    ///
    /// # Errors
    ///
    /// As [`Lock`]s have them: [`LockError::InvalidLease`], [`LockError::InvalidPauses`].
    pub fn build(self) -> Result<Semaphore, LockError> {
        let Capacity(capacity) = self.kind;
        let permits = 1;
        let one = self.map_kind(|_| Permits { capacity, permits }).build()?;
        Ok(Semaphore { one, capacity })
    }
}

/// The kind of the locks of a [`Semaphore`].
#[derive(Clone, Copy, Debug)]
pub struct Permits {
    capacity: u32,
    permits: u32,
}

impl Kind for Permits {
    type Guard = Guard;
}

impl Sealed for Permits {
    #[expect(private_interfaces, reason = "sealed")]
    fn acquisition(&self, asked: Asked<'_>) -> Arc<dyn Acquisition> {
        asked.scripted(semaphore::scripts(asked.key, self.capacity, self.permits))
    }
}
