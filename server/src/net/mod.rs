//! The only code that knows tokio: clock sources, sockets, the timer, the in-process stream.

mod clock;
mod driver;
mod in_process;
#[cfg(feature = "script")]
mod long_script;
mod peer;
mod sockets;
mod tcp;
#[cfg(feature = "tls")]
mod tls;
mod turn;
#[cfg(unix)]
mod unix;

#[cfg(feature = "redis")]
mod connection;

pub(crate) use clock::EPOCH;
use clock::Source;
pub use clock::{Clock, TimeSource};
#[cfg(feature = "redis")]
pub use connection::{Connection, Spawn};
pub use driver::Driver;
pub use in_process::InProcess;
pub(crate) use sockets::{Listener, Sockets, connections_max};
#[cfg(feature = "tls")]
pub use tls::ClientCertificates;
#[cfg(feature = "tls")]
pub(crate) use tls::{Settings as TlsSettings, ThrowAway};
pub(crate) use turn::{InterNode, LockedNode, TrueTime, Turn};
#[cfg(unix)]
pub(crate) use unix::url as unix_url;

use crate::client_connection::ClientConnection;
use crate::control::Control;
use crate::engine::{Engine, UnixMicros};
use crate::fault::{Plan, Ruled};
use crate::node::SharedNode;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Wake, Waker};
use tokio::sync::watch;

/// A node with the clock it runs on and the timer that calls it.
#[derive(Debug)]
pub(crate) struct NodeHandle {
    pub(crate) shared: SharedNode,
    pub(crate) time: Arc<TrueTime>,
    /// What the timer waits for, in microseconds; `i64::MAX` for nothing.
    armed: AtomicI64,
    /// Told when there is something earlier than what the timer waits for, and at the end.
    rearm: watch::Sender<()>,
    /// Who carries out what `REDOUBLE.*` asks for, if anybody may.
    control: Mutex<Option<Arc<Control>>>,
}

/// What a gate rings when it opens.
struct Bell(Weak<NodeHandle>);

impl Wake for Bell {
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

impl NodeHandle {
    pub(crate) fn new(shared: SharedNode, time: Arc<TrueTime>) -> Arc<Self> {
        let handle = Arc::new(Self {
            shared,
            time,
            armed: AtomicI64::new(i64::MAX),
            rearm: watch::Sender::new(()),
            control: Mutex::default(),
        });
        handle.time.join(&handle);
        let bell = Bell(Arc::downgrade(&handle));
        handle.shared.ring(Waker::from(Arc::new(bell)));
        handle
    }

    /// From now on orders are carried out by this.
    pub(crate) fn obey(&self, control: &Arc<Control>) {
        *self.control.lock().unwrap_or_else(PoisonError::into_inner) = Some(control.clone());
    }

    /// Carries out the orders that were given here. Nobody may have a node, or the time. While a long
    /// script has the node they wait: whoever served it comes back here.
    #[inline]
    pub(super) fn attend(&self) {
        if self.shared.orders.has_any() && !self.shared.busy.load(Ordering::Acquire) {
            self.carry_out_orders();
        }
    }

    #[cold]
    fn carry_out_orders(&self) {
        let control = {
            let control = self.control.lock();
            control.unwrap_or_else(PoisonError::into_inner).clone()
        };
        if let Some(control) = control {
            self.shared.orders.work(|link| control.answer(self, link));
        }
    }

    /// Lets go on what waited for a gate: at once, or by the timer when the node is taken, perhaps by
    /// the very caller.
    fn gate_opened(&self) {
        self.shared.gate_opened(self.now());
        self.fire();
    }

    /// Does what is due by now on all servers that share the time; when somebody else has one of
    /// them, the timer does it.
    pub(crate) fn fire(&self) {
        match self.time.try_fire() {
            Some(Some(due)) => self.arm(due),
            Some(None) => {}
            None => {
                self.rearm.send_replace(());
            }
        }
    }

    #[inline]
    pub(crate) fn now(&self) -> UnixMicros {
        self.time.source.now()
    }

    /// Serves a connection that has new input, or that has gone.
    #[inline]
    fn poke(&self, link: &Arc<ClientConnection>, enter: impl FnOnce(&mut Engine)) {
        if let Some(due) = self.shared.poke(link, || self.now(), enter) {
            self.arm(due);
        }
        if self.shared.has_outgoing() {
            self.fire();
        }
        self.attend();
    }

    /// Makes sure that the timer fires no later than `due`.
    pub(crate) fn arm(&self, due: UnixMicros) {
        if due.0 < self.armed.load(Ordering::Acquire) {
            self.rearm.send_replace(());
        }
    }

    /// Ends all connections and the timer.
    pub(crate) fn shut_down(&self) {
        self.shared.shut_down();
        self.rearm.send_replace(());
    }
}
