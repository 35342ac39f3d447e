//! The clock of a server, in the hands of a test.

use crate::engine::UnixMicros;
use crate::server::Server;
use std::time::Duration;

/// Moves the clock of a server.
#[derive(Clone, Copy, Debug)]
pub struct ClockControl<'a> {
    server: &'a Server,
}

impl<'a> ClockControl<'a> {
    pub(super) fn of(server: &'a Server) -> Self {
        Self { server }
    }

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
