//! Several mutexes of one node at once.

use super::{FencedGuard, Kind, scripted, sealed::Sealed};
use crate::{
    algorithm::{Acquisition, multi},
    builder::LockBuilder,
    core::Core,
    error::LockError,
    guard::Guard,
    lock::Lock,
    manager::LockManager,
    options::Options,
    token::Token,
};
use std::sync::Arc;

/// A lock on several keys of one Redis node, which are taken all or none.
///
/// Made by [`LockManager::multi_key_mutex`]. For locks of several nodes, or of other kinds, see [`lock_all`](crate::lock_all).
///
/// **Guarantee.** A valid guard excludes every other guard of each of its keys, also those of a [`Mutex`](crate::Mutex):
/// holds and is lost as with a mutex. The keys have one token, and one deadline. Where one of them turns out to be
/// gone, the guard is lost, and the others are given back.
///
/// **Deadlock.** None: nothing is held while it waits for the rest, so the order of keys does not matter. Who wants many
/// keys may wait for long while others come and go.
///
/// **Cost.** One round trip to take all, one to give all back. In a cluster the keys must be in one slot.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = redouble::Server::builder().clock(redouble::Clock::Tokio).start().await?;
/// # let locks = redouble_lock::LockManager::new(server.connection().await?);
/// let transfer = locks.multi_key_mutex(["account:1", "account:2"])?.build();
/// let guard = transfer.try_lock().await?;
/// assert!(locks.mutex("account:2").build().try_lock().await.unwrap_err().is_contended());
///
/// let other = locks.multi_key_mutex(["account:2", "account:3"])?.build();
/// assert!(other.try_lock().await.is_err());
/// assert!(locks.mutex("account:3").build().try_lock().await.is_ok()); // nothing was taken
/// # Ok(())
/// # }
/// ```
pub type MultiKeyMutex = Lock<MultiKey>;

/// A [`MultiKeyMutex`] whose grants are numbered: one number for all keys.
///
/// Made by [`LockManager::fenced_multi_key_mutex`]. What it guarantees about guards is what a [`MultiKeyMutex`] guarantees; with a
/// resource that follows the rule of [`FencingToken`](crate::FencingToken), *accesses* exclude each other too.
///
/// **The number grows** from grant to grant among all that have a key in common, be it the only key of a
/// [`FencedMutex`](crate::FencedMutex) or one of several: each key keeps the last number, and a grant raises all of its keys to one
/// number above theirs. Survives the loss of data as there. Grants without a common key exclude nothing, and their numbers have no
/// order either: there must be a key that all who access one resource lock.
///
/// **Cost.** As without numbers: one round trip each.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = redouble::Server::builder().clock(redouble::Clock::Tokio).start().await?;
/// # let locks = redouble_lock::LockManager::new(server.connection().await?);
/// let guard = locks.fenced_multi_key_mutex(["account:1", "account:2"])?.build().try_lock().await?;
/// let number = guard.fencing_token();
/// let _ = guard.release().await;
///
/// let guard = locks.fenced_multi_key_mutex(["account:2", "account:3"])?.build().try_lock().await?;
/// assert!(guard.fencing_token() > number);
/// assert!(locks.fenced_mutex("account:1").build().try_lock().await?.fencing_token() > number);
/// # Ok(())
/// # }
/// ```
pub type FencedMultiKeyMutex = Lock<FencedMultiKey>;

/// The kind of a [`MultiKeyMutex`].
#[derive(Clone, Debug)]
pub struct MultiKey {
    keys: Arc<[Vec<u8>]>,
}

/// The kind of a [`FencedMultiKeyMutex`].
#[derive(Clone, Debug)]
pub struct FencedMultiKey {
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
        let keys = in_order(keys)?;
        let first = Arc::clone(&keys);
        Ok(LockBuilder::new(self.core(), &first[0], MultiKey { keys }))
    }

    /// Starts to build a lock on several keys whose grants are numbered. Keys that are there twice count once.
    ///
    /// # Errors
    ///
    /// [`LockError::NothingToLock`] if there are no keys.
    pub fn fenced_multi_key_mutex<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<LockBuilder<FencedMultiKey>, LockError> {
        let keys = in_order(keys)?;
        let first = Arc::clone(&keys);
        Ok(LockBuilder::new(
            self.core(),
            &first[0],
            FencedMultiKey { keys },
        ))
    }
}

/// Each key once, in an order that is the same for everybody. There is at least one; the first one names the lock.
fn in_order<K: AsRef<[u8]>>(
    keys: impl IntoIterator<Item = K>,
) -> Result<Arc<[Vec<u8>]>, LockError> {
    let mut keys: Vec<_> = keys.into_iter().map(|key| key.as_ref().to_vec()).collect();
    keys.sort_unstable();
    keys.dedup();
    if keys.is_empty() {
        return Err(LockError::NothingToLock);
    }
    Ok(keys.into())
}

impl Kind for MultiKey {
    type Guard = Guard;
}

impl Sealed for MultiKey {
    #[expect(private_interfaces, reason = "sealed")]
    fn acquisition(
        &self,
        core: &Arc<Core>,
        _first_key: &[u8],
        options: &Options,
        token: Token,
    ) -> Arc<dyn Acquisition> {
        scripted(core, multi::scripts(&self.keys), options, token)
    }
}

impl Kind for FencedMultiKey {
    type Guard = FencedGuard;
}

impl Sealed for FencedMultiKey {
    #[expect(private_interfaces, reason = "sealed")]
    fn acquisition(
        &self,
        core: &Arc<Core>,
        _first_key: &[u8],
        options: &Options,
        token: Token,
    ) -> Arc<dyn Acquisition> {
        scripted(core, multi::fenced_scripts(&self.keys), options, token)
    }
}
