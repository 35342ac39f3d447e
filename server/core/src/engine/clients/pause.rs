//! CLIENT PAUSE: its end, the commands that it stops, and the postponed requests.
//!
//! *Policy* (`networking.c: pauseClients`): a later end replaces an earlier one and a stricter kind
//! a weaker one, never the reverse. A request that arrives meanwhile waits, and then runs as if
//! it had just arrived, in the order of arrival, each with what its client has sent behind it. No key
//! is removed while writes are paused.

use crate::engine::conn_id::ConnId;
use crate::engine::time::UnixMillis;
use crate::resp::OwnedRequest;
use std::collections::VecDeque;

/// Which commands wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Paused {
    Writes,
    All,
}

/// The pause of a node's clients.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pause {
    current: Option<(UnixMillis, Paused)>,
    /// Writes wait for a failover, however long that takes.
    is_failing_over: bool,
    /// Requests that arrived meanwhile.
    postponed: VecDeque<(ConnId, OwnedRequest)>,
}

impl Pause {
    pub(crate) fn begin(&mut self, until: UnixMillis, what: Paused) {
        self.current = Some(match self.current {
            Some((since, kind)) => (since.max(until), kind.max(what)),
            None => (until, what),
        });
    }

    pub(crate) fn end(&mut self) {
        self.current = None;
    }

    pub(crate) fn set_failing_over(&mut self, is_failing_over: bool) {
        self.is_failing_over = is_failing_over;
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.current.is_some() || self.is_failing_over
    }

    /// Returns true if a command has to wait.
    pub(crate) fn stops(&self, writes: bool) -> bool {
        let is_all = |(_, what)| what == Paused::All;
        self.is_on() && (writes || self.current.is_some_and(is_all))
    }

    pub(crate) fn until(&self) -> Option<UnixMillis> {
        self.current.map(|(until, _)| until)
    }

    pub(crate) fn postpone(&mut self, conn: ConnId, request: OwnedRequest) {
        self.postponed.push_back((conn, request));
    }

    pub(crate) fn postponed(&self) -> usize {
        self.postponed.len()
    }

    /// The postponed request of a connection.
    pub(crate) fn request_of(&self, conn: ConnId) -> Option<&OwnedRequest> {
        let mut postponed = self.postponed.iter();
        postponed
            .find(|(other, _)| *other == conn)
            .map(|(_, request)| request)
    }

    /// True if postponed requests need not wait any longer.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        !self.is_on() && !self.postponed.is_empty()
    }

    pub(crate) fn next_postponed(&mut self) -> Option<(ConnId, OwnedRequest)> {
        self.postponed.pop_front()
    }

    /// Forgets a connection.
    pub(crate) fn leave(&mut self, conn: ConnId) {
        self.postponed.retain(|(other, _)| *other != conn);
    }
}
