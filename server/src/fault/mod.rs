//! Faults between the decoder, the engine and the encoder; no command knows of them.
//!
//! A message rule looks at every request before it is executed and at everything before it is
//! written, and gives a [`Verdict`]. Replies carry no request id, so a rule never lets one slip
//! out of the row. These are three faults, not one:
//!
//! * a *lost reply*: the request is executed, then its connection ends ([`Disconnect::after_execution`]);
//! * a *delayed reply*: it comes past the client's timeout, and later ones wait behind it ([`Delay::reply`]);
//! * a *half-open connection*: silence, until the client connects anew ([`HalfOpen`], [`DropReply`]).
//!
//! `Server::inject` installs a rule and gives a guard, which counts how often it fired and removes it
//! when dropped. The same rules serve in the double, in a client's stream and in a proxy: they know
//! messages and nothing else. [`FAULTS`] lists what there is, [`parse`] makes a rule from words.
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
//! lost_reply.expect_fired(1);
//! # Ok(()) }
//! ```

mod condition;
mod cut;
mod delay;
mod disconnect;
mod drop_reply;
mod drop_request;
mod error_reply;
mod gate;
mod half_open;
mod hold;
mod node;
mod partition;
mod plan;
mod rule;
mod spec;
mod stall;
mod words;

pub use condition::Message;
pub use cut::Cut;
pub use delay::Delay;
pub use disconnect::Disconnect;
pub use drop_reply::DropReply;
pub use drop_request::DropRequest;
pub use error_reply::AnswerError;
pub use gate::{Gate, Ticket};
pub use half_open::HalfOpen;
pub use hold::Hold;
pub use partition::Partition;
#[cfg(feature = "net")]
pub(crate) use plan::Ruled;
pub(crate) use plan::{Decision, Fate, Plan, Sender};
pub use rule::Rule;
pub use spec::{FaultSpec, Placement};
pub use stall::Stall;
pub use words::{ParseFaultError, parse};

use crate::engine::Rng;
use crate::resp::{ErrorReply, Reply, Request};
use std::fmt;
use std::time::Duration;

/// Every fault there is.
pub const FAULTS: &[FaultSpec] = &[
    delay::SPEC,
    hold::SPEC,
    drop_request::SPEC,
    drop_reply::SPEC,
    cut::SPEC,
    disconnect::SPEC,
    error_reply::SPEC,
    half_open::SPEC,
    stall::SPEC,
    partition::SPEC,
    node::PAUSE,
    node::EVICT,
    node::LAZY_EXPIRY,
    node::FLUSH_SCRIPTS,
];

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    Request,
    /// From the server to the client: replies, and what it sends of its own accord.
    Reply,
}

/// What becomes of a message. A message that is delayed or held goes on to the next rule; the first
/// of the other verdicts decides.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It goes on.
    Pass,
    /// It goes on after this time of the clock's source; later ones of its connection and direction
    /// wait behind it. Several delays add up.
    Delay(Duration),
    /// It goes on when the gate opens; later ones of its connection and direction wait behind it.
    Hold(Gate),
    /// It is lost, and so is everything after it in its direction.
    Drop,
    /// It is lost, and so is everything after it in both directions.
    Silence,
    /// So many of its bytes go through, then the connection ends. A request of which that is all is
    /// executed, and its reply lost.
    CutAfter(usize),
    /// At a request: this is the answer, and the request is not executed. To the client it looks as
    /// if the server had refused it: what was queued by MULTI is discarded. At a reply: this comes in its place.
    Answer(ErrorReply),
    /// It is lost and the connection ends in order.
    Close,
    /// It is lost and the connection is reset.
    Reset,
}

/// What a rule may know besides the message.
#[derive(Debug)]
pub struct RuleEnv<'a> {
    /// What CLIENT ID answers on this connection.
    pub client_id: u64,
    /// Where the client is, as CLIENT LIST shows it.
    pub addr: &'a str,
    /// The name the client gave itself; empty if none.
    pub client_name: &'a [u8],
    /// Draws for rules with a probability; from the server's seed.
    pub rng: &'a mut Rng,
}

/// A rule for messages. All installed rules are asked in the order of their installation.
///
/// It must not call the server it is installed in, which is being served at that moment; it may open
/// a [`Gate`].
pub trait MessageRule: fmt::Debug + Send {
    /// Judges a request before it is executed.
    fn on_request(&mut self, _request: Request<'_>, _env: &mut RuleEnv<'_>) -> Verdict {
        Verdict::Pass
    }

    /// Judges the reply to `request` after it was executed.
    fn on_reply(
        &mut self,
        _request: Request<'_>,
        _reply: &Reply,
        _env: &mut RuleEnv<'_>,
    ) -> Verdict {
        Verdict::Pass
    }

    /// Judges what the server sends of its own accord: messages of channels, lines of MONITOR.
    fn on_push(&mut self, _frame: &Reply, _env: &mut RuleEnv<'_>) -> Verdict {
        Verdict::Pass
    }

    /// Judges the news that one side has closed the connection; only [`Verdict::Delay`] and
    /// [`Verdict::Hold`] have an effect.
    fn on_end(&mut self, _of: Direction, _env: &mut RuleEnv<'_>) -> Verdict {
        Verdict::Pass
    }

    /// The rule as [`parse`] takes it, the fault's name first; `None` if words do not tell it all.
    fn words(&self) -> Option<Vec<Vec<u8>>> {
        None
    }
}

impl<R: MessageRule + 'static> From<R> for Box<dyn MessageRule> {
    fn from(rule: R) -> Self {
        Box::new(rule)
    }
}
