//! Faults of messages, applied between the decoder, the engine and the encoder. Commands do not
//! know of them.
//!
//! A message rule sees every request before it is executed and every reply or push before it is
//! written, and returns a [`Verdict`]. RESP replies carry no request id, so no rule lets a later
//! reply take the place of a lost one. Three faults are easily confused:
//!
//! * a *lost reply*: the request is executed, then the connection ends
//!   ([`Disconnect::after_execution`]);
//! * a *delayed reply*: it arrives after the client's timeout, and later replies wait behind it
//!   ([`Delay::reply`]);
//! * a *half-open connection*: nothing passes until the client reconnects ([`HalfOpen`],
//!   [`DropReply`]).
//!
//! `Server::inject` installs a rule and returns a guard. The guard counts how often the rule fired,
//! and removes the rule when it is dropped. The same rules work in the double, in a client's stream
//! and in a proxy, because they see only messages. [`FAULTS`] lists all faults, and [`parse`] makes
//! a rule from words.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use redis::AsyncTypedCommands;
//! use redouble::fault::Disconnect;
//!
//! let server = redouble::Server::start().await?;
//! let mut redis = server.connection().await?;
//! let lost_reply = server.inject(Disconnect::after_execution().command("SET").key("coupon:*").nth(1));
//! assert!(redis.set("coupon:7", "me").await.unwrap_err().is_connection_dropped());
//! server.assert_get("coupon:7", "me");
//! lost_reply.assert_fired(1);
//! # Ok(()) }
//! ```

mod answer_error;
mod args;
mod condition;
mod cut;
mod delay;
mod disconnect;
mod drop_reply;
mod drop_request;
mod gate;
mod half_open;
mod hold;
mod node;
mod parse;
mod partition;
#[cfg(feature = "net")]
mod plan;
mod rule;
mod spec;
mod stall;

pub use answer_error::AnswerError;
pub use args::{ParseFaultError, Placement};
pub use condition::Message;
pub use cut::Cut;
pub use delay::Delay;
pub use disconnect::Disconnect;
pub use drop_reply::DropReply;
pub use drop_request::DropRequest;
pub use gate::{Gate, Ticket};
pub use half_open::HalfOpen;
pub use hold::Hold;
pub use parse::parse;
pub use partition::Partition;
#[cfg(feature = "net")]
#[cfg(feature = "net")]
pub(crate) use plan::Ruled;
#[cfg(feature = "net")]
pub(crate) use plan::{Decision, Fate, Plan, Sender};
pub use rule::Rule;
pub use spec::FaultSpec;
pub use stall::Stall;

use crate::engine::Rng;
use crate::resp::{ErrorReply, Reply, Request};
use std::fmt;
use std::time::Duration;

/// Every fault.
pub const FAULTS: &[FaultSpec] = &[
    delay::SPEC,
    hold::SPEC,
    drop_request::SPEC,
    drop_reply::SPEC,
    cut::SPEC,
    disconnect::SPEC,
    answer_error::SPEC,
    half_open::SPEC,
    stall::SPEC,
    partition::SPEC,
    node::PAUSE,
    node::EVICT,
    node::LAZY_EXPIRY,
    node::FLUSH_SCRIPTS,
];

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    Request,
    /// From the server to the client: replies and pushes.
    Reply,
}

/// The decision of a rule about a message. After `Pass`, `Delay` or `Hold` the next rule is asked;
/// any other verdict is final.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// The message passes.
    Pass,
    /// The message passes after this time of the clock's source. Later messages of the same
    /// connection and direction wait behind it. The delays of several rules add up.
    Delay(Duration),
    /// The message passes when the gate opens. Later messages of the same connection and direction
    /// wait behind it.
    Hold(Gate),
    /// The message is lost, and so is everything after it in the same direction.
    Drop,
    /// The message is lost, and so is everything after it in both directions.
    Silence,
    /// The first bytes pass, this many, then the connection ends. If they are the complete request,
    /// it is executed and its reply is lost.
    CutAfter(usize),
    /// For a request: the server answers this error and does not execute the request. To the client
    /// this is a refused request, so a queued transaction is discarded. For a reply: the error
    /// takes its place.
    Answer(ErrorReply),
    /// The message is lost, and the connection is closed in order.
    Close,
    /// The message is lost, and the connection is reset.
    Reset,
}

/// What a rule can read besides the message.
#[derive(Debug)]
pub struct RuleEnv<'a> {
    /// The connection's id, as CLIENT ID returns it.
    pub client_id: u64,
    /// The client's address, as CLIENT LIST shows it.
    pub addr: &'a str,
    /// The name of the connection (CLIENT SETNAME); empty if it has none.
    pub client_name: &'a [u8],
    /// Random numbers for rules with a probability; they follow from the server's seed.
    pub rng: &'a mut Rng,
}

/// A rule for messages. The installed rules are asked in the order of their installation.
///
/// A rule must not call the server in which it is installed, because that server is serving a
/// request at that moment. It may open a [`Gate`].
pub trait MessageRule: fmt::Debug + Send {
    /// Judges a request before it is executed.
    fn on_request(&mut self, _request: Request<'_>, _env: &mut RuleEnv<'_>) -> Verdict {
        Verdict::Pass
    }

    /// Judges the reply to `request`, which was executed.
    fn on_reply(
        &mut self,
        _request: Request<'_>,
        _reply: &Reply,
        _env: &mut RuleEnv<'_>,
    ) -> Verdict {
        Verdict::Pass
    }

    /// Judges a push: a message of a channel, an invalidation, a line of MONITOR.
    fn on_push(&mut self, _frame: &Reply, _env: &mut RuleEnv<'_>) -> Verdict {
        Verdict::Pass
    }

    /// Judges the arrival of a disconnect of one side. Only [`Verdict::Delay`] and
    /// [`Verdict::Hold`] have an effect.
    fn on_end(&mut self, _of: Direction, _env: &mut RuleEnv<'_>) -> Verdict {
        Verdict::Pass
    }

    /// The rule as [`parse`] reads it, with the name of the fault first. `None` if words cannot
    /// express it.
    fn words(&self) -> Option<Vec<Vec<u8>>> {
        None
    }
}

impl<R: MessageRule + 'static> From<R> for Box<dyn MessageRule> {
    fn from(rule: R) -> Self {
        Box::new(rule)
    }
}
