//! Queue of `REDOUBLE.*` requests. A connection appends its request while the node is locked, and a
//! handler carries it out when the lock is free. Control requests never reach the engine, the fault
//! rules or the history.

use crate::client_connection::ClientConnection;
use crate::command::is_control;
use crate::resp::Request;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Which control requests a node accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ControlMode {
    /// None.
    #[default]
    Closed,
    /// Control requests beside the ordinary commands.
    Open,
    /// The node serves a control port: only control requests and the commands that clients send on
    /// connecting.
    Alone,
}

/// Commands that a client may send to a control port besides control requests.
const GREETINGS: [&[u8]; 10] = [
    b"auth", b"client", b"command", b"echo", b"hello", b"info", b"ping", b"quit", b"reset",
    b"select",
];

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControlRoute {
    ForTheNode,
    Order,
    Refused(&'static str),
}

/// The control requests of a node, in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct ControlQueue {
    control_mode: ControlMode,
    has_any: AtomicBool,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    /// Connections whose parked request is a control request.
    links: VecDeque<Arc<ClientConnection>>,
    /// True while a thread carries out requests.
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

    /// True if this node is a control port, and thus outside of the deployment under control.
    pub(crate) fn are_alone(&self) -> bool {
        self.control_mode == ControlMode::Alone
    }

    /// Decides where a request goes. Control requests are refused unless the client is
    /// `authenticated`.
    #[cold]
    pub(crate) fn sort(&self, request: Request<'_>, authenticated: bool) -> ControlRoute {
        let name = request.name();
        if is_control(name) {
            return if authenticated {
                ControlRoute::Order
            } else {
                ControlRoute::Refused("NOAUTH Authentication required.")
            };
        }
        let is_greeting = |known: &&[u8]| name.eq_ignore_ascii_case(known);
        if self.are_alone() && !GREETINGS.iter().any(is_greeting) {
            return ControlRoute::Refused(
                "ERR this is a control port: it holds no data and accepts only REDOUBLE.*",
            );
        }
        ControlRoute::ForTheNode
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a connection whose parked request is a control request.
    pub(crate) fn push(&self, link: &Arc<ClientConnection>) {
        self.queue().links.push_back(link.clone());
        self.has_any.store(true, Ordering::Release);
    }

    #[inline]
    pub(crate) fn has_any(&self) -> bool {
        self.has_any.load(Ordering::Acquire)
    }

    /// Carries out the queued requests, and those that arrive meanwhile. Returns at once if another
    /// caller, or this one further up its stack, is already doing so.
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
