//! The mutex of `redouble-lock`, with and without its watchdog.

use crate::subject::{BoxError, Host, Promises, Refusal, Subject};
use redis::{RedisResult, aio::MultiplexedConnection};
use redouble_lock::{
    BoxFuture, Connected, Connector, Environment, Guard, LockError, LockManager, NoRuntime, Release,
};
use std::time::Duration;

/// `redouble_lock::Mutex` under test.
#[derive(Clone, Copy, Debug)]
pub struct Mutex {
    watchdog: bool,
}

impl Mutex {
    /// The mutex that holds for one lease unless it is extended.
    #[must_use]
    pub const fn plain() -> Self {
        Self { watchdog: false }
    }

    /// The mutex whose lease is extended in the background.
    #[must_use]
    pub const fn with_watchdog() -> Self {
        Self { watchdog: true }
    }
}

/// The relative clock rate error that `redouble-lock` allows for unless told otherwise.
const DRIFT_PPM: u32 = 10_000;

/// How often a waiter looks again at least during a lease.
const POLLS_PER_LEASE: u32 = 12;

impl Subject for Mutex {
    type Lock = (redouble_lock::Mutex, Duration);
    type Grant = Guard;

    fn name(&self) -> &'static str {
        if self.watchdog {
            "mutex-watchdog"
        } else {
            "mutex"
        }
    }

    fn promises(&self) -> Promises {
        let promises = Promises::mutex_on_one_node()
            .with_deadline()
            .with_drift_ppm(DRIFT_PPM)
            .waiting(Some(POLLS_PER_LEASE))
            .signalling();
        if self.watchdog {
            promises.renewing()
        } else {
            promises
        }
    }

    async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<Self::Lock, BoxError> {
        let locks = LockManager::builder(Dialler(host.clone()))
            .environment(Simulated(host.clone()))
            .build();
        let lock = locks
            .mutex(key)
            .lease(lease)
            .watchdog(self.watchdog)
            .reply_timeout(host.request_timeout())
            .foreign_poll(lease / POLLS_PER_LEASE)
            .build();
        Ok((lock, lease))
    }

    async fn try_lock(&self, (lock, _): &Self::Lock) -> Result<Option<Guard>, BoxError> {
        granted(lock.try_lock().await)
    }

    async fn lock_timeout(
        &self,
        (lock, _): &Self::Lock,
        wait: Duration,
    ) -> Result<Option<Guard>, BoxError> {
        granted(lock.lock_timeout(wait).await)
    }

    async fn extend(&self, (_, lease): &Self::Lock, guard: &Guard) -> Result<bool, BoxError> {
        match guard.extend(*lease).await {
            Ok(()) => Ok(true),
            Err(LockError::Lost(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    async fn release(&self, _: &Self::Lock, guard: Guard) -> Result<bool, BoxError> {
        let outcome = guard.release().await;
        let known = matches!(outcome, Release::Released | Release::AlreadyLost);
        let released = outcome == Release::Released;
        known
            .then_some(released)
            .ok_or_else(|| format!("{outcome:?}").into())
    }

    fn deadline(&self, guard: &Guard) -> Option<Duration> {
        guard.deadline()
    }

    async fn lost(&self, guard: &Guard) {
        guard.lost().await;
    }
}

fn granted(outcome: Result<Guard, LockError>) -> Result<Option<Guard>, BoxError> {
    match outcome {
        Ok(guard) => Ok(Some(guard)),
        Err(error) if error.is_contended() => Ok(None),
        Err(LockError::Lost(_)) => Err(Refusal::Lost.into()),
        // Never sent, or refused: a definite no.
        Err(LockError::Redis(_)) => Err(Refusal::Other.into()),
        Err(error) => Err(error.into()),
    }
}

/// Connects over the host's link.
struct Dialler(Host);

impl Connector for Dialler {
    type Connection = MultiplexedConnection;

    fn connect(&self) -> BoxFuture<'_, RedisResult<Connected<Self::Connection>>> {
        Box::pin(async {
            // The lock keeps its time limits itself, on the host's clock.
            let (connection, driver, pushes) = self.0.dial_resp3(0).await?;
            Ok(Connected::new(connection).driver(driver).pushes(pushes))
        })
    }
}

/// Gives the lock the host's clock, tasks and randomness.
struct Simulated(Host);

impl Environment for Simulated {
    fn now(&self) -> Duration {
        self.0.now()
    }

    fn sleep_until(&self, deadline: Duration) -> BoxFuture<'static, ()> {
        Box::pin(self.0.sleep_until(deadline))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) -> Result<(), NoRuntime> {
        self.0.spawn_task(task).map(drop).ok_or(NoRuntime)
    }

    fn random(&self) -> [u8; 16] {
        self.0.random()
    }
}
