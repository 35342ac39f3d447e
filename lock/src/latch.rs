//! The count-down latch.

use crate::{
    algorithm::{millis, number, waiters_key},
    counter::{Counter, failed, integer},
    environment::within,
    error::{LockError, NodeError},
    manager::LockManager,
    retry,
    script::{Script, script},
    token::Token,
    wire::{Command, Reply},
};
use std::{fmt, sync::LazyLock, time::Duration};

static SET: LazyLock<Script> = script!("now.lua", "wake.lua", "latch/open.lua", "latch/set.lua");
static COUNT_DOWN: LazyLock<Script> = script!(
    "now.lua",
    "wake.lua",
    "latch/open.lua",
    "latch/count_down.lua"
);
static LOOK: LazyLock<Script> = script!("now.lua", "ask.lua", "latch/look.lua");

/// The reply of the script if the count was zero before.
const ZERO_BEFORE: i64 = -2;

/// The longest pause between two requests of a waiter that no message wakes.
const POLL: Duration = Duration::from_millis(100);

/// A latch that opens when a number of things are done, and stays open.
///
/// Made by [`LockManager::count_down_latch`]. Cheap to clone.
///
/// **Guarantee.** The count is set once; it falls by one with each [`count_down`](Self::count_down), also if the request had to
/// be repeated; it never rises, and never falls below zero. Waiters return when it is zero, and not before: a
/// latch that is not set, or that the node has lost, is not zero. Holds as long as the node keeps the key.
///
/// **Lifetime.** The key is removed when [`keep`](Self::keep) is over, a day unless set otherwise, counted from
/// when the latch was set.
///
/// **Cost.** One round trip for each call. A message wakes waiters, and they ask again every second; where no messages
/// arrive, at growing intervals up to 100 ms.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = redouble::Server::builder().clock(redouble::Clock::Tokio).start().await?;
/// # let locks = redouble_lock::LockManager::new(server.connection().await?);
/// use std::time::Duration;
///
/// let imports = locks.count_down_latch("imports:2024-01");
/// assert!(imports.set_count(2).await?);
/// assert!(!imports.set_count(5).await?); // another client was first
///
/// assert_eq!(imports.count_down().await?, Some(1));
/// assert!(imports.wait(Duration::from_secs(1)).await.unwrap_err().is_timed_out());
/// assert_eq!(imports.count_down().await?, Some(0));
/// assert_eq!(imports.count_down().await?, None); // did not count
/// imports.wait(Duration::from_secs(1)).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct CountDownLatch {
    counter: Counter,
    keep: Duration,
}

impl LockManager {
    /// Makes a latch on `key`. Nothing is sent to Redis.
    #[must_use]
    pub fn count_down_latch(&self, key: impl AsRef<[u8]>) -> CountDownLatch {
        let core = self.core();
        let key = core.key(key.as_ref());
        let waiters = waiters_key(&key);
        CountDownLatch {
            counter: Counter::new(&core.node, vec![key, waiters]),
            keep: Duration::from_secs(24 * 3600),
        }
    }
}

impl CountDownLatch {
    /// Sets for how long the latch is kept after it was set. Default: a day; at least 1 ms.
    #[must_use]
    pub fn keep(mut self, keep: Duration) -> Self {
        self.keep = keep.max(Duration::from_millis(1));
        self
    }

    /// Sets how long one request may take. Default: 500 ms; at least 1 ms.
    #[must_use]
    pub fn reply_timeout(mut self, reply_timeout: Duration) -> Self {
        self.counter.reply_timeout = reply_timeout.max(Duration::from_millis(1));
        self
    }

    fn token(&self) -> Vec<u8> {
        let token = Token::new(self.counter.node.env().random());
        token.as_bytes().to_vec()
    }

    /// Sets the count, if it was not set before. Returns whether this call has set it.
    ///
    /// # Errors
    ///
    /// * [`LockError::Unknown`] if Redis did not say whether it was set, [`LockError::Redis`] if it was not.
    ///
    /// # Cancel safety
    ///
    /// The count may then be set or not; setting it again does no harm.
    pub async fn set_count(&self, count: u32) -> Result<bool, LockError> {
        let args = [self.token(), number(count.into()), millis(self.keep)];
        let (reply, _) = self.counter.run_safely(&SET, &args).await?;
        Ok(integer(&reply)? == 1)
    }

    /// Takes one off the count. Returns the count that this call has left, so exactly one call returns 0; nothing if the count was zero
    /// before.
    ///
    /// Each call counts once: its own repetitions do not count.
    ///
    /// # Errors
    ///
    /// * [`LockError::NotSet`] if the latch is not set, or not any more.
    /// * [`LockError::Unknown`] if Redis did not say whether it was counted, [`LockError::Redis`] if it was not.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: it may have been counted or not.
    pub async fn count_down(&self) -> Result<Option<u32>, LockError> {
        let args = [self.token()];
        let (reply, astray) = self.counter.run_safely(&COUNT_DOWN, &args).await?;
        match integer(&reply)? {
            ZERO_BEFORE => Ok(None),
            // The first request may still be under way and find a latch.
            left => u32::try_from(left)
                .map(Some)
                .map_err(|_| astray.unwrap_or(LockError::NotSet)),
        }
    }

    /// Returns the count; nothing if the latch is not set, or not any more.
    ///
    /// # Errors
    ///
    /// [`LockError::Redis`] if Redis could not be asked.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn count(&self) -> Result<Option<u32>, LockError> {
        self.look()
            .await
            .map_err(LockError::Redis)?
            .map_or(Ok(None), |reply| {
                let count = integer(&reply)?;
                Ok(u32::try_from(count).ok())
            })
    }

    async fn look(&self) -> Result<Option<Reply>, NodeError> {
        let command = Command::new("HGET").arg(self.counter.key()).arg("count");
        let reply = self.counter.look(command).await?;
        Ok(Some(reply).filter(|reply| *reply != Reply::Nil))
    }

    /// Waits until the count is zero, at most for `wait`, and one reply timeout for the last look.
    ///
    /// # Errors
    ///
    /// * [`LockError::TimedOut`] if it was not zero at the last look.
    /// * [`LockError::Redis`] if the last look failed; failures before are waited out, if they may pass.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn wait(&self, wait: Duration) -> Result<(), LockError> {
        let node = &self.counter.node;
        let env = node.env();
        let begun = env.now();
        let end = begun.saturating_add(wait);
        let name = self.name_of_waiters();
        let waiter = node.waiters.join(name);
        for look in 0.. {
            waiter.asks();
            let error = match self.ask(name).await {
                Ok(Some(reply)) if integer(&reply)? == 0 => return Ok(()),
                Ok(_) => {
                    if waiter.start_waiting() {
                        node.subscription.subscribe(self.counter.reply_timeout);
                    }
                    None
                }
                Err(error) if !error.is_transient() => return Err(failed(error)),
                Err(error) => Some(error),
            };
            let now = env.now();
            if now >= end {
                let waited = now.saturating_sub(begun);
                return Err(error.map_or(LockError::TimedOut { waited }, LockError::Redis));
            }
            let random = retry::draw(env.random());
            let pause = match waiter.is_registered() {
                true => retry::until_message(None, None, random),
                false => retry::back_off(look, POLL, random),
            };
            let next = now.saturating_add(pause).min(end);
            match error {
                None => {
                    within(&**env, next, waiter.woken()).await;
                }
                Some(_) => env.sleep_until(next).await,
            }
        }
        Ok(())
    }

    /// The token that all waiters of this latch share: a message is for all of them.
    fn name_of_waiters(&self) -> [u8; Token::LEN] {
        let digest = sha1_smol::Sha1::from(self.counter.key()).digest();
        let mut random = [0; 16];
        random.copy_from_slice(&digest.bytes()[..16]);
        *Token::new(random).digits()
    }

    /// Reads the count; and registers the name of the waiters, if messages arrive.
    async fn ask(&self, name: [u8; Token::LEN]) -> Result<Option<Reply>, NodeError> {
        let waiters = &self.counter.node.waiters;
        if !waiters.registers(name) {
            return self.look().await;
        }
        let patience = retry::LONGEST_RECHECK + self.counter.reply_timeout * 2;
        let name = waiters.name(&name, b"");
        let args = [self.token(), number(0), name, millis(patience)];
        let reply = self.counter.ask(&LOOK, &args).await?;
        Ok(Some(reply).filter(|reply| *reply != Reply::Nil))
    }
}

impl fmt::Debug for CountDownLatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountDownLatch")
            .field("key", &String::from_utf8_lossy(self.counter.key()))
            .field("keep", &self.keep)
            .finish_non_exhaustive()
    }
}
