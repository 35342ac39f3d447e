//! A bound in real time for a future of a test; past it the test fails with a diagnosis.

use super::Diagnosis;
use crate::node_handle::NodeHandle;
use crate::server::Server;
use std::fmt;
use std::panic::{Location, resume_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

impl Server {
    /// Awaits a future for at most `budget` of *real* time, whatever clock the server follows: for
    /// tests that would wait for ever if they are wrong. A test that passes is not timed by it.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// use redis::AsyncTypedCommands;
    /// use redouble::{Clock, Server};
    /// use std::time::Duration;
    ///
    /// let server = Server::builder().clock(Clock::Manual).start().await?;
    /// let mut redis = server.connection().await?;
    /// redis.rpush("jobs", "first").await?;
    /// let job = server.within(Duration::from_secs(5), redis.blpop("jobs", 0.0)).await?;
    /// assert_eq!(job, Some(["jobs".to_owned(), "first".to_owned()]));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A mistake is a diagnosis:
    /// ```should_panic
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # use redis::AsyncTypedCommands;
    /// # use redouble::{Clock, Server};
    /// # use std::time::Duration;
    /// # let server = Server::builder().clock(Clock::Manual).start().await.unwrap();
    /// # let mut redis = server.connection().await.unwrap();
    /// # let patience = Duration::from_millis(50);
    /// server.within(patience, redis.blpop("jbos", 0.0)).await;
    /// // not done after 50ms of real time, at tests/jobs.rs:12:8
    /// // the manual clock shows 1704067200000 ms
    /// // no deadline is ahead
    /// // client 1 (in-process:0) waits on "jbos" in database 0 since 1704067200000 ms, for ever: BLPOP jbos 0
    /// # });
    /// ```
    ///
    /// # Panics
    /// When the future is not done in time, with the [`Diagnosis`] of this server and of those that
    /// share its clock.
    ///
    /// # Cancel safety
    /// As that of the future.
    #[track_caller]
    pub fn within<F: Future>(&self, budget: Duration, future: F) -> Within<F> {
        Within {
            future: Box::pin(future),
            alarm: None,
            budget,
            handle: self.handle.clone(),
            caller: Location::caller(),
        }
    }

    /// Runs work on a thread of its own for at most `budget` of real time: the twin of
    /// [`Server::within`] for tests without a runtime. What fails is left behind; with the server it
    /// loses its connections.
    ///
    /// ```
    /// use redis::TypedCommands;
    /// use redouble::{Clock, Server};
    /// use std::time::Duration;
    ///
    /// let server = Server::builder().clock(Clock::Manual).start_blocking()?;
    /// let mut redis = redis::Client::open(server.url())?.get_connection()?;
    /// redis.rpush("jobs", "first")?;
    /// let job = server.within_blocking(Duration::from_secs(5), move || redis.blpop("jobs", 0.0))?;
    /// assert_eq!(job, Some(["jobs".to_owned(), "first".to_owned()]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// When the work is not done in time, with a [`Diagnosis`]; and when it panics.
    #[track_caller]
    pub fn within_blocking<T: Send + 'static>(
        &self,
        budget: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let (done, outcome) = mpsc::channel();
        let worker = thread::spawn(move || drop(done.send(work())));
        match outcome.recv_timeout(budget) {
            Ok(outcome) => outcome,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                panic!("{}", late(&self.handle, budget, Location::caller()))
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => match worker.join() {
                Err(panic) => resume_unwind(panic),
                Ok(()) => unreachable!("work that ends without a panic has an outcome"),
            },
        }
    }
}

/// A future with a bound in real time: [`Server::within`].
#[must_use = "nothing happens unless it is awaited"]
pub struct Within<F> {
    future: Pin<Box<F>>,
    /// Set once the future has to be waited for.
    alarm: Option<Alarm>,
    budget: Duration,
    handle: Arc<NodeHandle>,
    caller: &'static Location<'static>,
}

impl<F> fmt::Debug for Within<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Within")
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

impl<F: Future> Future for Within<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        if let Poll::Ready(outcome) = self.future.as_mut().poll(cx) {
            return Poll::Ready(outcome);
        }
        let budget = self.budget;
        let alarm = self.alarm.get_or_insert_with(|| Alarm::after(budget));
        assert!(
            !alarm.has_rung(cx.waker()),
            "{}",
            late(&self.handle, budget, self.caller)
        );
        Poll::Pending
    }
}

/// Rings after some real time; dropping it stops it.
struct Alarm {
    ringing: Arc<Mutex<Ringing>>,
    _stop: mpsc::Sender<()>,
}

#[derive(Default)]
struct Ringing {
    has_rung: bool,
    waker: Option<Waker>,
}

fn lock(ringing: &Mutex<Ringing>) -> MutexGuard<'_, Ringing> {
    ringing.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Alarm {
    /// A thread of its own waits: tokio's clock may be paused.
    fn after(budget: Duration) -> Self {
        let ringing = Arc::new(Mutex::new(Ringing::default()));
        let (_stop, stopped) = mpsc::channel();
        let bell = ringing.clone();
        thread::spawn(move || {
            if stopped.recv_timeout(budget) == Err(mpsc::RecvTimeoutError::Timeout) {
                let mut bell = lock(&bell);
                bell.has_rung = true;
                if let Some(waker) = bell.waker.take() {
                    waker.wake();
                }
            }
        });
        Self { ringing, _stop }
    }

    /// Returns true if it has rung; `waker` is woken when it does.
    fn has_rung(&self, waker: &Waker) -> bool {
        let mut ringing = lock(&self.ringing);
        ringing.waker = Some(waker.clone());
        ringing.has_rung
    }
}

/// The message of a test that is late.
fn late(handle: &NodeHandle, budget: Duration, caller: &Location<'_>) -> String {
    let mut text = format!("not done after {budget:?} of real time, at {caller}\n");
    text += &Diagnosis::of(&handle.shared, &handle.time).to_string();
    for other in handle.time.members() {
        if !std::ptr::eq(other.shared(), &raw const handle.shared) {
            text += "a server that shares the clock: ";
            text += &Diagnosis::of(other.shared(), &handle.time).to_string();
        }
    }
    text
}
