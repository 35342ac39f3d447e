//! Queue of `REDOUBLE.*` requests. A connection appends its request while the node is locked, and a
//! handler carries it out when the lock is free. Control requests never reach the engine, the fault
//! rules or the history.

use crate::client_connection::ClientConnection;
use crate::resp::Request;
use redouble_core::command::is_control;
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
    ControlPort,
}

/// Commands that a client may send to a control port besides control requests.
const GREETINGS: [&[u8]; 10] = [
    b"auth", b"client", b"command", b"echo", b"hello", b"info", b"ping", b"quit", b"reset",
    b"select",
];

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControlRoute {
    /// To the engine.
    Engine,
    /// To the handler of control requests.
    Control,
    /// Back to the client, with this error.
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
    connections: VecDeque<Arc<ClientConnection>>,
    /// True while a thread carries out requests.
    is_in_use: bool,
}

impl ControlQueue {
    pub(crate) fn new(control_mode: ControlMode) -> Self {
        Self {
            control_mode,
            ..Self::default()
        }
    }

    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.control_mode != ControlMode::Closed
    }

    /// True if this node is a control port, and thus outside of the deployment under control.
    pub(crate) fn is_control_port(&self) -> bool {
        self.control_mode == ControlMode::ControlPort
    }

    /// Decides where a request goes. Control requests are refused unless the client is
    /// `authenticated`.
    #[cold]
    pub(crate) fn route(&self, request: Request<'_>, authenticated: bool) -> ControlRoute {
        let name = request.name();
        if is_control(name) {
            return if authenticated {
                ControlRoute::Control
            } else {
                ControlRoute::Refused("NOAUTH Authentication required.")
            };
        }
        let is_greeting = |known: &&[u8]| name.eq_ignore_ascii_case(known);
        if self.is_control_port() && !GREETINGS.iter().any(is_greeting) {
            return ControlRoute::Refused(
                "ERR this is a control port: it holds no data and accepts only REDOUBLE.*",
            );
        }
        ControlRoute::Engine
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a connection whose parked request is a control request.
    pub(crate) fn push(&self, connection: &Arc<ClientConnection>) {
        self.queue().connections.push_back(connection.clone());
        self.has_any.store(true, Ordering::Release);
    }

    #[inline]
    pub(crate) fn has_any(&self) -> bool {
        self.has_any.load(Ordering::Acquire)
    }

    /// Carries out the queued requests, and those that arrive meanwhile. Returns at once if another
    /// caller, or this one further up its stack, is already doing so.
    pub(crate) fn work(&self, mut carry_out: impl FnMut(&Arc<ClientConnection>)) {
        if std::mem::replace(&mut self.queue().is_in_use, true) {
            return;
        }
        loop {
            let connection = {
                let mut queue = self.queue();
                let Some(connection) = queue.connections.pop_front() else {
                    queue.is_in_use = false;
                    self.has_any.store(false, Ordering::Release);
                    return;
                };
                connection
            };
            carry_out(&connection);
        }
    }
}
