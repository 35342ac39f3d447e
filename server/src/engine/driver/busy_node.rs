//! A node whose script runs: it serves other connections through the busy gate.

use super::dispatch::{Dispatched, dispatch};
use super::{NodeApi, Outcome};
use crate::engine::CommandError;
use crate::engine::conn_id::ConnId;
use crate::engine::context::Origin;
use crate::engine::effect::Effect;
use crate::engine::state::State;
use crate::engine::table::CommandTable;
use crate::engine::time::UnixMicros;
use crate::resp::{ErrorReply, Limits, Protocol, Request};

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

    fn disconnect(&mut self, conn: ConnId) {
        self.state.disconnect(conn);
    }

    fn handle(&mut self, conn: ConnId, request: Request<'_>, now: UnixMicros) -> Outcome {
        let state = &mut *self.state;
        let Some(mut session) = state.clients.sessions.take(conn) else {
            return Outcome::Silent;
        };
        let dispatched = dispatch(
            state,
            self.table,
            &mut session,
            request,
            now,
            Origin::Client,
        );
        state.clients.sessions.put_back(session);
        match dispatched {
            Dispatched::Reply(reply) => Outcome::Reply(reply),
            Dispatched::Silent => Outcome::Silent,
            // The busy gate lets none of these pass.
            Dispatched::Script(_) | Dispatched::Exec(_) | Dispatched::Parked => {
                Outcome::Reply(CommandError::Busy.into())
            }
        }
    }

    fn turn_away(&mut self, conn: ConnId, request: Request<'_>, error: &ErrorReply) -> Outcome {
        self.state.refuse_one(self.table, conn, request, error)
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

    fn pushed_bytes_max(&self) -> usize {
        self.state.pushed_bytes_max()
    }

    fn limits(&self, conn: ConnId) -> Limits {
        self.state.limits(conn)
    }

    fn name(&self, conn: ConnId) -> &[u8] {
        self.state.name(conn)
    }
}
