//! The gates, in the order of `server.c: processCommand`; then the handler. No handler knows them.

use super::State;
use super::context::{Continuation, Ctx, Origin, ScriptCall};
use super::effect::Effect;
use super::monitor;
use super::session::{Asking, CommandCache, Session};
use super::slowlog::{self, SlowEntry};
use super::table::{CommandSpec, CommandTable, Entry, Flags, Group};
use super::time::UnixMicros;
use super::transaction::Queue;
use super::{Args, CommandError};
use crate::resp::{Blob, ErrorReply, Protocol, Reply, Request};
use std::time::Duration;

/// What dispatch leaves to its caller.
pub(super) enum Dispatched {
    Reply(Reply),
    /// The gates were passed; the script is to run now.
    Script(ScriptCall),
    /// EXEC may go ahead with these requests.
    Exec(Box<Queue>),
    /// The answer comes later.
    Parked,
    /// There is no answer.
    Silent,
}

/// Resolves a request and notes its command as the latest of the connection.
fn resolve_anew(
    table: &CommandTable,
    session: &mut Session,
    request: Request<'_>,
) -> Result<(Entry, usize), CommandError> {
    let found = table.resolve(request);
    session.last_command = found.as_ref().ok().map(|(entry, _)| entry.number);
    match &found {
        // The name of a container leads to different rows.
        Ok((entry, first)) if *first == 1 && entry.spec.subcommands.is_empty() => {
            session.command_cache.note(request.name(), entry.number);
        }
        Ok(_) => {}
        Err(_) => session.command_cache = CommandCache::default(),
    }
    found
}

fn full_name(request: Request<'_>, spec: &CommandSpec, first: usize) -> String {
    let parent = String::from_utf8_lossy(request.name()).to_ascii_lowercase();
    if first == 2 {
        format!("{parent}|{}", spec.name)
    } else {
        parent
    }
}

/// Runs one request. `now` is the instant of the whole unit.
#[inline]
pub(super) fn dispatch(
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
        // A browser that was sent here is shown out (`server.c: securityWarningCommand`).
        Err(CommandError::UnknownCommand(unknown))
            if unknown.name.eq_ignore_ascii_case(b"post")
                || unknown.name.eq_ignore_ascii_case(b"host:") =>
        {
            state.outbox.push(Effect::Close { conn: session.conn });
            Dispatched::Silent
        }
        Err(error) => Dispatched::Reply(reject(state, table, session, request, origin, error)),
    }
}

/// Whether it is a subcommand of CLIENT.
fn is_about_client(request: Request<'_>, first: usize) -> bool {
    first == 2 && request.name().eq_ignore_ascii_case(b"client")
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
    if spec.group != Group::Scripting {
        state.remember_read(session.conn, spec, request, origin);
    }
}

/// Runs a request that has passed the gates.
#[inline(always)]
pub(super) fn call(
    state: &mut State,
    session: &mut Session,
    (entry, first): (Entry, usize),
    request: Request<'_>,
    now: UnixMicros,
    origin: Origin,
) -> Dispatched {
    let Entry { spec, number } = entry;
    let mut ctx = Ctx {
        state,
        session,
        now,
        now_millis: now.millis(),
        origin,
        took: 0,
        then: None,
        reply_at: None,
    };
    let result = (spec.handler)(&mut ctx, &mut Args::new(request, first));
    let (then, took, reply_at) = (ctx.then, ctx.took, ctx.reply_at);
    if let Some(at) = reply_at
        && !state.own_frames.is_empty()
    {
        state.reply_at = Some(at);
    }
    if spec.flags.has(Flags::READONLY) && state.tracking.is_on() {
        note_read(state, session, spec, request, origin);
    }
    if origin != Origin::Retry {
        state.stats.commands += 1;
        state.stats.of(number).calls += 1;
        if !state.monitors.is_empty() && !matches!(then, Some(Continuation::Exec(_))) {
            tell_monitors(state, session, spec, request, now, origin);
        }
    }
    if spec.flags.has(Flags::WRITE) && origin == Origin::Script {
        state.script_wrote = true;
    }
    if let Some(Continuation::Wait(wait)) = then {
        state
            .waiters
            .park(session.conn, *wait, request.to_owned(), number, now);
        return Dispatched::Parked;
    }
    if matches!(result, Err(CommandError::Parked)) {
        return Dispatched::Parked;
    }
    state.stats.of(number).measured += u64::from(state.config.latency_tracking);
    if let Some(Continuation::Script(call)) = then {
        return Dispatched::Script(call);
    }
    if took > 0 {
        state.took_time(entry, now, took);
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
            state.stats.of(number).failed += 1;
            Dispatched::Reply(refuse(state, origin, error))
        }
    }
}

/// The answer to a request that failed, counted.
#[cold]
fn refuse(state: &mut State, origin: Origin, error: CommandError) -> Reply {
    let error = ErrorReply::from(error);
    state.stats.count_error(&error);
    if origin == Origin::Script {
        state.script_error = Some(error.clone());
    }
    error.into()
}

/// What the cluster says of a transaction ends it, in its own words (`server.c: processCommand`).
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
    let is_exec = request.name().eq_ignore_ascii_case(b"exec");
    if let Ok((entry, _)) = table.resolve(request) {
        state.stats.of(entry.number).rejected += 1;
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
                state.tracking.refused(session.conn);
            }
        }
    }
    if is_exec {
        session.queue = None;
        state.watches.unwatch(session.conn);
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

/// The answer to a request that somebody else does not let pass.
#[cold]
pub(super) fn turn_away(
    state: &mut State,
    table: &CommandTable,
    session: &mut Session,
    request: Request<'_>,
    error: &ErrorReply,
) -> Reply {
    let error = CommandError::Text(error.text().to_owned().into());
    reject(state, table, session, request, Origin::Client, error)
}

/// What one connection queues at most, whatever `client-query-buffer-limit` says.
const QUEUE_BYTES_MAX: i64 = 1 << 30;
/// What changes anything.
const WRITES: Flags = Flags::WRITE.or(Flags::MAY_REPLICATE);

enum Gate {
    Passed((Entry, usize)),
    /// It waits for EXEC.
    Queued,
    /// It waits for the end of CLIENT PAUSE.
    Postponed,
}

#[inline]
fn gates(
    state: &mut State,
    table: &CommandTable,
    session: &mut Session,
    request: Request<'_>,
) -> Result<Gate, CommandError> {
    let (entry, first) = match session.command_cache.number(request.name()) {
        Some(number) => {
            session.last_command = Some(number);
            (table.entry(number), 1)
        }
        None => resolve_anew(table, session, request)?,
    };
    let spec = entry.spec;
    if !spec.accepts(request.len()) {
        return Err(CommandError::Arity {
            command: full_name(request, spec, first),
        });
    }
    if !session.authenticated && !spec.flags.has(Flags::NO_AUTH) {
        return Err(CommandError::NoAuth);
    }
    if session.queue.is_some()
        || session.is_subscribed
        || session.is_monitor
        || state.busy.is_some()
        || state.pause.is_on()
        || state.tracking.is_on()
        || state.is_guarded
    {
        return rare_gates(state, table, session, request, entry, first);
    }
    Ok(Gate::Passed((entry, first)))
}

fn rare_gates(
    state: &mut State,
    table: &CommandTable,
    session: &mut Session,
    request: Request<'_>,
    entry: Entry,
    first: usize,
) -> Result<Gate, CommandError> {
    let spec = entry.spec;
    if state.tracking.is_on() {
        let is_about_client = is_about_client(request, first);
        state.tracking.next_request(session, is_about_client);
        state.has_sequel = true;
    }
    if session.queue.is_some() && spec.flags.has(Flags::NO_MULTI) {
        return Err(CommandError::Text(
            "ERR Command not allowed inside a transaction".into(),
        ));
    }
    if state.cluster.is_some() {
        state.cluster_gate(table, session, spec, request)?;
    }
    if state.config.maxmemory > 0 && state.busy.is_none() {
        state.memory_gate(table, session, spec, request)?;
    }
    if session.is_subscribed
        && session.protocol == Protocol::Resp2
        && !spec.flags.has(Flags::WHILE_SUBSCRIBED)
    {
        let name = full_name(request, spec, first);
        let text = format!(
            "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed \
             in this context"
        );
        return Err(CommandError::Text(text.into()));
    }
    if state.busy.is_some() && !spec.flags.has(Flags::ALLOW_BUSY) {
        return Err(CommandError::Busy);
    }
    let writes = spec.flags.has(WRITES);
    if session.is_monitor && (writes || spec.flags.has(Flags::READONLY)) {
        return Err(CommandError::Text(
            "ERR Replica can't interact with the keyspace".into(),
        ));
    }
    if state.pause.is_on() && !session.is_monitor {
        let queued = session.queue.as_ref().filter(|_| spec.name == "exec");
        if state
            .pause
            .stops(writes || queued.is_some_and(|queue| queue.writes))
        {
            state.pause.postpone(session.conn, request.to_owned());
            return Ok(Gate::Postponed);
        }
    }
    if state.is_guarded {
        guard(state, spec)?;
    }
    if let Some(queue) = &mut session.queue
        && !spec.flags.has(Flags::NOT_QUEUED)
    {
        if queue.size_bytes() as i64 > state.config.client_query_buffer_limit.min(QUEUE_BYTES_MAX) {
            return Err(CommandError::Text(
                "ERR redouble queues no more than client-query-buffer-limit".into(),
            ));
        }
        queue.push(request, (entry.number, first), writes);
        return Ok(Gate::Queued);
    }
    Ok(Gate::Passed((entry, first)))
}

/// Writes that a replica, or a master with too few replicas, does not take.
#[cold]
fn guard(state: &State, spec: &CommandSpec) -> Result<(), CommandError> {
    let writes = spec.flags.has(Flags::WRITE);
    if writes && state.replication.is_replica() {
        return Err(CommandError::ReadOnlyReplica);
    }
    let (wanted, lag) = (
        state.config.min_replicas_to_write,
        state.config.min_replicas_max_lag,
    );
    if writes && wanted > 0 && state.replication.good(state.now, lag) < wanted {
        return Err(CommandError::TooFewReplicas);
    }
    Ok(())
}

fn script_gates(
    state: &mut State,
    table: &CommandTable,
    session: &Session,
    request: Request<'_>,
) -> Result<Gate, CommandError> {
    let (entry, first) = match table.resolve(request) {
        Err(CommandError::UnknownCommand(_) | CommandError::UnknownSubcommand(_)) => {
            return Err(CommandError::UnknownFromScript);
        }
        other => other?,
    };
    let spec = entry.spec;
    if !spec.accepts(request.len()) {
        return Err(CommandError::ArityFromScript);
    }
    if spec.flags.has(Flags::NOSCRIPT) {
        return Err(CommandError::NotAllowedFromScript);
    }
    if state.script_reads_only && spec.flags.has(WRITES) {
        return Err(CommandError::ReadOnlyScript);
    }
    if state.is_guarded {
        guard(state, spec)?;
        if state.script_is_short(spec) {
            return Err(CommandError::OutOfMemory);
        }
        state.cluster_script_gate(session, spec, request)?;
    }
    Ok(Gate::Passed((entry, first)))
}

/// Tells whoever watches of a command that was executed. Passwords are not shown.
#[cold]
pub(super) fn tell_monitors(
    state: &mut State,
    session: &Session,
    spec: &CommandSpec,
    request: Request<'_>,
    now: UnixMicros,
    origin: Origin,
) {
    // Scripts and transactions are told of before what happens in them.
    let is_unit = ["eval", "evalsha", "eval_ro", "evalsha_ro"].contains(&spec.name);
    if spec.flags.has(Flags::ADMIN) || spec.flags.has(Flags::SKIP_MONITOR) && !is_unit {
        return;
    }
    let from_script = origin == Origin::Script;
    let addr = if from_script { "lua" } else { &*session.addr };
    let line = monitor::line(now, session.db, addr, request);
    let line = Reply::Status(line);
    for conn in state.monitors.clone() {
        state.tell(conn, line.clone());
    }
}

/// Writes a command into the slow log. What a script calls has no client of its own.
#[cold]
pub(super) fn log_slow(
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
    state.slowlog.push(entry, state.config.slowlog_max_len);
}

impl State {
    /// Whether the slow log has a place for what took so many microseconds.
    #[inline]
    pub(super) fn is_slow(&self, took: u64) -> bool {
        // A negative threshold means never, and is a very large one.
        took >= self.config.slowlog_log_slower_than as u64 && self.config.slowlog_max_len > 0
    }

    /// A command took time.
    #[cold]
    fn took_time(&mut self, entry: Entry, now: UnixMicros, took: u64) {
        let is_measured = self.config.latency_tracking;
        self.stats.took(entry.number, took, is_measured);
        let millis = (took / 1000) as i64;
        let threshold = self.config.latency_monitor_threshold;
        if threshold > 0 && millis >= threshold {
            let is_fast = entry.spec.flags.has(Flags::FAST);
            let event = if is_fast { "fast-command" } else { "command" };
            let end = now.plus(Duration::from_micros(took));
            self.latency.add(event, end.0.div_euclid(1_000_000), millis);
        }
    }

    /// A script has ended: it counts as failed if it answers an error, which is counted too unless it
    /// is what a command in it answered (`script_lua.c: luaCallFunction`).
    pub(super) fn script_ended(&mut self, number: u16, reply: &Reply) {
        let seen = self.script_error.take();
        let Reply::Error(error) = reply else {
            return;
        };
        self.stats.of(number).failed += 1;
        // One that was raised has its place in the script added.
        let is_old = seen.is_some_and(|seen| error.as_bytes().starts_with(seen.as_bytes()));
        if !is_old {
            self.stats.count_error(error);
        }
    }
}
