//! The fault `disconnect`: a connection ends before or after the execution of a request.

use super::rule::{MessageFault, Rule};
use super::{Direction, FaultSpec, Placement, Verdict};

pub(super) const SPEC: FaultSpec = FaultSpec {
    name: Disconnect::NAME,
    summary: "the connection ends before a request is executed, or between its execution and its reply",
    placement: Placement::Either,
    arguments: "[RESET]",
    parse: Some(|mut words| {
        let reset = words.has("RESET");
        words.rule(Disconnect { reset })
    }),
};

/// Ends the connection before or after a request is executed: with an orderly close, or with a
/// [reset](Rule::reset).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use redis::AsyncTypedCommands;
/// use redouble::{Server, fault::Disconnect};
///
/// let server = Server::start().await?;
/// let mut redis = server.connection().await?;
/// let lost_request = server.inject(Disconnect::before_execution().key("a"));
/// let lost_reply = server.inject(Disconnect::after_execution().key("b").reset());
/// assert!(redis.set("a", "1").await.is_err() && redis.set("b", "2").await.is_err());
/// server.assert_keys(["b"]);
/// (lost_request.remove(), lost_reply.remove());
/// redis.set("a", "1").await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Disconnect {
    reset: bool,
}

impl Disconnect {
    /// The server executes the request, and the connection ends before the reply: a lost reply.
    pub fn after_execution() -> Rule<Self> {
        Rule::new(Self { reset: false }, Some(Direction::Reply))
    }

    /// The connection ends, and the request is not executed.
    pub fn before_execution() -> Rule<Self> {
        Rule::new(Self { reset: false }, Some(Direction::Request))
    }
}

impl Rule<Disconnect> {
    /// Ends the connection with a reset: the client's next read fails instead of returning the end
    /// of the stream.
    #[must_use]
    pub fn reset(mut self) -> Self {
        self.fault.reset = true;
        self
    }
}

impl MessageFault for Disconnect {
    const NAME: &'static str = "disconnect";

    fn verdict(&self) -> Verdict {
        if self.reset {
            Verdict::Reset
        } else {
            Verdict::Close
        }
    }

    fn arguments(&self) -> Vec<Vec<u8>> {
        let reset = self.reset.then(|| b"RESET".to_vec());
        reset.into_iter().collect()
    }

    fn phrase(&self, direction: Option<Direction>) -> String {
        let how = if self.reset { "reset" } else { "close" };
        let when = match direction {
            Some(Direction::Reply) => "after",
            Some(Direction::Request) | None => "before",
        };
        format!("{how} {when} execution")
    }
}
