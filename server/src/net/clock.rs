//! Where true time comes from: the operating system, the test, tokio, or a simulation.

use crate::engine::UnixMicros;
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Which clock a server runs on.
///
/// | mode | moves | use it for |
/// |---|---|---|
/// | `System` | by itself | anything that only needs expiry to work |
/// | `Manual` | when told: [`ClockControl`](crate::ClockControl) | exact tests of TTLs, over any transport |
/// | `Tokio` | with `tokio::time` | `start_paused` tests: long TTLs in no time, in process |
/// | `External` | with a [`TimeSource`] | simulations with a scheduler and timers of their own |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// The wall clock.
    #[default]
    System,
    /// Moves only when the test says so.
    Manual,
    /// Follows `tokio::time` of the runtime on which the server was started.
    Tokio,
    /// Follows what [`ServerBuilder::time_source`](crate::ServerBuilder::time_source) was given.
    External,
}

/// The time of a simulation. All that a server needs of it, so that whatever moves it also fires what is due.
///
/// ```
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// use redis::AsyncTypedCommands;
/// use redouble::{Server, TimeSource};
/// use std::future::{Future, pending};
/// use std::pin::Pin;
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
/// use std::time::Duration;
///
/// /// Counts seconds, and wakes nobody: what has expired is then removed when a request meets it.
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
/// let server = Server::builder().time_source(seconds.clone()).start().await?;
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
    /// The time since its start. It never falls.
    fn now(&self) -> Duration;

    /// Completes when [`now`](Self::now) shows `at` or more. To drop it ends the waiting.
    fn sleep_until(&self, at: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// What manual and tokio clocks show at the start, unless the builder says otherwise:
/// 2024-01-01 00:00:00 UTC.
pub(crate) const EPOCH: UnixMicros = UnixMicros(1_704_067_200_000_000);

#[derive(Debug)]
pub(crate) enum Source {
    System,
    Manual(AtomicI64),
    Tokio {
        runtime: tokio::runtime::Handle,
        origin: tokio::time::Instant,
        epoch: UnixMicros,
    },
    External {
        source: Arc<dyn TimeSource>,
        /// What it showed at the start.
        origin: Duration,
        epoch: UnixMicros,
    },
}

impl Source {
    pub(crate) fn external(source: Arc<dyn TimeSource>, epoch: UnixMicros) -> Self {
        let origin = source.now();
        Self::External {
            source,
            origin,
            epoch,
        }
    }

    /// # Errors
    /// For [`Clock::Tokio`] outside of a runtime, and for [`Clock::External`], which is made otherwise.
    pub(crate) fn new(clock: Clock, epoch: UnixMicros) -> std::io::Result<Self> {
        Ok(match clock {
            Clock::System => Self::System,
            Clock::Manual => Self::Manual(AtomicI64::new(epoch.0)),
            Clock::Tokio => {
                let runtime =
                    tokio::runtime::Handle::try_current().map_err(std::io::Error::other)?;
                Self::Tokio {
                    runtime,
                    origin: tokio::time::Instant::now(),
                    epoch,
                }
            }
            Clock::External => {
                return Err(std::io::Error::new(
                    std::io::ErrorKind::InvalidInput,
                    "an external clock needs Server::builder().time_source(..)",
                ));
            }
        })
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
            Self::Tokio {
                runtime,
                origin,
                epoch,
            } => {
                let _context = runtime.enter();
                epoch.plus(tokio::time::Instant::now().saturating_duration_since(*origin))
            }
            Self::External {
                source,
                origin,
                epoch,
            } => epoch.plus(source.now().saturating_sub(*origin)),
        }
    }

    pub(crate) fn mode(&self) -> Clock {
        match self {
            Self::System => Clock::System,
            Self::Manual(_) => Clock::Manual,
            Self::Tokio { .. } => Clock::Tokio,
            Self::External { .. } => Clock::External,
        }
    }

    /// Sets a manual clock; false for the others.
    pub(crate) fn set(&self, now: UnixMicros) -> bool {
        match self {
            Self::Manual(current) => {
                current.store(now.0, Ordering::Release);
                true
            }
            Self::System | Self::Tokio { .. } | Self::External { .. } => false,
        }
    }

    /// Waits until the source shows `until`; for ever on a manual clock, whose owner does what is due.
    pub(crate) async fn sleep_until(&self, until: UnixMicros) {
        let since = |from: UnixMicros| {
            Duration::from_micros(u64::try_from(until.0.saturating_sub(from.0)).unwrap_or(0))
        };
        match self {
            // Re-read at least once a minute: the wall clock may be set.
            Self::System => {
                tokio::time::sleep(since(self.now()).min(Duration::from_secs(60))).await;
            }
            Self::Manual(_) => std::future::pending().await,
            Self::Tokio { origin, epoch, .. } => {
                tokio::time::sleep_until(*origin + since(*epoch)).await;
            }
            Self::External {
                source,
                origin,
                epoch,
            } => source.sleep_until(*origin + since(*epoch)).await,
        }
    }
}
