//! The player of one actor's operations: it calls the subject, and records calls and outcomes.

use super::{
    held,
    host::Host,
    resource::Message,
    world::{Watch, World},
};
use crate::{
    history::{Access, CANCELLED, Call, What},
    scenario::{Op, chance},
    subject::{AnyGrant, AnyLock, BoxError, Counted, Granted, NotOffered},
    vocabulary::{Actor, OpId, Refusal},
};
use std::{
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::sync::OnceCell;

/// The lock object of a client process, shared by its tasks. The first task that needs it makes it.
pub(super) type SharedLock = Arc<OnceCell<Arc<dyn AnyLock>>>;

pub(super) struct Player {
    pub(super) world: Arc<World>,
    pub(super) host: Host,
    pub(super) actor: Actor,
    pub(super) lock: SharedLock,
    /// The lock object of the actor, if each task has its own.
    pub(super) own: OnceCell<Arc<dyn AnyLock>>,
    /// Grants of the actor, in the order of acquisition.
    pub(super) grants: Vec<Held>,
    /// The latest call with a name of its own.
    pub(super) name: Option<OpId>,
}

pub(super) struct Held {
    id: OpId,
    grant: Arc<dyn AnyGrant>,
    /// Deadline of a grant without one: one lease after the request, on the host's clock.
    lease_end: Duration,
    lost: bool,
}

/// Poll number of an operation that is never cancelled.
const NEVER: u32 = u32::MAX;

/// Part of a lease that an access of the resource needs: 3 means a third. It covers four messages on the
/// slowest network, and the holder's time between read and write.
const BUDGET: u32 = 3;
/// Longest time between a holder's read and write, as a part of the lease.
const THINKS: u32 = 6;

/// Returns the text of an error, followed by the sources that it does not contain.
fn with_sources(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let cause = error.to_string();
        if !text.contains(&cause) {
            text.push_str(&format!(": {cause}"));
        }
        source = error.source();
    }
    text
}

impl Player {
    pub(super) async fn play(mut self, events: Vec<(OpId, u64, Op)>) {
        for (id, at_ms, op) in events {
            self.idle_until(Some(Duration::from_millis(at_ms))).await;
            self.perform(id, op).await;
        }
        if self.grants.is_empty() {
            held(&self.world.busy).remove(&self.actor);
        }
        self.idle_until(None).await;
    }

    /// Waits, and watches for the loss of held grants.
    async fn idle_until(&mut self, at: Option<Duration>) {
        while self.grants.iter().any(|held| !held.lost) {
            let lost = tokio::select! {
                biased;
                lost = first_lost(&self.grants) => lost,
                () = self.elapse(at) => return,
            };
            for held in self.grants.iter_mut().filter(|held| held.id == lost) {
                held.lost = true;
            }
            self.record(What::Lost { grant: lost });
        }
        self.elapse(at).await;
    }

    async fn elapse(&self, at: Option<Duration>) {
        match at {
            Some(at) => self.world.recorder.sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    pub(super) async fn perform(&mut self, id: OpId, op: Op) {
        self.host.begin_event(id);
        self.carry_out(id, op).await;
        self.world.network.ended(id);
    }

    async fn carry_out(&mut self, id: OpId, op: Op) {
        let wait = Duration::from_millis;
        match op {
            Op::Try { mode } => self.acquire(id, Call::Try { mode }, NEVER).await,
            Op::Acquire { mode, wait_ms } => {
                let wait = wait(wait_ms);
                self.acquire(id, Call::Acquire { mode, wait }, NEVER).await;
            }
            Op::Cancelled {
                mode,
                wait_ms,
                polls,
            } => {
                let wait = wait(wait_ms);
                self.acquire(id, Call::Acquire { mode, wait }, polls).await;
            }
            Op::Renew => self.renew(id, NEVER).await,
            Op::CancelledRenew { polls } => self.renew(id, polls).await,
            Op::Release => self.release(id, NEVER).await,
            Op::CancelledRelease { polls } => self.release(id, polls).await,
            Op::Drop => self.drop_guard(id),
            Op::Access => self.access(id).await,
            Op::SetUp if self.world.promises.set_up => self.ask(id, Call::SetUp).await,
            Op::SetUp => {}
            Op::Admit => {
                self.name = Some(id);
                self.ask(id, Call::Admit).await;
            }
            Op::AdmitAgain => {
                if let Some(of) = self.name {
                    self.ask(id, Call::AdmitAgain { of }).await;
                }
            }
            Op::CountDown => self.ask(id, Call::CountDown).await,
            Op::Await { wait_ms } => {
                let wait = wait(wait_ms);
                self.ask(id, Call::Await { wait }).await;
            }
        }
    }

    fn record(&self, what: What) {
        self.world.recorder.record(what);
    }

    fn invoke(&self, op: OpId, call: Call) {
        let actor = self.actor;
        self.record(What::Invoke { op, actor, call });
    }

    fn ok(&self, op: OpId) {
        self.ok_as(op, None);
    }

    fn ok_as(&self, op: OpId, number: Option<u32>) {
        self.record(What::Ok {
            op,
            deadline: None,
            fence: None,
            number,
            token: None,
        });
    }

    /// Records an outcome other than success.
    fn failed(&self, op: OpId, told: Result<Refusal, BoxError>) {
        self.record(match told {
            Ok(why) => What::Fail { op, why },
            Err(error) => match error.downcast::<Refusal>() {
                Ok(why) => What::Fail { op, why: *why },
                Err(error) if error.is::<NotOffered>() => What::Fail {
                    op,
                    why: Refusal::NotOffered,
                },
                Err(error) => What::Info {
                    op,
                    error: with_sources(&*error),
                },
            },
        });
    }

    async fn acquire(&mut self, op: OpId, call: Call, polls: u32) {
        if !self.grants.is_empty() && !self.world.promises.reentrant {
            return;
        }
        let (lock, asks) = match self.begin(op, call).await {
            Ok(begun) => begun,
            Err(refusal) => return self.failed(op, Err(refusal.into())),
        };
        let asked = self.host.now();
        let mut lease_end = asked + self.shortest_lease();
        let attempt = self.attempt(&*lock, op, asks, &mut lease_end);
        match give_up(polls, attempt).await {
            Ok(Some(grant)) => self.take(op, grant, lease_end),
            Ok(None) => self.failed(op, Ok(call.refusal())),
            Err(error) => self.failed(op, Err(error)),
        }
    }

    fn take(&mut self, op: OpId, grant: Arc<dyn AnyGrant>, lease_end: Duration) {
        let read = {
            let (grant, host) = (Arc::clone(&grant), self.host.clone());
            Box::new(move || Some(host.true_time(grant.deadline()?)))
        };
        // A grant without the promised deadline counts as expired at once.
        let promised = self.world.promises.deadline;
        let deadline = read().or_else(|| promised.then(|| self.world.recorder.now()));
        self.record(What::Ok {
            op,
            deadline,
            fence: grant.fencing_token(),
            number: None,
            token: grant.token(),
        });
        let watch = Watch {
            host: self.actor.host,
            grant: op,
            last: deadline,
            read,
        };
        held(&self.world.watches).push(watch);
        self.grants.push(Held {
            id: op,
            grant,
            lease_end,
            lost: false,
        });
    }

    /// Returns the lease that a grant without a deadline can be relied on.
    fn shortest_lease(&self) -> Duration {
        let given = self.world.scenario.lease();
        self.world.promises.shortest_lease(given)
    }

    /// Makes one acquisition; if the subject does not wait by itself, repeats `try`.
    async fn attempt(
        &self,
        lock: &dyn AnyLock,
        op: OpId,
        call: Call,
        lease_end: &mut Duration,
    ) -> Granted {
        let (lease, shortest) = (self.world.scenario.lease(), self.shortest_lease());
        let Call::Acquire { mode, wait } = call else {
            return lock.try_mode(call.mode().unwrap_or_default()).await;
        };
        let until = self.host.now() + wait;
        match lock.lock_mode(mode, wait).await {
            Err(error) if error.is::<NotOffered>() => {}
            outcome => return outcome,
        }
        for nth in 0.. {
            if nth > 0 {
                self.record(What::Attempt { op });
                *lease_end = self.host.now() + shortest;
            }
            // If one attempt has an unknown outcome, the whole operation has.
            if let Some(grant) = lock.try_mode(mode).await? {
                return Ok(Some(grant));
            }
            let who = u64::from(self.actor.host) << 8 | u64::from(self.actor.task);
            let purpose = [self.world.scenario.seed, who, u64::from(op), nth];
            let pause = lease / 24 + lease.mul_f64(chance::below(1_000, purpose) as f64 / 12_000.0);
            if self.host.now() + pause > until {
                return Ok(None);
            }
            self.host.sleep(pause).await;
        }
        Ok(None)
    }

    /// Records the call when the lock object is there, or after a lease: a call that hangs because `open` hangs is a call too. Returns the
    /// object, and the call with what is left of its wait.
    async fn begin(&self, op: OpId, call: Call) -> Result<(Arc<dyn AnyLock>, Call), Refusal> {
        let latest = self.world.recorder.now() + self.world.scenario.lease();
        let mut opening = pin!(self.opened());
        let opened = tokio::select! {
            biased;
            opened = &mut opening => Some(opened),
            () = self.world.recorder.sleep_until(latest) => None,
        };
        self.invoke(op, call);
        let begun = self.host.now();
        let lock = match opened {
            Some(opened) => opened,
            None => opening.await,
        };
        Ok((lock?, call.after(self.host.now().saturating_sub(begun))))
    }

    /// Returns the lock object. If it cannot be opened, the lock is definitely not acquired.
    async fn opened(&self) -> Result<Arc<dyn AnyLock>, Refusal> {
        let (key, lease) = (
            self.world.network.servers.key(),
            self.world.scenario.lease(),
        );
        let open = || self.world.subject.open(&self.host, key, lease);
        let shared = self.lock.get_or_try_init(open).await;
        let shared = shared.map_err(|error| {
            held(&self.world.open_error).get_or_insert_with(|| with_sources(&*error));
            Refusal::Other
        })?;
        let own = || async { shared.of_task().unwrap_or_else(|| Arc::clone(shared)) };
        Ok(Arc::clone(self.own.get_or_init(own).await))
    }

    async fn renew(&self, op: OpId, polls: u32) {
        let Some(Held { id, grant, .. }) = self.grants.last() else {
            return;
        };
        self.invoke(op, Call::Renew { grant: *id });
        match give_up(polls, grant.extend()).await {
            Ok(true) => {
                let deadline = grant.deadline();
                self.record(What::Ok {
                    op,
                    deadline: deadline.map(|deadline| self.host.true_time(deadline)),
                    fence: None,
                    number: None,
                    token: None,
                });
            }
            Ok(false) => self.failed(op, Ok(Refusal::Lost)),
            Err(error) => self.failed(op, Err(error)),
        }
    }

    /// Removes the latest grant from the player and from the watch list.
    fn give_back(
        &mut self,
        op: OpId,
        call: impl FnOnce(OpId) -> Call,
    ) -> Option<Arc<dyn AnyGrant>> {
        let Held { id, grant, .. } = self.grants.pop()?;
        held(&self.world.watches).retain(|watch| watch.grant != id);
        self.invoke(op, call(id));
        Some(grant)
    }

    async fn release(&mut self, op: OpId, polls: u32) {
        let Some(grant) = self.give_back(op, |grant| Call::Release { grant }) else {
            return;
        };
        match give_up(polls, grant.release()).await {
            Ok(true) => self.ok(op),
            Ok(false) => self.failed(op, Ok(Refusal::Lost)),
            Err(error) => self.failed(op, Err(error)),
        }
    }

    fn drop_guard(&mut self, op: OpId) {
        if let Some(grant) = self.give_back(op, |grant| Call::Drop { grant }) {
            drop(grant);
            self.ok(op);
        }
    }

    /// Reads the resource and writes the value plus one, if enough of the lease is left for that on a network
    /// without faults. Faults may strike in between; fencing tokens guard against them.
    async fn access(&self, op: OpId) {
        let lease = self.world.scenario.lease();
        let budget = lease / BUDGET;
        let enough = |held: &Held| {
            let until = held.grant.deadline().unwrap_or(held.lease_end);
            !held.lost && self.host.now() + budget <= until
        };
        let Some(held) = self.grants.last().filter(|held| enough(held)) else {
            return;
        };
        self.invoke(op, Call::Access { grant: held.id });
        let fence = held.grant.fencing_token();
        let purpose = [self.world.scenario.seed, u64::from(op), 0x000a_cce5];
        let thinks = (lease / THINKS).mul_f64(chance::below(1_000, purpose) as f64 / 1_000.0);
        let send = |access, fence, value| {
            let message = Message {
                grant: held.id,
                fence,
                access,
                value,
            };
            self.world.resource.send(self.actor.host, message)
        };
        let reads_with = fence.filter(|_| self.world.subject.fences_reads());
        let outcome = async {
            let read = send(Access::Read, reads_with, 0).await?;
            let Some(value) = read else { return Ok(false) };
            self.host.sleep(thinks).await;
            let written = send(Access::Write, fence, value + 1).await?;
            Ok::<_, tokio::sync::oneshot::error::RecvError>(written.is_some())
        };
        match outcome.await {
            Ok(true) => self.ok(op),
            Ok(false) => self.failed(op, Ok(Refusal::Fenced)),
            Err(error) => self.failed(op, Err(error.into())),
        }
    }

    /// Makes a call without a grant, on a counter or a latch.
    async fn ask(&self, op: OpId, call: Call) {
        let opened = self.begin(op, call).await;
        let asked = async {
            let (lock, call) = opened?;
            if let Call::Await { wait } = call {
                lock.await_zero(wait).await.map(Counted::from)
            } else if call == Call::SetUp {
                lock.set_up().await.map(Counted::from)
            } else if call == Call::CountDown {
                lock.count_one().await
            } else if let Call::AdmitAgain { of } = call {
                lock.admit_as(of).await
            } else {
                lock.admit_as(op).await
            }
        };
        match asked.await {
            Ok(Counted::Yes) => self.ok(op),
            Ok(Counted::As(number)) => self.ok_as(op, Some(number)),
            Ok(Counted::Not) => self.failed(op, Ok(call.refusal())),
            Err(error) => self.failed(op, Err(error)),
        }
    }
}

/// Completes with the first grant whose loss is reported.
fn first_lost(grants: &[Held]) -> impl Future<Output = OpId> + Send {
    let mut waits: Vec<_> = grants
        .iter()
        .filter(|held| !held.lost)
        .map(|held| (held.id, held.grant.lost()))
        .collect();
    std::future::poll_fn(move |cx| {
        let mut lost = waits.iter_mut();
        let lost = lost.find_map(|(id, lost)| lost.as_mut().poll(cx).is_ready().then_some(*id));
        lost.map_or(Poll::Pending, Poll::Ready)
    })
}

/// Waits for a future, and drops it at its k-th poll if it is still pending then.
async fn give_up<T>(
    polls: u32,
    future: impl Future<Output = Result<T, BoxError>>,
) -> Result<T, BoxError> {
    let future = pin!(future);
    let outcome = GiveUp { future, polls }.await;
    outcome.unwrap_or_else(|| Err(CANCELLED.into()))
}

struct GiveUp<F> {
    future: F,
    polls: u32,
}

impl<F: Future + Unpin> Future for GiveUp<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls == 0 {
            return Poll::Ready(None);
        }
        self.polls = self.polls.saturating_sub(u32::from(self.polls != NEVER));
        Pin::new(&mut self.future).poll(cx).map(Some)
    }
}
