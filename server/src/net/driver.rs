//! The timer on tokio: calls a server's nodes at their deadlines.

use super::tokio_time::sleep_until;
use crate::node_handle::{ClockKind, NodeHandle};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// The timer of a server: handles deadlines, such as expiry, delayed messages and timeouts of
/// blocked clients. A future that completes when its server ends. A caller that builds a server
/// without starting it must poll this future.
///
/// # Cancel safety
/// Dropping it stops the timer and nothing else: a request that reads an expired key still removes it.
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

    /// Polls the timer on the current runtime.
    pub(crate) fn spawn(self) -> DriverTask {
        DriverTask(tokio::spawn(self).abort_handle())
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(cx)
    }
}

/// A timer that a runtime polls; dropping this ends it.
#[derive(Debug)]
pub(crate) struct DriverTask(tokio::task::AbortHandle);

impl Drop for DriverTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Time until the next try, on the system clock, when the lock of a node is taken.
const LOCKED_RETRY: Duration = Duration::from_millis(1);
/// The same while a long script runs on the node.
const BUSY_RETRY: Duration = Duration::from_millis(10);

async fn run(handle: Arc<NodeHandle>) {
    let mut waiter = handle.timer.register();
    while !handle.shared.is_down() {
        if handle.timer.is_left_to_event_loop(&mut waiter) {
            poll_fn(|cx| handle.timer.poll_rearmed(&waiter, cx)).await;
            continue;
        }
        handle.timer.prepare(&mut waiter);
        let is_busy = handle.shared.is_busy();
        let fired = if is_busy {
            None
        } else {
            handle.time.try_fire()
        };
        if let Some(due) = fired {
            handle.timer.wait_for(due);
        }
        let wait = async {
            match (fired, handle.time.source.kind()) {
                (Some(Some(due)), _) => sleep_until(&handle.time.source, due).await,
                (Some(None), _) => std::future::pending().await,
                (None, ClockKind::System) => {
                    tokio::time::sleep(if is_busy { BUSY_RETRY } else { LOCKED_RETRY }).await;
                }
                // The connection that started the script arms the timer when the script has ended.
                (None, _) if is_busy => std::future::pending().await,
                // A sleep would let a paused clock jump ahead.
                (None, _) => tokio::task::yield_now().await,
            }
        };
        tokio::select! {
            biased;
            () = poll_fn(|cx| handle.timer.poll_rearmed(&waiter, cx)) => {}
            () = wait => {}
        }
    }
}
