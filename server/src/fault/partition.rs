//! The fault `partition`: clients and the node do not reach each other.

use super::rule::{MessageFault, Reach, Rule};
use super::{Direction, FaultSpec, Gate, Placement, Verdict};

pub(super) const SPEC: FaultSpec = FaultSpec {
    name: Partition::NAME,
    summary: "clients and the node do not reach each other until the rule is removed; then all messages arrive",
    placement: Placement::Both,
    arguments: "",
    parse: Some(|words| words.rule(Partition { gate: Gate::new() })),
};

/// Cuts the network between clients and the node, until the guard is dropped or
/// [healed](crate::FaultGuard::heal). Then every message that was sent meanwhile arrives in order,
/// as TCP retransmits it. This includes requests of clients that have since disconnected, and their
/// disconnects. Messages that were already on their way when the partition began still arrive.
///
/// Conditions on addresses, names or connection ids select the clients. Only an address also
/// selects connections that a client opens during the partition. In process,
/// [`Server::connect_from`](crate::Server::connect_from) gives a connection an address.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use redis::AsyncTypedCommands;
/// use redouble::{Clock, Server, fault::Partition};
///
/// let server = Server::builder().clock(Clock::Tokio).start().await?;
/// let mut near = server.connection().await?;
/// let mut far = server.connection_builder().addr("far:1").open().await?;
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
    /// Blocks both directions.
    pub fn new() -> Rule<Self> {
        Rule::new(Self { gate: Gate::new() }, None)
    }

    /// Blocks messages from the clients to the server; the other direction works.
    pub fn to_server() -> Rule<Self> {
        Rule::new(Self { gate: Gate::new() }, Some(Direction::Request))
    }

    /// Blocks messages from the server to the clients; requests arrive and are executed.
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
