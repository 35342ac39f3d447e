//! The mutex on one node.

use super::{
    Asked, Kind,
    sealed::{Fenceable, Sealed},
};
use crate::{
    algorithm::{Acquisition, fenced, single},
    builder::LockBuilder,
    guard::Guard,
    lock::Lock,
    manager::LockManager,
};
use std::sync::Arc;

/// A lock on a key of one Redis node that one owner at a time can hold.
///
/// Made by [`LockManager::mutex`](crate::LockManager::mutex).
///
/// **Guarantee.** No two guards of one key are valid at the same time: holds if the node keeps
/// the key until its TTL is over and the clocks run within `drift` of each other; lost when the
/// node forgets early (failover to a replica without the key, restart without its data, eviction, a
/// clock that jumps ahead) or while the holder's machine is suspended with its clock.
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
/// let lock = locks.mutex("order:17").build()?;
///
/// let guard = lock.try_lock().await?;
/// assert_eq!(lock.try_lock().await.unwrap_err(), LockError::Contended);
/// assert_eq!(guard.release().await, Release::Released);
/// assert!(lock.try_lock().await.is_ok());
/// # Ok(())
/// # }
/// ```
pub type Mutex = Lock<Exclusive>;

impl LockManager {
    /// Starts to build a mutex on `key`. Other programs must leave that key alone.
    pub fn mutex(&self, key: impl AsRef<[u8]>) -> LockBuilder<Exclusive> {
        LockBuilder::new(self.core(), key.as_ref(), Exclusive)
    }
}

/// The kind of a [`Mutex`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Exclusive;

impl Kind for Exclusive {
    type Guard = Guard;
}

impl Fenceable for Exclusive {}

impl AsRef<Self> for Guard {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl Sealed for Exclusive {
    #[expect(private_interfaces, reason = "sealed")]
    fn acquisition(&self, asked: Asked<'_>) -> Arc<dyn Acquisition> {
        let key = asked.key;
        asked.scripted(match asked.fenced {
            false => single::scripts(key),
            true => fenced::scripts(key),
        })
    }
}
