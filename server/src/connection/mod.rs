//! The state machine of one connection. A node and a proxy are its two users; each of them is a [`Backend`].
//!
//! ```text
//! client -> Input: decoder -> rules (on_request) -> postponed, or -> Backend: executes or forwards it
//! client <- Output: delayed frames <- rules (on_reply, on_push) <- Backend
//! ```
//!
//! *Policy.* Requests reach the backend one after the other. A request that a rule delays or holds is
//! postponed, and later requests wait in the decoder. A frame that a rule delays or holds makes all later
//! frames wait. A disconnect is a message like the others: it waits behind them, and rules can postpone it.
//!
//! This folder knows no transport, no timer and no engine. A backend knows how a request is executed, which
//! reply belongs to which request, and when a postponed message has to be looked at again.

mod input;
mod output;
mod release;
mod rules;

pub(crate) use input::{Backend, Flow, Input, Served};
pub(crate) use output::{Delivery, LimitCheck, Output};
pub(crate) use release::ReleaseCondition;
pub(crate) use rules::{Postponer, RuledConnection};

#[cfg(test)]
mod tests;

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// After everything that was written before.
    Close,
    /// At once.
    Reset,
}
