//! The mutex that serves waiters in the order in which they came.

use super::{
    Asked, Kind,
    sealed::{Fenceable, Sealed},
};
use crate::{
    algorithm::{Acquisition, fair},
    builder::LockBuilder,
    guard::Guard,
    lock::Lock,
    manager::LockManager,
};
use std::sync::Arc;

/// A [`Mutex`](crate::Mutex) that is granted in the order in which it was asked for.
///
/// Made by [`LockManager::fair_mutex`]. What it guarantees about guards is what a [`Mutex`](crate::Mutex)
/// guarantees, and the two exclude each other on the same key; a plain mutex does not queue.
///
/// **Order.** First come, first served, by arrival at the server and by the server's clock alone: holds for waiters
/// that are alive. A waiter is alive as long as it asks again at least every second plus two
/// [reply timeouts](LockBuilder::reply_timeout); all do that by themselves. Lost when the server loses
/// the queue, or when its clock jumps ahead: the waiters then queue up anew.
///
/// **Dead waiters** are skipped when their time is over, and a call that is cancelled or gives up leaves the
/// queue at once. A call that does not wait, [`try_lock`](Lock::try_lock), is refused as long as other clients queue.
///
/// **Cost.** As a mutex: one round trip each. A call that leaves the queue needs one more. Each release does a little more at the server,
/// and a waiter that pauses holds up the waiters behind it until it counts as dead.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = redouble::Server::builder().clock(redouble::Clock::Tokio).start().await?;
/// # let locks = redouble_lock::LockManager::new(server.connection().await?);
/// use std::time::Duration;
///
/// let desk = locks.fair_mutex("desk").build()?;
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

impl LockManager {
    /// Starts to build a mutex on `key` that serves waiters in the order in which they came.
    pub fn fair_mutex(&self, key: impl AsRef<[u8]>) -> LockBuilder<Fair> {
        LockBuilder::new(self.core(), key.as_ref(), Fair)
    }
}

/// The kind of a [`FairMutex`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Fair;

impl Kind for Fair {
    type Guard = Guard;
}

impl Fenceable for Fair {}

impl Sealed for Fair {
    #[expect(private_interfaces, reason = "sealed")]
    fn acquisition(&self, asked: Asked<'_>) -> Arc<dyn Acquisition> {
        asked.scripted(fair::scripts(asked.key, asked.fenced))
    }
}
