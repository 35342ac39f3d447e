//! Output to connections: replies, pushes, lines of MONITOR, in the order in which Redis sends them.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "most kinds of replies are all the same here"
)]

use super::State;
use crate::engine::clients::session::{Asking, ReplyMode};
use crate::engine::conn_id::ConnId;
use crate::engine::effect::Effect;
#[cfg(feature = "script")]
use crate::engine::scripting::Transaction;
use crate::resp::{ErrorReply, Reply};

/// What remains of a reply that CLIENT REPLY suppresses: frames that the client did not request.
pub(in crate::engine) fn only_pushes(reply: Reply) -> Reply {
    let is_push = |frame: &Reply| matches!(frame, Reply::Push(_));
    match reply {
        reply if is_push(&reply) => reply,
        Reply::Several(frames) => Reply::Several(frames.into_iter().filter(is_push).collect()),
        _ => Reply::Several(Vec::new()),
    }
}

impl State {
    /// What the caller was sent during its own request comes before the reply, or behind it where the
    /// handler said so ([`Ctx::replies_here`]); what MONITOR tells it of that request comes last.
    pub(in crate::engine) fn with_own_frames(&mut self, reply: Reply) -> Reply {
        if self.unit.own_frames.is_empty() && self.unit.own_tail.is_empty() {
            return reply;
        }
        let mut frames = std::mem::take(&mut self.unit.own_frames);
        let at = self.unit.reply_at.take().unwrap_or(frames.len());
        let behind = frames.split_off(at.min(frames.len()));
        match reply {
            Reply::Several(own) => frames.extend(own),
            reply => frames.push(reply),
        }
        frames.extend(behind);
        frames.append(&mut self.unit.own_tail);
        Reply::Several(frames)
    }

    /// A reply as CLIENT REPLY lets it pass: frames that were not asked for always do.
    pub(in crate::engine) fn apply_reply_mode(&mut self, conn: ConnId, reply: Reply) -> Reply {
        let Some(session) = self.clients.sessions.get_mut(conn) else {
            return reply;
        };
        let is_silent = session.reply_mode.is_silent();
        session.reply_mode = session.reply_mode.next();
        let is_filtered = std::mem::take(&mut self.unit.is_filtered);
        if is_silent && !is_filtered {
            only_pushes(reply)
        } else {
            reply
        }
    }

    /// True if CLIENT REPLY suppresses the reply of the request or transaction that this connection executes.
    pub(in crate::engine) fn is_silent(&self, conn: ConnId) -> bool {
        let session = self.clients.sessions.get(conn);
        session.is_some_and(|session| session.reply_mode.is_silent())
    }

    /// True if CLIENT REPLY suppresses this reply or the next one.
    pub(in crate::engine) fn is_quiet(&self, conn: ConnId) -> bool {
        let session = self.clients.sessions.get(conn);
        session.is_some_and(|session| session.reply_mode != ReplyMode::On)
    }

    /// A request without arguments has come.
    pub(in crate::engine) fn pass_empty(&mut self, conn: ConnId) {
        let Some(session) = self.clients.sessions.get_mut(conn) else {
            return;
        };
        session.reply_mode = session.reply_mode.next();
        if session.queue.is_none() {
            session.asking = Asking::No;
            self.clients.tracking.refused(conn);
        }
    }

    /// Ends CLIENT PAUSE. What came during it is handled after the input of the caller.
    pub(in crate::engine) fn end_pause(&mut self) {
        self.clients.pause.end();
    }

    /// Answers a request that was parked.
    pub(in crate::engine) fn answer(&mut self, conn: ConnId, reply: Reply) {
        self.used(conn);
        let reply = self.apply_reply_mode(conn, reply);
        self.unit.outbox.push(Effect::Reply { conn, reply });
    }

    /// Sends a connection a frame that is not a reply. Frames that the caller's own request causes come
    /// before its reply.
    pub(in crate::engine) fn push(&mut self, conn: ConnId, frame: Reply) {
        if self.unit.caller == Some(conn) {
            self.unit.own_frames.push(frame);
            self.unit.has_sequel = true;
        } else {
            self.used(conn);
            self.unit.outbox.push(Effect::Push { conn, frame });
        }
    }

    /// Notes that the server writes to a connection, which therefore is not idle.
    fn used(&mut self, conn: ConnId) {
        if let Some(session) = self.clients.sessions.get_mut(conn) {
            session.last_used_at = self.unit.now();
        }
    }

    /// True if CLIENT REPLY OFF holds back what is no message.
    fn is_silenced(&self, conn: ConnId) -> bool {
        let session = self.clients.sessions.get(conn);
        session.is_some_and(|session| session.reply_mode == ReplyMode::Off)
    }

    /// A line of MONITOR.
    pub(in crate::engine) fn tell(&mut self, conn: ConnId, line: Reply) {
        if self.unit.caller == Some(conn) {
            if !self.unit.outbox.closes(conn) {
                self.unit.own_tail.push(line);
                self.unit.has_sequel = true;
            }
        } else if !self.is_silenced(conn) {
            self.unit.outbox.push(Effect::Push { conn, frame: line });
        }
    }

    /// Ends a waiting before its time; false if there is none (`networking.c: clientCommand`).
    pub(in crate::engine) fn unblock(&mut self, conn: ConnId, with_error: bool) -> bool {
        let Some(waiter) = self.clients.waiters.remove(conn) else {
            return false;
        };
        let calls = self.introspection.stats.of(waiter.command);
        calls.failed += 1;
        calls.measured += u64::from(self.config.latency_tracking);
        let reply = if with_error {
            let error = ErrorReply::new("UNBLOCKED client unblocked via CLIENT UNBLOCK");
            self.introspection.stats.count_error(&error);
            error.into()
        } else {
            waiter.wait.on_timeout
        };
        self.answer(conn, reply);
        true
    }

    /// Continues a transaction after one of its scripts was killed.
    #[cfg(feature = "script")]
    pub(in crate::engine) fn resume(&mut self, mut transaction: Transaction, reply: Reply) {
        transaction.replies.push(reply);
        self.unit.resumed = Some(transaction);
        self.unit.has_sequel = true;
    }
}
