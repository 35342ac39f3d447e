//! Many readers or one writer.

use super::{
    Asked, Fenced, Kind,
    sealed::{Fenceable, Sealed},
};
use crate::{
    algorithm::{Acquisition, read_write},
    builder::LockBuilder,
    error::LockError,
    guard::Guard,
    lock::Lock,
    manager::LockManager,
};
use std::sync::Arc;

/// A lock that many readers share, or one writer has for itself.
///
/// Made by [`LockManager::rw_lock`]. Its two sides are locks like any other.
///
/// **Guarantee.** While a writer's guard is valid, no other guard of this key is, neither a reader's nor a writer's: holds
/// and is lost as with a [`Mutex`](crate::Mutex). Each reader has its own lease: the release, the death or an
/// extension of one reader changes nothing for the others. A writer also excludes
/// the [`Mutex`](crate::Mutex) of the same key; readers do not.
///
/// **Order.** None among equals. With [`prefer_writers`](LockBuilder::prefer_writers) readers make way for a writer
/// that waits; without, readers that come and go can keep a writer out for ever. Then again writers can keep readers out.
///
/// **Re-entry.** None from one side to the other: a reader that asks for the write lock waits for itself.
///
/// **Cost.** One round trip to take it, one to give it back. The number of readers plays no part.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = redouble::Server::builder().clock(redouble::Clock::Tokio).start().await?;
/// # let locks = redouble_lock::LockManager::new(server.connection().await?);
/// let prices = locks.rw_lock("prices").prefer_writers(true).build()?;
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
pub struct RwLock<W: Kind = Write> {
    read: Lock<Read>,
    write: Lock<W>,
}

impl<W: Kind> RwLock<W> {
    /// Returns the readers' side.
    #[must_use]
    pub fn read(&self) -> &Lock<Read> {
        &self.read
    }

    /// Returns the writers' side.
    #[must_use]
    pub fn write(&self) -> &Lock<W> {
        &self.write
    }

    /// Turns the write lock of `writer` into a read lock. No other writer can enter in between, and waiting readers can enter.
    ///
    /// The read lock has the lease and the watchdog of this lock, and the token of the writer; it has no fencing token. A lease that
    /// reaches further is not shortened. One round trip.
    ///
    /// # Errors
    ///
    /// The call consumes the writer's guard. After an error its lock is released in the background, as by dropping a [`Guard`].
    ///
    /// * [`LockError::OtherLock`] if `writer` is of another key or of another [manager](LockManager).
    /// * [`LockError::Lost`] if the write lock is lost.
    /// * [`LockError::Unknown`] or [`LockError::Redis`] if Redis failed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the lock is then released in the background, as after an error.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = redouble::Server::builder().clock(redouble::Clock::Tokio).start().await?;
    /// # let locks = redouble_lock::LockManager::new(server.connection().await?);
    /// let prices = locks.rw_lock("prices").build()?;
    /// let writer = prices.write().lock().await?;
    /// // Writes, and goes on reading what it has written:
    /// let reader = prices.downgrade(writer).await?;
    /// assert!(prices.read().try_lock().await.is_ok());
    /// assert!(prices.write().try_lock().await.unwrap_err().is_contended());
    /// # drop(reader);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn downgrade(&self, writer: W::Guard) -> Result<Guard, LockError> {
        let writer: Guard = writer.into();
        if !self.read.is_lock_of(&writer) {
            return Err(LockError::OtherLock);
        }
        let asked = self.read.asked(*writer.token());
        let acquisition = asked.scripted(read_write::downgraded(asked.key));
        self.read.replace(writer, acquisition).await
    }

    fn of(write: Lock<W>) -> Self {
        Self {
            read: write.of_kind(Read),
            write,
        }
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
    /// A writer that has died while it waited keeps them out for at most a second and two
    /// [reply timeouts](LockBuilder::reply_timeout). So does a writer whose requests fail: it keeps new readers out again after the
    /// next request that Redis answers. All programs that write should set the same. Comes before [`fenced`](LockBuilder::fenced).
    pub fn prefer_writers(mut self, prefer_writers: bool) -> Self {
        self.kind.prefer_writers = prefer_writers;
        self
    }

    /// Makes the lock. Nothing is sent to Redis.
    ///
    /// # Errors
    ///
    /// As [`Lock`]s have them: [`LockError::InvalidLease`], [`LockError::InvalidPauses`].
    pub fn build(self) -> Result<RwLock, LockError> {
        Ok(RwLock::of(self.map_kind(ReadWrite::write).build()?))
    }
}

impl LockBuilder<Fenced<ReadWrite>> {
    /// Makes the lock, whose writers' grants carry fencing tokens. Nothing is sent to Redis.
    ///
    /// # Errors
    ///
    /// As [`Lock`]s have them: [`LockError::InvalidLease`], [`LockError::InvalidPauses`].
    pub fn build(self) -> Result<RwLock<Fenced<Write>>, LockError> {
        let write = self.map_kind(|Fenced(kind)| Fenced(kind.write()));
        Ok(RwLock::of(write.build()?))
    }
}

impl ReadWrite {
    fn write(self) -> Write {
        let goes_first = self.prefer_writers;
        Write { goes_first }
    }
}

impl Fenceable for ReadWrite {}

/// The kind of the readers' side of a [`RwLock`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Read;

impl Kind for Read {
    type Guard = Guard;
}

impl Sealed for Read {
    #[expect(private_interfaces, reason = "sealed")]
    fn acquisition(&self, asked: Asked<'_>) -> Arc<dyn Acquisition> {
        asked.scripted(read_write::read(asked.key))
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

impl Fenceable for Write {}

impl Sealed for Write {
    #[expect(private_interfaces, reason = "sealed")]
    fn acquisition(&self, asked: Asked<'_>) -> Arc<dyn Acquisition> {
        let goes_first = self.goes_first.then(|| asked.options.look_patience());
        asked.scripted(read_write::write(asked.key, goes_first, asked.fenced))
    }
}
