//! The fault `hold`: a message waits at a gate.

use super::rule::{MessageFault, Reach, Rule, subject};
use super::{Direction, FaultSpec, Gate, Placement, Verdict};

pub(super) const SPEC: FaultSpec = FaultSpec {
    name: Hold::NAME,
    summary: "a message waits until its gate is opened or the rule is removed; the messages behind it wait for it",
    placement: Placement::Both,
    arguments: "",
    parse: Some(|words| words.rule(Hold { gate: Gate::new() })),
};

/// Holds a message until a [`Gate`] is opened. Later messages of the same connection and direction
/// wait behind it. With gates, a test can force any interleaving of two clients.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use redis::AsyncTypedCommands;
/// use redouble::{Server, fault::{Gate, Hold}};
///
/// let server = Server::start().await?;
/// let (mut first, mut second) = (server.connection().await?, server.connection().await?);
/// let gate = Gate::new();
/// let _rule = server.inject(Hold::request(&gate).key("owner").nth(1));
/// let slow = tokio::spawn(async move { first.set_nx("owner", "first").await });
/// while gate.waiting() == 0 {
///     tokio::task::yield_now().await;
/// }
/// assert!(second.set_nx("owner", "second").await?);
/// gate.open();
/// assert!(!slow.await??);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Hold {
    gate: Gate,
}

impl Hold {
    /// Holds the request: the server receives it when `gate` is opened.
    pub fn request(gate: &Gate) -> Rule<Self> {
        Self::in_direction(gate, Direction::Request)
    }

    /// The server executes the request; the client receives the reply when `gate` is opened. Pushes
    /// are held too, unless the rule names a command or a key.
    pub fn reply(gate: &Gate) -> Rule<Self> {
        Self::in_direction(gate, Direction::Reply)
    }

    fn in_direction(gate: &Gate, direction: Direction) -> Rule<Self> {
        let gate = gate.clone();
        Rule::new(Self { gate }, Some(direction))
    }
}

impl MessageFault for Hold {
    const NAME: &'static str = "hold";
    const REACH: Reach = Reach::Pushes;

    fn verdict(&self) -> Verdict {
        Verdict::Hold(self.gate.clone())
    }

    fn phrase(&self, direction: Option<Direction>) -> String {
        format!("hold {}", subject(direction))
    }
}
