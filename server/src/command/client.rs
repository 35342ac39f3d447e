//! CLIENT: names, replies, lists, ends and pauses of connections.
//!
//! Source: `networking.c: clientCommand`. What concerns client-side caching is in `tracking.rs`.

use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError, tracking};
use crate::engine::{Ctx, Paused, ReplyMode, Session};
use crate::resp::{Blob, OwnedRequest, Reply, Request, parse_integer};
use std::fmt::Write as _;
use std::iter::once;

pub(super) fn set_name(ctx: &mut Ctx<'_>, name: &[u8]) -> Result<(), CommandError> {
    if name.iter().any(|byte| !(b'!'..=b'~').contains(byte)) {
        return Err(CommandError::Text(
            "ERR Client names cannot contain spaces, newlines or special characters.".into(),
        ));
    }
    ctx.session.name = Blob::new(name);
    Ok(())
}

fn id(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    Ok(Reply::Int(ctx.session.conn.client_id() as i64))
}

fn setname(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    set_name(ctx, args.required()?)?;
    Ok(Reply::Ok)
}

fn getname(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    if ctx.session.name.is_empty() {
        Ok(Reply::Nil)
    } else {
        Ok(Reply::Bulk(ctx.session.name.clone()))
    }
}

/// All sessions with the caller's, which is out of the table, in the order in which they connected.
pub(super) fn everybody<'a>(ctx: &'a Ctx<'_>) -> Vec<&'a Session> {
    let mut all: Vec<&Session> = once(&*ctx.session).chain(ctx.sessions().iter()).collect();
    all.sort_by_key(|session| session.conn.client_id());
    all
}

/// The classes of clients that TYPE names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ClientType {
    Normal,
    PubSub,
    /// There are none.
    Replica,
    Master,
}

impl ClientType {
    fn parse(name: &[u8]) -> Result<Self, CommandError> {
        match &name.to_ascii_lowercase()[..] {
            b"normal" => Ok(Self::Normal),
            b"pubsub" => Ok(Self::PubSub),
            b"slave" | b"replica" => Ok(Self::Replica),
            b"master" => Ok(Self::Master),
            _ => {
                let before = "ERR Unknown client type '";
                Err(CommandError::echoing(before, name, "'"))
            }
        }
    }

    fn of(session: &Session) -> Self {
        if session.is_subscribed {
            Self::PubSub
        } else {
            Self::Normal
        }
    }
}

/// Bytes that a connection of 7.0.15 takes: before its first request, and with the buffer that it
/// then has.
const FRESH_BYTES: usize = 17_160;
const USED_BYTES: usize = 37_632;
/// The buffer for requests, as long as they are small, and what is left of it before the first.
const QUERY_BUFFER_BYTES: usize = 20_474;
const FRESH_BUFFER_BYTES: usize = 4;
/// The buffer for replies, before it is fitted to what is needed.
const REPLY_BUFFER_BYTES: usize = 16_384;
/// What Redis spends on an argument, a queued command, a watched key, a table's place and entry, and
/// the node of a list.
const ARGUMENT_BYTES: usize = 8;
const QUEUED_BYTES: usize = 24;
const WATCHED_BYTES: usize = 56;
const PLACE_BYTES: usize = 8;
const ENTRY_BYTES: usize = 24;
const NODE_BYTES: usize = 24;
const PLACES_MIN: usize = 4;

fn text_bytes(request: Request<'_>) -> usize {
    request.iter().map(<[u8]>::len).sum()
}

fn table_bytes(count: usize) -> usize {
    match count {
        0 => 0,
        count => count * ENTRY_BYTES + count.next_power_of_two().max(PLACES_MIN) * PLACE_BYTES,
    }
}

/// What a request takes as it goes over the wire.
fn wire_bytes(request: Request<'_>) -> usize {
    let line = |number: usize| 3 + number.to_string().len();
    let args = request.iter().map(|arg| line(arg.len()) + arg.len() + 2);
    line(request.len()) + args.sum::<usize>()
}

/// A line of CLIENT LIST (`networking.c: catClientInfoString`). There are no descriptors and no
/// buffers of Redis's here: `fd` is that of a first connection, `rbs`, `rbp`, `obl`, `oll` and `omem`
/// are those of a fresh one, and the other sizes are what Redis's would come to.
fn push_line(ctx: &Ctx<'_>, session: &Session, request: Request<'_>, text: &mut Vec<u8>) {
    let conn = session.conn;
    let is_caller = conn == ctx.session.conn;
    let seconds = |since: crate::engine::UnixMicros| {
        ctx.now.0.div_euclid(1_000_000) - since.0.div_euclid(1_000_000)
    };
    let waiting = ctx.waiters().get(conn).map(|waiter| &waiter.request);
    let waiting = waiting.or_else(|| ctx.pause().request_of(conn));
    let counts = ctx.pubsub().counts(conn);
    let tracker = ctx.tracking().tracker(conn);
    let mut flags = String::new();
    for (flag, is_set) in [
        ('O', session.is_monitor),
        ('P', session.is_subscribed),
        ('x', session.queue.is_some()),
        ('b', waiting.is_some()),
        ('t', tracker.is_some()),
        ('R', tracker.is_some_and(|tracker| tracker.is_broken)),
        ('B', tracker.is_some_and(|tracker| tracker.mode.broadcast)),
        ('d', ctx.watches().is_dirty(conn)),
        ('U', session.addr.starts_with('/')),
        ('e', session.is_spared),
    ] {
        flags.extend(is_set.then_some(flag));
    }
    let flags = if flags.is_empty() { "N" } else { &flags };
    // What is being executed, or waits.
    let current = if is_caller {
        Some(request)
    } else {
        waiting.and_then(OwnedRequest::as_request)
    };
    let arguments = current.map_or(0, text_bytes);
    let (read, free, base) = match session.last_command {
        _ if is_caller => {
            let read = wire_bytes(request);
            (read, QUERY_BUFFER_BYTES.saturating_sub(read), USED_BYTES)
        }
        Some(_) => (0, QUERY_BUFFER_BYTES, USED_BYTES),
        None => (0, FRESH_BUFFER_BYTES, FRESH_BYTES),
    };
    let queue = session.queue.as_ref();
    let queued: usize = queue
        .into_iter()
        .flat_map(|queue| queue.requests())
        .map(|request| text_bytes(request) + request.len() * ARGUMENT_BYTES)
        .sum();
    let total = base
        + current.map_or(0, |request| arguments + request.len() * ARGUMENT_BYTES)
        + queued
        + queue.map_or(0, |queue| queue.len() * QUEUED_BYTES)
        + ctx.watches().count(conn) * WATCHED_BYTES
        + table_bytes(counts.channels)
        + table_bytes(counts.shards)
        + counts.patterns * NODE_BYTES;
    let mut tail = String::new();
    let _infallible = write!(
        tail,
        " age={} idle={} flags={flags} db={} sub={} psub={} ssub={} multi={} qbuf={read} qbuf-free={free} \
         argv-mem={arguments} multi-mem={queued} rbs={REPLY_BUFFER_BYTES} rbp={REPLY_BUFFER_BYTES} obl=0 oll=0 \
         omem=0 tot-mem={total} events=r cmd={} user=default redir={} resp={}",
        seconds(session.connected_at),
        seconds(session.last_used_at),
        session.db,
        counts.channels,
        counts.patterns,
        counts.shards,
        queue.map_or(-1, |queue| queue.len() as i64),
        session
            .last_command
            .map_or("NULL", |number| super::table(ctx).name(number)),
        tracker.map_or(-1, |tracker| tracker.redirect_id() as i64),
        session.protocol.number(),
    );
    let head = format!(
        "id={} addr={} laddr={} fd=8 name=",
        conn.client_id(),
        session.addr,
        session.laddr
    );
    for part in [head.as_bytes(), &session.name, tail.as_bytes(), b"\n"] {
        text.extend_from_slice(part);
    }
}

fn verbatim(text: &[u8]) -> Reply {
    Reply::Verbatim {
        format: *b"txt",
        text: text.to_vec(),
    }
}

fn info(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let mut text = Vec::new();
    push_line(ctx, ctx.session, args.request(), &mut text);
    Ok(verbatim(&text))
}

fn list(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let request = args.request();
    let all = everybody(ctx);
    let mut chosen: Vec<&Session> = Vec::new();
    match args.remaining() {
        0 => chosen = all,
        2 if args.keyword("TYPE") => {
            let wanted = ClientType::parse(args.required()?)?;
            let of_type = all.iter().filter(|one| ClientType::of(one) == wanted);
            chosen.extend(of_type);
        }
        2.. if args.keyword("ID") => {
            for id in args.rest() {
                let Some(id) = parse_integer(id) else {
                    return Err(CommandError::Text("ERR Invalid client ID".into()));
                };
                let is_it = |one: &&&Session| i64::try_from(one.conn.client_id()) == Ok(id);
                chosen.extend(all.iter().find(is_it));
            }
        }
        _ => return Err(CommandError::Syntax),
    }
    let mut text = Vec::new();
    for session in chosen {
        push_line(ctx, session, request, &mut text);
    }
    Ok(verbatim(&text))
}

/// The filter of CLIENT KILL; an absent field matches every client.
struct Filter<'a> {
    id: Option<i64>,
    kind: Option<ClientType>,
    addr: Option<&'a [u8]>,
    laddr: Option<&'a [u8]>,
    skips_me: bool,
}

impl<'a> Filter<'a> {
    fn parse(args: &mut Args<'a>) -> Result<Self, CommandError> {
        let mut filter = Self {
            id: None,
            kind: None,
            addr: None,
            laddr: None,
            skips_me: true,
        };
        if args.remaining() == 1 {
            filter.addr = args.next();
            filter.skips_me = false;
            return Ok(filter);
        }
        while let Some(word) = args.next() {
            let value = args.required()?;
            match &word.to_ascii_lowercase()[..] {
                b"id" => match parse_integer(value) {
                    Some(id @ 1..) => filter.id = Some(id),
                    Some(_) | None => {
                        return Err(CommandError::Text(
                            "ERR client-id should be greater than 0".into(),
                        ));
                    }
                },
                b"type" => filter.kind = Some(ClientType::parse(value)?),
                b"addr" => filter.addr = Some(value),
                b"laddr" => filter.laddr = Some(value),
                b"user" if value == b"default" => {}
                b"user" => {
                    return Err(CommandError::echoing("ERR No such user '", value, "'"));
                }
                b"skipme" if value.eq_ignore_ascii_case(b"yes") => filter.skips_me = true,
                b"skipme" if value.eq_ignore_ascii_case(b"no") => filter.skips_me = false,
                _ => return Err(CommandError::Syntax),
            }
        }
        Ok(filter)
    }

    fn fits(&self, session: &Session) -> bool {
        let is = |wanted: Option<&[u8]>, addr: &str| {
            wanted.is_none_or(|wanted| wanted == addr.as_bytes())
        };
        is(self.addr, &session.addr)
            && is(self.laddr, &session.laddr)
            && self.kind.is_none_or(|kind| kind == ClientType::of(session))
            && self
                .id
                .is_none_or(|id| i64::try_from(session.conn.client_id()) == Ok(id))
    }
}

fn kill(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let is_old = args.remaining() == 1;
    let filter = Filter::parse(args)?;
    let own = ctx.session.conn;
    let fitting = everybody(ctx).into_iter();
    let fitting = fitting.filter(|session| filter.fits(session));
    let killed: Vec<_> = fitting.map(|session| session.conn).collect();
    let mut count = 0;
    for conn in killed {
        if conn == own {
            if filter.skips_me {
                continue;
            }
            ctx.close();
        } else {
            ctx.kick(conn);
        }
        count += 1;
    }
    match count {
        0 if is_old => Err(CommandError::Text("ERR No such client".into())),
        _ if is_old => Ok(Reply::Ok),
        count => Ok(Reply::Int(count)),
    }
}

fn unblock(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    if args.remaining() > 2 {
        return Err(args.subcommand_syntax());
    }
    let id = args.required()?;
    let with_error = match args.next().map(<[u8]>::to_ascii_lowercase).as_deref() {
        None | Some(b"timeout") => false,
        Some(b"error") => true,
        Some(_) => {
            return Err(CommandError::Text(
                "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR".into(),
            ));
        }
    };
    let id = super::integer_of(id)?;
    // A client that waits for the end of a pause goes on waiting; 7.0.15 crashes here.
    let is_it = |session: &&Session| i64::try_from(session.conn.client_id()) == Ok(id);
    let found = ctx.sessions().iter().find(is_it);
    let found = found.map(|session| session.conn);
    let done = found.is_some_and(|conn| ctx.unblock(conn, with_error));
    Ok(Reply::Int(done.into()))
}

fn pause(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    if args.remaining() > 2 {
        return Err(args.subcommand_syntax());
    }
    let timeout = args.required()?;
    let what = match args.next().map(<[u8]>::to_ascii_lowercase).as_deref() {
        None | Some(b"all") => Paused::All,
        Some(b"write") => Paused::Writes,
        Some(_) => {
            return Err(CommandError::Text(
                "ERR CLIENT PAUSE mode must be WRITE or ALL".into(),
            ));
        }
    };
    let millis = milliseconds(timeout)?;
    // A time that cannot be told has long passed, as in Redis.
    let now = ctx.now_millis();
    let until = now.0.checked_add(millis).filter(|_| millis > 0);
    if until.is_some() || ctx.pause().is_on() {
        let until = crate::engine::UnixMillis(until.unwrap_or(0));
        ctx.pause_clients(until, what);
    }
    Ok(Reply::Ok)
}

/// A timeout in milliseconds (`timeout.c: getTimeoutFromObjectOrReply`).
pub(super) fn milliseconds(text: &[u8]) -> Result<i64, CommandError> {
    match parse_integer(text) {
        Some(millis @ 0..) => Ok(millis),
        Some(_) => Err(CommandError::Text("ERR timeout is negative".into())),
        None => Err(CommandError::Text(
            "ERR timeout is not an integer or out of range".into(),
        )),
    }
}

fn unpause(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    ctx.end_pause();
    Ok(Reply::Ok)
}

fn reply(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let mode = &mut ctx.session.reply_mode;
    match &args.required()?.to_ascii_lowercase()[..] {
        b"on" => {
            *mode = ReplyMode::On;
            return Ok(Reply::Ok);
        }
        b"off" => *mode = ReplyMode::Off,
        b"skip" if *mode == ReplyMode::Off => {}
        b"skip" => *mode = ReplyMode::SkipNext,
        _ => return Err(CommandError::Syntax),
    }
    Err(CommandError::NoAnswer)
}

fn no_evict(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    ctx.session.is_spared = match &args.required()?.to_ascii_lowercase()[..] {
        b"on" => true,
        b"off" => false,
        _ => return Err(CommandError::Syntax),
    };
    Ok(Reply::Ok)
}

pub(super) const OWN: &[Flags] = &[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE];
const ADMIN: &[Flags] = &[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE];
const CHANGES: &[&str] = &["nondeterministic_output"];

pub(super) const CLIENT: CommandSpec =
    CommandSpec::container("client", -2, Group::Connection, SUBCOMMANDS)
        .flags(&[Flags::SENTINEL])
        .since("2.4.0")
        .summary("What concerns connections.");

const SUBCOMMANDS: &[CommandSpec] = &[
    tracking::CACHING,
    tracking::GETREDIR,
    tracking::TRACKING,
    tracking::TRACKINGINFO,
    row("getname", 2, getname)
        .flags(OWN)
        .since("2.6.9")
        .summary("The name of this connection."),
    row("id", 2, id)
        .flags(OWN)
        .since("5.0.0")
        .summary("The id of this connection."),
    row("info", 2, info)
        .flags(OWN)
        .tips(CHANGES)
        .since("6.2.0")
        .summary("What there is to say of this connection."),
    row("kill", -3, kill)
        .flags(ADMIN)
        .since("2.4.0")
        .syntax(
            "filter=(ip:port!2.8.12 | new-format=([ID client-id:integer]@2.8.12 | [TYPE \
             normal_master_slave_pubsub=(NORMAL | MASTER@3.2.0 | SLAVE | REPLICA@5.0.0 | PUBSUB)]@2.8.12 \
             | [USER username] | [ADDR ip:port] | [LADDR ip:port]@6.2.0 | [SKIPME yes/no])...)",
        )
        .summary("Ends connections, of one address or those that fit."),
    row("list", -2, list)
        .flags(ADMIN)
        .tips(CHANGES)
        .since("2.4.0")
        .syntax(
            "[TYPE normal_master_replica_pubsub=(NORMAL | MASTER | REPLICA | PUBSUB)]@5.0.0 [ID \
             id=(client-id:integer...)]@6.2.0",
        )
        .summary("What there is to say of all connections, or of some."),
    row("no-evict", 3, no_evict)
        .flags(ADMIN)
        .since("7.0.0")
        .syntax("enabled=(ON | OFF)")
        .summary("Spares this connection when memory is short."),
    row("pause", -3, pause)
        .flags(ADMIN)
        .since("2.9.50")
        .syntax("timeout:integer [mode=(WRITE | ALL)]@6.2.0")
        .summary("Lets requests wait for a while, all or those that write."),
    row("reply", 3, reply)
        .flags(OWN)
        .since("3.2.0")
        .syntax("on_off_skip=(ON | OFF | SKIP)")
        .summary("Whether this connection is answered."),
    row("setname", 3, setname)
        .flags(OWN)
        .since("2.6.9")
        .syntax("connection-name")
        .summary("Names this connection."),
    row("unblock", -3, unblock)
        .flags(ADMIN)
        .since("5.0.0")
        .syntax("client-id:integer [timeout_error=(TIMEOUT | ERROR)]")
        .summary("Ends the waiting of another connection."),
    row("unpause", 2, unpause)
        .flags(ADMIN)
        .since("6.2.0")
        .summary("Ends CLIENT PAUSE."),
];

pub(super) const fn row(
    name: &'static str,
    arity: i32,
    handler: super::spec::Handler,
) -> CommandSpec {
    CommandSpec::new(name, arity, Group::Connection, handler)
}
