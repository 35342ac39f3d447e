//! The timer: calls the node when something is due. Nothing else happens here.

use super::{Clock, NodeHandle};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

/// Fires what is due on a server: expiry, delayed messages, the end of a sleep. A future that
/// ends with its server; whoever builds a server without starting it polls it.
///
/// # Cancel safety
/// Dropping it stops the timer and nothing else: expired keys are then removed when they are met.
#[must_use = "nothing that is due happens unless the driver is polled"]
pub struct Driver(Pin<Box<dyn Future<Output = ()> + Send>>);

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").finish_non_exhaustive()
    }
}

impl Driver {
    pub(crate) fn new(handle: Arc<NodeHandle>) -> Self {
        Self(Box::pin(run(handle)))
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(cx)
    }
}

/// How long to wait on the system clock before a node is asked again that somebody else has.
const TAKEN: Duration = Duration::from_millis(1);
/// The same while a long script has it.
const BUSY: Duration = Duration::from_millis(10);

async fn run(handle: Arc<NodeHandle>) {
    let mut rearm = handle.rearm.subscribe();
    while !handle.shared.is_down() {
        rearm.mark_unchanged();
        // As long as it is not known what comes next, everything is earlier.
        handle.armed.store(i64::MAX, Ordering::Release);
        let is_busy = handle.shared.busy.load(Ordering::Acquire);
        let fired = if is_busy {
            None
        } else {
            handle.time.try_fire()
        };
        if let Some(due) = fired {
            let due = due.map_or(i64::MAX, |due| due.0);
            handle.armed.store(due, Ordering::Release);
        }
        let wait = async {
            match (fired, handle.time.source.mode()) {
                (Some(Some(due)), _) => handle.time.source.sleep_until(due).await,
                (Some(None), _) => std::future::pending().await,
                (None, Clock::System) => {
                    tokio::time::sleep(if is_busy { BUSY } else { TAKEN }).await;
                }
                // Who served the script asks for the timer when it has ended.
                (None, _) if is_busy => std::future::pending().await,
                // To sleep would move a paused clock.
                (None, _) => tokio::task::yield_now().await,
            }
        };
        tokio::select! {
            biased;
            _ = rearm.changed() => {}
            () = wait => {}
        }
    }
}
