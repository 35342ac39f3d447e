//! The fault `drop_reply`: a reply never arrives, and the connection stays open.

use super::rule::{MessageFault, Rule};
use super::{Direction, FaultSpec, Placement, Verdict};

pub(super) const SPEC: FaultSpec = FaultSpec {
    name: DropReply::NAME,
    summary: "a request is executed; its reply and all later replies of the connection are lost",
    placement: Placement::Reply,
    arguments: "",
    parse: Some(|words| words.rule(DropReply)),
};

/// Loses the reply to an executed request, and everything that the server sends later on that
/// connection. Requests still arrive and are executed. For a lost reply that the client notices at
/// once, see [`Disconnect::after_execution`](super::Disconnect::after_execution).
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use redis::AsyncTypedCommands;
/// use redouble::{Clock, Server, fault::DropReply};
///
/// let server = Server::builder().clock(Clock::Tokio).start().await?;
/// let mut redis = server.connection().await?;
/// let _rule = server.inject(DropReply::new().command("SET").key("coupon:*").nth(1));
/// assert!(redis.set("coupon:7", "me").await.unwrap_err().is_timeout());
/// server.assert_get("coupon:7", "me");
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct DropReply;

impl DropReply {
    /// Loses a reply.
    pub fn new() -> Rule<Self> {
        Rule::new(Self, Some(Direction::Reply))
    }
}

impl MessageFault for DropReply {
    const NAME: &'static str = "drop_reply";

    fn verdict(&self) -> Verdict {
        Verdict::Drop
    }

    fn phrase(&self, _: Option<Direction>) -> String {
        "drop reply".to_owned()
    }
}
