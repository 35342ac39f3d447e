//! The held lock: how it is extended, lost and given back.

use crate::{
    cleanup::Cleanup,
    detached::DetachedLock,
    early_loss,
    environment::Environment,
    error::{LockError, LossReason},
    grant::Grant,
    lease::{Lease, LeaseState},
    options::Options,
    release::Release,
    renewal::Renewals,
    token::{FencingToken, Token},
};
use std::{fmt, future::pending, pin::pin, sync::Arc, time::Duration};

/// A lock that was granted.
///
/// The lease keeps other clients out, not the guard: the holder may trust it until
/// [`deadline`](Self::deadline), on its own monotonic clock, and not for one moment longer. Work
/// that takes long runs under [`run`](Self::run), or watches [`lost`](Self::lost).
///
/// # Dropping a guard
///
/// stops the watchdog at once and releases the lock in the background, through the
/// [`Environment`](crate::Environment): with the default one, on the tokio runtime of the thread that drops it,
/// or on the runtime that the lock was asked for on, if that thread belongs to none.
/// When that runtime is over or shuts down, nothing can be sent:
/// the lock then stands until its lease is over. There is no panic. To know that the lock is free,
/// and whether it was held to the end, call [`release`](Self::release).
#[must_use = "a guard that is dropped releases its lock"]
pub struct Guard {
    grant: Arc<Grant>,
    cleanup: Cleanup,
    /// Those of the manager that the lock is of.
    renewals: Arc<Renewals>,
}

impl Guard {
    /// Takes over a grant, and starts its watchdog if there is to be one.
    pub(crate) async fn new(
        cleanup: Cleanup,
        env: Arc<dyn Environment>,
        renewals: &Arc<Renewals>,
        options: &Options,
        lease: Lease,
        deadline: Duration,
        held_until: Duration,
    ) -> Result<Self, LockError> {
        let place = options.watchdog.then(|| Arc::new(renewals.place()));
        let at_end = place
            .clone()
            .map(|place| -> Box<dyn Fn() + Send + Sync> { Box::new(move || place.leave()) });
        let acquisition = Arc::clone(cleanup.acquisition());
        let grant = Grant::new(
            acquisition,
            env,
            options,
            lease,
            deadline,
            held_until,
            at_end,
        );
        let guard = Self {
            grant,
            cleanup,
            renewals: Arc::clone(renewals),
        };
        let grant = &guard.grant;
        let first = lease.renew_at(deadline);
        let renewed = place.is_none_or(|place| place.take(grant, first).is_ok());
        let detect = || Box::pin(early_loss::detect(Arc::clone(grant)));
        let tracked = !options.track_key || grant.env.spawn(detect()).is_ok();
        if !renewed || !tracked {
            let _ = guard.release().await;
            return Err(LockError::NoRuntime);
        }
        Ok(guard)
    }

    /// Returns true if these are the watchdogs of the manager that the lock is of.
    pub(crate) fn is_renewed_by(&self, renewals: &Arc<Renewals>) -> bool {
        Arc::ptr_eq(&self.renewals, renewals)
    }

    /// Starts the minimum hold: the caller gets this guard. Until then a release frees the lock at once.
    pub(crate) fn start_hold(&self) {
        self.grant.acquisition.hold_until(self.grant.held_until);
    }

    /// Returns true if the lock is held at this moment, as far as the holder can know. Once false,
    /// it stays false.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        matches!(self.grant.state(), LeaseState::HeldUntil(_))
    }

    /// Returns how long the lock is held unless it is extended; zero once it is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        match self.grant.state() {
            LeaseState::HeldUntil(deadline) => deadline.saturating_sub(self.grant.env.now()),
            LeaseState::Lost(_) | LeaseState::Released => Duration::ZERO,
        }
    }

    /// Returns the instant at which the lock is lost unless it is extended, on the clock of
    /// [`Environment::now`](crate::Environment::now); nothing once it is lost.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        match self.grant.state() {
            LeaseState::HeldUntil(deadline) => Some(deadline),
            LeaseState::Lost(_) | LeaseState::Released => None,
        }
    }

    /// Returns the key of the lock.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        self.grant.acquisition.key()
    }

    /// Returns the random value that Redis knows this acquisition by.
    #[must_use]
    pub fn token(&self) -> &Token {
        self.grant.acquisition.token()
    }

    pub(crate) fn fence(&self) -> Option<FencingToken> {
        self.grant.acquisition.fence()
    }

    /// Extends the lock: it then lasts for at least `lease` from now on. A lease that reaches
    /// further than that already is left as it is, never shortened.
    ///
    /// # Errors
    ///
    /// * [`LockError::Lost`] if the lock is lost, which is final: it is not taken again even if
    ///   it is free.
    /// * [`LockError::Unknown`] if Redis did not answer within the reply timeout, and
    ///   [`LockError::Redis`] if it answered with an error or could not be reached. The lock is
    ///   then held as before, until the old deadline.
    /// * [`LockError::InvalidLease`] as at [`LockBuilder::lease`](crate::LockBuilder::lease).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The lease may then have been extended in Redis without the guard relying on it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = redouble::Server::builder().clock(redouble::Clock::Tokio).start().await?;
    /// # let locks = redouble_lock::LockManager::new(server.connection().await?);
    /// use std::time::Duration;
    ///
    /// let lock = locks.mutex("order:17").lease(Duration::from_secs(10)).build()?;
    /// let guard = lock.try_lock().await?;
    /// guard.extend(Duration::from_secs(60)).await?;
    /// assert!(guard.remaining() > Duration::from_secs(59));
    ///
    /// tokio::time::sleep(Duration::from_secs(61)).await;
    /// assert!(guard.extend(Duration::from_secs(60)).await.unwrap_err().is_lost());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn extend(&self, lease: Duration) -> Result<(), LockError> {
        let grant = &self.grant;
        let lease = grant.options.lease(lease)?;
        let until = grant.env.now().saturating_add(grant.options.reply_timeout);
        match grant.extend(lease, until).await {
            // A connection that died unnoticed is worth a second try; extending twice is harmless.
            Err(LockError::Unknown(_)) if grant.env.now() < until => {
                grant.extend(lease, until).await
            }
            outcome => outcome,
        }
    }

    /// Detaches the lock from this process, so that another process can [adopt](crate::Lock::adopt) it.
    /// The lock is neither released nor extended here any more. Unless a process adopts it, it stands until its lease
    /// ends. Of several nodes, one that was asked before and has not answered may still grant it.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the lock is lost already.
    pub fn detach(self) -> Result<DetachedLock, LockError> {
        let remaining = self.remaining();
        self.end()?;
        let detached = DetachedLock {
            key: self.key().to_vec(),
            token: *self.token(),
            fence: self.fence(),
            remaining,
            hold: self.hold(),
        };
        self.hand_over();
        Ok(detached)
    }

    /// Returns for how long the lock stays taken from now on, also if it is released.
    pub(crate) fn hold(&self) -> Duration {
        self.grant.held_until.saturating_sub(self.grant.env.now())
    }

    /// Ends the grant, and with it the watchdog, unless it is lost already. The lock still stands.
    pub(crate) fn end(&self) -> Result<(), LockError> {
        match self.grant.state() {
            LeaseState::Lost(reason) => Err(LockError::Lost(reason)),
            LeaseState::HeldUntil(_) | LeaseState::Released => {
                self.grant.end(LeaseState::Released);
                Ok(())
            }
        }
    }

    /// Leaves the lock to another process or another guard: nothing more is sent for it.
    pub(crate) fn hand_over(mut self) {
        self.grant.end(LeaseState::Released);
        self.cleanup.hand_over();
    }

    /// Releases the lock, and tells whether it was held to the end.
    ///
    /// The watchdog is stopped before the release is sent. A release without an answer is repeated
    /// once within the reply timeout, and in the background after that.
    ///
    /// # Cancel safety
    ///
    /// Cancelling the call leaves the release to the background, as dropping the guard does.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = redouble::Server::builder().clock(redouble::Clock::Tokio).start().await?;
    /// # let locks = redouble_lock::LockManager::new(server.connection().await?);
    /// use redouble_lock::Release;
    /// use std::time::Duration;
    ///
    /// let lock = locks.mutex("order:17").lease(Duration::from_secs(10)).build()?;
    /// assert_eq!(lock.try_lock().await?.release().await, Release::Released);
    ///
    /// let late = lock.try_lock().await?;
    /// tokio::time::sleep(Duration::from_secs(11)).await;
    /// assert_eq!(late.release().await, Release::AlreadyLost);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release(self) -> Release {
        let outcome = self.give_back().await;
        let (held, key) = (self.grant.held_for(), self.key());
        let observer = &self.grant.options.observer;
        observer.tell(|metrics| metrics.released(key, held, &outcome));
        outcome
    }

    /// As [`Guard::release`], of a grant that other guards may share; no hook is called.
    pub(crate) async fn give_back(&self) -> Release {
        let grant = &self.grant;
        grant.end(LeaseState::Released);
        let acquisition = self.cleanup.acquisition();
        if !acquisition.may_stand() {
            return Release::AlreadyLost;
        }
        let until = grant.env.now().saturating_add(grant.options.reply_timeout);
        let mut unknown = None;
        loop {
            match acquisition.release(until).await {
                Ok(true) => return Release::Released,
                // The first attempt may have removed it, or another client.
                Ok(false) => return unknown.map_or(Release::AlreadyLost, Release::Unknown),
                Err(error) => {
                    let again = unknown.is_none() && error.is_unknown() && grant.env.now() < until;
                    let first = unknown.get_or_insert(error);
                    if !again {
                        return Release::Unknown(first.clone());
                    }
                }
            }
        }
    }

    /// Waits until the lock is lost, and tells why. It completes by the deadline of the lock even
    /// if Redis is silent, and at once if the lock is lost already.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. May be awaited by several tasks, any number of times.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = redouble::Server::builder().clock(redouble::Clock::Tokio).start().await?;
    /// # let locks = redouble_lock::LockManager::new(server.connection().await?);
    /// # let lock = locks.mutex("order:17").build()?;
    /// # let mut jobs = tokio::sync::mpsc::channel::<u64>(1).1;
    /// let guard = lock.lock().await?;
    /// loop {
    ///     tokio::select! {
    ///         biased;
    ///         reason = guard.lost() => panic!("no leader any more: {reason}"),
    ///         job = jobs.recv() => match job {
    ///             Some(job) => println!("leads job {job}"),
    ///             None => break,
    ///         },
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lost(&self) -> LossReason {
        match self.grant.ended().await {
            LeaseState::Lost(reason) => reason,
            // The caller has the guard, so it was not released.
            LeaseState::Released | LeaseState::HeldUntil(_) => pending().await,
        }
    }

    /// Returns a token that is cancelled when the lock is not held any more: when it is lost, at the latest at its deadline, and when the
    /// guard is released or dropped. It can be given to other tasks, and does not keep the lock.
    ///
    /// A task of the [`Environment`](crate::Environment) cancels it, one for each call of this method. So the token is cancelled no earlier
    /// than that task runs: a process that was paused past the deadline may see the token uncancelled for a moment.
    /// [`is_valid`](Self::is_valid) reads the clock and is exact. Without a runtime for the task, the token is cancelled from the start.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = redouble::Server::builder().clock(redouble::Clock::Tokio).start().await?;
    /// # let locks = redouble_lock::LockManager::new(server.connection().await?);
    /// # async fn next_job() { tokio::time::sleep(std::time::Duration::from_secs(5)).await }
    /// let guard = locks.mutex("order:17").build()?.lock().await?;
    /// let lost = guard.cancellation_token();
    /// let worker = tokio::spawn(async move {
    ///     while lost.run_until_cancelled(next_job()).await.is_some() {}
    /// });
    /// drop(guard);
    /// worker.await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "tokio-util")]
    #[must_use]
    pub fn cancellation_token(&self) -> tokio_util::sync::CancellationToken {
        let token = tokio_util::sync::CancellationToken::new();
        let (grant, cancel) = (Arc::clone(&self.grant), token.clone().drop_guard());
        // The token is cancelled when the task is dropped, also by an environment that refuses it.
        let _ = self.grant.env.spawn(Box::pin(async move {
            grant.ended().await;
            drop(cancel);
        }));
        token
    }

    /// Runs `work` for as long as the lock is held: drops it at its next await when the lock is
    /// lost. Work that does not await is not stopped by this, and neither is what it has already
    /// sent elsewhere.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the lock was lost before `work` was done.
    ///
    /// # Cancel safety
    ///
    /// As cancel safe as `work`. The guard remains.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = redouble::Server::builder().clock(redouble::Clock::Tokio).start().await?;
    /// # let locks = redouble_lock::LockManager::new(server.connection().await?);
    /// use std::time::Duration;
    ///
    /// let lock = locks.mutex("order:17").lease(Duration::from_secs(10)).build()?;
    /// let guard = lock.try_lock().await?;
    /// assert_eq!(guard.run(async { "done" }).await?, "done");
    ///
    /// let too_long = guard.run(tokio::time::sleep(Duration::from_secs(60))).await;
    /// assert!(too_long.unwrap_err().is_lost());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, LockError> {
        let mut work = pin!(work);
        let mut lost = pin!(self.lost());
        tokio::select! {
            biased;
            reason = &mut lost => Err(LockError::Lost(reason)),
            output = &mut work => match self.grant.state() {
                LeaseState::Lost(reason) => Err(LockError::Lost(reason)),
                LeaseState::HeldUntil(_) | LeaseState::Released => Ok(output),
            },
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // The watchdog first; then the cleanup, a field, is dropped and sees to the release.
        if matches!(self.grant.state(), LeaseState::HeldUntil(_)) {
            let (held, key) = (self.grant.held_for(), self.key());
            let observer = &self.grant.options.observer;
            observer.tell(|metrics| metrics.dropped(key, held));
        }
        self.grant.end(LeaseState::Released);
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("key", &String::from_utf8_lossy(self.key()))
            .field("token", self.token())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
