//! What a request does to others than its caller.

use super::session::ConnId;
use super::time::UnixMicros;
use crate::resp::Reply;
use std::collections::VecDeque;

/// Something the driver has to carry out.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Answers a request that was parked.
    Reply {
        /// The connection that waited.
        conn: ConnId,
        /// Its answer.
        reply: Reply,
    },
    /// Ends a connection, after what was written to it.
    Close {
        /// The connection.
        conn: ConnId,
    },
    /// The node serves nobody until this instant of its own clock; input queues.
    Stall {
        /// When it goes on.
        until: UnixMicros,
    },
    /// The node ends (SHUTDOWN).
    Shutdown,
}

/// Effects in the order in which they came about; drained by the driver after each input.
#[derive(Debug, Default)]
pub struct Outbox(VecDeque<Effect>);

impl Outbox {
    pub(crate) fn push(&mut self, effect: Effect) {
        self.0.push_back(effect);
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next effect to carry out.
    #[inline]
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.0.pop_front()
    }
}
