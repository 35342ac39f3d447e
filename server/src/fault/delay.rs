//! The fault `delay`: a message arrives later.

use super::args::millis;
use super::rule::{MessageFault, Reach, Rule, subject};
use super::{Direction, FaultSpec, Placement, Verdict};
use std::time::Duration;

pub(super) const SPEC: FaultSpec = FaultSpec {
    name: Delay::NAME,
    summary: "a message arrives later; the messages behind it wait for it",
    placement: Placement::Both,
    arguments: "milliseconds",
    parse: Some(|mut words| {
        let duration = words.millis()?;
        words.rule(Delay { duration })
    }),
};

/// Delays a message. Later messages of the same connection and direction wait behind it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use redis::AsyncTypedCommands;
/// use redouble::{Clock, Server, fault::Delay};
/// use std::time::Duration;
///
/// let server = Server::builder().clock(Clock::Tokio).start().await?;
/// let mut redis = server.connection().await?;
/// // The client gives up after 500 ms; the key is written all the same.
/// let late = server.inject(Delay::reply(Duration::from_secs(2)).command("SET"));
/// assert!(redis.set("k", "v").await.unwrap_err().is_timeout());
/// server.assert_get("k", "v");
/// late.assert_fired(1);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Delay {
    duration: Duration,
}

impl Delay {
    /// Delays every message in both directions: the latency of a network.
    pub fn new(duration: Duration) -> Rule<Self> {
        Rule::new(Self { duration }, None)
    }

    /// The request reaches the server `duration` later, even if the client has disconnected by
    /// then.
    pub fn request(duration: Duration) -> Rule<Self> {
        Rule::new(Self { duration }, Some(Direction::Request))
    }

    /// The server executes the request at once, and the reply reaches the client `duration` later.
    /// Pushes are delayed too, unless the rule names a command or a key.
    pub fn reply(duration: Duration) -> Rule<Self> {
        Rule::new(Self { duration }, Some(Direction::Reply))
    }
}

impl MessageFault for Delay {
    const NAME: &'static str = "delay";
    const REACH: Reach = Reach::Pushes;

    fn verdict(&self) -> Verdict {
        Verdict::Delay(self.duration)
    }

    fn arguments(&self) -> Vec<Vec<u8>> {
        vec![millis(self.duration)]
    }

    fn phrase(&self, direction: Option<Direction>) -> String {
        format!("delay by {:?} the {}", self.duration, subject(direction))
    }
}
