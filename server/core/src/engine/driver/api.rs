//! [`NodeApi`]: how transports reach a node, be it at rest or inside a long script (`busy_node.rs`).

use crate::engine::Engine;
use crate::engine::buffer_limits::{OutputLimits, OutputMeter, Traffic};
use crate::engine::conn_id::ConnId;
use crate::engine::effect::Effect;
use crate::engine::time::UnixMicros;
use crate::resp::{ErrorReply, Limits, Protocol, Reply, Request};

/// Outcome of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The caller's answer.
    Reply(Reply),
    /// The answer follows later, as an [`Effect::Reply`].
    Parked,
    /// The request has no reply.
    Silent,
}

/// A driver's way to a node: the engine itself, or the engine beside a long script.
pub trait NodeApi {
    /// Opens a connection from `addr`.
    ///
    /// # Errors
    /// `ERR max number of clients reached`, as `networking.c: acceptCommonHandler`.
    fn connect(&mut self, addr: &str, now: UnixMicros) -> Result<ConnId, ErrorReply>;
    /// Address at which a connection has reached the server, if it differs from the client's.
    fn reached_at(&mut self, conn: ConnId, laddr: &str);
    /// Sets the meter of a connection's output, which CLIENT LIST reads.
    fn measured_by(&mut self, conn: ConnId, meter: OutputMeter);
    /// Notes how many bytes of requests that are not complete a connection has sent: beside its complete arguments, and in
    /// these. The driver says so at the end of each turn that leaves some.
    fn input_buffered(&mut self, conn: ConnId, unparsed: usize, parsed: usize);
    /// Counts what a transport has read from a client since the last call.
    fn received(&mut self, traffic: Traffic);
    /// Forgets a connection.
    fn disconnect(&mut self, conn: ConnId);
    /// Runs one request of a connection. `now` is the node's clock, read once for the whole unit.
    fn handle(&mut self, conn: ConnId, request: Request<'_>, now: UnixMicros) -> Outcome;
    /// Answers a request with an error instead of running it, as a gate would: what MULTI queued is
    /// spoiled, EXEC ends it, and a client that wants no replies gets none.
    fn turn_away(&mut self, conn: ConnId, request: Request<'_>, error: &ErrorReply) -> Outcome;
    /// Takes notice of a request without arguments: it counts as the next one for CLIENT REPLY SKIP, ASKING and CLIENT CACHING
    /// (`networking.c: resetClient`).
    fn pass_empty(&mut self, conn: ConnId);
    /// The next effect to carry out, in the order in which they came about. To be asked after every
    /// other call until there is none.
    fn poll_effect(&mut self) -> Option<Effect>;
    /// True if there are effects to carry out.
    fn has_effects(&self) -> bool;
    /// The protocol a connection is answered in.
    fn protocol(&self, conn: ConnId) -> Protocol;
    /// The bounds under which a connection's input is decoded.
    fn limits(&self, conn: ConnId) -> Limits;
    /// Limits of a connection's unread output (`client-output-buffer-limit`).
    fn output_limits(&self, conn: ConnId) -> OutputLimits;
    /// The name a connection gave itself by CLIENT SETNAME; empty at first.
    fn name(&self, conn: ConnId) -> &[u8];
}

impl NodeApi for Engine {
    fn connect(&mut self, addr: &str, now: UnixMicros) -> Result<ConnId, ErrorReply> {
        self.state_mut().connect(addr, now)
    }

    fn reached_at(&mut self, conn: ConnId, laddr: &str) {
        self.state_mut().reached_at(conn, laddr);
    }

    fn measured_by(&mut self, conn: ConnId, meter: OutputMeter) {
        self.state_mut().measured_by(conn, meter);
    }

    fn input_buffered(&mut self, conn: ConnId, unparsed: usize, parsed: usize) {
        self.state_mut().input_buffered(conn, unparsed, parsed);
    }

    #[inline]
    fn received(&mut self, traffic: Traffic) {
        self.state_mut().introspection.stats.received.add(traffic);
    }

    fn disconnect(&mut self, conn: ConnId) {
        self.state_mut().disconnect(conn);
    }

    #[inline]
    fn handle(&mut self, conn: ConnId, request: Request<'_>, now: UnixMicros) -> Outcome {
        self.run(conn, request, now)
    }

    fn turn_away(&mut self, conn: ConnId, request: Request<'_>, error: &ErrorReply) -> Outcome {
        let table = self.table;
        self.state_mut().refuse_one(table, conn, request, error)
    }

    fn pass_empty(&mut self, conn: ConnId) {
        self.state_mut().pass_empty(conn);
    }

    fn poll_effect(&mut self) -> Option<Effect> {
        self.state_mut().unit.outbox.poll_effect()
    }

    #[inline]
    fn has_effects(&self) -> bool {
        !self.state().unit.outbox.is_empty()
    }

    #[inline]
    fn protocol(&self, conn: ConnId) -> Protocol {
        self.state().protocol(conn)
    }

    fn output_limits(&self, conn: ConnId) -> OutputLimits {
        self.state().output_limits(conn)
    }

    #[inline]
    fn limits(&self, conn: ConnId) -> Limits {
        self.state().limits(conn)
    }

    fn name(&self, conn: ConnId) -> &[u8] {
        self.state().name(conn)
    }
}
