//! The fault `half_open`: both ends consider the connection open, and nothing passes.

use super::rule::{MessageFault, Reach, Rule};
use super::{Direction, FaultSpec, Placement, Verdict};

pub(super) const SPEC: FaultSpec = FaultSpec {
    name: HalfOpen::NAME,
    summary: "a message and all later ones in both directions are lost, until the client reconnects",
    placement: Placement::Both,
    arguments: "",
    parse: Some(|words| words.rule(HalfOpen)),
};

/// Silences a connection in both directions from a message on. Neither side notices; the connection
/// stays open until the client closes it. Clients of the `redis` crate do not close a connection
/// after a mere timeout.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use redis::AsyncTypedCommands;
/// use redouble::{Clock, Server, fault::HalfOpen};
///
/// let server = Server::builder().clock(Clock::Tokio).start().await?;
/// let mut redis = server.connection().await?;
/// let rule = server.inject(HalfOpen::new().command("SET").nth(1));
/// assert!(redis.set("k", "v").await.unwrap_err().is_timeout());
/// server.assert_missing("k");
/// redis.set("k", "v").await?; // this one dials anew after a timeout
/// rule.assert_fired(1);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct HalfOpen;

impl HalfOpen {
    /// Loses the message, in whichever direction it goes, and everything after it.
    pub fn new() -> Rule<Self> {
        Rule::new(Self, None)
    }

    /// The server executes the request; its reply and everything after it is lost.
    pub fn after_execution() -> Rule<Self> {
        Rule::new(Self, Some(Direction::Reply))
    }
}

impl MessageFault for HalfOpen {
    const NAME: &'static str = "half_open";
    const REACH: Reach = Reach::Pushes;

    fn verdict(&self) -> Verdict {
        Verdict::Silence
    }

    fn phrase(&self, direction: Option<Direction>) -> String {
        match direction {
            Some(Direction::Reply) => "half-open from the reply",
            Some(Direction::Request) => "half-open from the request",
            None => "half-open from the message",
        }
        .to_owned()
    }
}
