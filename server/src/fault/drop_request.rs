//! The fault `drop_request`: a request never arrives.

use super::rule::{MessageFault, Rule};
use super::{Direction, FaultSpec, Placement, Verdict};

pub(super) const SPEC: FaultSpec = FaultSpec {
    name: DropRequest::NAME,
    summary: "a request and all later requests of its connection are lost",
    placement: Placement::Request,
    arguments: "",
    parse: Some(|words| words.rule(DropRequest)),
};

/// Loses a request, and everything that the client sends later on that connection. RESP has no
/// request ids: the client would take the reply to a later request for the reply to the lost one.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use redis::AsyncTypedCommands;
/// use redouble::{Clock, Server, fault::DropRequest};
///
/// let server = Server::builder().clock(Clock::Tokio).start().await?;
/// let mut redis = server.connection().await?;
/// let _rule = server.inject(DropRequest::new().command("SET").nth(1));
/// assert!(redis.set("k", "v").await.unwrap_err().is_timeout());
/// server.assert_missing("k");
/// redis.set("k", "v").await?; // on a new connection
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct DropRequest;

impl DropRequest {
    /// Loses a request.
    pub fn new() -> Rule<Self> {
        Rule::new(Self, Some(Direction::Request))
    }
}

impl MessageFault for DropRequest {
    const NAME: &'static str = "drop_request";

    fn verdict(&self) -> Verdict {
        Verdict::Drop
    }

    fn phrase(&self, _: Option<Direction>) -> String {
        "drop request".to_owned()
    }
}
