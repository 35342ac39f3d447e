//! The node as a user of the state machine in `connection/`: executes the requests of a connection.

use super::{SharedNode, lock};
use crate::client_connection::{ClientConnection, ClientInput};
use crate::connection::{Backend, Delivery, Ending, Flow, Output, RuledConnection, Served};
use crate::control_queue::ControlRoute;
use crate::engine::{ConnId, NodeApi, Outcome, Traffic, UnixMicros};
use crate::fault::Plan;
use crate::history::Entry;
use crate::resp::{
    ErrorReply, Limits, OwnedRequest, Protocol, ProtocolError, Reply, Request, encode, encode_owned,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Size of a batch's replies above which they are written before the batch ends.
const BATCH_BYTES_MAX: usize = 1024 * 1024;
/// Size of a batch's replies above which the output limits are checked at its end. Redis counts what does not fit in
/// the fixed buffer of a client (`PROTO_REPLY_CHUNK_BYTES`).
const LARGE_BYTES: usize = 16 * 1024;

impl SharedNode {
    /// Executes what a connection has sent, up to the first request with effects on others.
    pub(super) fn serve_batch(
        &self,
        api: &mut (impl NodeApi + ?Sized),
        connection: &Arc<ClientConnection>,
        input: &mut ClientInput,
        now: UnixMicros,
    ) -> Served {
        connection.take_pending(input);
        if self.is_down() {
            self.end_session(api, connection);
            connection.output().abandon();
            return Served::All;
        }
        if self.crashed.load(Ordering::Acquire) {
            connection.reset();
            return Served::All;
        }
        let node_time = self.node_time(now);
        let Some(conn) = self.session(api, connection, node_time) else {
            return Served::All;
        };
        let ClientInput {
            requests,
            parked,
            replies,
            received,
            was_partial,
            ..
        } = input;
        if *received != Traffic::default() {
            api.received(std::mem::take(received));
        }
        let mut backend = NodeBackend {
            shared: self,
            connection,
            api: &mut *api,
            conn,
            now,
            node_time,
            parked,
            replies,
        };
        let served = requests.serve(&mut backend, now);
        backend.flush_batch();
        let buffered = requests.buffered_bytes();
        if buffered > 0 || *was_partial {
            *was_partial = buffered > 0;
            let unparsed = requests.unparsed_bytes();
            backend
                .api
                .input_buffered(conn, unparsed, buffered - unparsed);
        }
        let has_ended = served == Served::All && requests.has_ended(&backend, now);
        if connection.was_served(input) {
            self.note(connection);
        }
        if has_ended {
            self.end_session(api, connection);
            connection.output().end(Ending::Close);
        }
        served
    }

    /// Takes a control request while the node serves no client: a control request can resume the node.
    #[cold]
    pub(super) fn take_control_request(
        &self,
        api: &mut impl NodeApi,
        connection: &Arc<ClientConnection>,
        now: UnixMicros,
    ) {
        let mut input = connection.input();
        let Some(conn) = self.session(api, connection, self.node_time(now)) else {
            return;
        };
        if input.parked.is_some() || connection.output().is_blocked() {
            return;
        }
        let limits = api.limits(conn);
        let ClientInput {
            requests, parked, ..
        } = &mut *input;
        requests.take_next_if(&limits, |request| {
            let route = self.control_queue.route(request, limits.authenticated);
            let is_control = route == ControlRoute::Control;
            if is_control {
                *parked = Some(request.to_owned());
                self.control_queue.push(connection);
            }
            is_control
        });
    }

    /// Keeps the client of a control request connected through a crash of the node, until the client has
    /// its reply.
    pub(crate) fn detach(&self, connection: &ClientConnection) {
        if let Some(conn) = connection.conn.get() {
            lock(&self.connections).remove(&conn.client_id());
        }
    }

    /// Answers a control request.
    pub(crate) fn answer_control_request(
        &self,
        connection: &Arc<ClientConnection>,
        reply: &Reply,
        protocol: Protocol,
        now: UnixMicros,
    ) {
        if connection.input().parked.take().is_none() {
            return;
        }
        let is_here = |conn: &ConnId| self.connection(conn.client_id()).is_some();
        let mut output = connection.output();
        output.write(reply, protocol);
        if connection.conn.get().is_some_and(is_here) {
            drop(output);
            let mut node = self.node();
            let now = node.serve(self, connection, now);
            node.end_turn(self, now);
        } else {
            output.end(Ending::Close);
            drop(output);
            self.note(connection);
            self.wake_transports();
        }
    }

    /// Ends the session of a connection.
    pub(super) fn end_session(
        &self,
        api: &mut (impl NodeApi + ?Sized),
        connection: &ClientConnection,
    ) {
        if let Some(conn) = connection.conn.get() {
            lock(&self.gated).numbers.remove(&conn.client_id());
            if lock(&self.connections).remove(&conn.client_id()).is_some() {
                api.disconnect(*conn);
            }
        }
    }

    /// The session of a connection, opened at its first turn; `None` if the node refuses the connection.
    pub(super) fn session(
        &self,
        api: &mut (impl NodeApi + ?Sized),
        connection: &Arc<ClientConnection>,
        node_time: UnixMicros,
    ) -> Option<ConnId> {
        if let Some(conn) = connection.conn.get() {
            return Some(*conn);
        }
        if connection.output().is_ending() {
            // It was refused before.
            return None;
        }
        match api.connect(&connection.addr, node_time) {
            Ok(conn) => {
                api.reached_at(conn, &connection.laddr);
                api.measured_by(conn, connection.output().meter());
                lock(&self.connections).insert(conn.client_id(), connection.clone());
                Some(*connection.conn.get_or_init(|| conn))
            }
            Err(refusal) => {
                let mut output = connection.output();
                output.write(&refusal.into(), Protocol::Resp2);
                output.end(Ending::Close);
                None
            }
        }
    }

    /// Writes the reply to a request as the rules decide. Returns what becomes of later requests.
    pub(super) fn answer(
        &self,
        api: &(impl NodeApi + ?Sized),
        connection: &ClientConnection,
        conn: ConnId,
        (request, reply): (Request<'_>, &Reply),
        now: UnixMicros,
    ) -> Flow {
        let protocol = api.protocol(conn);
        // Rules decide about frames, and this reply has none.
        let has_frames = !matches!(reply, Reply::Several(frames) if frames.is_empty());
        if has_frames && !self.plan.is_empty() {
            let ruling = self
                .ruled(api, connection, conn, now)
                .on_reply(request, reply);
            let mut output = connection.output();
            if output.deliver(ruling, |frames| encode(reply, protocol, frames))
                == Delivery::Silences
            {
                return Flow::Silenced;
            }
            return flow_after(&output);
        }
        let mut output = connection.output();
        output.write(reply, protocol);
        self.check_output(&mut output, api, conn, now);
        flow_after(&output)
    }
}

/// Whether a connection with this output takes another request.
fn flow_after(output: &Output) -> Flow {
    if output.is_blocked() {
        Flow::Blocked
    } else {
        Flow::Open
    }
}

/// A connection of the node while its input is served.
struct NodeBackend<'a, A: ?Sized> {
    shared: &'a SharedNode,
    connection: &'a Arc<ClientConnection>,
    api: &'a mut A,
    conn: ConnId,
    now: UnixMicros,
    node_time: UnixMicros,
    parked: &'a mut Option<OwnedRequest>,
    /// Replies that are not written yet.
    replies: &'a mut Vec<u8>,
}

impl<A: NodeApi + ?Sized> NodeBackend<'_, A> {
    fn run(&mut self, request: Request<'_>) -> Outcome {
        let outcome = self.api.handle(self.conn, request, self.node_time);
        if self.shared.has_history {
            self.record(request, &outcome);
        }
        outcome
    }

    fn record(&self, request: Request<'_>, outcome: &Outcome) {
        let reply = match outcome {
            Outcome::Reply(reply) => Some(reply.clone()),
            Outcome::Parked | Outcome::Silent => None,
        };
        let entry = Entry {
            at: self.node_time,
            client_id: self.conn.client_id(),
            request: request.to_owned(),
            reply,
        };
        lock(&self.shared.history).push(entry);
    }

    fn park(&mut self, request: Request<'_>) -> Flow {
        *self.parked = Some(request.to_owned());
        Flow::Blocked
    }

    fn answer(&self, request: Request<'_>, reply: &Reply) -> Flow {
        let Self {
            shared,
            connection,
            api,
            ..
        } = self;
        shared.answer(&**api, connection, self.conn, (request, reply), self.now)
    }

    /// Writes the replies of the batch so far, and then what `write` adds.
    fn write_batch(&mut self, write: impl FnOnce(&mut Output)) -> Flow {
        let mut output = self.connection.output();
        output.append(self.replies);
        write(&mut output);
        flow_after(&output)
    }

    /// Writes the replies at the end of a batch.
    fn flush_batch(&mut self) {
        if !self.replies.is_empty() {
            let is_large = self.replies.len() > LARGE_BYTES;
            let mut output = self.connection.output();
            let was_unread = output.append(self.replies);
            if is_large || was_unread {
                self.shared
                    .check_output(&mut output, &*self.api, self.conn, self.now);
            }
        }
    }
}

impl<A: NodeApi + ?Sized> Backend for NodeBackend<'_, A> {
    type Postponer = SharedNode;

    fn plan(&self) -> &Plan {
        &self.shared.plan
    }

    fn ruled(&self) -> RuledConnection<'_, SharedNode> {
        self.shared
            .ruled(&*self.api, self.connection, self.conn, self.now)
    }

    #[inline]
    fn limits(&self) -> Limits {
        self.api.limits(self.conn)
    }

    fn flow(&self) -> Flow {
        if self.parked.is_some() {
            return Flow::Blocked;
        }
        flow_after(&self.connection.output())
    }

    fn has_output_ended(&self) -> bool {
        self.connection.output().is_blocked()
    }

    #[inline]
    fn divert(&mut self, request: Request<'_>) -> Option<Flow> {
        if !self.shared.control_queue.is_open() {
            return None;
        }
        let limits = self.api.limits(self.conn);
        match self
            .shared
            .control_queue
            .route(request, limits.authenticated)
        {
            ControlRoute::Engine => None,
            ControlRoute::Control => {
                let flow = self.park(request);
                self.shared.control_queue.push(self.connection);
                Some(flow)
            }
            ControlRoute::Refused(why) => {
                let protocol = self.api.protocol(self.conn);
                Some(self.write_batch(|output| output.write(&Reply::error(why), protocol)))
            }
        }
    }

    fn pass_empty(&mut self) {
        self.api.pass_empty(self.conn);
    }

    #[inline]
    fn execute(&mut self, request: Request<'_>, is_ruled: bool) -> Flow {
        match self.run(request) {
            Outcome::Reply(reply) if is_ruled => self.answer(request, &reply),
            Outcome::Reply(reply) => {
                // The ordinary case: the replies of a batch are gathered and written together.
                encode_owned(reply, self.api.protocol(self.conn), self.replies);
                if self.replies.len() <= BATCH_BYTES_MAX {
                    return Flow::Open;
                }
                let mut output = self.connection.output();
                output.append(self.replies);
                self.shared
                    .check_output(&mut output, &*self.api, self.conn, self.now);
                flow_after(&output)
            }
            Outcome::Parked => self.park(request),
            Outcome::Silent => Flow::Open,
        }
    }

    fn execute_unanswered(&mut self, request: Request<'_>) {
        let _lost = self.run(request);
    }

    fn refuse(&mut self, request: Request<'_>, error: ErrorReply) -> Flow {
        match self.api.turn_away(self.conn, request, &error) {
            Outcome::Reply(reply) => self.answer(request, &reply),
            Outcome::Parked | Outcome::Silent => Flow::Open,
        }
    }

    fn reject(&mut self, error: &ProtocolError) -> Flow {
        let protocol = self.api.protocol(self.conn);
        let flow = self.write_batch(|output| {
            if !error.is_silent() {
                let error = ErrorReply::from_bytes([b"ERR ", &*error.to_bytes()].concat());
                output.write(&error.into(), protocol);
            }
            output.end(Ending::Close);
        });
        self.api.disconnect(self.conn);
        flow
    }

    fn silence_output(&mut self) {
        self.connection.output().silence();
    }

    fn end(&mut self, ending: Ending) {
        self.connection.output().end(ending);
    }

    #[inline]
    fn has_effects(&self) -> bool {
        self.api.has_effects()
            || self.shared.has_deferred.load(Ordering::Relaxed)
            || self.shared.has_run_long()
    }
}
