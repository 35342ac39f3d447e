//! The gates, in the order of `server.c: processCommand`; then the handler. No handler knows them.

use super::Outcome;
use super::gates::{Gate, gates, is_about_client, script_gates};
use crate::engine::clients::session::{Asking, Session};
use crate::engine::clients::transaction::Queue;
use crate::engine::conn_id::ConnId;
use crate::engine::context::{Continuation, Ctx, ScriptCall};
use crate::engine::effect::Effect;
use crate::engine::introspection::monitor;
use crate::engine::introspection::slowlog::{self, SlowEntry};
use crate::engine::origin::Origin;
use crate::engine::profile::{Profile, feature};
use crate::engine::state::State;
use crate::engine::table::{CommandSpec, CommandTable, Entry, Flags, Group};
use crate::engine::time::UnixMicros;
use crate::engine::{Args, CommandError};
use crate::resp::{Blob, ErrorReply, Reply, Request};
use std::time::Duration;

/// Outcome of dispatch.
pub(in crate::engine) enum Dispatched {
    Reply(Reply),
    /// The gates were passed; the script is to run now.
    Script(ScriptCall),
    /// EXEC may go ahead with these requests.
    Exec(Box<Queue>),
    /// The answer comes later.
    Parked,
    /// The request has no reply.
    Silent,
}

/// Runs one request. `now` is the instant of the whole unit.
#[inline]
pub(in crate::engine) fn dispatch(
    state: &mut State,
    table: &CommandTable,
    session: &mut Session,
    request: Request<'_>,
    now: UnixMicros,
    origin: Origin,
) -> Dispatched {
    let was_replica = origin == Origin::Client && session.reads_stream();
    let dispatched = pass(state, table, session, request, now, origin);
    if was_replica && !matches!(dispatched, Dispatched::Silent) {
        return refuse_replica(state, session);
    }
    dispatched
}

/// Disconnects a replica that has sent a request with a reply: it would read the reply as a part of the stream
/// (`networking.c: _addReplyToBufferOrList`).
#[cold]
fn refuse_replica(state: &mut State, session: &Session) -> Dispatched {
    state.unit.outbox.push(Effect::Close { conn: session.conn });
    Dispatched::Silent
}

/// Runs a request if it passes the gates.
#[inline(always)]
fn pass(
    state: &mut State,
    table: &CommandTable,
    session: &mut Session,
    request: Request<'_>,
    now: UnixMicros,
    origin: Origin,
) -> Dispatched {
    let passed = match origin {
        Origin::Client => gates(state, table, session, request),
        Origin::Script => script_gates(state, table, session, request),
        Origin::Exec | Origin::Retry => table.resolve(request).map(Gate::Passed),
    };
    match passed {
        Ok(Gate::Passed(entry)) => call(state, session, entry, request, now, origin),
        Ok(Gate::Queued) => Dispatched::Reply(Reply::Static("QUEUED")),
        Ok(Gate::Postponed) => Dispatched::Parked,
        Ok(Gate::Evicted) => Dispatched::Silent,
        // A web page makes browsers send HTTP here: the server disconnects them (`server.c: securityWarningCommand`).
        Err(CommandError::UnknownCommand(unknown))
            if unknown.name.eq_ignore_ascii_case(b"post")
                || unknown.name.eq_ignore_ascii_case(b"host:") =>
        {
            state.unit.outbox.push(Effect::Close { conn: session.conn });
            Dispatched::Silent
        }
        Err(error) => Dispatched::Reply(reject(state, table, session, request, origin, error)),
    }
}

/// Remembers what a connection that tracks has read. Scripts that only read are no readers
/// themselves: what they call is.
#[cold]
fn note_read(
    state: &mut State,
    session: &Session,
    spec: &CommandSpec,
    request: Request<'_>,
    origin: Origin,
) {
    if spec.group == Group::Scripting {
        return;
    }
    match origin {
        Origin::Client | Origin::Exec => {
            let keys = spec.keys_of(request).into_iter().map(Blob::new);
            state.clients.tracking.remember(session.conn, keys);
        }
        Origin::Script => state.clients.tracking.remember_script_keys(session.conn),
        Origin::Retry => {}
    }
    state.unit.has_sequel = true;
}

fn shorten_doubles(profile: Profile, reply: &mut Reply) {
    if profile.has(feature::SHORTEST_DOUBLES) {
        reply.shorten_doubles(profile.has(feature::SHORTEST_COORDINATES));
    }
}

/// Runs a request that has passed the gates.
#[inline(always)]
pub(in crate::engine) fn call(
    state: &mut State,
    session: &mut Session,
    (entry, first): (Entry, usize),
    request: Request<'_>,
    now: UnixMicros,
    origin: Origin,
) -> Dispatched {
    let Entry { spec, number } = entry;
    let now_millis = state.unit.millis_of(now);
    let mut ctx = Ctx {
        state,
        session,
        now,
        now_millis,
        origin,
        took: 0,
        then: None,
        reply_at: None,
    };
    let mut result = (spec.handler)(&mut ctx, &mut Args::new(request, first));
    let (then, took, reply_at) = (ctx.then, ctx.took, ctx.reply_at);
    // Of the commands whose replies differ by release, only these reply doubles.
    if matches!(spec.group, Group::SortedSet | Group::Geo)
        && let Ok(reply) = &mut result
    {
        shorten_doubles(state.config.profile, reply);
    }
    if state.peers.stream.is_some() {
        let is_done = then.is_none() && !matches!(result, Err(CommandError::Parked));
        state.record_command(session, spec.name, request, origin, is_done);
    }
    if let Some(at) = reply_at
        && !state.unit.own_frames.is_empty()
    {
        state.unit.reply_at = Some(at);
    }
    if spec.flags.has(Flags::READONLY) && state.clients.tracking.is_on() {
        note_read(state, session, spec, request, origin);
    }
    if origin != Origin::Retry {
        state.introspection.stats.commands += 1;
        state.introspection.stats.of(number).calls += 1;
        if !state.clients.monitors().is_empty() && !matches!(then, Some(Continuation::Exec(_))) {
            tell_monitors(state, session, spec, request, now, origin);
        }
    }
    if spec.flags.has(Flags::WRITE) && origin == Origin::Script {
        state.scripting.wrote = true;
    }
    if let Some(Continuation::Wait(wait)) = then {
        state
            .clients
            .waiters
            .park(session.conn, *wait, request.to_owned(), number, now);
        return Dispatched::Parked;
    }
    if matches!(result, Err(CommandError::Parked)) {
        return Dispatched::Parked;
    }
    state.introspection.stats.of(number).measured += u64::from(state.config.latency_tracking);
    if let Some(Continuation::Script(call)) = then {
        return Dispatched::Script(call);
    }
    if took > 0 {
        state.took_time(number, spec.flags.has(Flags::FAST), now, took);
    }
    if state.is_slow(took) {
        log_slow(state, session, spec, request, now, origin, took);
    }
    match result {
        Ok(reply) => match then {
            Some(Continuation::Exec(queue)) => Dispatched::Exec(queue),
            _ => Dispatched::Reply(reply),
        },
        Err(CommandError::NoAnswer) => Dispatched::Silent,
        Err(error) => {
            state.introspection.stats.of(number).failed += 1;
            Dispatched::Reply(refuse(state, origin, error))
        }
    }
}

/// The answer to a request that failed, counted.
#[cold]
pub(in crate::engine) fn refuse(state: &mut State, origin: Origin, error: CommandError) -> Reply {
    let error = ErrorReply::from(error);
    state.introspection.stats.count_error(&error);
    if origin == Origin::Script {
        state.scripting.error = Some(error.clone());
    }
    error.into()
}

/// Error codes of a cluster that discard a transaction; the client gets them unchanged (`server.c: processCommand`).
const CLUSTER_CODES: [&str; 5] = ["MOVED", "ASK", "TRYAGAIN", "CROSSSLOT", "CLUSTERDOWN"];

/// A request that did not pass a gate spoils the transaction it was meant for; an EXEC that did not
/// pass ends it, and forgets what was watched even if there is none (`server.c: rejectCommand`).
#[cold]
fn reject(
    state: &mut State,
    table: &CommandTable,
    session: &mut Session,
    request: Request<'_>,
    origin: Origin,
    error: CommandError,
) -> Reply {
    let resolved = table.resolve(request);
    // A sentinel has no EXEC.
    let is_exec = resolved
        .as_ref()
        .is_ok_and(|(entry, _)| entry.spec.name == "exec");
    if let Ok((entry, _)) = resolved {
        state.introspection.stats.of(entry.number).rejected += 1;
    }
    if origin != Origin::Client {
        return refuse(state, origin, error);
    }
    match &mut session.queue {
        Some(queue) => queue.spoiled = true,
        None => {
            session.asking = Asking::No;
            let is_about_client = table
                .resolve(request)
                .is_ok_and(|(_, first)| is_about_client(request, first));
            if !is_about_client {
                state.clients.tracking.refused(session.conn);
            }
        }
    }
    if is_exec {
        session.queue = None;
        state.clients.watches.unwatch(session.conn);
        let because = ErrorReply::from(error.clone());
        if CLUSTER_CODES.contains(&because.code()) {
            return refuse(state, origin, error);
        }
        let because = because
            .text()
            .strip_prefix("ERR ")
            .unwrap_or_else(|| because.text());
        let text = format!("EXECABORT Transaction discarded because of: {because}");
        return refuse(state, origin, CommandError::Text(text.into()));
    }
    refuse(state, origin, error)
}

/// The answer to a request that a gate outside of the engine refuses.
#[cold]
pub(in crate::engine) fn turn_away(
    state: &mut State,
    table: &CommandTable,
    session: &mut Session,
    request: Request<'_>,
    error: &ErrorReply,
) -> Reply {
    let error = CommandError::Text(error.text().to_owned().into());
    reject(state, table, session, request, Origin::Client, error)
}

/// Sends an executed command to the monitors, without passwords.
#[cold]
pub(in crate::engine) fn tell_monitors(
    state: &mut State,
    session: &Session,
    spec: &CommandSpec,
    request: Request<'_>,
    now: UnixMicros,
    origin: Origin,
) {
    // Monitors see scripts before the commands in them.
    let is_unit = [
        "eval",
        "evalsha",
        "eval_ro",
        "evalsha_ro",
        "fcall",
        "fcall_ro",
    ]
    .contains(&spec.name);
    if spec.flags.has(Flags::ADMIN) || spec.flags.has(Flags::SKIP_MONITOR) && !is_unit {
        return;
    }
    let from_script = origin == Origin::Script;
    let addr = if from_script { "lua" } else { &*session.addr };
    let line = monitor::line(now, session.db, addr, request);
    let line = Reply::Status(line);
    for conn in state.clients.monitors().to_vec() {
        state.tell(conn, line.clone());
    }
}

/// Adds a command to the slow log. The entry of a call in a script has no client.
#[cold]
pub(in crate::engine) fn log_slow(
    state: &mut State,
    session: &Session,
    spec: &CommandSpec,
    request: Request<'_>,
    now: UnixMicros,
    origin: Origin,
    took: u64,
) {
    if spec.flags.has(Flags::SKIP_SLOWLOG) {
        return;
    }
    let (addr, client_name) = match origin {
        Origin::Script => ("?:0".into(), Blob::default()),
        Origin::Client | Origin::Exec | Origin::Retry => {
            (session.addr.clone(), session.name.clone())
        }
    };
    let entry = SlowEntry {
        id: 0,
        at: now
            .plus(Duration::from_micros(took))
            .0
            .div_euclid(1_000_000),
        micros: took,
        args: slowlog::trimmed(&slowlog::shown(request)),
        addr,
        client_name,
    };
    state
        .introspection
        .slowlog
        .push(entry, state.config.slowlog_max_len);
}

impl State {
    /// Refuses a request that a gate would have let pass.
    pub(in crate::engine) fn refuse_one(
        &mut self,
        table: &CommandTable,
        conn: ConnId,
        request: Request<'_>,
        error: &ErrorReply,
    ) -> Outcome {
        let Some(mut session) = self.clients.sessions.take(conn) else {
            return Outcome::Silent;
        };
        let reply = turn_away(self, table, &mut session, request, error);
        self.clients.sessions.put_back(session);
        Outcome::Reply(self.apply_reply_mode(conn, reply))
    }
}
