//! The clocks that true time can follow: that of the operating system, a manual one, or an external
//! one (tokio, a simulation).

use crate::engine::{UnixMicros, UnixMillis};
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The clock that a server follows: [`ServerBuilder::clock`](crate::ServerBuilder::clock).
///
/// | clock | moves | shows at the start | use it for |
/// |---|---|---|---|
/// | `System` | by itself | the present | tests that only need expiry to work |
/// | `Manual` | when told: [`ClockControl`](crate::ClockControl) | [`Clock::START`] | exact tests of times to live, over any transport |
/// | `Tokio` | with `tokio::time` | [`Clock::START`] | `start_paused` tests: long times to live in no time, in process |
/// | `External` | with its [`TimeSource`] | [`Clock::START`] | simulations with a scheduler and timers of their own |
///
/// [`ServerBuilder::starting_at`](crate::ServerBuilder::starting_at) sets another start.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Clock {
    /// The wall clock of the operating system.
    #[default]
    System,
    /// A clock that moves only when the test says so.
    Manual,
    /// The clock of the tokio runtime on which the server was started.
    Tokio,
    /// The clock of a simulation. A simulation with timers of its own also polls the server's timer:
    /// [`ServerBuilder::build`](crate::ServerBuilder::build).
    External(Arc<dyn TimeSource>),
}

impl Clock {
    /// The time that manual, tokio and external clocks show at the start: 2024-01-01 00:00:00 UTC.
    /// `redouble serve --clock manual` starts there too.
    ///
    /// ```
    /// use redouble::{Clock, Server};
    ///
    /// let server = Server::builder().clock(Clock::Manual).start_blocking()?;
    /// assert_eq!(server.now().millis(), Clock::START);
    /// assert_eq!(Clock::START.0, 1_704_067_200_000);
    /// # Ok::<(), redouble::StartError>(())
    /// ```
    pub const START: UnixMillis = UnixMillis(1_704_067_200_000);
}

/// The kind of a server's [`Clock`], as [`Diagnosis`](crate::Diagnosis) shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClockKind {
    /// [`Clock::System`].
    System,
    /// [`Clock::Manual`].
    Manual,
    /// [`Clock::Tokio`].
    Tokio,
    /// [`Clock::External`].
    External,
}

impl std::fmt::Display for ClockKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::System => "system",
            Self::Manual => "manual",
            Self::Tokio => "tokio",
            Self::External => "external",
        })
    }
}

/// The clock of a simulation, as a server needs it: [`Clock::External`].
///
/// ```
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// use redis::AsyncTypedCommands;
/// use redouble::{Clock, Server, TimeSource};
/// use std::future::{Future, pending};
/// use std::pin::Pin;
/// use std::sync::{Arc, OnceLock};
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
/// use std::time::Duration;
///
/// /// Counts seconds and wakes no timer: the server removes an expired key when a request meets it.
/// #[derive(Debug, Default)]
/// struct Seconds(AtomicU64);
///
/// impl TimeSource for Seconds {
///     fn now(&self) -> Duration {
///         Duration::from_secs(self.0.load(Relaxed))
///     }
///
///     fn sleep_until(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
///         Box::pin(pending())
///     }
/// }
///
/// let seconds = Arc::new(Seconds::default());
/// let server = Server::builder().clock(Clock::External(seconds.clone())).start().await?;
/// let mut connection = server.connection().await?;
/// connection.set_ex("lease", "mine", 30).await?;
/// seconds.0.store(29, Relaxed);
/// assert!(connection.exists("lease").await?);
/// seconds.0.store(31, Relaxed);
/// assert!(!connection.exists("lease").await?);
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait TimeSource: Debug + Send + Sync {
    /// Time since the source's start. It never goes back.
    fn now(&self) -> Duration;

    /// Completes when [`now`](Self::now) returns `at` or more. Dropping it stops the wait.
    fn sleep_until(&self, at: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// The clock that true time follows.
#[derive(Debug)]
pub(crate) enum Source {
    System,
    Manual(AtomicI64),
    /// A clock that is not ours: tokio's, or that of a simulation.
    Followed {
        kind: ClockKind,
        source: Arc<dyn TimeSource>,
        /// Time of `source` when the server was created.
        origin: Duration,
        /// True time when the server was created.
        epoch: UnixMicros,
    },
}

impl Source {
    pub(crate) fn manual(epoch: UnixMicros) -> Self {
        Self::Manual(AtomicI64::new(epoch.0))
    }

    /// Follows `source` from `epoch` on. `kind` is reported for this clock.
    pub(crate) fn following(
        kind: ClockKind,
        source: Arc<dyn TimeSource>,
        epoch: UnixMicros,
    ) -> Self {
        let origin = source.now();
        Self::Followed {
            kind,
            source,
            origin,
            epoch,
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where the wall clock is read"
    )]
    pub(crate) fn now(&self) -> UnixMicros {
        match self {
            Self::System => {
                let since = SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .unwrap_or_default();
                UnixMicros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
            }
            Self::Manual(now) => UnixMicros(now.load(Ordering::Acquire)),
            Self::Followed {
                source,
                origin,
                epoch,
                ..
            } => epoch.plus(source.now().saturating_sub(*origin)),
        }
    }

    /// Reads microseconds, for measurements within one request; `None` if no time passes within a request.
    pub(crate) fn stopwatch(&self) -> Option<fn() -> u64> {
        matches!(self, Self::System).then_some(elapsed_micros)
    }

    pub(crate) fn kind(&self) -> ClockKind {
        match self {
            Self::System => ClockKind::System,
            Self::Manual(_) => ClockKind::Manual,
            Self::Followed { kind, .. } => *kind,
        }
    }

    /// Sets a manual clock. Returns false for every other clock.
    pub(crate) fn set(&self, now: UnixMicros) -> bool {
        match self {
            Self::Manual(current) => {
                current.store(now.0, Ordering::Release);
                true
            }
            Self::System | Self::Followed { .. } => false,
        }
    }
}

/// Microseconds since the first call, on a clock that never goes back.
#[expect(
    clippy::disallowed_methods,
    reason = "a wall clock may go back within a measurement"
)]
fn elapsed_micros() -> u64 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    let elapsed = ORIGIN.get_or_init(Instant::now).elapsed();
    u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX)
}
