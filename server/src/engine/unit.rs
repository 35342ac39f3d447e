//! One unit of work (a command, a transaction, a script) from its request to everything that
//! follows from it: frames of the caller's own, requests that waited for a key, those that were put
//! off. Only here does the engine decide in which order things happen.
//!
//! *Order* (`server.c: processCommand`, `blocked.c`): the caller's reply first, with what it was sent
//! meanwhile before it; then the waiters of every key that became ready, key by key; then, when a
//! pause has ended, the requests that came during it.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "most kinds of replies are all the same here"
)]

use super::context::{Origin, ScriptCall};
use super::dispatch::{Dispatched, call, dispatch, log_slow, tell_monitors, turn_away};
use super::effect::Effect;
use super::session::{ConnId, ReplyMode, Session};
use super::table::CommandTable;
use super::time::{UnixMicros, UnixMillis};
use super::transaction::Queue;
use super::{Engine, Outcome, State};
use crate::resp::{Blob, ErrorReply, OwnedRequest, Protocol, Reply, Request};

/// A transaction in whose middle a script was given up; it goes on when the script is killed.
#[derive(Clone, Debug)]
pub(crate) struct Transaction {
    conn: ConnId,
    queue: Box<Queue>,
    /// Of those that were carried out.
    replies: Vec<Reply>,
    /// How many were carried out.
    done: usize,
}

impl Transaction {
    /// What was answered so far stays in this protocol.
    #[cold]
    fn keep_in(&mut self, protocol: Protocol) {
        for reply in &mut self.replies {
            let earlier = Box::new(std::mem::replace(reply, Reply::Nil));
            *reply = Reply::Earlier {
                protocol,
                reply: earlier,
            };
        }
    }
}

/// What [`Engine::handle_timeout`] does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// A request has waited for long enough.
    Timeout(ConnId),
    PauseEnds,
    /// A failover has not come about in time.
    FailoverEnds,
    /// Somebody may have been silent for too long.
    Idle,
    Expire {
        db: usize,
        slot: u32,
    },
}

impl Engine {
    #[inline]
    pub(super) fn run(&mut self, conn: ConnId, request: Request<'_>, now: UnixMicros) -> Outcome {
        let table = self.table;
        let state = self.state_mut();
        let Some(mut session) = state.sessions.take(conn) else {
            return Outcome::Silent;
        };
        state.caller = Some(conn);
        session.last_used_at = now;
        state.now = now;
        let mut is_quiet = session.reply_mode != ReplyMode::On;
        let outcome = match dispatch(state, table, &mut session, request, now, Origin::Client) {
            Dispatched::Reply(reply) => {
                state.sessions.put_back(session);
                Outcome::Reply(reply)
            }
            Dispatched::Script(call) => self.script(call, session, request, now, Origin::Client),
            Dispatched::Exec(queue) => {
                state.sessions.put_back(session);
                let transaction = Transaction {
                    conn,
                    replies: Vec::with_capacity(queue.len()),
                    queue,
                    done: 0,
                };
                let outcome = self.transact(transaction, now);
                self.tell_monitors_of_exec(conn, request, now);
                outcome
            }
            Dispatched::Silent => {
                // CLIENT REPLY SKIP counts from this request.
                is_quiet |= session.reply_mode != ReplyMode::On;
                state.sessions.put_back(session);
                Outcome::Silent
            }
            Dispatched::Parked => {
                state.sessions.put_back(session);
                Outcome::Parked
            }
        };
        if is_quiet || self.state().has_sequel {
            return self.conclude(conn, outcome, now);
        }
        // What is pushed from now on belongs to nobody's request.
        self.state_mut().caller = None;
        outcome
    }

    /// Runs a script and counts what came of it.
    fn script(
        &mut self,
        call: ScriptCall,
        session: Box<Session>,
        request: Request<'_>,
        now: UnixMicros,
        origin: Origin,
    ) -> Outcome {
        let conn = session.conn;
        let outcome = self.run_script(call, session, request, now);
        let table = self.table;
        let state = self.state_mut();
        let Outcome::Reply(reply) = &outcome else {
            return outcome;
        };
        let failed = reply.is_error() || state.script_error.is_some();
        if (failed || state.is_slow(0))
            && let Ok((entry, _)) = table.resolve(request)
        {
            state.script_ended(entry.number, reply);
            if state.is_slow(0)
                && let Some(session) = state.sessions.take(conn)
            {
                log_slow(state, &session, entry.spec, request, now, origin, 0);
                state.sessions.put_back(session);
            }
        }
        outcome
    }

    /// MONITOR tells of EXEC after what was in it.
    fn tell_monitors_of_exec(&mut self, conn: ConnId, request: Request<'_>, now: UnixMicros) {
        let table = self.table;
        let state = self.state_mut();
        if !state.monitors.is_empty()
            && let Ok((entry, _)) = table.resolve(request)
            && let Some(session) = state.sessions.take(conn)
        {
            tell_monitors(state, &session, entry.spec, request, now, Origin::Client);
            state.sessions.put_back(session);
        }
    }

    /// The caller's answer with all that belongs to it; then what follows.
    #[cold]
    fn conclude(&mut self, conn: ConnId, outcome: Outcome, now: UnixMicros) -> Outcome {
        let state = self.state_mut();
        let outcome = match outcome {
            Outcome::Reply(reply) => {
                let reply = state.with_own_frames(reply);
                Outcome::Reply(state.apply_reply_mode(conn, reply))
            }
            Outcome::Silent => match state.with_own_frames(Reply::Several(Vec::new())) {
                Reply::Several(frames) if frames.is_empty() => {
                    state.apply_reply_mode(conn, Reply::Several(frames));
                    Outcome::Silent
                }
                reply => Outcome::Reply(state.apply_reply_mode(conn, reply)),
            },
            Outcome::Parked => {
                let tail = std::mem::take(&mut state.own_tail);
                let frames = std::mem::take(&mut state.own_frames);
                for frame in frames.into_iter().chain(tail) {
                    state.outbox.push(Effect::Push { conn, frame });
                }
                Outcome::Parked
            }
        };
        state.propagate();
        state.caller = None;
        state.inform_behind(conn);
        self.follow_up(now);
        outcome
    }

    /// Runs what has become possible, until there is nothing more.
    pub(super) fn follow_up(&mut self, now: UnixMicros) {
        loop {
            let state = self.state_mut();
            state.has_sequel = false;
            state.propagate();
            if let Some(transaction) = state.resumed.take() {
                let conn = transaction.conn;
                if let Outcome::Reply(reply) = self.transact(transaction, now) {
                    self.state_mut().answer(conn, reply);
                }
            } else if state.waiters.has_ready() {
                for place in state.waiters.take_ready() {
                    for conn in self.state().waiters.queue(&place) {
                        self.retry(conn, &place, now);
                    }
                }
            } else if state.hands_over() {
                // The next master is told with the other effects.
            } else if state.pause.is_over() && state.busy.is_none() {
                if let Some((conn, request)) = state.pause.next_postponed() {
                    self.run_postponed(conn, &request, now);
                }
            } else {
                state.finish_tracking();
                return;
            }
        }
    }

    /// Runs a waiting request again, for one key that became ready.
    fn retry(&mut self, conn: ConnId, place: &(usize, Blob), now: UnixMicros) {
        let table = self.table;
        let state = self.state_mut();
        let Some(waiter) = state.waiters.get(conn) else {
            return;
        };
        let (kind, request) = (waiter.wait.kind, waiter.request.clone());
        let holds = state.dbs[place.0]
            .find_live(&place.1, now.millis())
            .is_some_and(|(slot, is_live)| {
                is_live && state.dbs[place.0].value(slot).kind() == kind
            });
        let (Some(request), true) = (request.as_request(), holds) else {
            return;
        };
        let Some(mut session) = state.sessions.take(conn) else {
            return;
        };
        if state.tracking.is_on() {
            state.tracking.runs(&session);
        }
        state.retry = Some(place.1.clone());
        // It is the caller now: what it hears of its own request has its place around the reply.
        let caller = state.caller.replace(conn);
        let frames = std::mem::take(&mut state.own_frames);
        let dispatched = dispatch(state, table, &mut session, request, now, Origin::Retry);
        state.retry = None;
        state.sessions.put_back(session);
        if let Dispatched::Reply(reply) = dispatched {
            let reply = state.with_own_frames(reply);
            state.waiters.remove(conn);
            state.answer(conn, reply);
        }
        for frame in std::mem::replace(&mut state.own_frames, frames) {
            state.outbox.push(Effect::Push { conn, frame });
        }
        state.caller = caller;
        state.inform_behind(conn);
    }

    /// Handles a request that came during a pause, as if it had just come.
    fn run_postponed(&mut self, conn: ConnId, request: &OwnedRequest, now: UnixMicros) {
        let Some(request) = request.as_request() else {
            return;
        };
        match self.run(conn, request, now) {
            Outcome::Reply(reply) => self.state_mut().outbox.push(Effect::Reply { conn, reply }),
            Outcome::Silent => self.state_mut().outbox.push(Effect::Reply {
                conn,
                reply: Reply::Several(Vec::new()),
            }),
            Outcome::Parked => {}
        }
        self.state_mut().caller = None;
    }

    /// EXEC: the queued requests, one after the other, at one instant.
    fn transact(&mut self, mut transaction: Transaction, now: UnixMicros) -> Outcome {
        let conn = transaction.conn;
        while let Some((request, (number, first))) = transaction.queue.get(transaction.done) {
            let entry = (self.table.entry(number), first);
            transaction.done += 1;
            let state = self.state_mut();
            let Some(mut session) = state.sessions.take(conn) else {
                continue;
            };
            let protocol = session.protocol;
            if state.tracking.is_on() {
                state.tracking.runs(&session);
            }
            let outcome = match call(state, &mut session, entry, request, now, Origin::Exec) {
                Dispatched::Script(call) => self.script(call, session, request, now, Origin::Exec),
                Dispatched::Reply(reply) => {
                    state.sessions.put_back(session);
                    Outcome::Reply(reply)
                }
                Dispatched::Silent | Dispatched::Parked | Dispatched::Exec(_) => {
                    state.sessions.put_back(session);
                    Outcome::Silent
                }
            };
            let state = self.state_mut();
            if state.protocol(conn) != protocol {
                transaction.keep_in(protocol);
            }
            match outcome {
                Outcome::Reply(reply) => {
                    let reply = state.with_own_frames(reply);
                    transaction.replies.push(reply);
                }
                Outcome::Silent => {}
                Outcome::Parked => {
                    if let Some(busy) = &mut state.busy {
                        busy.transaction = Some(transaction);
                    }
                    return Outcome::Parked;
                }
            }
        }
        self.state_mut().spare_queue = transaction.queue.emptied();
        Outcome::Reply(Reply::Array(transaction.replies))
    }

    /// When [`Engine::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<UnixMillis> {
        let (deadline, _) = self.state().first_due()?;
        // A deadline has passed only when now > deadline.
        Some(UnixMillis(deadline.0.saturating_add(1)))
    }

    /// Does what is due, in the order of the deadlines: answers requests that waited for too long,
    /// ends a pause, removes expired keys.
    pub fn handle_timeout(&mut self, now: UnixMicros) {
        while let Some((_, due)) = self
            .state()
            .first_due()
            .filter(|(deadline, _)| now.millis() > *deadline)
        {
            let state = self.state_mut();
            state.begin(now);
            match due {
                Due::Timeout(conn) => {
                    if let Some(waiter) = state.waiters.remove(conn) {
                        state.answer(conn, waiter.wait.on_timeout);
                    }
                }
                Due::PauseEnds => state.pause.end(),
                Due::FailoverEnds => state.failover_times_out(),
                Due::Idle => state.kick_idle(now),
                Due::Expire { db, slot } => state.expire(db, slot),
            }
            self.follow_up(now);
        }
    }
}

impl State {
    fn first_due(&self) -> Option<(UnixMillis, Due)> {
        let timeout = self.waiters.first_deadline();
        let timeout = timeout.map(|(until, conn)| (until, Due::Timeout(conn)));
        let pause = self.pause.until().map(|until| (until, Due::PauseEnds));
        let failover = self.failover_deadline();
        let failover = failover.map(|until| (until, Due::FailoverEnds));
        let expires = self.active_expire
            && self.lazy_only == 0
            && !self.pause.is_on()
            && !self.replication.is_replica();
        let expiry = self.first_deadline().filter(|_| expires);
        let expiry = expiry.map(|(deadline, db, slot)| (deadline, Due::Expire { db, slot }));
        let idle = self.idle_check.map(|until| (until, Due::Idle));
        [timeout, pause, failover, idle, expiry]
            .into_iter()
            .flatten()
            .min()
    }

    /// What the caller was sent during its own request comes before the reply, or behind it where the
    /// handler said so ([`Ctx::replies_here`]); what MONITOR tells it of that request comes last.
    fn with_own_frames(&mut self, reply: Reply) -> Reply {
        if self.own_frames.is_empty() && self.own_tail.is_empty() {
            return reply;
        }
        let mut frames = std::mem::take(&mut self.own_frames);
        let at = self.reply_at.take().unwrap_or(frames.len());
        let behind = frames.split_off(at.min(frames.len()));
        match reply {
            Reply::Several(own) => frames.extend(own),
            reply => frames.push(reply),
        }
        frames.extend(behind);
        frames.append(&mut self.own_tail);
        Reply::Several(frames)
    }

    /// A reply as CLIENT REPLY lets it pass: frames that were not asked for always do.
    fn apply_reply_mode(&mut self, conn: ConnId, reply: Reply) -> Reply {
        let Some(session) = self.sessions.get_mut(conn) else {
            return reply;
        };
        let is_silenced = matches!(session.reply_mode, ReplyMode::Off | ReplyMode::Skip);
        session.reply_mode = match session.reply_mode {
            ReplyMode::SkipNext => ReplyMode::Skip,
            ReplyMode::Skip | ReplyMode::On => ReplyMode::On,
            ReplyMode::Off => ReplyMode::Off,
        };
        let is_push = |frame: &Reply| matches!(frame, Reply::Push(_));
        match reply {
            reply if !is_silenced || is_push(&reply) => reply,
            Reply::Several(frames) => Reply::Several(frames.into_iter().filter(is_push).collect()),
            _ => Reply::Several(Vec::new()),
        }
    }

    /// Ends CLIENT PAUSE; what came during it is handled after this unit.
    pub(crate) fn end_pause(&mut self) {
        self.pause.end();
        self.has_sequel |= self.pause.is_over();
    }

    /// Refuses a request that a gate would have let pass.
    pub(super) fn refuse_one(
        &mut self,
        table: &CommandTable,
        conn: ConnId,
        request: Request<'_>,
        error: &ErrorReply,
    ) -> Outcome {
        let Some(mut session) = self.sessions.take(conn) else {
            return Outcome::Silent;
        };
        let reply = turn_away(self, table, &mut session, request, error);
        self.sessions.put_back(session);
        Outcome::Reply(self.apply_reply_mode(conn, reply))
    }

    /// Answers a request that was parked.
    pub(crate) fn answer(&mut self, conn: ConnId, reply: Reply) {
        self.used(conn);
        let reply = self.apply_reply_mode(conn, reply);
        self.outbox.push(Effect::Reply { conn, reply });
    }

    /// Sends a connection what it did not just ask for. What the caller is sent by its own request
    /// comes before its reply.
    pub(crate) fn push(&mut self, conn: ConnId, frame: Reply) {
        if self.caller == Some(conn) {
            self.own_frames.push(frame);
            self.has_sequel = true;
        } else {
            self.used(conn);
            self.outbox.push(Effect::Push { conn, frame });
        }
    }

    /// A connection is told something, so it is not idle.
    fn used(&mut self, conn: ConnId) {
        if let Some(session) = self.sessions.get_mut(conn) {
            session.last_used_at = self.now;
        }
    }

    /// A line of MONITOR.
    pub(super) fn tell(&mut self, conn: ConnId, line: Reply) {
        if self.caller == Some(conn) {
            if !self.outbox.closes(conn) {
                self.own_tail.push(line);
                self.has_sequel = true;
            }
        } else {
            self.outbox.push(Effect::Push { conn, frame: line });
        }
    }

    /// Ends a waiting before its time; false if there is none (`networking.c: clientCommand`).
    pub(crate) fn unblock(&mut self, conn: ConnId, with_error: bool) -> bool {
        let Some(waiter) = self.waiters.remove(conn) else {
            return false;
        };
        let calls = self.stats.of(waiter.command);
        calls.failed += 1;
        calls.measured += u64::from(self.config.latency_tracking);
        let reply = if with_error {
            let error = ErrorReply::new("UNBLOCKED client unblocked via CLIENT UNBLOCK");
            self.stats.count_error(&error);
            error.into()
        } else {
            waiter.wait.on_timeout
        };
        self.answer(conn, reply);
        true
    }

    /// Lets a transaction go on whose script was killed.
    #[cfg(feature = "script")]
    pub(crate) fn resume(&mut self, mut transaction: Transaction, reply: Reply) {
        transaction.replies.push(reply);
        self.resumed = Some(transaction);
        self.has_sequel = true;
    }
}
