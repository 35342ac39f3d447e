//! The clocks that true time can follow: that of the operating system, a manual one, or the clock of
//! another party (tokio, a simulation).

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

/// The clock that true time follows.
#[derive(Debug)]
pub(crate) enum Source {
    System,
    Manual(AtomicI64),
    /// A clock that is not ours: tokio's, or that of a simulation.
    Followed {
        mode: Clock,
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

    /// Follows `source` from `epoch` on. `mode` is the name that is reported for this clock.
    pub(crate) fn following(mode: Clock, source: Arc<dyn TimeSource>, epoch: UnixMicros) -> Self {
        let origin = source.now();
        Self::Followed {
            mode,
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

    pub(crate) fn mode(&self) -> Clock {
        match self {
            Self::System => Clock::System,
            Self::Manual(_) => Clock::Manual,
            Self::Followed { mode, .. } => *mode,
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
