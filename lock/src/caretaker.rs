//! One background task for all grants of a client that have a watchdog, however many they are. It sleeps until the first
//! of them falls due, and ends with the last one.
//!
//! What is to be done for a grant is the matter of [`watchdog`]. What has fallen due is done at the same time, so that
//! a node that is silent about one grant does not hold up the others; it begins in the order of due times, and of grants
//! where those are equal.
//!
//! A client that is used on several runtimes has such a task on each, for the grants that were taken there: a
//! runtime that is blocked or ends takes no others along.

use crate::{
    environment::{BoxFuture, Environment, NoRuntime},
    guard::Held,
    watchdog::{self, Record},
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

/// What a client has to look after.
pub(crate) struct Caretaker {
    env: Arc<dyn Environment>,
    /// By runtime. There is one as long as there is a task for it.
    shifts: Mutex<BTreeMap<u64, Shift>>,
    grants: AtomicU64,
}

/// What one task has to look after.
#[derive(Default)]
struct Shift {
    grants: BTreeMap<u64, Charge>,
    /// Those that are not seen to at this moment, by due time.
    queue: BTreeSet<(Duration, u64)>,
    /// Rings when something falls due earlier than all before it, and when no grant is left.
    bell: Arc<Notify>,
}

struct Charge {
    held: Arc<Held>,
    record: Record,
    /// Nothing while it is seen to.
    due: Option<Duration>,
}

impl Caretaker {
    pub(crate) fn new(env: Arc<dyn Environment>) -> Arc<Self> {
        Arc::new(Self {
            env,
            shifts: Mutex::default(),
            grants: AtomicU64::new(0),
        })
    }

    /// A place for one grant, on the runtime of this moment. It is looked after from
    /// [`Place::take`] to [`Place::leave`].
    pub(crate) fn place(self: &Arc<Self>) -> Place {
        Place {
            caretaker: Arc::clone(self),
            runtime: self.env.runtime(),
            number: self.grants.fetch_add(1, Ordering::Relaxed),
        }
    }

    fn shifts(&self) -> MutexGuard<'_, BTreeMap<u64, Shift>> {
        self.shifts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a grant is looked after.
pub(crate) struct Place {
    caretaker: Arc<Caretaker>,
    runtime: u64,
    number: u64,
}

impl Place {
    /// Has the grant looked after, at `due` first.
    pub(crate) fn take(&self, held: &Arc<Held>, due: Duration) -> Result<(), NoRuntime> {
        let mut shifts = self.caretaker.shifts();
        let is_new = !shifts.contains_key(&self.runtime);
        let shift = shifts.entry(self.runtime).or_default();
        let charge = Charge {
            held: Arc::clone(held),
            record: Record::default(),
            due: Some(due),
        };
        shift.grants.insert(self.number, charge);
        shift.queue.insert((due, self.number));
        if !is_new {
            if shift.queue.first() == Some(&(due, self.number)) {
                shift.bell.notify_one();
            }
            return Ok(());
        }
        let duty = Duty {
            caretaker: Arc::clone(&self.caretaker),
            runtime: self.runtime,
            bell: Arc::clone(&shift.bell),
            is_done: false,
        };
        // Whatever refuses the task drops it, which then gives up the shift.
        drop(shifts);
        self.caretaker.env.spawn(Box::pin(duty.serve()))
    }

    /// Has the grant looked after no more. Does nothing if that is so.
    pub(crate) fn leave(&self) {
        let mut shifts = self.caretaker.shifts();
        let shift = shifts.get_mut(&self.runtime);
        let left = shift.and_then(|shift| shift.remove(self.number));
        // Only now: who knows what goes with it.
        drop(shifts);
        drop(left);
    }
}

impl Shift {
    fn remove(&mut self, number: u64) -> Option<Charge> {
        let left = self.grants.remove(&number)?;
        if let Some(due) = left.due {
            self.queue.remove(&(due, number));
        }
        if self.grants.is_empty() {
            self.bell.notify_one();
        }
        Some(left)
    }

    /// Takes out of the queue what is due first, if it is by now.
    fn next(&mut self, now: Duration) -> Option<(u64, Arc<Held>, Record)> {
        self.queue.first().filter(|(due, _)| *due <= now)?;
        let (_, number) = self.queue.pop_first()?;
        let charge = self.grants.get_mut(&number)?;
        charge.due = None;
        Some((number, Arc::clone(&charge.held), charge.record))
    }

    /// Puts back into the queue what was seen to, unless it has left.
    fn put_back(&mut self, number: u64, due: Duration, record: Record) {
        if let Some(charge) = self.grants.get_mut(&number) {
            (charge.due, charge.record) = (Some(due), record);
            self.queue.insert((due, number));
        }
    }
}

/// The task of one shift. Dropping it gives up what was looked after: its runtime is over.
struct Duty {
    caretaker: Arc<Caretaker>,
    runtime: u64,
    bell: Arc<Notify>,
    is_done: bool,
}

impl Duty {
    async fn serve(mut self) {
        let mut at_work = FuturesUnordered::new();
        let mut timer = Timer(None);
        loop {
            let now = self.caretaker.env.now();
            while let Some((number, held, record)) = self.shift(|shift| shift.next(now)).flatten() {
                // Code of others is called there, and shall harm nobody's grants but its own.
                let work = AssertUnwindSafe(watchdog::see_to(held, record)).catch_unwind();
                at_work.push(async move { (number, work.await) });
            }
            let Some(due) = self.next_due() else { return };
            timer.set(&*self.caretaker.env, due);
            // Bell and timer only wake it, so they may come last.
            tokio::select! {
                biased;
                Some((number, outcome)) = at_work.next() => match outcome {
                    Ok(Some((due, record))) => {
                        self.shift(|shift| shift.put_back(number, due, record));
                    }
                    Ok(None) => self.dismiss(number),
                    Err(panic) => {
                        self.dismiss(number);
                        // Told as that of any background task.
                        let _ = self.caretaker.env.spawn(Box::pin(async move { resume_unwind(panic) }));
                    }
                },
                () = timer.fired() => {}
                () = self.bell.notified() => {}
            }
        }
    }

    /// When the next grant falls due that is not seen to already, which may be never; nothing if no grant is left:
    /// then this is over, and the next grant needs another task.
    fn next_due(&mut self) -> Option<Option<Duration>> {
        let mut shifts = self.caretaker.shifts();
        let shift = shifts.get(&self.runtime)?;
        if shift.grants.is_empty() {
            shifts.remove(&self.runtime);
            self.is_done = true;
            return None;
        }
        Some(shift.queue.first().map(|(due, _)| *due))
    }

    fn dismiss(&self, number: u64) {
        drop(self.shift(|shift| shift.remove(number)));
    }

    fn shift<T>(&self, what: impl FnOnce(&mut Shift) -> T) -> Option<T> {
        self.caretaker.shifts().get_mut(&self.runtime).map(what)
    }
}

impl Drop for Duty {
    fn drop(&mut self) {
        if !self.is_done {
            let left = self.caretaker.shifts().remove(&self.runtime);
            drop(left);
        }
    }
}

/// The one timer of a shift.
struct Timer(Option<(Duration, BoxFuture<'static, ()>)>);

impl Timer {
    fn set(&mut self, env: &dyn Environment, at: Option<Duration>) {
        if self.0.as_ref().map(|(at, _)| *at) != at {
            self.0 = at.map(|at| (at, env.sleep_until(at)));
        }
    }

    /// Waits for the time that is set; forever if there is none.
    async fn fired(&mut self) {
        match &mut self.0 {
            Some((_, timer)) => timer.await,
            None => pending().await,
        }
        self.0 = None;
    }
}
