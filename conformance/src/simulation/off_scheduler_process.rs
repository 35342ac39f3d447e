//! Client processes whose locks live outside of the scheduler: on a runtime of the process, or on its
//! threads. Lock objects and grants never leave their process, which also drops them. The scenario refers to
//! them by number and sends orders.

use crate::{
    backend::Later,
    simulation::held,
    subject::{AnyGrant, AnyLock},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};
use tokio::runtime::Handle;

/// An order to a process.
pub(crate) enum Order {
    /// Starts a call.
    Start(u32, Later<'static, ()>),
    /// Drops a call, finished or not.
    Abandon(u32),
    /// Drops a lock object or a grant.
    Forget(u64),
}

/// A client process that carries out orders.
pub(crate) trait OffSchedulerProcess: Send + Sync {
    /// Returns the objects of the process.
    fn things(&self) -> &Arc<Mutex<Things>>;

    /// Returns the handle of its runtime, for code that must run in its context without waiting.
    fn handle(&self) -> &Handle;

    /// Carries out an order at this instant. A crashed process ignores it.
    fn order(&self, order: Order);

    /// Ends the process early, because its start failed.
    fn quit(&self);
}

/// The objects of a process.
#[derive(Default)]
pub(crate) struct Things {
    calls: u32,
    next: u64,
    locks: BTreeMap<u64, Arc<dyn AnyLock>>,
    grants: BTreeMap<u64, Kept>,
}

struct Kept {
    grant: Arc<dyn AnyGrant>,
    told: Arc<Told>,
    /// Future that completes at the loss of the grant.
    loss: Option<Later<'static, ()>>,
}

/// State of a grant, as seen outside of its process.
#[derive(Default)]
pub(crate) struct Told(Mutex<News>);

#[derive(Default)]
struct News {
    deadline: Option<Duration>,
    lost: bool,
    waker: Option<Waker>,
}

impl Told {
    pub(crate) fn deadline(&self) -> Option<Duration> {
        held(&self.0).deadline
    }

    /// Sets the deadline. If it is another one, wakes the task that watches the grant, so that the suite reads it now.
    fn set_deadline(&self, deadline: Option<Duration>) {
        let mut news = held(&self.0);
        if news.deadline != deadline {
            news.deadline = deadline;
            let waker = news.waker.take();
            drop(news);
            waker.into_iter().for_each(Waker::wake);
        }
    }

    /// Completes when the loss is reported to the holder.
    pub(crate) async fn lost(&self) {
        std::future::poll_fn(|cx| {
            let mut news = held(&self.0);
            if news.lost {
                return Poll::Ready(());
            }
            news.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn lose(&self) {
        let waker = {
            let mut news = held(&self.0);
            news.lost = true;
            news.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Things {
    /// Returns a number for a new call.
    pub(crate) fn number_call(&mut self) -> u32 {
        self.calls += 1;
        self.calls
    }

    /// Stores a lock object and returns its number.
    pub(crate) fn keep_lock(&mut self, lock: Arc<dyn AnyLock>) -> u64 {
        let id = self.number();
        self.locks.insert(id, lock);
        id
    }

    /// Stores a grant and returns its number and its state.
    pub(crate) fn keep_grant(&mut self, grant: Arc<dyn AnyGrant>) -> (u64, Arc<Told>) {
        let id = self.number();
        let told = Arc::new(Told::default());
        held(&told.0).deadline = grant.deadline();
        let watched = Arc::clone(&grant);
        let kept = Kept {
            grant,
            told: Arc::clone(&told),
            loss: Some(Box::pin(async move { watched.lost().await })),
        };
        self.grants.insert(id, kept);
        (id, told)
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(crate) fn lock(&self, id: u64) -> Option<Arc<dyn AnyLock>> {
        self.locks.get(&id).map(Arc::clone)
    }

    pub(crate) fn grant(&self, id: u64) -> Option<Arc<dyn AnyGrant>> {
        self.grants.get(&id).map(|kept| Arc::clone(&kept.grant))
    }

    /// Removes a grant and returns it.
    pub(crate) fn take_grant(&mut self, id: u64) -> Option<Arc<dyn AnyGrant>> {
        self.grants.remove(&id).map(|kept| kept.grant)
    }

    /// Removes the object with this number; the caller drops it.
    pub(crate) fn take(&mut self, id: u64) -> impl Sized + use<> {
        (self.locks.remove(&id), self.grants.remove(&id))
    }

    /// True if there is a grant whose loss the holder waits for.
    pub(crate) fn holds(&self) -> bool {
        !self.grants.is_empty()
    }

    /// Checks which grants were lost.
    pub(crate) fn look_for_losses(&mut self) {
        let mut cx = Context::from_waker(Waker::noop()); // the next check polls again anyway
        for kept in self.grants.values_mut() {
            let lost = |it: &mut Later<'static, ()>| it.as_mut().poll(&mut cx).is_ready();
            if kept.loss.as_mut().is_some_and(lost) {
                kept.loss = None;
                kept.told.lose();
            }
        }
    }

    /// Reads the deadlines, on the clock of the process.
    pub(crate) fn look_at_deadlines(&self) {
        for kept in self.grants.values() {
            kept.told.set_deadline(kept.grant.deadline());
        }
    }
}
