//! The fault `stall`: a connection stops for a while.

use super::rule::{MessageFault, Reach, Rule, subject};
use super::{Direction, FaultSpec, Gate, Placement, Verdict};

pub(super) const SPEC: FaultSpec = FaultSpec {
    name: Stall::NAME,
    summary: "nothing passes on a connection, in either direction, until the rule is removed",
    placement: Placement::Both,
    arguments: "",
    parse: Some(|words| words.rule(Stall { gate: Gate::new() })),
};

/// Stops connections: from the first matching message on, every message waits, in order, until the
/// guard is dropped. To stop one connection only, add a condition on its id or its client's name.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use redis::AsyncTypedCommands;
/// use redouble::{Clock, Server, fault::Stall};
///
/// let server = Server::builder().clock(Clock::Tokio).start().await?;
/// let (mut slow, mut other) = (server.connection().await?, server.connection().await?);
/// let id = redis::cmd("CLIENT").arg("ID").query_async(&mut slow).await?;
/// let stall = server.inject(Stall::new().connection(id));
/// assert!(slow.set("k", "v").await.unwrap_err().is_timeout());
/// assert_eq!(other.get("k").await?, None);
/// stall.remove();
/// assert_eq!(other.get("k").await?.as_deref(), Some("v"));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Stall {
    gate: Gate,
}

impl Stall {
    /// Stops both directions.
    pub fn new() -> Rule<Self> {
        Rule::new(Self { gate: Gate::new() }, None)
    }

    /// Holds requests; replies to earlier requests still arrive.
    pub fn requests() -> Rule<Self> {
        Rule::new(Self { gate: Gate::new() }, Some(Direction::Request))
    }

    /// Requests are executed; replies and pushes are held.
    pub fn replies() -> Rule<Self> {
        Rule::new(Self { gate: Gate::new() }, Some(Direction::Reply))
    }
}

impl MessageFault for Stall {
    const NAME: &'static str = "stall";
    const REACH: Reach = Reach::Ends;

    fn verdict(&self) -> Verdict {
        Verdict::Hold(self.gate.clone())
    }

    fn phrase(&self, direction: Option<Direction>) -> String {
        format!("stall from the {}", subject(direction))
    }
}
