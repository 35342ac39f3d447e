//! `maxmemory-clients`: the node disconnects clients that take too much memory.
//!
//! *Policy* (`server.c: evictClients`): while all clients together are above the limit, the largest one goes. Replicas,
//! monitors, and clients with CLIENT NO-EVICT neither count nor go. The node looks in front of each request, when it has read part of
//! a large request, and at the end of each turn. Without a limit this costs a branch.

use super::State;
use crate::engine::clients::session::Session;
use crate::engine::conn_id::ConnId;
use crate::engine::effect::Effect;
use crate::resp::Request;

/// Requests above this size need a larger query buffer than others.
pub(super) const LARGE_REQUEST_BYTES: usize = 16 * 1024;

impl State {
    /// The limit of all clients, bytes; `None` for no limit.
    pub(in crate::engine) fn clients_limit(&self) -> Option<u64> {
        let config = &self.config;
        config.maxmemory_clients.bytes(config.maxmemory)
    }

    /// Notes how many bytes of requests that are not complete a client has sent: beside complete arguments, and in these.
    pub(in crate::engine) fn input_buffered(
        &mut self,
        conn: ConnId,
        unparsed: usize,
        parsed: usize,
    ) {
        let now = self.unit.now();
        if let Some(session) = self.clients.sessions.get_mut(conn) {
            session.unread_input = unparsed;
            session.parsed_input = parsed;
            let is_large = unparsed > LARGE_REQUEST_BYTES;
            session
                .buffers
                .hold_request(is_large.then_some(unparsed), now);
        }
        self.evict_clients(None);
    }

    /// Disconnects the largest clients until the remaining ones are below the limit. `running` is the caller
    /// with its request, which is not among the sessions meanwhile; true if the caller itself is
    /// disconnected.
    pub(in crate::engine) fn evict_clients(
        &mut self,
        running: Option<(&Session, Request<'_>)>,
    ) -> bool {
        let Some(limit) = self.clients_limit() else {
            return false;
        };
        let is_counted = |session: &Session| {
            !session.is_spared && !session.is_monitor && !session.reads_stream()
        };
        let others = self.clients.sessions.iter();
        let others = others.map(|session| (session, None));
        let caller = running.map(|(session, request)| (session, Some(request)));
        let mut sizes: Vec<(usize, ConnId)> = others
            .chain(caller)
            .filter(|(session, _)| is_counted(session))
            .map(|(session, request)| {
                (
                    self.client_size(session, request, self.unit.now()).total,
                    session.conn,
                )
            })
            .collect();
        let mut total: u64 = sizes.iter().map(|(size, _)| *size as u64).sum();
        if total <= limit {
            return false;
        }
        sizes.sort_unstable();
        let mut goes_itself = false;
        while total > limit
            && let Some((size, conn)) = sizes.pop()
        {
            tracing::debug!(
                client_id = conn.client_id(),
                bytes = size,
                "a client is evicted"
            );
            self.introspection.stats.evicted_clients += 1;
            total -= size as u64;
            if running.is_some_and(|(session, _)| session.conn == conn) {
                goes_itself = true;
                self.unit.outbox.push(Effect::Close { conn });
            } else {
                self.kick(conn);
            }
        }
        goes_itself
    }
}
