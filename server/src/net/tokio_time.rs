//! The clock of a tokio runtime as a source of true time, and how tokio waits for any source.

use crate::engine::UnixMicros;
use crate::error::StartError;
use crate::node_handle::{Clock, ClockKind, Source, TimeSource};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::Instant;

/// The wall clock is read again at least this often: an operator may set it.
const WALL_CLOCK_WAIT_MAX: Duration = Duration::from_secs(60);

/// `tokio::time` of one runtime.
#[derive(Debug)]
struct TokioTime {
    runtime: Handle,
    origin: Instant,
}

impl TimeSource for TokioTime {
    fn now(&self) -> Duration {
        let _context = self.runtime.enter();
        Instant::now().saturating_duration_since(self.origin)
    }

    fn sleep_until(&self, at: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep_until(self.origin + at))
    }
}

/// The source of a clock that begins at `epoch`.
///
/// # Errors
/// [`StartError::NoRuntime`] for [`Clock::Tokio`] outside of a runtime.
pub(crate) fn source(clock: Clock, epoch: UnixMicros) -> Result<Source, StartError> {
    Ok(match clock {
        Clock::System => Source::System,
        Clock::Manual => Source::manual(epoch),
        Clock::Tokio => {
            let time = TokioTime {
                runtime: Handle::try_current().map_err(|_no_runtime| StartError::NoRuntime)?,
                origin: Instant::now(),
            };
            Source::following(ClockKind::Tokio, Arc::new(time), epoch)
        }
        Clock::External(source) => Source::following(ClockKind::External, source, epoch),
    })
}

/// Waits until `source` shows `until`. Never completes on a manual clock: the call that moves the
/// clock handles what becomes due.
pub(super) async fn sleep_until(source: &Source, until: UnixMicros) {
    let since = |from: UnixMicros| {
        Duration::from_micros(u64::try_from(until.0.saturating_sub(from.0)).unwrap_or(0))
    };
    match source {
        Source::System => {
            tokio::time::sleep(since(source.now()).min(WALL_CLOCK_WAIT_MAX)).await;
        }
        Source::Manual(_) => std::future::pending().await,
        Source::Followed {
            source,
            origin,
            epoch,
            ..
        } => source.sleep_until(*origin + since(*epoch)).await,
    }
}
