//! The thread that serves the sockets of a server: it waits for events, serves all connections that are ready
//! in one turn of the node, sends their replies, and fires timers.
//!
//! *Policy.* The node is taken once per wake-up, and the clock read once, after that; it is read again after a
//! script that took time. The lock of the sockets is never held while a request is executed, so that the hook
//! of a long script can take it, on whichever thread the script runs (`net/busy.rs`). While the script of another
//! thread has the node, this thread waits for the node and the hook reads the sockets. Locks are taken in
//! the order node, sockets, input, output; only the hook has an input, and it never waits for the sockets.

use super::listener::Listener;
use super::socket_set::SocketSet;
use crate::connection::Ending;
use crate::engine::UnixMicros;
#[cfg(feature = "script")]
use crate::engine::{ConnId, NodeApi};
use crate::node::SharedNode;
use crate::node_handle::NodeHandle;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
#[cfg(feature = "script")]
use std::sync::TryLockError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;
use std::time::Duration;

/// The longest wait, because an operator can set the wall clock.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Time until the next try if another thread has the node.
const TAKEN_MICROS: i64 = 1_000;

/// The sockets of a server, and the waker of the thread that serves them.
#[derive(Debug)]
pub(super) struct EventLoop {
    set: Mutex<SocketSet>,
    waker: mio::Waker,
    is_stopped: AtomicBool,
}

impl Wake for EventLoop {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let Err(error) = self.waker.wake() {
            tracing::error!(%error, "cannot wake the thread of the sockets");
        }
    }
}

impl EventLoop {
    pub(super) fn new(listeners: Vec<Listener>) -> io::Result<Arc<Self>> {
        let (set, waker) = SocketSet::new(listeners)?;
        Ok(Arc::new(Self {
            set: Mutex::new(set),
            waker,
            is_stopped: AtomicBool::new(false),
        }))
    }

    fn set(&self) -> MutexGuard<'_, SocketSet> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the thread.
    pub(super) fn stop(self: &Arc<Self>) {
        self.is_stopped.store(true, Ordering::Release);
        self.wake_by_ref();
    }

    /// Serves the sockets until [`EventLoop::stop`], or until the node fails.
    pub(super) fn run(&self, handle: &NodeHandle) {
        let serve = || {
            let mut turn = LoopTurn {
                handle,
                event_loop: self,
                now: handle.now(),
            };
            while !self.is_stopped.load(Ordering::Acquire) && !handle.shared.has_failed() {
                if let Err(error) = turn.wake_up() {
                    tracing::error!(%error, "cannot wait for sockets: the node is down");
                    break;
                }
            }
        };
        if catch_unwind(AssertUnwindSafe(serve)).is_err() && !handle.shared.has_failed() {
            handle.shared.fail();
        }
        // Readers in process of a node that went down in a turn of this thread.
        handle.shared.wake_in_process();
        let ending = if handle.shared.has_failed() {
            Ending::Reset
        } else {
            Ending::Close
        };
        self.set().end(ending);
    }

    /// Serves the sockets beside a long script that `caller` has started.
    #[cfg(feature = "script")]
    pub(super) fn turn_beside(&self, handle: &NodeHandle, api: &mut dyn NodeApi, caller: ConnId) {
        let shared = &handle.shared;
        let now = handle.now();
        shared.serve_inbox(api, now);
        let mut set = match self.set.try_lock() {
            Ok(set) => set,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // The thread of the sockets has this lock while it waits for events, so there are none.
            Err(TryLockError::WouldBlock) => return shared.wake_transports(),
        };
        if let Err(error) = set.poll(Some(Duration::ZERO)) {
            tracing::error!(%error, "cannot look at sockets beside a long script");
        }
        // If the script runs in a turn of this thread, that turn has served some connections already.
        let kept = set.served_count();
        while let Some(connection) = set.next(Some(caller)) {
            shared.serve_beside(api, &connection, now);
        }
        shared.wake_in_process();
        send(&mut set, shared, kept);
    }
}

/// Sends the output of all connections that have some. Of those that were served the first `kept` have to wait.
fn send(set: &mut SocketSet, shared: &SharedNode, kept: usize) {
    if shared.is_down() {
        // Before the connections are closed: a client that reads the end of its stream must not be able to connect.
        set.stop_listening();
    }
    set.flush_served(kept);
    for connection in shared.take_notified_sockets() {
        set.flush(&connection);
    }
}

/// The state of the thread that serves sockets.
struct LoopTurn<'a> {
    handle: &'a NodeHandle,
    event_loop: &'a EventLoop,
    /// The latest reading of the clock.
    now: UnixMicros,
}

impl LoopTurn<'_> {
    /// Waits for events and handles them.
    fn wake_up(&mut self) -> io::Result<()> {
        let timeout = self.timeout();
        let has_ready = {
            let mut set = self.event_loop.set();
            set.poll(timeout)?;
            set.has_ready()
        };
        if has_ready {
            self.serve();
        } else {
            self.now = self.handle.now();
        }
        self.flush();
        self.fire_if_due();
        Ok(())
    }

    /// Longest time to wait for events.
    fn timeout(&self) -> Option<Duration> {
        let due = self.handle.timer.event_loop_due()?;
        let micros = due.0.saturating_sub(self.now.0).max(0);
        Some(Duration::from_micros(micros.unsigned_abs()).min(WAIT_MAX))
    }

    /// Handles deadlines, if this thread is the timer.
    fn fire_if_due(&self) {
        let timer = &self.handle.timer;
        if timer.event_loop_due().is_some_and(|due| due <= self.now) {
            timer.forget_due();
            let due = match self.handle.time.try_fire() {
                Some(None) => return,
                Some(Some(due)) => due,
                None => UnixMicros(self.now.0.saturating_add(TAKEN_MICROS)),
            };
            timer.lower(due);
        }
    }

    /// Serves all connections that are ready.
    fn serve(&mut self) {
        let shared = &self.handle.shared;
        let mut node = shared.node_among_several();
        let mut now = self.handle.now();
        node.begin_turn(shared, now);
        let departed = self.event_loop.set().take_departed();
        for connection in departed {
            connection.close_input();
            now = node.serve_without_notice(shared, &connection, now);
        }
        loop {
            let next = self.event_loop.set().next(None);
            let Some(connection) = next else {
                break;
            };
            now = node.serve_without_notice(shared, &connection, now);
        }
        now = node.serve_due(shared, now);
        node.end_turn(shared, now);
        let due = node.poll_timeout(shared);
        drop(node);
        self.now = now;
        if let Some(due) = due {
            self.handle.timer.lower(due);
        }
        shared.wake_in_process();
        self.handle.settle();
    }

    /// Sends the output of all connections that have some.
    fn flush(&mut self) {
        send(&mut self.event_loop.set(), &self.handle.shared, 0);
    }
}
