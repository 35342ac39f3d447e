//! Locks whose grants carry fencing tokens.

use super::{Asked, Exclusive, Fenceable, Kind, sealed::Sealed};
use crate::{
    algorithm::Acquisition, builder::LockBuilder, guard::Guard, lock::Lock, release::Release,
    token::FencingToken,
};
use std::{ops::Deref, sync::Arc};

/// The kind of a lock of the kind `K` whose grants carry fencing tokens.
///
/// Made by [`LockBuilder::fenced`]. What such a lock guarantees about guards is what a lock of the kind `K` guarantees. With a
/// resource that follows the rule of [`FencingToken`], *accesses* exclude each other too, even those of a holder that was
/// paused and does not know that its lease is over.
///
/// **The token grows** from grant to grant of one key. It survives the loss of its counter (failover, restart, eviction) unless
/// the server's clock is then behind by more than the time since the last grant.
///
/// * *Several keys*: one token for all of them. It grows among all grants that have a key in common: each key keeps its last
///   token, and a grant raises all of its keys to one token above theirs. Grants without a common key exclude nothing, and their
///   tokens have no order: there must be a key that all programs lock that access one resource.
/// * *[`RwLock`](crate::RwLock)*: the grants of writers carry tokens, those of readers do not.
/// * *[`RedlockMutex`](crate::RedlockMutex)*: the token is one more than the highest that any node of the quorum has seen. The lock is
///   granted only when a quorum has stored it, so the next quorum, which shares a node with this one, goes on from there. That takes one
///   more request to each node.
///
/// **Cost.** None, but for a `RedlockMutex`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = redouble::Server::builder().clock(redouble::Clock::Tokio).start().await?;
/// # let locks = redouble_lock::LockManager::new(server.connection().await?);
/// let guard = locks.multi_key_mutex(["account:1", "account:2"])?.fenced().build()?.try_lock().await?;
/// let first = guard.fencing_token();
/// let _ = guard.release().await;
///
/// let guard = locks.multi_key_mutex(["account:2", "account:3"])?.fenced().build()?.try_lock().await?;
/// assert!(guard.fencing_token() > first);
/// assert!(locks.mutex("account:1").fenced().build()?.try_lock().await?.fencing_token() > first);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Fenced<K>(pub(super) K);

/// A [`Mutex`](crate::Mutex) whose grants carry fencing tokens; see [`Fenced`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = redouble::Server::builder().clock(redouble::Clock::Tokio).start().await?;
/// # let locks = redouble_lock::LockManager::new(server.connection().await?);
/// let lock = locks.mutex("order:17").fenced().build()?;
/// let first = lock.try_lock().await?;
/// let token = first.fencing_token();
/// let _ = first.release().await;
/// assert!(lock.try_lock().await?.fencing_token() > token);
/// # Ok(())
/// # }
/// ```
pub type FencedMutex = Lock<Fenced<Exclusive>>;

impl<K: Fenceable> LockBuilder<K> {
    /// Gives each grant a fencing token, by which a resource can refuse outdated holders; see [`Fenced`].
    pub fn fenced(self) -> LockBuilder<Fenced<K>> {
        self.map_kind(Fenced)
    }
}

impl<K: Kind + Fenceable> Kind for Fenced<K> {
    type Guard = FencedGuard;
}

impl<K: Kind + Fenceable> Sealed for Fenced<K> {
    #[expect(private_interfaces, reason = "sealed")]
    fn acquisition(&self, asked: Asked<'_>) -> Arc<dyn Acquisition> {
        self.0.acquisition(Asked {
            fenced: true,
            ..asked
        })
    }
}

/// A [`Guard`] with a fencing token.
#[must_use = "a guard that is dropped releases its lock"]
#[derive(Debug)]
pub struct FencedGuard {
    guard: Guard,
    token: FencingToken,
}

impl FencedGuard {
    /// Returns the fencing token of this grant, to be sent along with every access to the resource.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.token
    }

    /// Gives the lock back; as [`Guard::release`].
    pub async fn release(self) -> Release {
        self.guard.release().await
    }
}

impl From<Guard> for FencedGuard {
    fn from(guard: Guard) -> Self {
        // The scripts of these kinds grant nothing without a fencing token; zero is refused by every resource that
        // has seen one.
        let token = guard.fence().unwrap_or_default();
        Self { guard, token }
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
