//! The latest commands of a server with their replies: off until asked for, bounded, printable.

use crate::engine::UnixMicros;
use crate::resp::{OwnedRequest, Reply};
use std::collections::VecDeque;
use std::fmt;

/// Number of commands that a history keeps where clients can ask for it and the builder does not set another one.
pub const HISTORY_MAX: usize = 10_000;

/// One command.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The node's clock when it was executed.
    pub at: UnixMicros,
    /// The client's id.
    pub client_id: u64,
    /// The request.
    pub request: OwnedRequest,
    /// The reply of the engine, even if a fault kept it from the client; `None` while the request waits.
    pub reply: Option<Reply>,
}

/// The latest commands of a server, oldest first: [`Server::history`](crate::Server::history).
///
/// `Display` writes one line each: the time on the node's clock in milliseconds, the id of the client,
/// the request as `redis-cli` takes it, and the reply as [`Server::assert_history`](crate::Server::assert_history)
/// shows it. Long scripts are cut.
///
/// ```
/// use redouble::{Clock, Server};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::builder().clock(Clock::Manual).history(100).start().await?;
/// let mut redis = server.connection().await?;
/// redis::cmd("SET").arg("k").arg("a b").exec_async(&mut redis).await?;
/// let lines = server.history().to_string();
/// assert!(lines.ends_with("1704067200000.000 #1 SET k \"a b\" -> OK\n"), "{lines}");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct History {
    entries: VecDeque<Entry>,
    capacity: usize,
    lost: u64,
}

impl History {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self {
            capacity,
            ..Self::default()
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.capacity > 0
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        if self.entries.len() == self.capacity {
            self.entries.pop_front();
            self.lost += 1;
        }
        self.entries.push_back(entry);
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.lost = 0;
    }

    /// A request that was parked has its answer.
    pub(crate) fn answered(&mut self, client_id: u64, reply: &Reply) {
        let mut entries = self.entries.iter_mut().rev();
        let parked = entries.find(|entry| entry.client_id == client_id);
        if let Some(entry) = parked.filter(|entry| entry.reply.is_none()) {
            entry.reply = Some(reply.clone());
        }
    }

    /// The entries, oldest first.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Number of earlier commands that the history has forgotten to stay within its bound.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_on() {
            return f.write_str("no history: ask for one with ServerBuilder::history");
        }
        if self.lost > 0 {
            writeln!(f, "({} earlier commands forgotten)", self.lost)?;
        }
        for entry in &self.entries {
            write!(
                f,
                "{:>13}.{:03} #{} {}",
                entry.at.0.div_euclid(1000),
                entry.at.0.rem_euclid(1000),
                entry.client_id,
                entry.request.shortened()
            )?;
            match &entry.reply {
                Some(reply) => writeln!(f, " -> {reply}")?,
                None => writeln!(f, " (waits)")?,
            }
        }
        Ok(())
    }
}
