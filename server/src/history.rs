//! The latest commands of a server with their replies: off until asked for, bounded, printable.

use crate::engine::UnixMicros;
use crate::resp::{OwnedRequest, Reply};
use std::collections::VecDeque;
use std::fmt;

/// Number of commands that a history keeps where clients can ask for it and the builder does not set another one.
pub const HISTORY_MAX: usize = 10_000;

/// Bytes of requests and replies that a history keeps, as many as a subscriber may leave unread
/// (`client-output-buffer-limit pubsub`). The latest command stays, whatever its size.
pub const HISTORY_BYTES_MAX: usize = 32 * 1024 * 1024;

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
    /// Bytes of the entries.
    bytes: usize,
    capacity: usize,
    lost: u64,
}

impl Entry {
    fn size_bytes(&self) -> usize {
        self.request.size_bytes() + self.reply.as_ref().map_or(0, Reply::size_bytes)
    }
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
        self.bytes += entry.size_bytes();
        self.entries.push_back(entry);
        self.forget_oldest();
    }

    fn forget_oldest(&mut self) {
        while self.entries.len() > self.capacity
            || self.bytes > HISTORY_BYTES_MAX && self.entries.len() > 1
        {
            let oldest = self.entries.pop_front();
            self.bytes -= oldest.map_or(0, |entry| entry.size_bytes());
            self.lost += 1;
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
        self.lost = 0;
    }

    /// A request that was parked has its answer.
    pub(crate) fn answered(&mut self, client_id: u64, reply: &Reply) {
        let mut entries = self.entries.iter_mut().rev();
        let parked = entries.find(|entry| entry.client_id == client_id);
        if let Some(entry) = parked.filter(|entry| entry.reply.is_none()) {
            entry.reply = Some(reply.clone());
            self.bytes += reply.size_bytes();
            self.forget_oldest();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(client_id: u64, reply: Option<Reply>) -> Entry {
        Entry {
            at: UnixMicros(0),
            client_id,
            request: OwnedRequest::new([&b"GET"[..], b"k"]),
            reply,
        }
    }

    #[test]
    fn large_replies_are_bounded_by_bytes() {
        let large = Reply::bulk(vec![b'x'; HISTORY_BYTES_MAX / 8]);
        let mut history = History::with_capacity(100);
        for client_id in 0..20 {
            history.push(entry(client_id, Some(large.clone())));
        }
        assert_eq!((history.entries().len(), history.lost()), (7, 13));
        history.clear();
        for client_id in 0..20 {
            history.push(entry(client_id, None));
        }
        for client_id in 0..20 {
            history.answered(client_id, &large);
        }
        assert_eq!((history.entries().len(), history.lost()), (7, 13));
        assert!(history.bytes <= HISTORY_BYTES_MAX);
    }

    #[test]
    fn the_latest_command_stays_whatever_its_size() {
        let mut history = History::with_capacity(100);
        history.push(entry(1, None));
        let huge = Reply::bulk(vec![b'x'; HISTORY_BYTES_MAX]);
        history.push(entry(2, Some(huge)));
        let ids: Vec<u64> = history.entries().map(|entry| entry.client_id).collect();
        assert_eq!((ids, history.lost()), (vec![2], 1));
    }

    #[test]
    fn the_number_of_commands_is_bounded_too() {
        let mut history = History::with_capacity(3);
        (0..5).for_each(|client_id| history.push(entry(client_id, None)));
        assert_eq!((history.entries().len(), history.lost()), (3, 2));
    }
}
