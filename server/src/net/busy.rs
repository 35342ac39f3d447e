//! The handler that the hook of a long script calls on a server with sockets. It serves the other connections, on the
//! thread of the script.

use super::event_loop::EventLoop;
use crate::engine::{BusyHandler, ConnId, NodeApi};
use crate::node_handle::NodeHandle;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

pub(super) struct SocketsBeside {
    event_loop: Arc<EventLoop>,
    /// Weak, because the node owns the handler.
    handle: Weak<NodeHandle>,
    since: Mutex<Option<Instant>>,
}

impl SocketsBeside {
    pub(super) fn handler(
        event_loop: Arc<EventLoop>,
        handle: &Arc<NodeHandle>,
    ) -> Arc<dyn BusyHandler> {
        Arc::new(Self {
            event_loop,
            handle: Arc::downgrade(handle),
            since: Mutex::new(None),
        })
    }

    fn since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BusyHandler for SocketsBeside {
    #[expect(
        clippy::disallowed_methods,
        reason = "a script becomes long in every clock mode, by wall-clock time"
    )]
    fn watch(&self) {
        *self.since() = Some(Instant::now());
        if let Some(handle) = self.handle.upgrade() {
            handle.shared.note_long_run();
        }
    }

    fn is_bounded(&self, caller: ConnId) -> bool {
        let handle = self.handle.upgrade();
        handle.is_none_or(|handle| handle.shared.is_in_process(caller))
    }

    fn elapsed(&self) -> Duration {
        self.since().map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn serve(&self, api: &mut dyn NodeApi, caller: ConnId) {
        if let Some(handle) = self.handle.upgrade() {
            handle.shared.begin_busy();
            self.event_loop.turn_beside(&handle, api, caller);
        }
    }

    fn end(&self) {
        if let Some(handle) = self.handle.upgrade() {
            handle.shared.end_busy();
        }
    }

    fn stopping(&self) -> bool {
        let handle = self.handle.upgrade();
        handle.is_none_or(|handle| handle.shared.is_down())
    }
}
