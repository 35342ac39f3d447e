//! Proxies for a lock that lives in another process: the proxy sends each call there, addressed by number.

use crate::{
    backend::Later,
    simulation::{
        held,
        off_scheduler_process::{OffSchedulerProcess, Order, Told},
    },
    subject::{AnyGrant, AnyLock, BoxError, Counted, DynSubject, Granted, Host},
    vocabulary::{Mode, OpId, Token},
};
use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

/// Opens the lock in its process. If opening fails, the process quits.
pub(super) async fn open(
    process: Arc<dyn OffSchedulerProcess>,
    subject: Arc<dyn DynSubject>,
    host: Host,
    key: &str,
    lease: Duration,
) -> Result<Arc<dyn AnyLock>, BoxError> {
    let mut opening = Opening(Some(Arc::clone(&process)));
    let (key, things) = (key.to_owned(), Arc::clone(process.things()));
    let opened = Answer::to(&process, async move {
        let lock = subject.open(&host, &key, lease).await?;
        Ok::<_, BoxError>(held(&things).keep_lock(lock))
    });
    let id = opened.await?;
    opening.0 = None;
    let named = Named { process, id };
    Ok(Arc::new(Lock(named)))
}

/// A process whose lock is not open yet.
struct Opening(Option<Arc<dyn OffSchedulerProcess>>);

impl Drop for Opening {
    fn drop(&mut self) {
        if let Some(process) = &self.0 {
            process.quit();
        }
    }
}

/// A lock or grant that its process keeps. The process drops it when this value is dropped.
struct Named {
    process: Arc<dyn OffSchedulerProcess>,
    id: u64,
}

impl Drop for Named {
    fn drop(&mut self) {
        self.process.order(Order::Forget(self.id));
    }
}

struct Lock(Named);

impl Lock {
    /// Calls the lock.
    async fn call<T, F>(
        &self,
        call: impl FnOnce(Arc<dyn AnyLock>) -> F + Send + 'static,
    ) -> Result<T, BoxError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, BoxError>> + Send,
    {
        let (things, id) = (Arc::clone(self.0.process.things()), self.0.id);
        let answer = Answer::to(&self.0.process, async move {
            let lock = held(&things).lock(id);
            call(lock.ok_or(GONE)?).await
        });
        answer.await
    }

    /// Calls the lock. A grant stays in the process that made it.
    async fn take<F>(&self, call: impl FnOnce(Arc<dyn AnyLock>) -> F + Send + 'static) -> Granted
    where
        F: Future<Output = Granted> + Send,
    {
        let process = Arc::clone(&self.0.process);
        let granted = self.call(|lock| async move {
            let Some(grant) = call(lock).await? else {
                return Ok(None);
            };
            let (fence, token) = (grant.fencing_token(), grant.token());
            let (id, told) = held(process.things()).keep_grant(grant);
            let named = Named { process, id };
            Ok(Some(Grant {
                named,
                told,
                fence,
                token,
            }))
        });
        let granted = granted.await?;
        Ok(granted.map(|grant| Arc::new(grant) as Arc<dyn AnyGrant>))
    }
}

/// Error of a call on a lock or grant that was already released.
const GONE: &str = "the lock or grant was already released";

impl AnyLock for Lock {
    fn of_task(&self) -> Option<Arc<dyn AnyLock>> {
        let process = &self.0.process;
        let lock = held(process.things()).lock(self.0.id)?;
        let own = {
            let _inside = process.handle().enter();
            lock.of_task()?
        };
        let id = held(process.things()).keep_lock(own);
        let process = Arc::clone(process);
        Some(Arc::new(Self(Named { process, id })))
    }

    fn try_mode(&self, mode: Mode) -> Later<'_, Granted> {
        Box::pin(self.take(move |lock| async move { lock.try_mode(mode).await }))
    }

    fn lock_mode(&self, mode: Mode, wait: Duration) -> Later<'_, Granted> {
        Box::pin(self.take(move |lock| async move { lock.lock_mode(mode, wait).await }))
    }

    fn set_up(&self) -> Later<'_, Result<bool, BoxError>> {
        Box::pin(self.call(|lock| async move { lock.set_up().await }))
    }

    fn admit_as(&self, name: OpId) -> Later<'_, Result<Counted, BoxError>> {
        Box::pin(self.call(move |lock| async move { lock.admit_as(name).await }))
    }

    fn count_one(&self) -> Later<'_, Result<Counted, BoxError>> {
        Box::pin(self.call(|lock| async move { lock.count_one().await }))
    }

    fn await_zero(&self, wait: Duration) -> Later<'_, Result<bool, BoxError>> {
        Box::pin(self.call(move |lock| async move { lock.await_zero(wait).await }))
    }
}

struct Grant {
    named: Named,
    told: Arc<Told>,
    fence: Option<u64>,
    token: Option<Token>,
}

impl AnyGrant for Grant {
    fn extend(&self) -> Later<'_, Result<bool, BoxError>> {
        let Named { process, id } = &self.named;
        let (things, id) = (Arc::clone(process.things()), *id);
        Box::pin(Answer::to(process, async move {
            let grant = held(&things).grant(id).ok_or(GONE)?;
            let extended = grant.extend().await;
            held(&things).look_at_deadlines();
            extended
        }))
    }

    fn release(self: Arc<Self>) -> Later<'static, Result<bool, BoxError>> {
        let Named { process, id } = &self.named;
        let (things, id) = (Arc::clone(process.things()), *id);
        let answer = Answer::to(process, async move {
            let grant = held(&things).take_grant(id).ok_or(GONE)?;
            grant.release().await
        });
        Box::pin(async move {
            let _kept = self; // until then
            answer.await
        })
    }

    fn deadline(&self) -> Option<Duration> {
        self.told.deadline()
    }

    fn lost(&self) -> Later<'_, ()> {
        Box::pin(self.told.lost())
    }

    fn fencing_token(&self) -> Option<u64> {
        self.fence
    }

    fn token(&self) -> Option<Token> {
        self.token.clone()
    }
}

/// The pending result of a call in a process. The call starts at the first poll. Dropping this value drops
/// the call in its process at the same instant.
struct Answer<T> {
    process: Arc<dyn OffSchedulerProcess>,
    id: u32,
    state: State,
    slot: Arc<Mutex<Slot<T>>>,
}

enum State {
    New(Later<'static, ()>),
    Asked,
    Done,
}

struct Slot<T> {
    value: Option<T>,
    asker: Option<Waker>,
}

/// The future that the process polls for a call.
struct Call<F: Future> {
    call: Pin<Box<F>>,
    slot: Arc<Mutex<Slot<F::Output>>>,
}

impl<F: Future> Future for Call<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let polled = self.call.as_mut().poll(cx);
        let mut slot = held(&self.slot);
        let poll = match polled {
            Poll::Ready(value) => {
                slot.value = Some(value);
                Poll::Ready(())
            }
            Poll::Pending => Poll::Pending,
        };
        // Wake the caller even if the call is pending: the caller counts how often it was pending.
        let asker = slot.asker.take();
        drop(slot);
        if let Some(asker) = asker {
            asker.wake();
        }
        poll
    }
}

impl<T: Send + 'static> Answer<T> {
    fn to(
        process: &Arc<dyn OffSchedulerProcess>,
        call: impl Future<Output = T> + Send + 'static,
    ) -> Self {
        let slot = Slot {
            value: None,
            asker: None,
        };
        let slot = Arc::new(Mutex::new(slot));
        let call = Call {
            call: Box::pin(call),
            slot: Arc::clone(&slot),
        };
        Self {
            process: Arc::clone(process),
            id: held(process.things()).number_call(),
            state: State::New(Box::pin(call)),
            slot,
        }
    }
}

impl<T> Future for Answer<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let answer = &mut *self;
        {
            let mut slot = held(&answer.slot);
            if let Some(value) = slot.value.take() {
                answer.state = State::Done;
                return Poll::Ready(value);
            }
            slot.asker = Some(cx.waker().clone());
        }
        if let State::New(call) = std::mem::replace(&mut answer.state, State::Asked) {
            answer.process.order(Order::Start(answer.id, call));
        }
        Poll::Pending
    }
}

impl<T> Drop for Answer<T> {
    fn drop(&mut self) {
        if matches!(self.state, State::Asked) {
            self.process.order(Order::Abandon(self.id));
        }
    }
}
