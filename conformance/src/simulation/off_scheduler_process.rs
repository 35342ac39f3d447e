//! Locks that live elsewhere than the scenario: on a runtime of their process's own, or on its threads. Neither
//! lock objects nor grants ever leave it, not even to be dropped; the scenario knows them by numbers and
//! has everything done there.

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

/// What is done elsewhere.
pub(crate) enum Order {
    /// To make a call.
    Start(u32, Later<'static, ()>),
    /// To drop a call, finished or not.
    Abandon(u32),
    /// To drop a lock object or a grant.
    Forget(u64),
}

/// A client process that takes orders.
pub(crate) trait OffSchedulerProcess: Send + Sync {
    /// What it keeps.
    fn things(&self) -> &Arc<Mutex<Things>>;

    /// Its runtime, for what is made there and does not wait.
    fn handle(&self) -> &Handle;

    /// Has something done at this instant. The dead do nothing.
    fn order(&self, order: Order);

    /// Ends it before its time: nobody waits for what it was started for.
    fn quit(&self);
}

/// What is kept in a process.
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
    /// Waits for its loss.
    loss: Option<Later<'static, ()>>,
}

/// What is known of a grant outside of its process.
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

    /// Completes when the holder was told of the loss.
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
    /// Numbers a call.
    pub(crate) fn number_call(&mut self) -> u32 {
        self.calls += 1;
        self.calls
    }

    /// Keeps a lock object; the answer is its number.
    pub(crate) fn keep_lock(&mut self, lock: Arc<dyn AnyLock>) -> u64 {
        let id = self.number();
        self.locks.insert(id, lock);
        id
    }

    /// Keeps a grant; the answer is its number.
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

    /// Takes a grant out for good: nobody looks at it any more.
    pub(crate) fn take_grant(&mut self, id: u64) -> Option<Arc<dyn AnyGrant>> {
        self.grants.remove(&id).map(|kept| kept.grant)
    }

    /// Takes out whatever has this number, to be dropped by the caller.
    pub(crate) fn take(&mut self, id: u64) -> impl Sized + use<> {
        (self.locks.remove(&id), self.grants.remove(&id))
    }

    /// Whether there is a grant, whose end its holder waits for.
    pub(crate) fn holds(&self) -> bool {
        !self.grants.is_empty()
    }

    /// Looks which grants were lost.
    pub(crate) fn look_for_losses(&mut self) {
        let mut cx = Context::from_waker(Waker::noop()); // looked at again anyway
        for kept in self.grants.values_mut() {
            let lost = |it: &mut Later<'static, ()>| it.as_mut().poll(&mut cx).is_ready();
            if kept.loss.as_mut().is_some_and(lost) {
                kept.loss = None;
                kept.told.lose();
            }
        }
    }

    /// Looks at the deadlines, on the clock of the process.
    pub(crate) fn look_at_deadlines(&self) {
        for kept in self.grants.values() {
            held(&kept.told.0).deadline = kept.grant.deadline();
        }
    }
}
