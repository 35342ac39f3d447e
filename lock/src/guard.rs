//! The held lock: what its holder believes, how it is extended, lost and given back.

use crate::{
    algorithm::Acquisition,
    cancellation::CancellationToken,
    caretaker::{Caretaker, Place},
    cleanup::Cleanup,
    detached::DetachedLock,
    environment::Environment,
    error::{LockError, LossReason, NodeError},
    lease::{Lease, LeaseState},
    options::Options,
    token::{FencingToken, Token},
    tracking,
};
use std::{
    fmt,
    future::pending,
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// A lock that was granted.
///
/// The guard does not keep others out by itself, its lease does: the holder may trust it until
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
/// and whether it was ours to the end, call [`release`](Self::release).
#[must_use = "a guard that is dropped releases its lock"]
pub struct Guard {
    held: Arc<Held>,
    cleanup: Cleanup,
}

impl Guard {
    /// Takes over a grant, and has the caretaker look after it if there is to be a watchdog.
    pub(crate) async fn new(
        cleanup: Cleanup,
        env: Arc<dyn Environment>,
        caretaker: &Arc<Caretaker>,
        options: &Options,
        lease: Lease,
        deadline: Duration,
    ) -> Result<Self, LockError> {
        let granted = deadline.saturating_sub(lease.validity());
        let held = Arc::new(Held {
            acquisition: Arc::clone(cleanup.acquisition()),
            env,
            options: options.clone(),
            lease,
            granted,
            state: Mutex::new(LeaseState::HeldUntil(deadline)),
            hard_end: AtomicBool::new(false),
            span: tracing::debug_span!("lock.hold", key = %cleanup.acquisition().key().escape_ascii()),
            ended: Notify::new(),
            place: options.watchdog.then(|| caretaker.place()),
        });
        let guard = Self { held, cleanup };
        let held = &guard.held;
        let place = held.place.as_ref();
        let first = lease.renew_at(deadline);
        let extended = place.is_none_or(|place| place.take(held, first).is_ok());
        let watch = || Box::pin(tracking::watch(Arc::clone(held)));
        let watched = !options.track_key || held.env.spawn(watch()).is_ok();
        if !extended || !watched {
            let _ = guard.release().await;
            return Err(LockError::NoRuntime);
        }
        Ok(guard)
    }

    /// Returns true if the lock is held at this moment, as far as the holder can know. Once false,
    /// it stays false.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        matches!(self.held.state(), LeaseState::HeldUntil(_))
    }

    /// Returns how long the lock is held unless it is extended; zero once it is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        match self.held.state() {
            LeaseState::HeldUntil(deadline) => deadline.saturating_sub(self.held.env.now()),
            LeaseState::Lost(_) | LeaseState::Released => Duration::ZERO,
        }
    }

    /// Returns the instant at which the lock is lost unless it is extended, on the clock of
    /// [`Environment::now`](crate::Environment::now); nothing once it is lost.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        match self.held.state() {
            LeaseState::HeldUntil(deadline) => Some(deadline),
            LeaseState::Lost(_) | LeaseState::Released => None,
        }
    }

    /// Returns the key of the lock.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        self.held.acquisition.key()
    }

    /// Returns the random value that Redis knows this acquisition by.
    #[must_use]
    pub fn token(&self) -> &Token {
        self.held.acquisition.token()
    }

    pub(crate) fn fence(&self) -> Option<FencingToken> {
        self.held.acquisition.fence()
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
    /// let lock = locks.mutex("order:17").lease(Duration::from_secs(10)).build();
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
        let held = &self.held;
        let lease = held.options.lease(lease)?;
        let until = held.env.now().saturating_add(held.options.reply_timeout);
        match held.extend(lease, until).await {
            // A connection that died unnoticed is worth a second try; extending twice is harmless.
            Err(LockError::Unknown(_)) if held.env.now() < until => held.extend(lease, until).await,
            outcome => outcome,
        }
    }

    /// Takes the guard apart, so that another process can go on holding the lock: [`Lock::adopt`](crate::Lock::adopt).
    /// Nothing is released, extended or asked for any more; unless somebody adopts it, the lock stands until its lease is
    /// over. Of several nodes, one that was asked before and has not answered may yet grant it.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the lock is lost already.
    pub fn detach(mut self) -> Result<DetachedLock, LockError> {
        let remaining = match self.held.state() {
            LeaseState::HeldUntil(deadline) => deadline.saturating_sub(self.held.env.now()),
            LeaseState::Lost(reason) => return Err(LockError::Lost(reason)),
            LeaseState::Released => Duration::ZERO,
        };
        self.held.end(LeaseState::Released);
        self.cleanup.hand_over();
        Ok(DetachedLock {
            key: self.key().to_vec(),
            token: *self.token(),
            fence: self.fence(),
            remaining,
        })
    }

    /// Gives the lock back, and tells whether it was ours to the end.
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
    /// let lock = locks.mutex("order:17").lease(Duration::from_secs(10)).build();
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
        let (held, key) = (self.held.held_for(), self.key());
        let observer = &self.held.options.observer;
        observer.tell(|metrics| metrics.released(key, held, &outcome));
        outcome
    }

    /// As [`Guard::release`], of a grant that other guards may share; nobody is told of it.
    pub(crate) async fn give_back(&self) -> Release {
        let held = &self.held;
        held.end(LeaseState::Released);
        let acquisition = self.cleanup.acquisition();
        if !acquisition.may_stand() {
            return Release::AlreadyLost;
        }
        let until = held.env.now().saturating_add(held.options.reply_timeout);
        let mut unknown = None;
        loop {
            match acquisition.release(until).await {
                Ok(true) => return Release::Released,
                // After an attempt that may have been executed nobody can tell who removed it.
                Ok(false) => return unknown.map_or(Release::AlreadyLost, Release::Unknown),
                Err(error) => {
                    let again = unknown.is_none() && error.is_unknown() && held.env.now() < until;
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
    /// # let lock = locks.mutex("order:17").build();
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
        match self.held.ended().await {
            LeaseState::Lost(reason) => reason,
            // Whoever can ask has a guard, and so it was not released.
            LeaseState::Released | LeaseState::HeldUntil(_) => pending().await,
        }
    }

    /// Returns a token by which other tasks learn that the lock is not held any more.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = redouble::Server::builder().clock(redouble::Clock::Tokio).start().await?;
    /// # let locks = redouble_lock::LockManager::new(server.connection().await?);
    /// # async fn next_job() { tokio::time::sleep(std::time::Duration::from_secs(5)).await }
    /// let guard = locks.mutex("order:17").build().lock().await?;
    /// let lost = guard.cancellation_token();
    /// let worker = tokio::spawn(async move {
    ///     while !lost.is_cancelled() {
    ///         tokio::select! {
    ///             biased;
    ///             () = lost.cancelled() => break,
    ///             () = next_job() => {}
    ///         }
    ///     }
    /// });
    /// drop(guard);
    /// worker.await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn cancellation_token(&self) -> CancellationToken {
        CancellationToken::new(Arc::clone(&self.held))
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
    /// let lock = locks.mutex("order:17").lease(Duration::from_secs(10)).build();
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
            output = &mut work => match self.held.state() {
                LeaseState::Lost(reason) => Err(LockError::Lost(reason)),
                LeaseState::HeldUntil(_) | LeaseState::Released => Ok(output),
            },
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // The watchdog first; then the cleanup, a field, is dropped and sees to the release.
        if matches!(self.held.state(), LeaseState::HeldUntil(_)) {
            let (held, key) = (self.held.held_for(), self.key());
            let observer = &self.held.options.observer;
            observer.tell(|metrics| metrics.dropped(key, held));
        }
        self.held.end(LeaseState::Released);
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

/// What became of a lock that was given back.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "this tells whether the lock was held to the end"]
#[non_exhaustive]
pub enum Release {
    /// The lock was ours until now, and is free.
    Released,
    /// The lock was gone before: its lease had run out, or the key was removed by others. Somebody
    /// else may have held it meanwhile.
    AlreadyLost,
    /// The lock stays taken: the same owner has entered it more often than left it. Only from guards that share a grant.
    StillHeld,
    /// No answer that tells. Either Redis failed or was silent: the key may stand until its lease
    /// is over, and its removal goes on in the background. Or the key was gone at the second
    /// attempt, and whether the first one removed it cannot be known. The error is the one of the
    /// first attempt.
    Unknown(NodeError),
}

/// The state that a guard shares with its watchdog.
pub(crate) struct Held {
    pub(crate) acquisition: Arc<dyn Acquisition>,
    pub(crate) env: Arc<dyn Environment>,
    pub(crate) options: Options,
    pub(crate) lease: Lease,
    /// The moment before the lock was asked for.
    pub(crate) granted: Duration,
    state: Mutex<LeaseState>,
    /// The lease is not extended any more, as it was held for long enough.
    hard_end: AtomicBool,
    pub(crate) span: tracing::Span,
    ended: Notify,
    /// Where its watchdog is, if it has one.
    place: Option<Place>,
}

impl Held {
    /// What the holder may believe now.
    pub(crate) fn state(&self) -> LeaseState {
        self.update(LeaseState::at)
    }

    /// Sends one extension and takes in its answer.
    pub(crate) async fn extend(&self, lease: Lease, until: Duration) -> Result<(), LockError> {
        if let LeaseState::Lost(reason) = self.state() {
            return Err(LockError::Lost(reason));
        }
        let state = match self.acquisition.extend(lease, until).await {
            Ok(Some(sent)) => self.update(|state, now| state.extend(now, lease.deadline(sent))),
            Ok(None) => self.end(LeaseState::Lost(LossReason::Gone)),
            Err(error) => {
                let known = !error.is_unknown();
                return Err(LockError::of_node(error, known));
            }
        };
        match state {
            LeaseState::Lost(reason) => Err(LockError::Lost(reason)),
            LeaseState::HeldUntil(_) | LeaseState::Released => Ok(()),
        }
    }

    /// Ends the lease, if it has not ended before, and wakes whoever waits for that.
    pub(crate) fn end(&self, end: LeaseState) -> LeaseState {
        let state = self.update(|state, now| state.end(now, end));
        self.ended.notify_waiters();
        if let Some(place) = &self.place {
            place.leave();
        }
        state
    }

    /// Waits until the holder does not hold the lock any more, at the latest until the deadline.
    pub(crate) async fn ended(&self) -> LeaseState {
        loop {
            // Made before the look, so that an end between the two is not missed.
            let mut ended = pin!(self.ended.notified());
            let deadline = match self.state() {
                LeaseState::HeldUntil(deadline) => deadline,
                ended @ (LeaseState::Lost(_) | LeaseState::Released) => return ended,
            };
            // The deadline may have moved on by then; it never moves back.
            let mut expired = self.env.sleep_until(deadline);
            tokio::select! {
                biased;
                () = &mut ended => {}
                () = &mut expired => {}
            }
        }
    }

    fn update(&self, change: impl FnOnce(&mut LeaseState, Duration) -> LeaseState) -> LeaseState {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Read under the lock, so that the state sees time in order.
        let (now, before) = (self.env.now(), *state);
        let seen = change(&mut state, now);
        if !matches!(before, LeaseState::HeldUntil(_)) {
            return seen;
        }
        if seen == LeaseState::Lost(LossReason::Expired) && self.is_held_no_longer() {
            *state = LeaseState::Lost(LossReason::MaxHold);
        }
        let after = *state;
        drop(state);
        if let LeaseState::Lost(reason) = after {
            self.tell_loss(now, reason);
        }
        after
    }

    /// Called once for each grant that is lost.
    fn tell_loss(&self, now: Duration, reason: LossReason) {
        let key = self.acquisition.key();
        tracing::warn!(parent: &self.span, key = %key.escape_ascii(), %reason, "lost a lock");
        let held = now.saturating_sub(self.granted);
        let observer = &self.options.observer;
        observer.tell(|metrics| metrics.lost(key, held, reason));
    }

    fn held_for(&self) -> Duration {
        self.env.now().saturating_sub(self.granted)
    }

    /// Notes that the lease will end, and why.
    pub(crate) fn hold_no_longer(&self) {
        self.hard_end.store(true, Ordering::Relaxed);
    }

    /// Whether that was noted.
    pub(crate) fn is_held_no_longer(&self) -> bool {
        self.hard_end.load(Ordering::Relaxed)
    }
}
