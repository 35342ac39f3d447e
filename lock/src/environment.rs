//! Time, waiting, tasks and randomness: everything that this crate takes from the outside besides
//! Redis itself. Nothing else in the crate reads a clock, sets a timer, starts a task or asks the
//! operating system for random bytes, so an [`Environment`] can slow down, pause,
//! skew and replay a lock.

use std::{
    fmt,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    pin::{Pin, pin},
    sync::OnceLock,
    time::Duration,
};

/// A boxed future that can move between threads; the same type as `futures::future::BoxFuture`.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What the locks take from outside: a clock, timers, background tasks and random bytes.
///
/// [`Tokio`] is the one to use in production; a simulation brings its own.
///
/// The guarantees of the locks rest on what is promised here:
/// * the clock never goes backwards and runs on while the process is paused (`CLOCK_MONOTONIC`
///   stands still while a virtual machine is suspended; a lease may then be over unnoticed);
/// * its rate differs from the one of the Redis server by less than the `drift` option allows;
/// * random bytes never repeat, not even after a fork.
pub trait Environment: Send + Sync + 'static {
    /// Reads the monotonic clock: the time since an arbitrary but fixed origin.
    fn now(&self) -> Duration;

    /// Completes as soon as [`now`](Self::now) has reached `deadline`, at once if it has already.
    fn sleep_until(&self, deadline: Duration) -> BoxFuture<'static, ()>;

    /// Runs `task` in the background. Tasks end by themselves, they are never aborted.
    ///
    /// # Errors
    ///
    /// [`NoRuntime`] if there is nothing to run it on; the task is dropped.
    fn spawn(&self, task: BoxFuture<'static, ()>) -> Result<(), NoRuntime>;

    /// Returns what starts tasks on the runtime of this moment, for later use on threads that belong to none: the release
    /// of a guard that is dropped there. Default: nothing, if [`spawn`](Self::spawn) does not depend on the thread.
    fn spawner(&self) -> Option<Spawner> {
        None
    }

    /// Tells apart the runtimes on which [`spawn`](Self::spawn) starts tasks at this moment, where there are several: a
    /// client has one task for all its watchdogs on each. Default: there is only one.
    fn runtime(&self) -> u64 {
        0
    }

    /// Draws 128 unpredictable bits.
    fn random(&self) -> [u8; 16];
}

/// Starts tasks on one runtime, from any thread. If that runtime is over, the task is dropped.
pub type Spawner = Box<dyn Fn(BoxFuture<'static, ()>) + Send + Sync>;

/// Reports that no runtime was there to start a background task on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRuntime;

impl fmt::Display for NoRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no runtime to start a background task on")
    }
}

impl std::error::Error for NoRuntime {}

/// The environment of a tokio program, and the default.
///
/// Time is `tokio::time`, so a test with a paused clock moves the locks along with everything else.
/// Tasks go to the runtime of the thread that starts them; where that thread belongs to none,
/// [`spawn`](Environment::spawn) fails and does not panic. Timers need a runtime with
/// `enable_time`.
///
/// # Panics
///
/// [`random`](Environment::random) panics if the operating system has no random bytes to give: a
/// lock with guessable tokens would not be one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokio;

/// Where [`Tokio`]'s clock stands at the first look at it. Far from zero because the paused clock
/// of another runtime in the same process may be behind that look, by as much as it was advanced.
const ORIGIN: Duration = Duration::from_secs(1 << 32);

#[expect(
    clippy::disallowed_methods,
    reason = "the one place that reaches outside"
)]
impl Environment for Tokio {
    fn now(&self) -> Duration {
        let (now, first) = (tokio::time::Instant::now(), first_look());
        match now.checked_duration_since(first) {
            Some(later) => ORIGIN.saturating_add(later),
            None => ORIGIN.saturating_sub(first.duration_since(now)),
        }
    }

    fn sleep_until(&self, deadline: Duration) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            // Read at the first poll: only there is the runtime of the caller sure to be around.
            let wait = deadline.saturating_sub(Self.now());
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
        })
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) -> Result<(), NoRuntime> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| NoRuntime)?;
        drop(runtime.spawn(task));
        Ok(())
    }

    fn spawner(&self) -> Option<Spawner> {
        let runtime = tokio::runtime::Handle::try_current().ok()?;
        Some(Box::new(move |task| drop(runtime.spawn(task))))
    }

    fn runtime(&self) -> u64 {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return 0;
        };
        let mut hasher = DefaultHasher::new();
        runtime.id().hash(&mut hasher);
        hasher.finish()
    }

    fn random(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        if let Err(error) = getrandom::fill(&mut bytes) {
            panic!("the operating system gives no random bytes: {error}");
        }
        bytes
    }
}

#[expect(clippy::disallowed_methods, reason = "part of the clock above")]
fn first_look() -> tokio::time::Instant {
    static FIRST: OnceLock<tokio::time::Instant> = OnceLock::new();
    *FIRST.get_or_init(tokio::time::Instant::now)
}

/// Waits for `future`, but not past `until`. A result that is there in time for the last look
/// counts, also when that look itself was late (a paused process): whether it still matters is for
/// the caller to judge by the clock.
pub(crate) async fn within<T>(
    env: &dyn Environment,
    until: Duration,
    future: impl Future<Output = T>,
) -> Option<T> {
    let mut future = pin!(future);
    let mut timer = env.sleep_until(until);
    tokio::select! {
        biased;
        value = &mut future => Some(value),
        () = &mut timer => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_clock_follows_the_runtime() {
        let begun = Tokio.now();
        Tokio.sleep_until(begun + Duration::from_secs(30)).await;
        assert_eq!(Tokio.now() - begun, Duration::from_secs(30));
    }

    #[test]
    fn a_clock_that_is_behind_the_first_look_runs_all_the_same() {
        let runtime = || {
            tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build()
                .unwrap()
        };
        let (old, new) = (runtime(), runtime());
        let _ = new.block_on(async { Tokio.now() });
        old.block_on(async {
            let begun = Tokio.now();
            tokio::time::advance(Duration::from_millis(1)).await;
            assert_eq!(Tokio.now() - begun, Duration::from_millis(1));
        });
    }

    #[test]
    fn runtimes_are_told_apart() {
        let runtime = || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            builder.build().unwrap()
        };
        let (one, other) = (runtime(), runtime());
        let seen = || Tokio.runtime();
        assert_eq!(
            one.block_on(async { seen() }),
            one.block_on(async { seen() })
        );
        assert_ne!(
            one.block_on(async { seen() }),
            other.block_on(async { seen() })
        );
        assert_ne!(one.block_on(async { seen() }), seen());
    }

    #[test]
    fn without_a_runtime_there_is_an_error_and_no_panic() {
        assert_eq!(Tokio.spawn(Box::pin(async {})), Err(NoRuntime));
    }
}
