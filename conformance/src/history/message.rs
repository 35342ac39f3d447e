//! What went over the links, as chunks of bytes. Reports show it; judges look at the requests instead.

use crate::scenario::Direction;
use std::time::Duration;

/// How much of a message is kept.
pub(crate) const HEAD_MAX: usize = 160;

/// A message between a client process and a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The client process.
    pub host: u8,
    /// The server.
    pub node: u8,
    /// Which way it went.
    pub direction: Direction,
    /// True time of its sending.
    pub sent: Duration,
    /// True time of its arrival; `None` if it never arrived.
    pub arrived: Option<Duration>,
    /// Its first bytes.
    pub head: Vec<u8>,
}
