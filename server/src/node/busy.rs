//! Serves connections beside a long script. The script has the state of the node, and its hook calls this file with
//! it. The busy gate lets only a few commands pass; all others get -BUSY.
//!
//! *Policy.* The connection whose request runs the script waits for its reply, and so does a connection
//! whose input is in use further up the same call. Effects that need the node itself are kept until the
//! script has ended, and are then carried out before all later ones.

use super::{SharedNode, lock};
use crate::engine::Effect;
use std::sync::atomic::Ordering;
#[cfg(feature = "script")]
use {
    crate::client_connection::ClientConnection,
    crate::connection::Served,
    crate::engine::{ConnId, NodeApi, UnixMicros},
    std::sync::Arc,
};

impl SharedNode {
    /// True if a long script has the node.
    pub(crate) fn is_busy(&self) -> bool {
        self.access.is_busy()
    }

    /// Takes the next effect that was deferred during a long script.
    #[inline]
    pub(super) fn pop_deferred(&self) -> Option<Effect> {
        if !self.has_deferred.load(Ordering::Relaxed) {
            return None;
        }
        let mut deferred = lock(&self.deferred);
        let effect = deferred.pop_front();
        self.has_deferred
            .store(!deferred.is_empty(), Ordering::Relaxed);
        effect
    }
}

#[cfg(feature = "script")]
impl SharedNode {
    /// Notes that a script has run for a while: the clock is read again after it.
    pub(crate) fn note_long_run(&self) {
        self.has_run_long.store(true, Ordering::Relaxed);
    }

    /// Notes that a script has become long: its hook serves other connections from now on.
    pub(crate) fn begin_busy(&self) {
        self.access.begin_busy();
    }

    /// Notes that the long script has ended.
    pub(crate) fn end_busy(&self) {
        self.access.end_busy();
    }

    /// True if the connection with this id has no socket.
    pub(crate) fn is_in_process(&self, conn: ConnId) -> bool {
        self.connection(conn.client_id())
            .is_none_or(|connection| connection.token().is_none())
    }

    /// Carries out the effects of the script so far. Then serves the connections that wait beside it: those of the
    /// backlog, those with a delayed message that is due, and those in process.
    pub(crate) fn serve_inbox(&self, api: &mut (impl NodeApi + ?Sized), now: UnixMicros) {
        for connection in self.carry_out_beside(api, now) {
            self.serve_beside(api, &connection, now);
        }
        while let Some(connection) = self.pop_backlog() {
            self.serve_beside(api, &connection, now);
        }
        let mut due = Vec::new();
        if self.timers.first().is_some_and(|first| first <= now) {
            due.extend(std::iter::from_fn(|| self.timers.pop_due(now)));
        }
        for client_id in due {
            if let Some(connection) = self.connection(client_id) {
                connection.output().release(now);
                self.serve_beside(api, &connection, now);
            }
        }
        for connection in self.access.take_inbox() {
            self.serve_beside(api, &connection, now);
        }
    }

    /// Serves one connection beside a long script. Returns false if the connection has to wait for the end of the
    /// script.
    pub(crate) fn serve_beside(
        &self,
        api: &mut (impl NodeApi + ?Sized),
        connection: &Arc<ClientConnection>,
        now: UnixMicros,
    ) -> bool {
        let mut to_serve = vec![connection.clone()];
        let mut was_served = true;
        while let Some(next) = to_serve.pop() {
            loop {
                let Some(mut input) = next.try_input() else {
                    was_served &= !Arc::ptr_eq(&next, connection);
                    self.set_timer_for(&next, now);
                    break;
                };
                let served = self.serve_batch(api, &next, &mut input, now);
                drop(input);
                if matches!(served, Served::All) {
                    break;
                }
                to_serve.extend(self.carry_out_beside(api, now));
            }
            self.note(&next);
        }
        was_served
    }

    fn set_timer_for(&self, connection: &ClientConnection, now: UnixMicros) {
        if let Some(conn) = connection.conn.get() {
            self.set_timer(now, conn.client_id());
        }
    }

    /// Carries out effects beside a long script. Returns the connections whose parked requests were answered.
    fn carry_out_beside(
        &self,
        api: &mut (impl NodeApi + ?Sized),
        now: UnixMicros,
    ) -> Vec<Arc<ClientConnection>> {
        let mut answered = Vec::new();
        while let Some(effect) = api.poll_effect() {
            match effect {
                Effect::Reply { conn, reply } => {
                    answered.extend(self.answer_parked(api, conn, &reply, now));
                }
                Effect::Close { conn } => self.close(api, conn, now),
                Effect::Push { conn, frame } => self.push(api, conn, &frame, now),
                Effect::Shutdown => self.shut_down_by_request(),
                effect @ (Effect::Stall { .. }
                | Effect::Propagate(_)
                | Effect::Follow { .. }
                | Effect::Cluster(_)
                | Effect::Migrate(_)
                | Effect::KeepWrites(_)
                | Effect::FailOver { .. }) => {
                    lock(&self.deferred).push_back(effect);
                    self.has_deferred.store(true, Ordering::Relaxed);
                }
            }
        }
        answered
    }
}
