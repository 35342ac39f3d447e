//! The mutex whose grants are numbered.

use super::{Kind, scripted, sealed::Sealed};
use crate::{
    algorithm::{Acquisition, fenced},
    builder::LockBuilder,
    core::Core,
    guard::Guard,
    lock::Lock,
    manager::LockManager,
    options::Options,
    release::Release,
    token::{FencingToken, Token},
};
use std::{ops::Deref, sync::Arc};

/// A [`Mutex`](crate::Mutex) whose grants carry a growing number, by which a resource can refuse who is outdated.
///
/// Made by [`LockManager::fenced_mutex`](crate::LockManager::fenced_mutex). What it guarantees about guards is what a
/// [`Mutex`](crate::Mutex) guarantees; with a resource that follows the rule of [`FencingToken`], *accesses* exclude each
/// other too, even those of a holder that was paused and does not know that its lease is over.
///
/// **The number grows** from grant to grant. It survives the loss of its counter (failover, restart, eviction) unless
/// the server's clock is then behind by more than the time since the last grant.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = redouble::Server::builder().clock(redouble::Clock::Tokio).start().await?;
/// # let locks = redouble_lock::LockManager::new(server.connection().await?);
/// let lock = locks.fenced_mutex("order:17").build();
/// let first = lock.try_lock().await?;
/// let number = first.fencing_token();
/// let _ = first.release().await;
/// assert!(lock.try_lock().await?.fencing_token() > number);
/// # Ok(())
/// # }
/// ```
pub type FencedMutex = Lock<Fenced>;

impl LockManager {
    /// Starts to build a mutex on `key` whose grants are numbered.
    pub fn fenced_mutex(&self, key: impl AsRef<[u8]>) -> LockBuilder<Fenced> {
        LockBuilder::new(self.core(), key.as_ref(), Fenced)
    }
}

/// The kind of a [`FencedMutex`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Fenced;

impl Kind for Fenced {
    type Guard = FencedGuard;
}

impl Sealed for Fenced {
    #[expect(private_interfaces, reason = "sealed")]
    fn acquisition(
        &self,
        core: &Arc<Core>,
        key: &[u8],
        options: &Options,
        token: Token,
    ) -> Arc<dyn Acquisition> {
        scripted(core, fenced::scripts(key), options, token)
    }
}

/// A [`Guard`] with a fencing token.
#[must_use = "a guard that is dropped releases its lock"]
#[derive(Debug)]
pub struct FencedGuard {
    guard: Guard,
    number: FencingToken,
}

impl FencedGuard {
    /// Returns the number of this grant, to be sent along with every access to the resource.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.number
    }

    /// Gives the lock back; as [`Guard::release`].
    pub async fn release(self) -> Release {
        self.guard.release().await
    }
}

impl From<Guard> for FencedGuard {
    fn from(guard: Guard) -> Self {
        // The scripts of this kind grant nothing without a number; zero is refused by every resource that
        // has seen one.
        let number = guard.fence().unwrap_or_default();
        Self { guard, number }
    }
}

impl From<FencedGuard> for Guard {
    fn from(fenced: FencedGuard) -> Self {
        fenced.guard
    }
}

impl AsRef<Guard> for FencedGuard {
    fn as_ref(&self) -> &Guard {
        &self.guard
    }
}

impl Deref for FencedGuard {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.guard
    }
}
