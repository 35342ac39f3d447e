//! Several mutexes of one node at once.

use super::{
    Asked, Kind,
    sealed::{Fenceable, Sealed},
};
use crate::{
    algorithm::{Acquisition, multi},
    builder::LockBuilder,
    error::LockError,
    guard::Guard,
    lock::Lock,
    manager::LockManager,
};
use std::sync::Arc;

/// A lock on several keys of one Redis node, which are taken all or none.
///
/// Made by [`LockManager::multi_key_mutex`]. For locks of several nodes, or of other kinds, see [`lock_all`](crate::lock_all).
///
/// **Guarantee.** A valid guard excludes every other guard of each of its keys, also those of a [`Mutex`](crate::Mutex):
/// holds and is lost as with a mutex. The keys have one token, and one deadline. If one of them is found
/// gone, the guard is lost, and the other keys are given back.
///
/// **Deadlock.** None: a waiter holds no key, so the order of keys does not matter. A client that wants many
/// keys may wait for long while other clients take and release some of them.
///
/// **Cost.** One round trip to take all, one to give all back. In a cluster the keys must be in one slot.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = redouble::Server::builder().clock(redouble::Clock::Tokio).start().await?;
/// # let locks = redouble_lock::LockManager::new(server.connection().await?);
/// let transfer = locks.multi_key_mutex(["account:1", "account:2"])?.build()?;
/// let guard = transfer.try_lock().await?;
/// assert!(locks.mutex("account:2").build()?.try_lock().await.unwrap_err().is_contended());
///
/// let other = locks.multi_key_mutex(["account:2", "account:3"])?.build()?;
/// assert!(other.try_lock().await.is_err());
/// assert!(locks.mutex("account:3").build()?.try_lock().await.is_ok()); // nothing was taken
/// # Ok(())
/// # }
/// ```
pub type MultiKeyMutex = Lock<MultiKey>;

/// The kind of a [`MultiKeyMutex`].
#[derive(Clone, Debug)]
pub struct MultiKey {
    keys: Arc<[Vec<u8>]>,
}

impl LockManager {
    /// Starts to build a lock on several keys. Keys that are there twice count once.
    ///
    /// # Errors
    ///
    /// [`LockError::NothingToLock`] if there are no keys.
    pub fn multi_key_mutex<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<LockBuilder<MultiKey>, LockError> {
        let names = in_order(keys)?;
        let core = self.core();
        let keys = names.iter().map(|name| core.key(name)).collect();
        Ok(LockBuilder::new(core, &names[0], MultiKey { keys }))
    }
}

/// Each key once, in an order that is the same for all clients. There is at least one; the first one names the lock.
fn in_order<K: AsRef<[u8]>>(keys: impl IntoIterator<Item = K>) -> Result<Vec<Vec<u8>>, LockError> {
    let mut keys: Vec<_> = keys.into_iter().map(|key| key.as_ref().to_vec()).collect();
    keys.sort_unstable();
    keys.dedup();
    if keys.is_empty() {
        return Err(LockError::NothingToLock);
    }
    Ok(keys)
}

impl Kind for MultiKey {
    type Guard = Guard;
}

impl Fenceable for MultiKey {}

impl Sealed for MultiKey {
    #[expect(private_interfaces, reason = "sealed")]
    fn acquisition(&self, asked: Asked<'_>) -> Arc<dyn Acquisition> {
        asked.scripted(match asked.fenced {
            false => multi::scripts(&self.keys),
            true => multi::fenced_scripts(&self.keys),
        })
    }
}
