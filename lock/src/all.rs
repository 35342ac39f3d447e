//! A call that acquires several locks, on one node or on many. It takes them one after the other, and every client in the
//! same order, so that no two clients wait for each other.

use crate::{
    environment::within,
    error::{LockError, LossReason},
    guard::Guard,
    kind::Kind,
    lock::Lock,
    options::Wait,
    release::Release,
};
use futures_util::future::select_all;
use std::{fmt, pin::pin, sync::Arc, time::Duration};

/// Takes several locks, and waits at most for `wait` until it has all of them.
///
/// The locks may be on different nodes. They are taken in the order of their keys, whatever the order of `locks`, so that
/// calls that want the same locks do not wait for each other in a circle. A lock that is given twice is taken
/// once. Programs must agree on keys for that; different locks should have different keys.
/// For several keys of one node a [`MultiKeyMutex`](crate::MultiKeyMutex) does it in one round trip.
///
/// **Fencing tokens.** There is no token for all of them: locks are taken at different times, and nodes that share nothing have
/// no common order. Each guard of a [fenced](crate::Fenced) lock has its own token ([`AllGuards::guards`]). A resource gets the token of the
/// one lock that all its users take. For several keys of one node a
/// [`MultiKeyMutex`](crate::MultiKeyMutex) with [`fenced`](crate::LockBuilder::fenced) has one token.
///
/// Each lease runs from the time at which its lock was taken, so the first leases run while the call waits for the other locks. Make
/// leases longer than `wait`, or use a [`watchdog`](crate::LockBuilder::watchdog).
///
/// # Errors
///
/// * As [`Lock::lock_timeout`], for the lock that could not be taken. The others are given back.
/// * [`LockError::Lost`] if one lock was lost before the last one was taken.
/// * [`LockError::NothingToLock`] if there are no locks.
///
/// # Cancel safety
///
/// Cancel safe: what was taken is given back in the background, as by dropping a [`Guard`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use redouble::{Clock, Server};
/// # let (here, there) = (Server::builder().clock(Clock::Tokio).start().await?, Server::builder().clock(Clock::Tokio).start().await?);
/// # let here = redouble_lock::LockManager::new(here.connection().await?);
/// # let there = redouble_lock::LockManager::new(there.connection().await?);
/// use redouble_lock::{Release, lock_all};
/// use std::time::Duration;
///
/// let (from, to) = (here.mutex("account:1").build()?, there.mutex("account:2").build()?);
/// let both = lock_all([&to, &from], Duration::from_secs(3)).await?;
/// assert!(from.try_lock().await.is_err() && to.try_lock().await.is_err());
/// assert_eq!(both.release().await, Release::Released);
/// # Ok(())
/// # }
/// ```
pub async fn lock_all<'a, K: Kind>(
    locks: impl IntoIterator<Item = &'a Lock<K>>,
    wait: Duration,
) -> Result<AllGuards<K>, LockError> {
    let mut locks: Vec<_> = locks.into_iter().collect();
    locks.sort_by(|a, b| a.key().cmp(b.key()));
    let mut distinct: Vec<&Lock<K>> = Vec::with_capacity(locks.len());
    for lock in locks {
        if !distinct.iter().any(|other| other.is_same(lock)) {
            distinct.push(lock);
        }
    }
    let env = Arc::clone(distinct.first().ok_or(LockError::NothingToLock)?.env());
    let begun = env.now();
    let end = begun.saturating_add(wait);
    let mut all = AllGuards { guards: Vec::new() };
    let mut failure = None;
    for lock in &distinct {
        let rest = end.saturating_sub(env.now());
        match lock.acquire(Wait::AtMost(rest)).await {
            Ok(guard) => all.guards.push(guard),
            Err(LockError::TimedOut { .. }) => {
                let waited = env.now().saturating_sub(begun);
                failure = Some(LockError::TimedOut { waited });
            }
            Err(error) => failure = Some(error),
        }
        if failure.is_some() {
            break;
        }
    }
    let failure = match failure {
        None if all.is_valid() => {
            all.each().for_each(Guard::start_hold);
            return Ok(all);
        }
        None => LockError::Lost(all.lost().await),
        Some(error) => error,
    };
    let patience = distinct.iter().map(|lock| lock.options().reply_timeout);
    let until = env.now().saturating_add(patience.max().unwrap_or_default());
    let _ = within(&*env, until, all.release()).await;
    Err(failure)
}

/// Several locks that were granted; see [`lock_all`].
///
/// Dropping it releases all of them in the background.
#[must_use = "guards that are dropped release their locks"]
pub struct AllGuards<K: Kind> {
    guards: Vec<K::Guard>,
}

impl<K: Kind> AllGuards<K> {
    /// Returns the guards, in the order of their keys.
    #[must_use]
    pub fn guards(&self) -> &[K::Guard] {
        &self.guards
    }

    fn each(&self) -> impl Iterator<Item = &Guard> {
        self.guards.iter().map(AsRef::as_ref)
    }

    /// Returns true if all of them are held at this moment, as far as this process knows.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.each().all(Guard::is_valid)
    }

    /// Returns how long all of them are held unless they are extended; zero once one is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.each().map(Guard::remaining).min().unwrap_or_default()
    }

    /// Returns the instant at which the first one of them is lost unless they are extended; nothing once one is.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        let deadlines: Option<Vec<_>> = self.each().map(Guard::deadline).collect();
        deadlines?.into_iter().min()
    }

    /// Extends all of them; see [`Guard::extend`].
    ///
    /// # Errors
    ///
    /// The first one that occurs. The others are extended all the same.
    ///
    /// # Cancel safety
    ///
    /// As [`Guard::extend`]; some may then be extended.
    pub async fn extend(&self, lease: Duration) -> Result<(), LockError> {
        let mut outcome = Ok(());
        for guard in self.each() {
            let extended = guard.extend(lease).await;
            outcome = outcome.and(extended);
        }
        outcome
    }

    /// Waits until one of them is lost, and tells why.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn lost(&self) -> LossReason {
        let losses = self.each().map(|guard| Box::pin(guard.lost()));
        select_all(losses).await.0
    }

    /// Runs `work` for as long as all of them are held; see [`Guard::run`].
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if one was lost before `work` was done.
    ///
    /// # Cancel safety
    ///
    /// As cancel safe as `work`.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, LockError> {
        let mut work = pin!(work);
        let mut lost = pin!(self.lost());
        tokio::select! {
            biased;
            reason = &mut lost => Err(LockError::Lost(reason)),
            output = &mut work => match self.is_valid() {
                true => Ok(output),
                false => Err(LockError::Lost(lost.await)),
            },
        }
    }

    /// Gives all of them back. [`Release::Released`] if that is so for each; else the first other outcome, a
    /// loss before what is not known.
    ///
    /// # Cancel safety
    ///
    /// Cancelling the call leaves the rest to the background.
    pub async fn release(self) -> Release {
        let mut worst = Release::Released;
        for guard in self.guards {
            let outcome = guard.into().release().await;
            let replaces = worst == Release::Released
                || outcome == Release::AlreadyLost && worst != Release::AlreadyLost;
            if replaces {
                worst = outcome;
            }
        }
        worst
    }
}

impl<K: Kind> fmt::Debug for AllGuards<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AllGuards").field(&self.guards).finish()
    }
}
