//! What reaches a connection: pushes and replies, or what the rules have left of them; and its end.

use super::serving::{Flow, Site};
use super::{SharedNode, lock};
use crate::client_connection::{ClientConnection, Ending, Output};
use crate::engine::{ConnId, NodeApi, UnixMicros};
use crate::fault::{Decision, Direction, Fate, Sender};
use crate::release_condition::ReleaseCondition;
use crate::resp::{Protocol, Reply, encode};
use std::sync::Arc;
use std::task::Waker;

impl SharedNode {
    /// Sends a connection what it did not ask for.
    pub(super) fn push(
        &self,
        api: &(impl NodeApi + ?Sized),
        conn: ConnId,
        frame: &Reply,
        now: UnixMicros,
    ) {
        let Some(link) = self.link(conn.client_id()) else {
            return;
        };
        if self.plan.is_empty() {
            link.output().write(frame, api.protocol(conn));
        } else {
            let sender = sender(&link, api, conn);
            let decision = self.plan.on_push(sender, frame);
            if self.deliver(&link, decision, frame, api.protocol(conn), conn, now) {
                link.input().silence();
            }
        }
        let mut output = link.output();
        bound(&mut output, api, conn);
        drop(output);
        self.note(&link);
    }

    /// Answers a request that was parked; the connection, whose next request may be served now.
    pub(super) fn answer_parked(
        &self,
        api: &(impl NodeApi + ?Sized),
        conn: ConnId,
        reply: &Reply,
        now: UnixMicros,
    ) -> Option<Arc<ClientConnection>> {
        let link = self.link(conn.client_id())?;
        let request = link.input().parked.take()?;
        if self.has_history {
            lock(&self.history).answered(conn.client_id(), reply);
        }
        if let Some(request) = request.as_request() {
            let site = Site {
                shared: self,
                link: &link,
                conn,
                now,
                node_time: self.node_time(now),
            };
            if site.answer(api, request, reply) == Flow::Silenced {
                link.input().silence();
            }
        }
        self.set_timer(now, conn.client_id());
        self.note(&link);
        Some(link)
    }

    /// Writes what a rule has left of a frame; true when the client is not heard any more either.
    pub(super) fn deliver(
        &self,
        link: &ClientConnection,
        decision: Decision,
        frame: &Reply,
        protocol: Protocol,
        conn: ConnId,
        now: UnixMicros,
    ) -> bool {
        let wait = self.waiting(&decision, conn.client_id(), now);
        let mut output = link.output();
        let mut frames = Vec::new();
        let ending = match decision.fate {
            Fate::Drop | Fate::Silence => {
                output.silence();
                return decision.fate == Fate::Silence;
            }
            Fate::Arrives => {
                if wait.is_none() && decision.instead.is_none() {
                    output.write(frame, protocol);
                    return false;
                }
                None
            }
            Fate::CutAfter(_) | Fate::Close => Some(Ending::Close),
            Fate::Reset => Some(Ending::Reset),
        };
        if matches!(decision.fate, Fate::Arrives | Fate::CutAfter(_)) {
            match decision.instead {
                Some(error) => encode(&error.into(), protocol, &mut frames),
                None => encode(frame, protocol, &mut frames),
            }
        }
        if let Fate::CutAfter(bytes) = decision.fate {
            frames.truncate(bytes);
        }
        output.write_late(frames, ending, wait);
        false
    }

    /// What a message has to wait for; the connection will be looked at again.
    pub(super) fn waiting(
        &self,
        decision: &Decision,
        client_id: u64,
        now: UnixMicros,
    ) -> Option<ReleaseCondition> {
        let mut wait = ReleaseCondition::default();
        if !decision.delay.is_zero() {
            let due = now.plus(decision.delay);
            self.set_timer(due, client_id);
            wait.until = Some(due);
        }
        if !decision.gates.is_empty() {
            // Before the gates are asked, so that none opens unnoticed.
            let mut gated = lock(&self.gated);
            gated.count += 1;
            let number = gated.count;
            gated.numbers.entry(client_id).or_insert(number);
            drop(gated);
            let bell = self.bell.get().unwrap_or_else(|| Waker::noop());
            let gates = decision.gates.iter();
            wait.gates = gates.map(|gate| gate.enter(bell)).collect();
        }
        (!wait.is_over(now)).then_some(wait)
    }

    /// Ends a connection. What it listened to, watched and waited for is forgotten at once, whenever
    /// its client notices; what it was sent is still delivered.
    pub(super) fn close(&self, api: &mut (impl NodeApi + ?Sized), conn: ConnId, now: UnixMicros) {
        if let Some(link) = self.link(conn.client_id()) {
            let wait = if self.plan.is_empty() {
                None
            } else {
                let sender = sender(&link, api, conn);
                let decision = self.plan.on_end(sender, Direction::Reply);
                self.waiting(&decision, conn.client_id(), now)
            };
            let mut output = link.output();
            match wait {
                None => output.end(Ending::Close),
                wait => output.write_late(Vec::new(), Some(Ending::Close), wait),
            }
            drop(output);
            self.note(&link);
        }
        api.disconnect(conn);
    }
}

/// Ends a connection whose client has left too much unread.
pub(super) fn bound(output: &mut Output, api: &(impl NodeApi + ?Sized), conn: ConnId) {
    if output.unread_bytes() > api.output_bytes_max(conn) {
        tracing::warn!(
            client_id = conn.client_id(),
            "a client does not read: its connection is reset"
        );
        output.end(Ending::Reset);
    }
}

/// Whose messages go over a link.
pub(super) fn sender<'a>(
    link: &'a ClientConnection,
    api: &'a (impl NodeApi + ?Sized),
    conn: ConnId,
) -> Sender<'a> {
    Sender {
        client_id: conn.client_id(),
        addr: &link.addr,
        name: api.name(conn),
    }
}
