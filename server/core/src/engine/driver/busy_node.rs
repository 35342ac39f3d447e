//! A node whose script runs: it serves other connections through the busy gate.

use super::dispatch::{Dispatched, dispatch};
use super::{NodeApi, Outcome};
use crate::engine::ReplyMode;
use crate::engine::buffer_limits::{OutputLimits, OutputMeter, Traffic};
use crate::engine::conn_id::ConnId;
use crate::engine::effect::Effect;
use crate::engine::origin::Origin;
use crate::engine::state::State;
use crate::engine::table::CommandTable;
use crate::engine::time::UnixMicros;
use crate::resp::{ErrorReply, Limits, Protocol, Reply, Request};

/// A node beside a script that runs: it serves what passes the busy gate.
pub(in crate::engine) struct BusyNode<'a> {
    pub(in crate::engine) state: &'a mut State,
    pub(in crate::engine) table: &'static CommandTable,
}

impl NodeApi for BusyNode<'_> {
    fn connect(&mut self, addr: &str, now: UnixMicros) -> Result<ConnId, ErrorReply> {
        self.state.connect(addr, now)
    }

    fn reached_at(&mut self, conn: ConnId, laddr: &str) {
        self.state.reached_at(conn, laddr);
    }

    fn measured_by(&mut self, conn: ConnId, meter: OutputMeter) {
        self.state.measured_by(conn, meter);
    }

    /// Beside a long script no client is evicted (`server.c: isInsideYieldingLongCommand`).
    fn input_buffered(&mut self, _: ConnId, _: usize, _: usize) {}

    fn received(&mut self, traffic: Traffic) {
        self.state.introspection.stats.received.add(traffic);
    }

    fn disconnect(&mut self, conn: ConnId) {
        self.state.disconnect(conn);
    }

    fn handle(&mut self, conn: ConnId, request: Request<'_>, now: UnixMicros) -> Outcome {
        let state = &mut *self.state;
        let Some(mut session) = state.clients.sessions.take(conn) else {
            return Outcome::Silent;
        };
        session.last_used_at = now;
        let mut is_quiet = session.reply_mode != ReplyMode::On;
        let dispatched = dispatch(
            state,
            self.table,
            &mut session,
            request,
            now,
            Origin::Client,
        );
        is_quiet |= session.reply_mode != ReplyMode::On;
        state.clients.sessions.put_back(session);
        let outcome = match dispatched {
            Dispatched::Reply(reply) => Outcome::Reply(reply),
            Dispatched::Silent => Outcome::Silent,
            // The busy gate lets none of these pass.
            Dispatched::Script(_) | Dispatched::Exec(_) | Dispatched::Parked => {
                Outcome::Reply(state.scripting.busy_error().into())
            }
        };
        match outcome {
            Outcome::Reply(reply) if is_quiet => {
                Outcome::Reply(state.apply_reply_mode(conn, reply))
            }
            Outcome::Silent if is_quiet => {
                // CLIENT REPLY SKIP counts from this request.
                state.apply_reply_mode(conn, Reply::Several(Vec::new()));
                Outcome::Silent
            }
            outcome @ (Outcome::Reply(_) | Outcome::Parked | Outcome::Silent) => outcome,
        }
    }

    fn turn_away(&mut self, conn: ConnId, request: Request<'_>, error: &ErrorReply) -> Outcome {
        self.state.refuse_one(self.table, conn, request, error)
    }

    fn pass_empty(&mut self, conn: ConnId) {
        self.state.pass_empty(conn);
    }

    fn poll_effect(&mut self) -> Option<Effect> {
        self.state.unit.outbox.poll_effect()
    }

    fn has_effects(&self) -> bool {
        !self.state.unit.outbox.is_empty()
    }

    fn protocol(&self, conn: ConnId) -> Protocol {
        self.state.protocol(conn)
    }

    fn output_limits(&self, conn: ConnId) -> OutputLimits {
        self.state.output_limits(conn)
    }

    fn limits(&self, conn: ConnId) -> Limits {
        self.state.limits(conn)
    }

    fn name(&self, conn: ConnId) -> &[u8] {
        self.state.name(conn)
    }
}
