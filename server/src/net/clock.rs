//! Where true time comes from: the operating system, the test, or tokio.

use crate::engine::UnixMicros;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Which clock a server runs on.
///
/// | mode | moves | use it for |
/// |---|---|---|
/// | `System` | by itself | anything that only needs expiry to work |
/// | `Manual` | when told: [`ClockControl`](crate::ClockControl) | exact tests of TTLs, over any transport |
/// | `Tokio` | with `tokio::time` | `start_paused` tests: long TTLs in no time, in process |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// The wall clock.
    #[default]
    System,
    /// Moves only when the test says so.
    Manual,
    /// Follows `tokio::time` of the runtime on which the server was started.
    Tokio,
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
}

impl Source {
    /// # Errors
    /// For [`Clock::Tokio`] outside of a runtime.
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
        }
    }

    pub(crate) fn mode(&self) -> Clock {
        match self {
            Self::System => Clock::System,
            Self::Manual(_) => Clock::Manual,
            Self::Tokio { .. } => Clock::Tokio,
        }
    }

    /// Sets a manual clock; false for the others.
    pub(crate) fn set(&self, now: UnixMicros) -> bool {
        match self {
            Self::Manual(current) => {
                current.store(now.0, Ordering::Release);
                true
            }
            Self::System | Self::Tokio { .. } => false,
        }
    }

    /// Waits until the source shows `until`; for ever on a manual clock, whose owner does what is due.
    pub(crate) async fn sleep_until(&self, until: UnixMicros) {
        let wait = |now: UnixMicros| {
            Duration::from_micros(u64::try_from(until.0.saturating_sub(now.0)).unwrap_or(0))
        };
        match self {
            // Re-read at least once a minute: the wall clock may be set.
            Self::System => tokio::time::sleep(wait(self.now()).min(Duration::from_secs(60))).await,
            Self::Manual(_) => std::future::pending().await,
            Self::Tokio { origin, epoch, .. } => {
                let since = Duration::from_micros(
                    u64::try_from(until.0.saturating_sub(epoch.0)).unwrap_or(0),
                );
                tokio::time::sleep_until(*origin + since).await;
            }
        }
    }
}
