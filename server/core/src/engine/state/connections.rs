//! Connections as the driver opens, asks and closes them.

use super::State;
use crate::engine::buffer_limits::{OutputLimits, OutputMeter};
use crate::engine::clients::session::Session;
use crate::engine::conn_id::ConnId;
use crate::engine::effect::Effect;
use crate::engine::time::UnixMicros;
use crate::resp::{ErrorReply, Limits, Protocol};

/// The answer to a client of another machine in protected mode: Redis's first sentence, and what
/// can be done here.
const DENIED: &str = "DENIED Redis is running in protected mode because protected mode is enabled and no \
    password is set for the default user. Connections are accepted from 127.0.0.1 and ::1 only. To accept \
    others, start redouble with a password or with --protected-mode no, or send CONFIG SET protected-mode no \
    from this machine.";

impl State {
    pub(in crate::engine) fn connect(
        &mut self,
        addr: &str,
        now: UnixMicros,
    ) -> Result<ConnId, ErrorReply> {
        if self.clients.sessions.len() >= self.config.maxclients {
            self.introspection.stats.rejected_connections += 1;
            return Err(ErrorReply::new("ERR max number of clients reached"));
        }
        if !self.acl.default_has_password() && self.config.denies(addr) {
            self.introspection.stats.rejected_connections += 1;
            return Err(ErrorReply::new(DENIED));
        }
        self.introspection.stats.connections += 1;
        let conn = self.clients.sessions.open(addr, now);
        if let Some(mut session) = self.clients.sessions.take(conn) {
            self.begin_as_default(&mut session);
            self.clients.sessions.put_back(session);
        }
        tracing::debug!(addr, client_id = conn.client_id(), at = now.0, "connected");
        Ok(conn)
    }

    pub(in crate::engine) fn reached_at(&mut self, conn: ConnId, laddr: &str) {
        if let Some(session) = self.clients.sessions.get_mut(conn) {
            session.laddr = laddr.into();
        }
    }

    pub(in crate::engine) fn measured_by(&mut self, conn: ConnId, meter: OutputMeter) {
        if let Some(session) = self.clients.sessions.get_mut(conn) {
            session.output = meter;
        }
    }

    pub(in crate::engine) fn disconnect(&mut self, conn: ConnId) {
        if let Some(session) = self.clients.sessions.get(conn) {
            let sent = session.output.take_traffic();
            self.introspection.stats.sent.add(sent);
        }
        self.clients.close(conn);
        if !self.peers.replication.readers.is_empty() {
            self.remove_reader(conn);
        }
    }

    #[inline]
    pub(in crate::engine) fn protocol(&self, conn: ConnId) -> Protocol {
        self.clients
            .sessions
            .get(conn)
            .map_or_else(Protocol::default, |session| session.protocol)
    }

    pub(in crate::engine) fn output_limits(&self, conn: ConnId) -> OutputLimits {
        let session = self.clients.sessions.get(conn);
        let is_subscriber = session.is_some_and(|session| session.is_subscribed);
        let is_replica = session.is_some_and(Session::reads_stream);
        self.config
            .client_output_buffer_limit
            .of_client(is_subscriber, is_replica)
    }

    #[inline]
    pub(in crate::engine) fn limits(&self, conn: ConnId) -> Limits {
        Limits {
            bulk_bytes_max: self.config.proto_max_bulk_len,
            buffer_bytes_max: usize::try_from(self.config.client_query_buffer_limit)
                .unwrap_or(usize::MAX),
            authenticated: self
                .clients
                .sessions
                .get(conn)
                .is_some_and(|session| session.authenticated || self.acl.admits_all()),
        }
    }

    pub(in crate::engine) fn name(&self, conn: ConnId) -> &[u8] {
        self.clients
            .sessions
            .get(conn)
            .map_or(b"", |session| &session.name)
    }

    /// Ends a connection at once, from the side of the server.
    pub(in crate::engine) fn kick(&mut self, conn: ConnId) {
        self.disconnect(conn);
        self.unit.outbox.push(Effect::Close { conn });
    }
}
