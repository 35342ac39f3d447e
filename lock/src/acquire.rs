//! How a call asks for a lock until it has it or gives up. The same for all algorithms.

use crate::{
    algorithm::{Acquisition, Attempt},
    cleanup::Cleanup,
    detached::DetachedLock,
    environment::{Environment, within},
    error::{LockError, LossReason, NodeError},
    guard::Guard,
    lease::Lease,
    options::{Options, Wait},
    renewal::Renewals,
    retry,
    token::Token,
    waiters::Waiter,
};
use std::{sync::Arc, time::Duration};

/// Asks until the lock is granted or the wait is over.
///
/// *Time.* No request begins after the wait, and none ends later than one reply timeout after it.
///
/// *Unknown outcomes.* The first failure in a row that may have been an execution is repeated at
/// once, whatever the wait, within the reply timeout: the repetition tells what became of it, and a
/// connection that had died unnoticed is replaced. Further failures are repeated with pauses.
///
/// *Waiting.* A call that waits is entered in [`waiters`](crate::waiters), and woken when it may have the lock; that module explains why
/// no wake-up is lost. Until messages are sure to arrive, and where they never do, the call asks with growing pauses.
///
/// *Leaving.* Every way out goes through [`Cleanup`]. A call that gives up settles the acquisition in the time that
/// is left; a background task does the rest.
pub(crate) async fn acquire(
    env: &Arc<dyn Environment>,
    renewals: &Arc<Renewals>,
    options: &Options,
    lease: Lease,
    wait: Wait,
    acquisition: impl Fn(Token) -> Arc<dyn Acquisition>,
) -> Result<Guard, LockError> {
    let mut call = Call::new(env, options, lease, wait);
    let cleanup = || Cleanup::new(acquisition(Token::new(env.random())), Arc::clone(env));
    let join = |held: &Cleanup| match wait {
        Wait::Not | Wait::AtMost(Duration::ZERO) => None,
        Wait::AtMost(_) | Wait::Forever => held.acquisition().join(),
    };
    let mut held = cleanup();
    let mut waiter = join(&held);
    loop {
        waiter.iter().for_each(Waiter::asks);
        let setback = match held.acquisition().acquire(lease, call.limit()).await {
            Attempt::Granted { sent } => {
                let deadline = lease.deadline(sent);
                if let Err(error) = call.replicate(held.acquisition()).await {
                    drop(waiter);
                    call.settle(held.acquisition()).await;
                    return Err(error);
                }
                if env.now() < deadline {
                    drop(waiter);
                    let env = Arc::clone(env);
                    let held_until = sent.saturating_add(options.hold_at_least);
                    return Guard::new(held, env, renewals, options, lease, deadline, held_until)
                        .await;
                }
                // The deadline has passed. The next acquisition has a token of its own, or the release of this one
                // might hit it.
                call.settle(held.acquisition()).await;
                held = cleanup();
                waiter = join(&held);
                Setback::Late
            }
            Attempt::Refused { holder_ttl } => {
                if waiter.as_ref().is_some_and(Waiter::start_waiting) {
                    held.acquisition().subscribe();
                }
                Setback::Contended { holder_ttl }
            }
            Attempt::Failed(error) => {
                options.observer.failed(held.acquisition().key(), &error);
                Setback::Failed(error)
            }
        };
        let is_registered = waiter.as_ref().is_some_and(Waiter::is_registered);
        match call.next(&setback, is_registered) {
            Next::AtOnce => {}
            Next::At(instant) => {
                if held.acquisition().is_spent() {
                    held = cleanup();
                    waiter = join(&held);
                }
                let contended = matches!(setback, Setback::Contended { .. });
                match &waiter {
                    Some(waiter) if contended => {
                        within(&**env, instant, waiter.woken()).await;
                    }
                    Some(_) | None => env.sleep_until(instant).await,
                }
            }
            Next::GiveUp => {
                drop(waiter);
                let settled = call.settle(held.acquisition()).await;
                return Err(call.error(setback, settled));
            }
        }
    }
}

/// Goes on with a grant of another process. The deadline counts from before the request, on the clock of this process.
///
/// A failure leaves the grant as it is, so that this can be tried again until its lease is over.
pub(crate) async fn adopt(
    env: &Arc<dyn Environment>,
    renewals: &Arc<Renewals>,
    options: &Options,
    lease: Lease,
    detached: &DetachedLock,
    acquisition: Arc<dyn Acquisition>,
) -> Result<Guard, LockError> {
    let held_until = env.now().saturating_add(detached.hold);
    let until = env.now().saturating_add(options.reply_timeout);
    acquisition.adopt(detached.fence);
    let mut repeats = Repeats::until(until);
    let sent = loop {
        match acquisition.extend(lease, until).await {
            Ok(Some(sent)) => break sent,
            Ok(None) => return Err(LockError::Lost(LossReason::Gone)),
            Err(error) => repeats.after(error, &**env, options).await?,
        }
    };
    let cleanup = Cleanup::new(acquisition, Arc::clone(env));
    let deadline = lease.deadline(sent);
    if env.now() < deadline {
        let env = Arc::clone(env);
        Guard::new(cleanup, env, renewals, options, lease, deadline, held_until).await
    } else {
        Err(LockError::Lost(LossReason::Expired))
    }
}

/// Goes on with the grant of `writer` as `acquisition`, which has the same token and takes its place.
///
/// If that fails, both are given back in the background.
pub(crate) async fn replace(
    env: &Arc<dyn Environment>,
    renewals: &Arc<Renewals>,
    options: &Options,
    lease: Lease,
    writer: Guard,
    acquisition: Arc<dyn Acquisition>,
) -> Result<Guard, LockError> {
    // Its watchdog must not find the lock gone.
    writer.end()?;
    let until = env.now().saturating_add(options.reply_timeout);
    let held_until = env.now().saturating_add(writer.hold());
    let mut repeats = Repeats::until(until);
    let cleanup = Cleanup::new(acquisition, Arc::clone(env));
    let sent = loop {
        match cleanup.acquisition().acquire(lease, until).await {
            Attempt::Granted { sent } => break sent,
            Attempt::Refused { .. } => return Err(LockError::Lost(LossReason::Gone)),
            Attempt::Failed(error) => repeats.after(error, &**env, options).await?,
        }
    };
    writer.hand_over();
    let deadline = lease.deadline(sent);
    if env.now() < deadline {
        let env = Arc::clone(env);
        Guard::new(cleanup, env, renewals, options, lease, deadline, held_until).await
    } else {
        Err(LockError::Lost(LossReason::Expired))
    }
}

/// The repetitions of a request whose outcome is unknown and which may be executed twice: at once for the first time, then after
/// pauses, until the time is over.
struct Repeats {
    failures: u32,
    until: Duration,
    /// The failure of the first request that Redis may have executed.
    unknown: Option<NodeError>,
}

impl Repeats {
    fn until(until: Duration) -> Self {
        Self {
            failures: 0,
            until,
            unknown: None,
        }
    }

    /// Waits until the failed request shall be repeated, or gives the error of the call: its outcome is unknown if that of
    /// one of its requests is, whatever became of the last one.
    async fn after(
        &mut self,
        error: NodeError,
        env: &dyn Environment,
        options: &Options,
    ) -> Result<(), LockError> {
        if error.is_unknown() {
            self.unknown.get_or_insert_with(|| error.clone());
            if self.wait(env, options).await {
                return Ok(());
            }
        }
        Err(match self.unknown.take() {
            Some(first) => LockError::of_node(first, false),
            None => LockError::of_node(error, true),
        })
    }

    /// Waits until the request shall be repeated; false if the time is over.
    async fn wait(&mut self, env: &dyn Environment, options: &Options) -> bool {
        let pause = match self.failures {
            0 => Duration::ZERO,
            failures => options
                .retrying()
                .before(failures, retry::draw(env.random())),
        };
        self.failures += 1;
        let next = env.now().saturating_add(pause);
        if next >= self.until {
            return false;
        }
        env.sleep_until(next).await;
        true
    }
}

/// Why an attempt did not lead to a guard.
enum Setback {
    Contended { holder_ttl: Option<Duration> },
    Late,
    Failed(NodeError),
}

/// What to do after a setback.
enum Next {
    AtOnce,
    At(Duration),
    GiveUp,
}

/// One running call: its time limits, and its failures so far.
struct Call<'a> {
    env: &'a dyn Environment,
    options: &'a Options,
    lease: Lease,
    wait: Wait,
    begun: Duration,
    wait_end: Duration,
    /// How often the call was refused.
    looks: u32,
    /// Failures in a row.
    failures: u32,
    last_answer: Duration,
}

impl<'a> Call<'a> {
    fn new(env: &'a Arc<dyn Environment>, options: &'a Options, lease: Lease, wait: Wait) -> Self {
        let begun = env.now();
        let wait_end = match wait {
            Wait::Not => begun,
            Wait::AtMost(wait) => begun.saturating_add(wait),
            Wait::Forever => Duration::MAX,
        };
        Self {
            env: &**env,
            options,
            lease,
            wait,
            begun,
            wait_end,
            looks: 0,
            failures: 0,
            last_answer: begun,
        }
    }

    /// The end of the call, come what may.
    fn end(&self) -> Duration {
        self.wait_end.saturating_add(self.options.reply_timeout)
    }

    /// The limit of a request that begins now.
    fn limit(&self) -> Duration {
        let limit = self.env.now().saturating_add(self.options.reply_timeout);
        limit.min(self.end())
    }

    fn next(&mut self, setback: &Setback, is_registered: bool) -> Next {
        let now = self.env.now();
        let random = retry::draw(self.env.random());
        let pause = match setback {
            Setback::Contended { holder_ttl } => {
                let pause = if is_registered {
                    retry::until_message(*holder_ttl, self.options.max_poll_interval, random)
                } else {
                    retry::recheck(self.looks, *holder_ttl, self.options.polling(), random)
                };
                self.looks = self.looks.saturating_add(1);
                (self.failures, self.last_answer) = (0, now);
                pause
            }
            Setback::Late => {
                self.last_answer = now;
                self.back_off(random)
            }
            Setback::Failed(error) if !error.is_transient() => return Next::GiveUp,
            Setback::Failed(_) if self.wait == Wait::Forever && self.is_cut_off(now) => {
                return Next::GiveUp;
            }
            Setback::Failed(error) if self.failures == 0 && error.is_unknown() => {
                self.failures = 1;
                return if now < self.end() {
                    Next::AtOnce
                } else {
                    Next::GiveUp
                };
            }
            Setback::Failed(_) => self.back_off(random),
        };
        if now < self.wait_end {
            Next::At(now.saturating_add(pause).min(self.wait_end))
        } else {
            Next::GiveUp
        }
    }

    fn back_off(&mut self, random: u64) -> Duration {
        let pause = self.options.retrying().before(self.failures, random);
        self.failures = self.failures.saturating_add(1);
        pause
    }

    fn is_cut_off(&self, now: Duration) -> bool {
        now.saturating_sub(self.last_answer) >= self.lease.ttl()
    }

    /// Waits for as many replicas as are asked for.
    async fn replicate(&self, acquisition: &Arc<dyn Acquisition>) -> Result<(), LockError> {
        let wanted = self.options.replicas;
        if wanted == 0 {
            return Ok(());
        }
        match acquisition.replicate(wanted, self.limit()).await {
            Ok(confirmed) if confirmed >= u64::from(wanted) => Ok(()),
            Ok(confirmed) => Err(LockError::NotReplicated { wanted, confirmed }),
            Err(error) if error.is_unknown() => Err(LockError::Unknown(error)),
            Err(error) => Err(LockError::Redis(error)),
        }
    }

    /// Settles an acquisition in the time that is left, which may be none.
    async fn settle(&self, acquisition: &Arc<dyn Acquisition>) -> bool {
        let until = self.limit();
        acquisition.is_settled()
            || (self.env.now() < until
                && within(self.env, until, acquisition.settle(until)).await == Some(true))
    }

    fn error(&self, setback: Setback, settled: bool) -> LockError {
        match setback {
            Setback::Contended { .. } if self.wait == Wait::Not => LockError::Contended,
            Setback::Contended { .. } => LockError::TimedOut {
                waited: self.env.now().saturating_sub(self.begun),
            },
            Setback::Late => LockError::Lost(LossReason::Expired),
            Setback::Failed(error) => LockError::of_node(error, settled),
        }
    }
}
