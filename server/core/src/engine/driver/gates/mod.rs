//! The gates that a request passes before it runs, in the order of `server.c: processCommand`. No handler knows them.
//!
//! A request in a script has passed the gates of its script and meets [`script_gates`]; a queued request and a
//! waiting one have passed before.

mod acl;
mod cluster;
mod memory;
mod script;

use crate::engine::CommandError;
use crate::engine::acl::Place;
use crate::engine::clients::session::{CommandCache, Session};
use crate::engine::clients::transaction::Needs;
use crate::engine::state::State;
use crate::engine::table::{CommandSpec, CommandTable, Entry, Flags};
use crate::resp::{Protocol, Request};

/// Limit of the requests that one connection queues, whatever `client-query-buffer-limit` says.
const QUEUE_BYTES_MAX: i64 = 1 << 30;
/// Flags of commands that change anything.
const WRITES: Flags = Flags::WRITE.or(Flags::MAY_REPLICATE);

pub(super) enum Gate {
    Passed((Entry, usize)),
    /// The request waits for EXEC.
    Queued,
    /// The request waits for the end of CLIENT PAUSE.
    Postponed,
    /// Its client is disconnected.
    Evicted,
}

#[inline]
pub(super) fn gates(
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
    if !session.is_unrestricted
        || session.queue.is_some()
        || session.is_subscribed
        || session.is_monitor
        || state.scripting.busy.is_some()
        || state.clients.pause.is_on()
        || state.clients.tracking.is_on()
        || state.peers.is_guarded()
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
    if state.clients_limit().is_some()
        && state.scripting.busy.is_none()
        && state.evict_clients(Some((session, request)))
    {
        return Ok(Gate::Evicted);
    }
    if spec.flags.has(Flags::REFUSED) {
        return Err(CommandError::NoModules);
    }
    let is_refused = !session.is_unrestricted && state.needs_login(session);
    if is_refused && !spec.flags.has(Flags::NO_AUTH) {
        return Err(CommandError::NoAuth);
    }
    let flags = state.effective_flags(spec, request);
    if state.clients.tracking.is_on() {
        let is_about_client = is_about_client(request, first);
        state
            .clients
            .tracking
            .next_request(session, is_about_client);
        state.unit.has_sequel = true;
    }
    if session.queue.is_some() && spec.flags.has(Flags::NO_MULTI) {
        return Err(CommandError::Text(
            "ERR Command not allowed inside a transaction".into(),
        ));
    }
    if !session.is_unrestricted {
        let place = match session.queue {
            Some(_) => Place::Multi,
            None => Place::TopLevel,
        };
        state.acl_gate(session, entry, first, request, place)?;
    }
    if state.peers.cluster.is_some() {
        state.cluster_gate(table, session, spec, request)?;
    }
    // EXEC is refused for what its commands need.
    let queued = session.queue.as_ref().filter(|_| spec.name == "exec");
    let own = needs(flags);
    let all = queued.map_or(own, |queue| own.and(queue.needs));
    if state.config.maxmemory > 0 && state.scripting.busy.is_none() {
        state.memory_gate(session, spec, all.memory)?;
    }
    if state.peers.is_guarded() {
        guard(state, all.writes)?;
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
    if all.master && state.has_lost_master() {
        return Err(CommandError::MasterDown);
    }
    if state.scripting.busy.is_some() && !spec.flags.has(Flags::ALLOW_BUSY) {
        return Err(state.scripting.busy_error());
    }
    let writes = flags.has(WRITES);
    let is_replica = session.is_monitor || session.reads_stream();
    if is_replica && (writes || spec.flags.has(Flags::READONLY)) {
        return Err(CommandError::Text(
            "ERR Replica can't interact with the keyspace".into(),
        ));
    }
    if state.clients.pause.is_on()
        && !is_replica
        && state.clients.pause.stops(all.writes || all.replicates)
    {
        state
            .clients
            .pause
            .postpone(session.conn, request.to_owned());
        return Ok(Gate::Postponed);
    }
    if let Some(queue) = &mut session.queue
        && !spec.flags.has(Flags::NOT_QUEUED)
    {
        if queue.size_bytes() as i64 > state.config.client_query_buffer_limit.min(QUEUE_BYTES_MAX) {
            return Err(CommandError::Text(
                "ERR redouble queues no more than client-query-buffer-limit".into(),
            ));
        }
        queue.push(request, (entry.number, first), own);
        return Ok(Gate::Queued);
    }
    Ok(Gate::Passed((entry, first)))
}

fn needs(flags: Flags) -> Needs {
    Needs {
        writes: flags.has(Flags::WRITE),
        replicates: flags.has(Flags::MAY_REPLICATE),
        memory: flags.has(Flags::DENYOOM),
        master: !flags.has(Flags::STALE),
    }
}

/// Writes that a replica, or a master with too few replicas, does not take.
#[cold]
fn guard(state: &State, writes: bool) -> Result<(), CommandError> {
    if writes && state.refuses_writes() {
        return Err(CommandError::ReadOnlyReplica);
    }
    let (wanted, lag) = (
        state.config.min_replicas_to_write,
        state.config.min_replicas_max_lag,
    );
    if writes && wanted > 0 && state.peers.replication.good(state.unit.now(), lag) < wanted {
        return Err(CommandError::TooFewReplicas);
    }
    Ok(())
}

pub(super) fn script_gates(
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
    if spec.flags.has(Flags::NOSCRIPT) && !state.scripting.allows_all {
        return Err(CommandError::NotAllowedFromScript);
    }
    if !spec.flags.has(Flags::STALE) && state.has_lost_master() {
        return Err(CommandError::StaleFromScript);
    }
    if !session.is_unrestricted {
        state.acl_script_gate(session, entry, first, request)?;
    }
    if state.scripting.reads_only && spec.flags.has(WRITES) {
        return Err(CommandError::ReadOnlyScript);
    }
    if state.peers.is_guarded() {
        // A script that has written goes on: half of its writes would be worse than all of them.
        guard(
            state,
            spec.flags.has(Flags::WRITE) && !state.scripting.wrote,
        )?;
        if state.script_is_short(spec) {
            return Err(CommandError::OutOfMemory);
        }
        state.cluster_script_gate(session, spec, request)?;
    }
    Ok(Gate::Passed((entry, first)))
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

/// Returns true for a subcommand of CLIENT.
pub(super) fn is_about_client(request: Request<'_>, first: usize) -> bool {
    first == 2 && request.name().eq_ignore_ascii_case(b"client")
}
