//! What happens beside a long script on a socket server: the worker's other tasks move to a fresh
//! thread, leave their connections in the inbox, and the script's hook serves them.

use crate::engine::{BusyHandler, NodeApi};
use crate::node_handle::NodeHandle;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// How long to wait for the fresh thread; it comes in a fraction of a millisecond.
const HAND_OVER: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct LongScript {
    handle: Arc<NodeHandle>,
    since: Mutex<Option<Instant>>,
}

impl LongScript {
    pub(super) fn beside(handle: Arc<NodeHandle>) -> Arc<dyn BusyHandler> {
        Arc::new(Self {
            handle,
            since: Mutex::new(None),
        })
    }
}

impl BusyHandler for LongScript {
    #[expect(
        clippy::disallowed_methods,
        reason = "an endless script ends in every clock mode, by wall-clock time"
    )]
    fn watch(&self) {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn elapsed(&self) -> Duration {
        let since = *self.since.lock().unwrap_or_else(PoisonError::into_inner);
        since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn serve(&self, api: &mut dyn NodeApi) {
        if !self.handle.shared.busy.swap(true, Ordering::AcqRel) {
            // The runtime's only worker is inside this script. Its other tasks go to a new thread;
            // the first of them tells that it has come.
            let (arrived, waiting) = mpsc::channel();
            tokio::spawn(async move { arrived.send(()) });
            if tokio::task::block_in_place(|| waiting.recv_timeout(HAND_OVER)).is_err() {
                tracing::warn!("nobody is served beside a long script yet");
            }
        }
        self.handle.shared.serve_inbox(api, self.handle.now());
    }

    fn stopping(&self) -> bool {
        self.handle.shared.is_down()
    }
}
