//! A network that is cut between a set of clients and the node.

use super::rule::{MessageFault, Reach, Rule};
use super::{Direction, FaultSpec, Gate, Placement, Verdict};

pub(super) const SPEC: FaultSpec = FaultSpec {
    name: Partition::NAME,
    summary: "clients and node do not reach each other until the rule is removed; then everything arrives",
    placement: Placement::Both,
    arguments: "",
    parse: Some(|words| words.rule(Partition { gate: Gate::new() })),
};

/// Cuts the network between clients and the node, until the guard is dropped or
/// [healed](crate::FaultGuard::heal). As TCP would send it again, everything said meanwhile arrives
/// then, in order: requests of clients that have given up and gone, too, and the news that they have.
/// What was on its way when the partition began still arrives.
///
/// Which clients are cut off is said by their addresses, names or connections. Only an address also
/// covers connections that the client makes meanwhile: in process, [`Server::connect_from`](crate::Server::connect_from)
/// gives one.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use redis::AsyncTypedCommands;
/// use redouble::{Clock, Server, fault::Partition};
///
/// let server = Server::builder().clock(Clock::Tokio).start().await?;
/// let mut near = server.connection().await?;
/// let mut far = server.connection_from("far:1").await?;
/// let partition = server.inject(Partition::new().addr("far:*"));
/// assert!(far.set("k", "v").await.unwrap_err().is_timeout());
/// assert!(far.get("k").await.is_err()); // nor does a new connection help
/// assert_eq!(near.get("k").await?, None);
/// partition.heal();
/// assert_eq!(near.get("k").await?.as_deref(), Some("v"));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Partition {
    gate: Gate,
}

impl Partition {
    /// Nothing passes, in either direction.
    pub fn new() -> Rule<Self> {
        Rule::new(Self { gate: Gate::new() }, None)
    }

    /// Nothing passes from the clients to the server; the other way is free.
    pub fn to_server() -> Rule<Self> {
        Rule::new(Self { gate: Gate::new() }, Some(Direction::Request))
    }

    /// Nothing passes from the server to the clients; what they send arrives and is executed.
    pub fn to_clients() -> Rule<Self> {
        Rule::new(Self { gate: Gate::new() }, Some(Direction::Reply))
    }
}

#[cfg(feature = "net")]
impl Rule<Partition> {
    /// The same rule for another server, with a gate of its own.
    pub(crate) fn afresh(&self) -> Self {
        let mut rule = self.clone();
        rule.fault.gate = Gate::new();
        rule
    }
}

impl MessageFault for Partition {
    const NAME: &'static str = "partition";
    const REACH: Reach = Reach::Ends;

    fn verdict(&self) -> Verdict {
        Verdict::Hold(self.gate.clone())
    }

    fn phrase(&self, direction: Option<Direction>) -> String {
        match direction {
            Some(Direction::Request) => "partition towards the server",
            Some(Direction::Reply) => "partition towards the clients",
            None => "partition",
        }
        .to_owned()
    }
}
