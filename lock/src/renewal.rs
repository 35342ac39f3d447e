//! Watchdogs: one background task renews all grants of a manager that have a watchdog. The task sleeps until the first grant is
//! due, and ends with the last grant. It depends on grants, not on guards.
//!
//! A watchdog extends the lease each time a third of it has passed. It stops when the guard is released, when the lock is lost, or
//! when the longest hold is reached. It also ends a grant at its deadline, so the holder learns of the loss in time even if no
//! task asks for the state of the lock.
//!
//! Renewals that are due together run at the same time: a node that does not reply about one grant delays no other grant. They
//! begin in the order of due times; renewals with equal due times begin in the order of their grants.
//!
//! A manager that is used on several runtimes has one such task on each, for the grants acquired there. So the end of a runtime,
//! or a task that blocks it, does not stop renewals on another runtime.

use crate::{
    environment::{BoxFuture, Environment, NoRuntime},
    error::LockError,
    grant::Grant,
    lease::{Lease, LeaseState},
    retry,
};
use futures_util::{FutureExt as _, StreamExt as _, stream::FuturesUnordered};
use std::{
    collections::{BTreeMap, BTreeSet},
    future::pending,
    panic::{AssertUnwindSafe, resume_unwind},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;
use tracing::Instrument as _;

/// The grants of a manager that have a watchdog.
pub(crate) struct Renewals {
    env: Arc<dyn Environment>,
    /// By runtime. A runtime has a schedule while its task runs.
    schedules: Mutex<BTreeMap<u64, Schedule>>,
    grants: AtomicU64,
}

/// The grants that one task renews.
#[derive(Default)]
struct Schedule {
    grants: BTreeMap<u64, Entry>,
    /// The grants that are not being renewed at this moment, by due time.
    queue: BTreeSet<(Duration, u64)>,
    /// Notified when a grant falls due earlier than all before it, and when no grant is left.
    changed: Arc<Notify>,
}

struct Entry {
    grant: Arc<Grant>,
    record: Record,
    /// `None` during a renewal.
    due: Option<Duration>,
}

/// Recent failures of a grant's renewals.
#[derive(Debug, Clone, Copy, Default)]
struct Record {
    /// In a row.
    failures: u32,
    retry_at: Duration,
}

impl Renewals {
    pub(crate) fn new(env: Arc<dyn Environment>) -> Arc<Self> {
        Arc::new(Self {
            env,
            schedules: Mutex::default(),
            grants: AtomicU64::new(0),
        })
    }

    /// Returns a place for one grant, on the current runtime. The task renews the grant from
    /// [`Place::take`] to [`Place::leave`].
    pub(crate) fn place(self: &Arc<Self>) -> Place {
        Place {
            renewals: Arc::clone(self),
            runtime: self.env.runtime(),
            number: self.grants.fetch_add(1, Ordering::Relaxed),
        }
    }

    fn schedules(&self) -> MutexGuard<'_, BTreeMap<u64, Schedule>> {
        self.schedules
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a grant is renewed.
pub(crate) struct Place {
    renewals: Arc<Renewals>,
    runtime: u64,
    number: u64,
}

impl Place {
    /// Starts renewals of the grant, the first one at `due`.
    pub(crate) fn take(&self, grant: &Arc<Grant>, due: Duration) -> Result<(), NoRuntime> {
        let mut schedules = self.renewals.schedules();
        let is_new = !schedules.contains_key(&self.runtime);
        let schedule = schedules.entry(self.runtime).or_default();
        let entry = Entry {
            grant: Arc::clone(grant),
            record: Record::default(),
            due: Some(due),
        };
        schedule.grants.insert(self.number, entry);
        schedule.queue.insert((due, self.number));
        if !is_new {
            if schedule.queue.first() == Some(&(due, self.number)) {
                schedule.changed.notify_one();
            }
            return Ok(());
        }
        let task = RenewalTask {
            renewals: Arc::clone(&self.renewals),
            runtime: self.runtime,
            changed: Arc::clone(&schedule.changed),
            is_done: false,
        };
        // An environment that refuses the task drops it, which removes the schedule.
        drop(schedules);
        self.renewals.env.spawn(Box::pin(task.run()))
    }

    /// Ends the renewals of the grant. Does nothing if they have ended.
    pub(crate) fn leave(&self) {
        let mut schedules = self.renewals.schedules();
        let schedule = schedules.get_mut(&self.runtime);
        let left = schedule.and_then(|schedule| schedule.remove(self.number));
        // Dropped after the mutex is unlocked: the drop may run code of the user.
        drop(schedules);
        drop(left);
    }
}

impl Schedule {
    fn remove(&mut self, number: u64) -> Option<Entry> {
        let left = self.grants.remove(&number)?;
        if let Some(due) = left.due {
            self.queue.remove(&(due, number));
        }
        if self.grants.is_empty() {
            self.changed.notify_one();
        }
        Some(left)
    }

    /// Takes the first grant out of the queue, if it is due by now.
    fn next(&mut self, now: Duration) -> Option<(u64, Arc<Grant>, Record)> {
        self.queue.first().filter(|(due, _)| *due <= now)?;
        let (_, number) = self.queue.pop_first()?;
        let entry = self.grants.get_mut(&number)?;
        entry.due = None;
        Some((number, Arc::clone(&entry.grant), entry.record))
    }

    /// Puts a grant back into the queue after a renewal, unless it has left.
    fn put_back(&mut self, number: u64, due: Duration, record: Record) {
        if let Some(entry) = self.grants.get_mut(&number) {
            (entry.due, entry.record) = (Some(due), record);
            self.queue.insert((due, number));
        }
    }
}

/// The task of one schedule. Its runtime drops it when the runtime ends, which removes the schedule.
struct RenewalTask {
    renewals: Arc<Renewals>,
    runtime: u64,
    changed: Arc<Notify>,
    is_done: bool,
}

impl RenewalTask {
    async fn run(mut self) {
        let mut running = FuturesUnordered::new();
        let mut timer = Timer(None);
        loop {
            let now = self.renewals.env.now();
            while let Some((number, grant, record)) =
                self.schedule(|schedule| schedule.next(now)).flatten()
            {
                // A renewal calls code of the user. Its panic ends the renewals of this grant alone.
                let renewal = AssertUnwindSafe(renew(grant, record)).catch_unwind();
                running.push(async move { (number, renewal.await) });
            }
            let Some(due) = self.next_due() else { return };
            timer.set(&*self.renewals.env, due);
            // The last two branches only wake the task.
            tokio::select! {
                biased;
                Some((number, outcome)) = running.next() => match outcome {
                    Ok(Some((due, record))) => {
                        self.schedule(|schedule| schedule.put_back(number, due, record));
                    }
                    Ok(None) => self.dismiss(number),
                    Err(panic) => {
                        self.dismiss(number);
                        // Reported like the panic of any background task.
                        let _ = self.renewals.env.spawn(Box::pin(async move { resume_unwind(panic) }));
                    }
                },
                () = timer.fired() => {}
                () = self.changed.notified() => {}
            }
        }
    }

    /// Returns the due time of the next grant that is not being renewed: `Some(None)` if all of them are. Returns `None` if no
    /// grant is left; then this task ends, and the next grant starts another one.
    fn next_due(&mut self) -> Option<Option<Duration>> {
        let mut schedules = self.renewals.schedules();
        let schedule = schedules.get(&self.runtime)?;
        if schedule.grants.is_empty() {
            schedules.remove(&self.runtime);
            self.is_done = true;
            return None;
        }
        Some(schedule.queue.first().map(|(due, _)| *due))
    }

    fn dismiss(&self, number: u64) {
        drop(self.schedule(|schedule| schedule.remove(number)));
    }

    fn schedule<T>(&self, what: impl FnOnce(&mut Schedule) -> T) -> Option<T> {
        self.renewals.schedules().get_mut(&self.runtime).map(what)
    }
}

impl Drop for RenewalTask {
    fn drop(&mut self) {
        if !self.is_done {
            let left = self.renewals.schedules().remove(&self.runtime);
            drop(left);
        }
    }
}

/// The one timer of a task.
struct Timer(Option<(Duration, BoxFuture<'static, ()>)>);

impl Timer {
    fn set(&mut self, env: &dyn Environment, at: Option<Duration>) {
        if self.0.as_ref().map(|(at, _)| *at) != at {
            self.0 = at.map(|at| (at, env.sleep_until(at)));
        }
    }

    /// Waits for the time that is set, or forever if none is set.
    async fn fired(&mut self) {
        match &mut self.0 {
            Some((_, timer)) => timer.await,
            None => pending().await,
        }
        self.0 = None;
    }
}

/// Renews a grant if it is due. Returns the time of the next renewal, at the latest the deadline, or `None` if the grant has ended.
///
/// A failed request is not a loss. The watchdog tries again until the deadline: at once after the first failure, later
/// with pauses. A request without a reply takes at most a sixth of the lease, so that several requests fit in.
async fn renew(grant: Arc<Grant>, mut record: Record) -> Option<(Duration, Record)> {
    let validity = grant.lease.validity();
    let patience = grant.options.reply_timeout.min(validity / 6);
    while let LeaseState::HeldUntil(deadline) = grant.state() {
        if grant.ends_with_this_lease() {
            return Some((deadline, record));
        }
        let now = grant.env.now();
        // The holder may have extended the lease by a call of its own meanwhile.
        let due = grant.lease.renew_at(deadline).max(record.retry_at);
        if now < due {
            return Some((due.min(deadline), record));
        }
        let Some(lease) = next(&grant, deadline, now) else {
            grant.end_with_this_lease();
            continue;
        };
        let renewal = grant.extend(lease, now.saturating_add(patience));
        let span = tracing::debug_span!(target: "redouble_lock", parent: &grant.span, "lock.renew");
        match or_end(&grant, renewal.instrument(span)).await {
            Some(Ok(())) if lease != grant.lease => grant.end_with_this_lease(),
            Some(Ok(())) => {
                grant.options.observer.renewed(grant.acquisition.key());
                record.failures = 0;
            }
            Some(Err(
                LockError::Unknown(error) | LockError::NoQuorum(error) | LockError::Redis(error),
            )) => {
                tracing::debug!(name: "lock.renewal_failed", target: "redouble_lock", parent: &grant.span, %error, "could not extend a lease");
                grant
                    .options
                    .observer
                    .failed(grant.acquisition.key(), &error);
                let random = retry::draw(grant.env.random());
                if record.failures > 0 {
                    let pauses = grant.options.retrying().at_most(validity / 12);
                    let pause = pauses.before(record.failures, random);
                    record.retry_at = grant.env.now().saturating_add(pause);
                }
                record.failures += 1;
            }
            // The grant has ended; the next pass of the loop reads its state.
            Some(Err(_)) | None => {}
        }
    }
    None
}

/// Returns the lease of an extension that is sent `now`: the usual lease, or a shorter last one that ends at the longest hold.
/// Returns `None` if the current lease already ends there.
fn next(grant: &Grant, deadline: Duration, now: Duration) -> Option<Lease> {
    let Some(max_hold) = grant.options.max_hold else {
        return Some(grant.lease);
    };
    let end = grant.granted.saturating_add(max_hold);
    let rest = end.saturating_sub(now);
    if deadline >= end {
        None
    } else if rest >= grant.lease.ttl() {
        Some(grant.lease)
    } else {
        grant.options.lease(rest).ok()
    }
}

/// Waits for `future`, unless the grant ends first; then the future is dropped.
async fn or_end<T>(grant: &Grant, future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    let mut ended = std::pin::pin!(grant.ended());
    tokio::select! {
        biased;
        _ = &mut ended => None,
        value = &mut future => Some(value),
    }
}
