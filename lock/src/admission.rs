//! First come, first served, until all places are taken: counters that count up to a limit, or down from a stock.

use crate::{
    algorithm::{beside, millis, number},
    counter::{Counter, failed, integer},
    error::LockError,
    manager::LockManager,
    script::{Script, script},
    wire::Reply,
};
use std::{fmt, sync::LazyLock, time::Duration};

static ENTER: LazyLock<Script> = script!("admission/enter.lua");
static ENTER_AS: LazyLock<Script> = script!("admission/enter_as.lua");

static FILL: LazyLock<Script> = script!("admission/fill.lua");
static TAKE: LazyLock<Script> = script!("admission/take.lua");

/// A counter that admits the first N clients.
///
/// Made by [`LockManager::admission`]. Unlike a lock, the order of arrival at the server decides, and the decision is final.
///
/// **Guarantee.** At most N clients are admitted. Admitted clients and [unknown](LockError::Unknown) outcomes are at least N together, once
/// N clients have asked. This holds as long as the node keeps the key. If the node loses the key (failover, restart, eviction), or the
/// key [expires](Self::expires), the counter starts again at zero and admits N more clients.
///
/// **A client that asks twice** with [`enter`](Self::enter) counts twice, so its requests are never repeated: without a reply
/// the outcome is unknown, and the place may be taken. [`enter_as`](Self::enter_as) counts each name once, and
/// may be called again.
///
/// **Cost.** One round trip. Without an expiry, `enter` is the command `INCR` and nothing else.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = redouble::Server::builder().clock(redouble::Clock::Tokio).start().await?;
/// # let locks = redouble_lock::LockManager::new(server.connection().await?);
/// let envelopes = locks.admission("envelopes:17", 2);
/// assert_eq!(envelopes.enter_as("ann").await?, Some(1));
/// assert_eq!(envelopes.enter_as("ann").await?, Some(1)); // the same place
/// assert_eq!(envelopes.enter().await?, Some(2));
/// assert_eq!(envelopes.enter().await?, None);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Admission {
    counter: Counter,
    limit: u32,
    expires: Option<Duration>,
}

impl LockManager {
    /// Makes a counter on `key` that admits the first `limit` clients. Nothing is sent to Redis.
    #[must_use]
    pub fn admission(&self, key: impl AsRef<[u8]>, limit: u32) -> Admission {
        let core = self.core();
        let key = core.key(key.as_ref());
        let admitted = beside(&key, ":admitted");
        Admission {
            counter: Counter::new(&core.node, vec![key, admitted]),
            limit,
            expires: None,
        }
    }

    /// Makes a stock on `key`, from which one at a time is taken. Nothing is sent to Redis.
    #[must_use]
    pub fn stock(&self, key: impl AsRef<[u8]>) -> Stock {
        let core = self.core();
        let keys = vec![core.key(key.as_ref())];
        Stock {
            counter: Counter::new(&core.node, keys),
        }
    }
}

impl Admission {
    /// Sets when the counter expires, counted from the first client that is admitted. **After that, N more clients are
    /// admitted.** Default: never; an operator then has to delete the key. A request that is under way for longer takes
    /// a place of the clients that come later.
    #[must_use]
    pub fn expires(mut self, expires: Duration) -> Self {
        self.expires = Some(expires.max(Duration::from_millis(1)));
        self
    }

    /// Sets how long one request may take. Default: 500 ms; at least 1 ms.
    #[must_use]
    pub fn reply_timeout(mut self, reply_timeout: Duration) -> Self {
        self.counter.reply_timeout = reply_timeout.max(Duration::from_millis(1));
        self
    }

    fn lifetime(&self) -> Vec<u8> {
        self.expires.map_or_else(|| number(0), millis)
    }

    /// Asks for a place. Returns its number, from 1; nothing if all places are taken.
    ///
    /// # Errors
    ///
    /// * [`LockError::Unknown`] if Redis did not answer: a place may be taken.
    /// * [`LockError::Redis`] if it was not asked or refused, for example because the key holds no number.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: a place may be taken.
    pub async fn enter(&self) -> Result<Option<u32>, LockError> {
        let plain = self.expires.is_none().then_some("INCR");
        let args = [self.lifetime()];
        let reply = self.counter.once(&ENTER, &args, plain).await;
        self.place(&reply.map_err(failed)?)
    }

    /// Asks for a place for `name`, which counts once however often this is called. Returns the number of the place, from 1;
    /// nothing if all places are taken.
    ///
    /// The names of admitted clients are kept beside the counter, for as long as the counter.
    ///
    /// # Errors
    ///
    /// As [`enter`](Self::enter). If the outcome is unknown, another call with the same name returns it.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: another call with the same name returns the same place.
    pub async fn enter_as(&self, name: impl AsRef<[u8]>) -> Result<Option<u32>, LockError> {
        let limit = number(self.limit.into());
        let args = [self.lifetime(), name.as_ref().to_vec(), limit];
        let (reply, _) = self.counter.run_safely(&ENTER_AS, &args).await?;
        self.place(&reply)
    }

    fn place(&self, reply: &Reply) -> Result<Option<u32>, LockError> {
        let place = u32::try_from(integer(reply)?).ok();
        Ok(place.filter(|place| (1..=self.limit).contains(place)))
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission")
            .field("key", &String::from_utf8_lossy(self.counter.key()))
            .field("limit", &self.limit)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

/// A stock of things that are handed out one by one.
///
/// Made by [`LockManager::stock`].
///
/// **Guarantee.** No more are handed out than were put in: holds also if the node loses the key or lets it expire,
/// because then nothing is left. Each request is sent once; without an answer its outcome is
/// [unknown](LockError::Unknown), and one may be gone.
///
/// **Cost.** One round trip; taking one is the command `DECR` and nothing else.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = redouble::Server::builder().clock(redouble::Clock::Tokio).start().await?;
/// # let locks = redouble_lock::LockManager::new(server.connection().await?);
/// use std::time::Duration;
///
/// let tickets = locks.stock("tickets:17");
/// assert_eq!(tickets.take().await?, None); // nothing there yet
/// assert!(tickets.fill(2, Duration::from_secs(3600)).await?);
/// assert_eq!(tickets.take().await?, Some(1)); // one is left
/// assert_eq!(tickets.take().await?, Some(0));
/// assert_eq!(tickets.take().await?, None);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Stock {
    counter: Counter,
}

impl Stock {
    /// Sets how long one request may take. Default: 500 ms; at least 1 ms.
    #[must_use]
    pub fn reply_timeout(mut self, reply_timeout: Duration) -> Self {
        self.counter.reply_timeout = reply_timeout.max(Duration::from_millis(1));
        self
    }

    /// Fills the stock with `number_of` things, if it was not filled before, and sets when the rest expires. Returns true if this call has
    /// filled it.
    ///
    /// A client that took from the stock before it was filled does not prevent that. It leaves a key that does not expire.
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take).
    ///
    /// # Cancel safety
    ///
    /// It may be filled or not; filling it again does no harm.
    pub async fn fill(&self, number_of: u32, expires: Duration) -> Result<bool, LockError> {
        let expires = expires.max(Duration::from_millis(1));
        let args = [number(number_of.into()), millis(expires)];
        Ok(integer(
            &self
                .counter
                .once(&FILL, &args, None)
                .await
                .map_err(failed)?,
        )? == 1)
    }

    /// Takes one. Returns how many are left; nothing if there was none.
    ///
    /// # Errors
    ///
    /// * [`LockError::Unknown`] if Redis did not answer: one may be gone.
    /// * [`LockError::Redis`] if it was not asked or refused, for example because the key holds no number.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: one may be gone.
    pub async fn take(&self) -> Result<Option<u32>, LockError> {
        let left = self.counter.once(&TAKE, &[], Some("DECR")).await;
        let left = integer(&left.map_err(failed)?)?;
        Ok(u32::try_from(left).ok())
    }
}

impl fmt::Debug for Stock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stock")
            .field("key", &String::from_utf8_lossy(self.counter.key()))
            .finish_non_exhaustive()
    }
}
