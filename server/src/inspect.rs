//! What a test may ask a server, and its clock. Nothing here leaves a trace: no statistics, no
//! expiry, no history.

use crate::engine::{UnixMicros, UnixMillis};
use crate::history::History;
use crate::server::Server;
use bytes::Bytes;
use std::time::Duration;

impl Server {
    /// The string at `key` in database 0; `None` when it is missing, expired or no string.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<Bytes> {
        self.peek(key).map(|(value, _)| value)
    }

    /// The string at `key` in database 0 with its deadline on the server's clock.
    pub fn peek(&self, key: impl AsRef<[u8]>) -> Option<(Bytes, Option<UnixMillis>)> {
        let now = self.now();
        let node = self.hub.shared.node();
        let (value, deadline) = node.engine.peek(0, key.as_ref(), now)?;
        Some((Bytes::copy_from_slice(value), deadline))
    }

    /// Whether `key` is there, in database 0.
    pub fn exists(&self, key: impl AsRef<[u8]>) -> bool {
        let now = self.now();
        self.hub
            .shared
            .node()
            .engine
            .deadline(0, key.as_ref(), now)
            .is_some()
    }

    /// The time to live of `key` in database 0; `None` when it is missing or has no deadline.
    pub fn pttl(&self, key: impl AsRef<[u8]>) -> Option<Duration> {
        let now = self.now();
        let deadline = self
            .hub
            .shared
            .node()
            .engine
            .deadline(0, key.as_ref(), now)??;
        Some(Duration::from_millis(
            u64::try_from(deadline.0.saturating_sub(now.millis().0)).unwrap_or(0),
        ))
    }

    /// The live keys of database 0, sorted.
    pub fn keys(&self) -> Vec<Vec<u8>> {
        let now = self.now();
        self.hub.shared.node().engine.keys(0, now)
    }

    /// Open connections, in process and over sockets.
    pub fn connections(&self) -> usize {
        self.hub.shared.connections()
    }

    /// The latest commands, if the builder asked for a history.
    pub fn history(&self) -> History {
        self.hub.shared.history()
    }

    /// What the server's clock shows.
    pub fn now(&self) -> UnixMicros {
        self.hub.shared.node_time(self.hub.now())
    }

    /// The server's clock.
    pub fn clock(&self) -> ClockControl<'_> {
        ClockControl { server: self }
    }
}

/// Moves the clock of a server.
#[derive(Clone, Copy, Debug)]
pub struct ClockControl<'a> {
    server: &'a Server,
}

impl ClockControl<'_> {
    /// What the server's clock shows.
    pub fn now(&self) -> UnixMicros {
        self.server.now()
    }

    /// Moves a manual clock forward, through every deadline on the way, each at its own instant.
    /// What they cause is in the output buffers when this returns. Waits for a script that runs.
    ///
    /// # Panics
    /// When the server's clock is not manual: a test that relied on it would prove nothing.
    pub fn advance(&self, duration: Duration) {
        let hub = &self.server.hub;
        let mut node = hub.shared.node();
        let end = hub.now().plus(duration);
        while let Some(due) = node.poll_timeout(&hub.shared).filter(|due| *due <= end) {
            let now = due.max(hub.now());
            self.set_source(now);
            node.handle_timeout(&hub.shared, now);
        }
        self.set_source(end);
    }

    /// Sets a manual clock, also back. It does not step: what is overdue fires once, at the new time.
    ///
    /// # Panics
    /// When the server's clock is not manual.
    pub fn set(&self, time: UnixMicros) {
        let hub = &self.server.hub;
        let mut node = hub.shared.node();
        self.set_source(time);
        node.handle_timeout(&hub.shared, time);
    }

    /// Moves the clock of this server alone against its source, forward or back, in any mode. It
    /// does not step: what is overdue fires once, at the new time.
    pub fn jump(&self, by: Duration, back: bool) {
        let hub = &self.server.hub;
        let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        let mut node = hub.shared.node();
        hub.shared.jump(if back { -micros } else { micros });
        node.handle_timeout(&hub.shared, hub.now());
        let due = node.poll_timeout(&hub.shared);
        drop(node);
        if let Some(due) = due {
            hub.arm(due);
        }
    }

    fn set_source(&self, now: UnixMicros) {
        assert!(
            self.server.hub.source.set(now),
            "only a manual clock can be moved: Server::builder().clock(Clock::Manual)"
        );
    }
}
