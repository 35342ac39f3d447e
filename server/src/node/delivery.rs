//! Messages from the node to its connections: pushes, replies that come later, and the end of a connection.

use super::{SharedNode, lock};
use crate::client_connection::ClientConnection;
use crate::connection::{Delivery, Flow, Postponer, RuledConnection};
use crate::engine::{ConnId, NodeApi, UnixMicros};
use crate::fault::{Direction, Sender};
use crate::resp::{Reply, encode};
use std::sync::Arc;
use std::task::Waker;

impl Postponer for SharedNode {
    fn note(&self, client_id: u64, until: Option<UnixMicros>, has_gates: bool) {
        if let Some(until) = until {
            self.set_timer(until, client_id);
        }
        if has_gates {
            let mut gated = lock(&self.gated);
            gated.count += 1;
            let number = gated.count;
            gated.numbers.entry(client_id).or_insert(number);
        }
    }

    fn gate_waker(&self) -> &Waker {
        self.gate_waker.get().unwrap_or_else(|| Waker::noop())
    }
}

impl SharedNode {
    /// A connection as the fault rules see it.
    pub(super) fn ruled<'a>(
        &'a self,
        api: &'a (impl NodeApi + ?Sized),
        connection: &'a ClientConnection,
        conn: ConnId,
        now: UnixMicros,
    ) -> RuledConnection<'a, Self> {
        RuledConnection {
            plan: &self.plan,
            sender: Sender {
                client_id: conn.client_id(),
                addr: &connection.addr,
                name: api.name(conn),
            },
            now,
            postponer: self,
        }
    }

    /// Sends a connection a frame that answers no request. If its client has left too much unread, the node
    /// forgets the session at once, as in [`Self::close`].
    pub(super) fn push(
        &self,
        api: &mut (impl NodeApi + ?Sized),
        conn: ConnId,
        frame: &Reply,
        now: UnixMicros,
    ) {
        let Some(connection) = self.connection(conn.client_id()) else {
            return;
        };
        let protocol = api.protocol(conn);
        let mut output;
        if self.plan.is_empty() {
            output = connection.output();
            output.write(frame, protocol);
        } else {
            let ruling = self.ruled(&*api, &connection, conn, now).on_push(frame);
            output = connection.output();
            let delivery = output.deliver(ruling, |frames| encode(frame, protocol, frames));
            if delivery == Delivery::Silences {
                // The locks are taken in the order input, output.
                drop(output);
                connection.silence_input();
                output = connection.output();
            }
        }
        let is_reset = self.check_output(&mut output, &*api, conn, now);
        drop(output);
        self.note(&connection);
        if is_reset {
            api.disconnect(conn);
        }
    }

    /// Answers a request that was parked. Returns its connection, whose next request can be served now.
    pub(super) fn answer_parked(
        &self,
        api: &(impl NodeApi + ?Sized),
        conn: ConnId,
        reply: &Reply,
        now: UnixMicros,
    ) -> Option<Arc<ClientConnection>> {
        let connection = self.connection(conn.client_id())?;
        let request = connection.input().parked.take()?;
        if self.has_history {
            lock(&self.history).answered(conn.client_id(), reply);
        }
        if let Some(request) = request.as_request()
            && self.answer(api, &connection, conn, (request, reply), now) == Flow::Silenced
        {
            connection.silence_input();
        }
        self.set_timer(now, conn.client_id());
        self.note(&connection);
        Some(connection)
    }

    /// Ends a connection. The node forgets its subscriptions, watched keys and waiting requests at once. The
    /// client still gets what was sent to it before.
    pub(super) fn close(&self, api: &mut (impl NodeApi + ?Sized), conn: ConnId, now: UnixMicros) {
        if let Some(connection) = self.connection(conn.client_id()) {
            let wait = self
                .ruled(api, &connection, conn, now)
                .on_end(Direction::Reply);
            connection.output().end_when(wait);
            self.note(&connection);
        }
        api.disconnect(conn);
    }
}
