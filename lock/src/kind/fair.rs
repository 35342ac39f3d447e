//! The mutex that serves waiters in the order in which they came.

use super::{FencedGuard, Kind, scripted, sealed::Sealed};
use crate::{
    algorithm::{Acquisition, fair},
    builder::LockBuilder,
    core::Core,
    guard::Guard,
    lock::Lock,
    manager::LockManager,
    options::Options,
    token::Token,
};
use std::sync::Arc;

/// A [`Mutex`](crate::Mutex) that is granted in the order in which it was asked for.
///
/// Made by [`LockManager::fair_mutex`]. What it guarantees about guards is what a [`Mutex`](crate::Mutex)
/// guarantees, and the two exclude each other on the same key; a plain mutex does not queue.
///
/// **Order.** First come, first served, by arrival at the server and on nobody's clock but the server's: holds for waiters
/// that are alive. A waiter is alive as long as it asks again at least every second plus two
/// [reply timeouts](LockBuilder::reply_timeout); all do that by themselves. Lost when the server loses
/// the queue, or when its clock jumps ahead: the waiters then queue up anew.
///
/// **Dead waiters** are skipped when their time is over, and a call that is cancelled or gives up leaves the
/// queue at once. Who does not wait, with [`try_lock`](Lock::try_lock), is refused as long as others queue.
///
/// **Cost.** As a mutex: one round trip each. A call that leaves the queue needs one more.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = redouble::Server::builder().clock(redouble::Clock::Tokio).start().await?;
/// # let locks = redouble_lock::LockManager::new(server.connection().await?);
/// use std::time::Duration;
///
/// let desk = locks.fair_mutex("desk").build();
/// let guard = desk.lock().await?;
/// let first = tokio::spawn({ let desk = desk.clone(); async move { desk.lock().await } });
/// tokio::time::sleep(Duration::from_secs(1)).await;
/// let second = tokio::spawn({ let desk = desk.clone(); async move { desk.lock().await } });
/// tokio::time::sleep(Duration::from_secs(1)).await;
///
/// let _ = guard.release().await;
/// let guard = first.await??; // always the first
/// assert!(desk.try_lock().await.unwrap_err().is_contended());
/// let _ = guard.release().await;
/// assert!(second.await?.is_ok());
/// # Ok(())
/// # }
/// ```
pub type FairMutex = Lock<Fair>;

/// A [`FairMutex`] whose grants are numbered, as those of a [`FencedMutex`](crate::FencedMutex).
pub type FencedFairMutex = Lock<FencedFair>;

impl LockManager {
    /// Starts to build a mutex on `key` that serves waiters in the order in which they came.
    pub fn fair_mutex(&self, key: impl AsRef<[u8]>) -> LockBuilder<Fair> {
        LockBuilder::new(self.core(), key.as_ref(), Fair)
    }

    /// Starts to build a fair mutex on `key` whose grants are numbered.
    pub fn fenced_fair_mutex(&self, key: impl AsRef<[u8]>) -> LockBuilder<FencedFair> {
        LockBuilder::new(self.core(), key.as_ref(), FencedFair)
    }
}

/// The kind of a [`FairMutex`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Fair;

impl Kind for Fair {
    type Guard = Guard;
}

impl Sealed for Fair {
    #[expect(private_interfaces, reason = "sealed")]
    fn acquisition(
        &self,
        core: &Arc<Core>,
        key: &[u8],
        options: &Options,
        token: Token,
    ) -> Arc<dyn Acquisition> {
        let scripts = fair::scripts(key, false);
        scripted(core, scripts, options, token)
    }
}

/// The kind of a [`FencedFairMutex`].
#[derive(Clone, Copy, Debug, Default)]
pub struct FencedFair;

impl Kind for FencedFair {
    type Guard = FencedGuard;
}

impl Sealed for FencedFair {
    #[expect(private_interfaces, reason = "sealed")]
    fn acquisition(
        &self,
        core: &Arc<Core>,
        key: &[u8],
        options: &Options,
        token: Token,
    ) -> Arc<dyn Acquisition> {
        let scripts = fair::scripts(key, true);
        scripted(core, scripts, options, token)
    }
}
