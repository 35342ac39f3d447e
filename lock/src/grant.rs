//! What a holder knows of its grant: how long its lease lasts, and whether that has ended. It knows no guard and no watchdog;
//! both work on it.

use crate::{
    algorithm::Acquisition,
    environment::Environment,
    error::{LockError, LossReason},
    lease::{Lease, LeaseState},
    options::Options,
};
use std::{
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// One grant, as its guard, its watchdog and its cancellation tokens share it.
pub(crate) struct Grant {
    pub(crate) acquisition: Arc<dyn Acquisition>,
    pub(crate) env: Arc<dyn Environment>,
    pub(crate) options: Options,
    pub(crate) lease: Lease,
    /// The moment before the lock was asked for.
    pub(crate) granted: Duration,
    /// Until then the lock stays taken, also if it is released earlier.
    pub(crate) held_until: Duration,
    state: Mutex<LeaseState>,
    /// The lease is not extended any more, because `max_hold` is reached.
    last_lease: AtomicBool,
    pub(crate) span: tracing::Span,
    ended: Notify,
    /// Called when the grant ends.
    at_end: Option<Box<dyn Fn() + Send + Sync>>,
}

impl Grant {
    /// A grant with this lease, which the holder may rely on until `deadline`. `at_end` is called at each end; the first one counts.
    pub(crate) fn new(
        acquisition: Arc<dyn Acquisition>,
        env: Arc<dyn Environment>,
        options: &Options,
        lease: Lease,
        deadline: Duration,
        held_until: Duration,
        at_end: Option<Box<dyn Fn() + Send + Sync>>,
    ) -> Arc<Self> {
        let span = tracing::debug_span!(target: "redouble_lock", "lock.hold", key = %acquisition.key().escape_ascii());
        Arc::new(Self {
            acquisition,
            env,
            options: options.clone(),
            lease,
            granted: deadline.saturating_sub(lease.validity()),
            held_until,
            state: Mutex::new(LeaseState::HeldUntil(deadline)),
            last_lease: AtomicBool::new(false),
            span,
            ended: Notify::new(),
            at_end,
        })
    }

    /// The state of the lease, as far as the holder knows it now.
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

    /// Ends the lease, if it has not ended before, and wakes the tasks that wait for it.
    pub(crate) fn end(&self, end: LeaseState) -> LeaseState {
        let state = self.update(|state, now| state.end(now, end));
        self.ended.notify_waiters();
        if let Some(at_end) = &self.at_end {
            at_end();
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
        if seen == LeaseState::Lost(LossReason::Expired) && self.ends_with_this_lease() {
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
        tracing::warn!(name: "lock.lost", target: "redouble_lock", parent: &self.span, key = %key.escape_ascii(), %reason, "lost a lock");
        let held = now.saturating_sub(self.granted);
        let observer = &self.options.observer;
        observer.tell(|metrics| metrics.lost(key, held, reason));
    }

    /// For how long the lock was held, from the moment before it was asked for.
    pub(crate) fn held_for(&self) -> Duration {
        self.env.now().saturating_sub(self.granted)
    }

    /// Notes that this lease is the last one: the lock was held for as long as is allowed.
    pub(crate) fn end_with_this_lease(&self) {
        self.last_lease.store(true, Ordering::Relaxed);
    }

    /// Returns true if this lease is the last one.
    pub(crate) fn ends_with_this_lease(&self) -> bool {
        self.last_lease.load(Ordering::Relaxed)
    }
}
