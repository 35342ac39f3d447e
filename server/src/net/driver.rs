//! The timer: calls the node when something is due. Nothing else happens here.

use super::Hub;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

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
    pub(crate) fn new(hub: Arc<Hub>) -> Self {
        Self(Box::pin(run(hub)))
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(cx)
    }
}

async fn run(hub: Arc<Hub>) {
    let mut rearm = hub.rearm.subscribe();
    while !hub.shared.is_down() {
        rearm.mark_unchanged();
        let due = if let Some(mut node) = hub.shared.turn() {
            let now = hub.now();
            if node.poll_timeout(&hub.shared).is_some_and(|due| due <= now) {
                node.handle_timeout(&hub.shared, now);
            }
            node.poll_timeout(&hub.shared)
        } else {
            // A long script has the node; it is asked again in a moment.
            Some(hub.now().plus(std::time::Duration::from_millis(10)))
        };
        hub.armed
            .store(due.map_or(i64::MAX, |due| due.0), Ordering::Release);
        let wait = async {
            match due {
                Some(due) => hub.source.sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = rearm.changed() => {}
            () = wait => {}
        }
    }
}
