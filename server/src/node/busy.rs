//! What is served beside a long script: the script's hook calls this with the state of the node, which the
//! script has. The dispatch lets only a few commands pass (its busy gate); all others are answered -BUSY.
//!
//! *Policy.* The connection whose request runs the script waits for its reply, and so does a connection
//! whose input is in use further up the same call. Effects that need the node itself are kept until the
//! script has ended, and are then carried out before all later ones.

use super::serving::Served;
use super::{SharedNode, lock};
use crate::client_connection::ClientConnection;
use crate::engine::{ConnId, Effect, NodeApi, UnixMicros};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl SharedNode {
    /// Whether a long script has the node.
    pub(crate) fn is_busy(&self) -> bool {
        self.turns.is_busy()
    }

    /// A script has run for a while: the clock is read again after it.
    pub(crate) fn note_long_run(&self) {
        self.has_run_long.store(true, Ordering::Relaxed);
    }

    /// A script has become long: its hook serves other connections from now on.
    pub(crate) fn begin_busy(&self) {
        self.turns.begin_busy();
    }

    /// The long script has ended.
    pub(crate) fn end_busy(&self) {
        self.turns.end_busy();
    }

    /// The kind of the connection with this id: true if it has no socket.
    pub(crate) fn is_in_process(&self, conn: ConnId) -> bool {
        self.link(conn.client_id())
            .is_none_or(|link| link.token().is_none())
    }

    /// Carries out what the script has done to others so far, and serves the connections that wait beside
    /// it: for the end of a sleep or a pause, for a delayed message that is due by now, and those in process.
    pub(crate) fn serve_inbox(&self, api: &mut (impl NodeApi + ?Sized), now: UnixMicros) {
        for link in self.carry_out_beside(api, now) {
            self.serve_beside(api, &link, now);
        }
        while let Some(link) = self.pop_backlog() {
            self.serve_beside(api, &link, now);
        }
        let mut due = Vec::new();
        if self.timers.first().is_some_and(|first| first <= now) {
            due.extend(std::iter::from_fn(|| self.timers.pop_due(now)));
        }
        for client_id in due {
            if let Some(link) = self.link(client_id) {
                link.output().release(now);
                self.serve_beside(api, &link, now);
            }
        }
        for link in self.turns.take_inbox() {
            self.serve_beside(api, &link, now);
        }
    }

    /// Serves one connection beside a long script; false if that has to wait for the end of the script.
    pub(crate) fn serve_beside(
        &self,
        api: &mut (impl NodeApi + ?Sized),
        link: &Arc<ClientConnection>,
        now: UnixMicros,
    ) -> bool {
        let mut to_serve = vec![link.clone()];
        let mut was_served = true;
        while let Some(next) = to_serve.pop() {
            loop {
                let Some(mut input) = next.try_input() else {
                    was_served &= !Arc::ptr_eq(&next, link);
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

    fn set_timer_for(&self, link: &ClientConnection, now: UnixMicros) {
        if let Some(conn) = link.conn.get() {
            self.set_timer(now, conn.client_id());
        }
    }

    /// Carries out effects beside a long script. Returns the connections that have got a reply for which
    /// they waited.
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
                Effect::Shutdown => self.shut_down(),
                effect @ (Effect::Stall { .. }
                | Effect::Propagate(_)
                | Effect::Follow { .. }
                | Effect::Cluster(_)
                | Effect::Migrate(_)
                | Effect::FailOver { .. }) => {
                    lock(&self.deferred).push_back(effect);
                    self.has_deferred.store(true, Ordering::Relaxed);
                }
            }
        }
        answered
    }

    /// The next effect that was kept during a long script.
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
