//! The messages on the links, as chunks of bytes. Reports show them; checkers look at the requests instead.

use crate::scenario::Direction;
use std::time::Duration;

/// Number of bytes of a message that the history keeps.
pub(crate) const HEAD_MAX: usize = 160;

/// A message between a client process and a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The client process.
    pub host: u8,
    /// The server.
    pub node: u8,
    /// The direction, to the server or to the client.
    pub direction: Direction,
    /// True time of its sending.
    pub sent: Duration,
    /// True time of its arrival; `None` if it never arrived.
    pub arrived: Option<Duration>,
    /// Its first bytes.
    pub head: Vec<u8>,
}
