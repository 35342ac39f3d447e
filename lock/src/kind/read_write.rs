//! Many readers or one writer.

use super::{FencedGuard, Kind, scripted, sealed::Sealed};
use crate::{
    algorithm::{Acquisition, read_write},
    builder::LockBuilder,
    core::Core,
    guard::Guard,
    lock::Lock,
    manager::LockManager,
    options::Options,
    token::Token,
};
use std::sync::Arc;

/// A lock that many readers share, or one writer has for itself.
///
/// Made by [`LockManager::rw_lock`]. Its two sides are locks like any other.
///
/// **Guarantee.** While a writer's guard is valid, no other guard of this key is, neither a reader's nor a writer's: holds
/// and is lost as with a [`Mutex`](crate::Mutex). Each reader has its own place and its own lease: one that
/// leaves or dies takes nobody along, and one that extends its lease extends nobody else's. A writer also excludes
/// the [`Mutex`](crate::Mutex) of the same key; readers do not.
///
/// **Order.** None among equals. With [`prefer_writers`](LockBuilder::prefer_writers) readers make way for a writer
/// that waits; without, readers that come and go can keep a writer out for ever. Then again writers can keep readers out.
///
/// **Re-entry.** None from one side to the other: a reader that asks for the write lock waits for itself.
///
/// **Cost.** One round trip to take it, one to give it back. Readers that are present make neither slower.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = redouble::Server::builder().clock(redouble::Clock::Tokio).start().await?;
/// # let locks = redouble_lock::LockManager::new(server.connection().await?);
/// let prices = locks.rw_lock("prices").prefer_writers(true).build();
///
/// let readers = (prices.read().try_lock().await?, prices.read().try_lock().await?);
/// assert!(prices.write().try_lock().await.unwrap_err().is_contended());
///
/// drop(readers);
/// let writer = prices.write().lock().await?;
/// assert!(prices.read().try_lock().await.unwrap_err().is_contended());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RwLock {
    read: Lock<Read>,
    write: Lock<Write>,
    fenced_write: Lock<FencedWrite>,
}

impl RwLock {
    /// Returns the readers' side.
    #[must_use]
    pub fn read(&self) -> &Lock<Read> {
        &self.read
    }

    /// Returns the writers' side.
    #[must_use]
    pub fn write(&self) -> &Lock<Write> {
        &self.write
    }

    /// Returns the writers' side with numbered grants, as those of a [`FencedMutex`](crate::FencedMutex).
    #[must_use]
    pub fn fenced_write(&self) -> &Lock<FencedWrite> {
        &self.fenced_write
    }
}

/// What a [`RwLock`] is built with; not a kind of lock by itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadWrite {
    prefer_writers: bool,
}

impl LockManager {
    /// Starts to build a lock on `key` for many readers or one writer.
    pub fn rw_lock(&self, key: impl AsRef<[u8]>) -> LockBuilder<ReadWrite> {
        LockBuilder::new(self.core(), key.as_ref(), ReadWrite::default())
    }
}

impl LockBuilder<ReadWrite> {
    /// Sets whether a writer that waits keeps new readers out. Default: no.
    ///
    /// A writer that has died while it waited keeps them out for a little longer than a second. All
    /// programs that write should set the same.
    pub fn prefer_writers(mut self, prefer_writers: bool) -> Self {
        self.kind.prefer_writers = prefer_writers;
        self
    }

    /// Makes the lock. Nothing is sent to Redis.
    pub fn build(self) -> RwLock {
        let goes_first = self.kind.prefer_writers;
        let write = self.of_kind(Write { goes_first }).build();
        RwLock {
            read: write.of_kind(Read),
            fenced_write: write.of_kind(FencedWrite { goes_first }),
            write,
        }
    }
}

/// The kind of the readers' side of a [`RwLock`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Read;

impl Kind for Read {
    type Guard = Guard;
}

impl Sealed for Read {
    #[expect(private_interfaces, reason = "sealed")]
    fn acquisition(
        &self,
        core: &Arc<Core>,
        key: &[u8],
        options: &Options,
        token: Token,
    ) -> Arc<dyn Acquisition> {
        scripted(core, read_write::read(key), options, token)
    }
}

/// The kind of the writers' side of a [`RwLock`].
#[derive(Clone, Copy, Debug)]
pub struct Write {
    goes_first: bool,
}

impl Kind for Write {
    type Guard = Guard;
}

impl Sealed for Write {
    #[expect(private_interfaces, reason = "sealed")]
    fn acquisition(
        &self,
        core: &Arc<Core>,
        key: &[u8],
        options: &Options,
        token: Token,
    ) -> Arc<dyn Acquisition> {
        let goes_first = self.goes_first.then(|| options.patience());
        let scripts = read_write::write(key, goes_first, false);
        scripted(core, scripts, options, token)
    }
}

/// The kind of the writers' side of a [`RwLock`] with numbered grants.
#[derive(Clone, Copy, Debug)]
pub struct FencedWrite {
    goes_first: bool,
}

impl Kind for FencedWrite {
    type Guard = FencedGuard;
}

impl Sealed for FencedWrite {
    #[expect(private_interfaces, reason = "sealed")]
    fn acquisition(
        &self,
        core: &Arc<Core>,
        key: &[u8],
        options: &Options,
        token: Token,
    ) -> Arc<dyn Acquisition> {
        let goes_first = self.goes_first.then(|| options.patience());
        let scripts = read_write::write(key, goes_first, true);
        scripted(core, scripts, options, token)
    }
}
