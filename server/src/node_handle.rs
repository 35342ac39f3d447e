//! A node as transports, tests and control requests hold it: with the clock that it follows and the
//! timer that calls it. Knows no runtime and no socket.

mod debug;
mod time_source;
mod timer;
mod true_time;

pub(crate) use time_source::Source;
pub use time_source::{Clock, ClockKind, TimeSource};
pub(crate) use timer::Timer;
pub(crate) use true_time::{InterNode, LockedNode, TimeMember, TrueTime, Turn};

use crate::client_connection::ClientConnection;
use crate::disk::Loss;
use crate::engine::{Engine, UnixMicros};
use crate::fault::{Plan, Ruled};
use crate::node::SharedNode;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Wake, Waker};
use std::time::Duration;

/// Carries out `REDOUBLE.*` requests.
pub(crate) trait ControlHandler: Debug + Send + Sync {
    /// Carries out the request that `conn`, a connection to `handle`, has parked, and writes the
    /// reply. Called while no lock of a node is held.
    fn answer(&self, handle: &NodeHandle, conn: &Arc<ClientConnection>);
}

/// A node with the clock that it follows and the timer that calls it.
pub(crate) struct NodeHandle {
    pub(crate) shared: SharedNode,
    pub(crate) time: Arc<TrueTime>,
    pub(crate) timer: Timer,
    /// `None` if `REDOUBLE.*` is not enabled.
    control: Mutex<Option<Arc<dyn ControlHandler>>>,
}

/// The waker of gates: an open gate lets the requests that waited for it go on.
struct GateWaker(Weak<NodeHandle>);

impl Wake for GateWaker {
    fn wake(self: Arc<Self>) {
        if let Some(handle) = self.0.upgrade() {
            handle.gate_opened();
        }
    }
}

impl Ruled for NodeHandle {
    fn plan(&self) -> &Plan {
        &self.shared.plan
    }
}

impl TimeMember for NodeHandle {
    fn shared(&self) -> &SharedNode {
        &self.shared
    }

    fn arm(&self, due: UnixMicros) {
        self.timer.arm(due);
    }

    fn after_turn(&self) {
        self.serve_control();
    }
}

impl NodeHandle {
    pub(crate) fn new(shared: SharedNode, time: Arc<TrueTime>) -> Arc<Self> {
        let handle = Arc::new(Self {
            shared,
            time,
            timer: Timer::default(),
            control: Mutex::default(),
        });
        handle.shared.follow(handle.time.clone());
        let member: Weak<Self> = Arc::downgrade(&handle);
        handle.time.join(member.clone());
        handle
            .shared
            .wake_on_open_gate(Waker::from(Arc::new(GateWaker(member))));
        handle
    }

    /// Enables `REDOUBLE.*` requests: `control` carries them out from now on.
    pub(crate) fn set_control(&self, control: Arc<dyn ControlHandler>) {
        *self.control.lock().unwrap_or_else(PoisonError::into_inner) = Some(control);
    }

    /// Carries out the control requests that connections to this node have sent. The caller must hold
    /// no node. While a long script runs the requests stay in the queue: the connection that started
    /// the script calls this again when the script has ended.
    #[inline]
    fn serve_control(&self) {
        if self.shared.control_queue.has_any() && !self.shared.is_busy() {
            self.serve_control_queue();
        }
    }

    #[cold]
    fn serve_control_queue(&self) {
        let control = {
            let control = self.control.lock();
            control.unwrap_or_else(PoisonError::into_inner).clone()
        };
        if let Some(control) = control {
            self.shared
                .control_queue
                .work(|conn| control.answer(self, conn));
        }
    }

    /// Lets requests that waited for a gate go on: at once, or by the timer if the node is locked,
    /// perhaps by the caller itself.
    fn gate_opened(&self) {
        self.shared.gate_opened(self.now());
        self.fire();
    }

    /// Handles everything that is due on the servers that share this time. If one of them is locked,
    /// the timer does it later.
    pub(crate) fn fire(&self) {
        match self.time.try_fire() {
            Some(Some(due)) => self.timer.arm(due),
            Some(None) => {}
            None => self.timer.rearm(),
        }
    }

    /// True time.
    #[inline]
    pub(crate) fn now(&self) -> UnixMicros {
        self.time.source.now()
    }

    /// Serves a connection in process that has new input, or whose client has disconnected.
    #[inline]
    pub(crate) fn serve_connection(&self, conn: &Arc<ClientConnection>) {
        if let Some(due) = self.shared.serve_connection(conn, || self.now()) {
            self.timer.arm(due);
        }
        self.settle();
    }

    /// After a turn of the node: delivers its messages to other nodes, and carries out control requests.
    #[inline]
    pub(crate) fn settle(&self) {
        if self.shared.has_outgoing() {
            self.fire();
        }
        self.serve_control();
    }

    /// Changes the engine from outside of a request, and carries out the effects.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Engine, UnixMicros)) {
        self.shared.node().change(&self.shared, self.now(), change);
        self.fire();
    }

    /// Ends one pause, by the number that [`Node::pause`](crate::node::Node::pause) has returned.
    pub(crate) fn end_pause(&self, number: u64) {
        self.shared
            .node()
            .end_pause(number, &self.shared, self.now());
        self.time.pass(|turn| turn.fire());
    }

    /// Ends all pauses.
    pub(crate) fn resume(&self) {
        self.shared.node().resume(&self.shared, self.now());
        self.time.pass(|turn| turn.fire());
    }

    #[track_caller]
    pub(crate) fn crash(&self, loss: Loss) {
        self.shared.node().crash(&self.shared, loss, self.now());
        self.time.pass(|turn| turn.fire());
    }

    /// Starts a node that has crashed again, after `delay` of true time.
    pub(crate) fn restart_in(&self, delay: Duration) {
        let at = self.now().plus(delay);
        self.shared.node().restart_at(at);
        self.time.pass(|turn| turn.fire());
    }

    /// Ends all connections and the timer.
    pub(crate) fn shut_down(&self) {
        self.shared.shut_down();
        self.shared.wake_transports();
        self.timer.rearm();
    }
}
