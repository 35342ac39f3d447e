//! One unit of work (a command, a transaction, a script), from its request to all consequences: frames for the
//! caller, waiters that are served. Only this file decides in which order things happen.
//!
//! *Order* (`server.c: processCommand`, `blocked.c`): first the caller's reply, behind the frames that its own
//! request sent to it; then the waiters of each key that became ready, key by key. Requests that arrived during a pause are units
//! of their own, which the driver begins when it has served the caller's input.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "most kinds of replies are all the same here"
)]

use crate::engine::clients::blocking::Retry;
use crate::engine::clients::session::{ReplyMode, Session};
use crate::engine::conn_id::ConnId;
use crate::engine::context::ScriptCall;
use crate::engine::driver::dispatch::{
    Dispatched, call, dispatch, log_slow, refuse, tell_monitors,
};
use crate::engine::effect::Effect;
use crate::engine::origin::Origin;
use crate::engine::scripting::Transaction;
use crate::engine::state::measure::Watch;
use crate::engine::state::{State, only_pushes};
use crate::engine::table::Flags;
use crate::engine::time::{UnixMicros, UnixMillis};
use crate::engine::{Engine, Outcome};
use crate::resp::{Blob, Reply, Request};

/// Next step of [`Engine::handle_timeout`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// The timeout of a waiting request.
    Timeout(ConnId),
    PauseEnds,
    /// The timeout of a FAILOVER.
    FailoverEnds,
    /// A client may be idle for too long.
    Idle,
    /// A reader of the stream of commands is due a PING, or has been silent for too long.
    Readers,
    /// Writes become safe in an append-only file.
    File,
    /// A field of a hash expires.
    Field,
    Expire {
        db: usize,
        slot: u32,
    },
}

impl Engine {
    #[inline]
    pub(in crate::engine) fn run(
        &mut self,
        conn: ConnId,
        request: Request<'_>,
        now: UnixMicros,
    ) -> Outcome {
        let watch = self.state().start_watch();
        let outcome = self.run_unit(conn, request, now);
        if let Some(watch) = watch {
            self.note_duration(conn, &watch);
        }
        outcome
    }

    /// Notes for LATENCY how long a request took.
    #[cold]
    fn note_duration(&mut self, conn: ConnId, watch: &Watch) {
        let session = self.state().clients.sessions.get(conn);
        let Some(number) = session.and_then(|session| session.last_command) else {
            return;
        };
        let is_fast = self.table.entry(number).spec.flags.has(Flags::FAST);
        let event = if is_fast { "fast-command" } else { "command" };
        self.state_mut().stop_watch(watch, event);
    }

    #[inline(always)]
    fn run_unit(&mut self, conn: ConnId, request: Request<'_>, now: UnixMicros) -> Outcome {
        let table = self.table;
        let state = self.state_mut();
        let Some(mut session) = state.clients.sessions.take(conn) else {
            return Outcome::Silent;
        };
        state.unit.begin_for(conn, now);
        state.expire_due_fields(now.millis());
        session.last_used_at = now;
        let mut is_quiet = session.reply_mode != ReplyMode::On;
        let outcome = match dispatch(state, table, &mut session, request, now, Origin::Client) {
            Dispatched::Reply(reply) => {
                state.clients.sessions.put_back(session);
                Outcome::Reply(reply)
            }
            Dispatched::Script(call) => self.script(call, session, request, now, Origin::Client),
            Dispatched::Exec(queue) => {
                let has_head = !session.reply_mode.is_silent();
                state.clients.sessions.put_back(session);
                let transaction = Transaction::new(conn, queue, has_head);
                let outcome = self.transact(transaction, now);
                self.tell_monitors_of_exec(conn, request, now);
                is_quiet |= self.state().unit.is_filtered || self.state().is_quiet(conn);
                outcome
            }
            Dispatched::Silent => {
                // CLIENT REPLY SKIP counts from this request.
                is_quiet |= session.reply_mode != ReplyMode::On;
                state.clients.sessions.put_back(session);
                Outcome::Silent
            }
            Dispatched::Parked => {
                state.clients.sessions.put_back(session);
                Outcome::Parked
            }
        };
        if is_quiet || self.state().unit.has_sequel {
            return self.conclude(conn, outcome, now);
        }
        // Pushes from here on belong to no request.
        self.state_mut().unit.caller = None;
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
        let failed = reply.is_error() || state.scripting.error.is_some();
        if (failed || state.is_slow(0))
            && let Ok((entry, _)) = table.resolve(request)
        {
            state.script_ended(entry.number, reply);
            if state.is_slow(0)
                && let Some(session) = state.clients.sessions.take(conn)
            {
                log_slow(state, &session, entry.spec, request, now, origin, 0);
                state.clients.sessions.put_back(session);
            }
        }
        outcome
    }

    /// Sends EXEC to the monitors, behind its commands.
    fn tell_monitors_of_exec(&mut self, conn: ConnId, request: Request<'_>, now: UnixMicros) {
        let table = self.table;
        let state = self.state_mut();
        if !state.clients.monitors().is_empty()
            && let Ok((entry, _)) = table.resolve(request)
            && let Some(session) = state.clients.sessions.take(conn)
        {
            tell_monitors(state, &session, entry.spec, request, now, Origin::Client);
            state.clients.sessions.put_back(session);
        }
    }

    /// Completes the caller's answer, and runs what follows from the unit.
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
                let tail = std::mem::take(&mut state.unit.own_tail);
                let frames = std::mem::take(&mut state.unit.own_frames);
                for frame in frames.into_iter().chain(tail) {
                    state.unit.outbox.push(Effect::Push { conn, frame });
                }
                Outcome::Parked
            }
        };
        state.propagate();
        state.unit.caller = None;
        state.inform_behind(conn);
        self.follow_up(now);
        outcome
    }

    /// Runs everything that has become possible: resumed transactions, waiters.
    pub(in crate::engine) fn follow_up(&mut self, now: UnixMicros) {
        loop {
            let state = self.state_mut();
            state.unit.has_sequel = false;
            state.propagate();
            if let Some(transaction) = state.unit.resumed.take() {
                let conn = transaction.conn;
                if let Outcome::Reply(reply) = self.transact(transaction, now) {
                    self.state_mut().answer(conn, reply);
                }
            } else if state.clients.waiters.has_ready() {
                // A command that slept has let time pass.
                let now = now.max(state.unit.awake_at);
                for (place, has_news) in state.clients.waiters.take_ready() {
                    self.state_mut().look_up_awaited(&place, has_news, now);
                    for conn in self.state().clients.waiters.queue(&place) {
                        self.retry(conn, &place, has_news, now);
                    }
                }
            } else if state.evict_behind() {
                // Waiters of the evicted keys are next.
            } else if state.hands_over() {
                // The new master learns of it with the other effects.
            } else {
                state.finish_tracking();
                return;
            }
        }
    }

    /// Runs a waiting request again, for one key that became ready.
    fn retry(&mut self, conn: ConnId, place: &(usize, Blob), has_news: bool, now: UnixMicros) {
        let table = self.table;
        let state = self.state_mut();
        let Some(waiter) = state.clients.waiters.get(conn) else {
            return;
        };
        let (kind, request) = (waiter.wait.kind, waiter.request.clone());
        let holds = state
            .data
            .db(place.0)
            .find_live(&place.1, now.millis())
            .is_some_and(|(slot, is_live)| {
                is_live && state.data.db(place.0).value(slot).kind() == kind
            });
        let is_concerned = holds || waiter.wait.hears_of_loss;
        let after = waiter.wait.after(&place.1);
        let (Some(request), true) = (request.as_request(), is_concerned) else {
            return;
        };
        let Some(mut session) = state.clients.sessions.take(conn) else {
            return;
        };
        if state.clients.tracking.is_on() {
            state.clients.tracking.runs(&session);
        }
        state.unit.retry = Some(Retry {
            key: place.1.clone(),
            after,
            has_news,
        });
        // The waiter is the caller now: frames that its own request causes go before or after its reply.
        let caller = state.unit.caller.replace(conn);
        let frames = std::mem::take(&mut state.unit.own_frames);
        let dispatched = dispatch(state, table, &mut session, request, now, Origin::Retry);
        state.unit.retry = None;
        state.clients.sessions.put_back(session);
        if let Dispatched::Reply(reply) = dispatched {
            let reply = state.with_own_frames(reply);
            state.clients.waiters.remove(conn);
            state.answer(conn, reply);
        }
        for frame in std::mem::replace(&mut state.unit.own_frames, frames) {
            state.unit.outbox.push(Effect::Push { conn, frame });
        }
        // Each client that was served is a unit of the stream.
        state.end_stream_unit();
        state.unit.caller = caller;
        state.inform_behind(conn);
    }

    /// True if CLIENT PAUSE is over and has postponed requests.
    #[inline]
    pub fn has_postponed(&self) -> bool {
        let state = self.state();
        state.clients.pause.is_over() && state.scripting.busy.is_none()
    }

    /// Handles the first request that came during a pause, as if it had just come. The caller serves what its connection has
    /// sent behind it before the next one (`networking.c: processUnblockedClients`).
    pub fn run_postponed(&mut self, now: UnixMicros) {
        let Some((conn, request)) = self.state_mut().clients.pause.next_postponed() else {
            return;
        };
        let Some(request) = request.as_request() else {
            return;
        };
        match self.run(conn, request, now) {
            Outcome::Reply(reply) => self
                .state_mut()
                .unit
                .outbox
                .push(Effect::Reply { conn, reply }),
            Outcome::Silent => self.state_mut().unit.outbox.push(Effect::Reply {
                conn,
                reply: Reply::Several(Vec::new()),
            }),
            Outcome::Parked => {}
        }
        self.state_mut().unit.caller = None;
        self.follow_up(now);
    }

    /// EXEC: the queued requests, one after the other, at one instant.
    fn transact(&mut self, mut transaction: Transaction, now: UnixMicros) -> Outcome {
        let conn = transaction.conn;
        while let Some((request, (number, first))) = transaction.queue.get(transaction.done) {
            let entry = (self.table.entry(number), first);
            transaction.done += 1;
            let state = self.state_mut();
            let Some(mut session) = state.clients.sessions.take(conn) else {
                continue;
            };
            let protocol = session.protocol;
            session.executing = Some(transaction.queue.len());
            if state.clients.tracking.is_on() {
                state.clients.tracking.runs(&session);
            }
            let refusal = match session.is_unrestricted {
                true => None,
                false => state.acl_exec_gate(&session, entry, request).err(),
            };
            let dispatched = match refusal {
                Some(error) => Dispatched::Reply(refuse(state, Origin::Exec, error)),
                None => call(state, &mut session, entry, request, now, Origin::Exec),
            };
            let outcome = match dispatched {
                Dispatched::Script(call) => self.script(call, session, request, now, Origin::Exec),
                Dispatched::Reply(reply) => {
                    state.clients.sessions.put_back(session);
                    Outcome::Reply(reply)
                }
                Dispatched::Silent | Dispatched::Parked | Dispatched::Exec(_) => {
                    state.clients.sessions.put_back(session);
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
                    if state.is_silent(conn) {
                        transaction.has_gaps = true;
                        transaction.replies.push(only_pushes(reply));
                    } else {
                        transaction.replies.push(reply);
                    }
                }
                Outcome::Silent => transaction.has_gaps = true,
                Outcome::Parked => {
                    if let Some(busy) = &mut state.scripting.busy {
                        busy.transaction = Some(transaction);
                    }
                    return Outcome::Parked;
                }
            }
        }
        let state = self.state_mut();
        if let Some(session) = state.clients.sessions.get_mut(conn) {
            session.executing = None;
        }
        state.unit.is_filtered = transaction.has_gaps;
        let (reply, queue) = transaction.into_reply();
        state.clients.reuse_queue(queue);
        Outcome::Reply(reply)
    }

    /// Returns the time at which [`Engine::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<UnixMillis> {
        let (deadline, _) = self.state().first_due()?;
        // A deadline has passed only when now > deadline.
        Some(UnixMillis(deadline.0.saturating_add(1)))
    }

    /// Handles deadlines in their order: answers requests that waited for too long,
    /// ends a pause, removes expired keys.
    pub fn handle_timeout(&mut self, now: UnixMicros) {
        let watch = self.state().start_watch();
        let mut has_expired = false;
        while let Some((_, due)) = self
            .state()
            .first_due()
            .filter(|(deadline, _)| now.millis() > *deadline)
        {
            let state = self.state_mut();
            state.unit.begin(now);
            has_expired |= matches!(due, Due::Field | Due::Expire { .. });
            match due {
                Due::Timeout(conn) => {
                    if let Some(waiter) = state.clients.waiters.remove(conn) {
                        state.answer(conn, waiter.wait.on_timeout);
                    }
                }
                Due::PauseEnds => state.clients.pause.end(),
                Due::FailoverEnds => state.failover_times_out(),
                Due::Idle => state.kick_idle(now),
                Due::Readers => state.tend_readers(),
                Due::File => {
                    state.peers.replication.settle_files(now);
                    state.answer_waits();
                }
                Due::Field => state.expire_fields(now.millis()),
                Due::Expire { db, slot } => state.expire(db, slot),
            }
            self.follow_up(now);
        }
        if let Some(watch) = watch.filter(|_| has_expired) {
            self.state_mut().stop_watch(&watch, "expire-cycle");
        }
    }
}

impl State {
    /// Removes expired fields before a request sees them, as a command of Redis does with the fields that it meets.
    #[inline]
    fn expire_due_fields(&mut self, now: UnixMillis) {
        while self
            .data
            .next_field_to_expire()
            .is_some_and(|first| now > first)
            && !self.clients.pause.is_on()
            && !self.peers.replication.is_replica()
        {
            self.expire_fields(now);
        }
    }

    /// The next deadline, and the action that is due then.
    fn first_due(&self) -> Option<(UnixMillis, Due)> {
        let timeout = self.clients.waiters.first_deadline();
        let timeout = timeout.map(|(until, conn)| (until, Due::Timeout(conn)));
        let pause = self
            .clients
            .pause
            .until()
            .map(|until| (until, Due::PauseEnds));
        let failover = self.failover_deadline();
        let failover = failover.map(|until| (until, Due::FailoverEnds));
        let expires = !self.clients.pause.is_on()
            && !self.peers.replication.is_replica()
            && !self.are_timers_paused;
        let expiry = self.data.next_to_expire().filter(|_| expires);
        let expiry = expiry.map(|(deadline, db, slot)| (deadline, Due::Expire { db, slot }));
        let idle = self
            .clients
            .idle_check()
            .filter(|_| !self.are_timers_paused);
        let idle = idle.map(|until| (until, Due::Idle));
        let readers = self.readers_deadline().map(|until| (until, Due::Readers));
        let file = self.peers.replication.next_file_write();
        let file = file.map(|until| (until, Due::File));
        let field = self.data.next_field_to_expire().filter(|_| expires);
        let field = field.map(|until| (until, Due::Field));
        [timeout, pause, failover, idle, readers, file, field, expiry]
            .into_iter()
            .flatten()
            .min()
    }
}
