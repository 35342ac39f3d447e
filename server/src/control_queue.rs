//! Requests for the wire control (`REDOUBLE.*`) between a connection and those who carry them out,
//! once nobody has the node. They never reach the engine, the fault rules or the history.

use crate::client_connection::ClientConnection;
use crate::resp::Request;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How the names of all control commands begin.
pub(crate) const PREFIX: &[u8] = b"REDOUBLE.";

/// Whether a request is one for the control.
pub(crate) fn is_order(name: &[u8]) -> bool {
    name.get(..PREFIX.len())
        .is_some_and(|begin| begin.eq_ignore_ascii_case(PREFIX))
}

/// Whether a node takes orders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ControlMode {
    /// It knows of none.
    #[default]
    Closed,
    /// Beside its ordinary commands.
    Open,
    /// It serves a control port: orders, and what clients say when they connect.
    Alone,
}

/// What a client may say at a control port besides orders.
const GREETINGS: [&[u8]; 10] = [
    b"auth", b"client", b"command", b"echo", b"hello", b"info", b"ping", b"quit", b"reset",
    b"select",
];

/// What a node does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControlRoute {
    ForTheNode,
    Order,
    Refused(&'static str),
}

/// The orders that a node has got, in the order of their arrival.
#[derive(Debug, Default)]
pub(crate) struct ControlQueue {
    control_mode: ControlMode,
    has_any: AtomicBool,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    /// Connections whose parked request is an order.
    links: VecDeque<Arc<ClientConnection>>,
    /// Somebody is at it.
    is_worked: bool,
}

impl ControlQueue {
    pub(crate) fn at(control_mode: ControlMode) -> Self {
        Self {
            control_mode,
            ..Self::default()
        }
    }

    #[inline]
    pub(crate) fn are_taken(&self) -> bool {
        self.control_mode != ControlMode::Closed
    }

    /// Whether whoever is asked here is no part of what is controlled.
    pub(crate) fn are_alone(&self) -> bool {
        self.control_mode == ControlMode::Alone
    }

    /// What to do with a request of a client that may give orders if it is `authenticated`.
    #[cold]
    pub(crate) fn sort(&self, request: Request<'_>, authenticated: bool) -> ControlRoute {
        let name = request.name();
        if is_order(name) {
            return if authenticated {
                ControlRoute::Order
            } else {
                ControlRoute::Refused("NOAUTH Authentication required.")
            };
        }
        let is_greeting = |known: &&[u8]| name.eq_ignore_ascii_case(known);
        if self.are_alone() && !GREETINGS.iter().any(is_greeting) {
            return ControlRoute::Refused("ERR this port is for REDOUBLE.* and holds no data");
        }
        ControlRoute::ForTheNode
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The parked request of this connection is an order.
    pub(crate) fn push(&self, link: &Arc<ClientConnection>) {
        self.queue().links.push_back(link.clone());
        self.has_any.store(true, Ordering::Release);
    }

    #[inline]
    pub(crate) fn has_any(&self) -> bool {
        self.has_any.load(Ordering::Acquire)
    }

    /// Carries out all orders, those that come meanwhile too. Returns at once when somebody is at it,
    /// who may be the caller.
    pub(crate) fn work(&self, mut carry_out: impl FnMut(&Arc<ClientConnection>)) {
        if std::mem::replace(&mut self.queue().is_worked, true) {
            return;
        }
        loop {
            let link = {
                let mut queue = self.queue();
                let Some(link) = queue.links.pop_front() else {
                    queue.is_worked = false;
                    self.has_any.store(false, Ordering::Release);
                    return;
                };
                link
            };
            carry_out(&link);
        }
    }
}
