//! CLIENT: names, replies, lists, ends and pauses of connections.
//!
//! Source: `networking.c: clientCommand`. Client-side caching is in `tracking.rs`.

pub(super) mod row;

use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError, help, tracking};
use crate::engine::{Ctx, Paused, ReplyMode, Session, UserId};
use crate::resp::{Blob, Reply, parse_integer};
use row::{OWN, all_sessions, row};

/// True if CLIENT LIST can show this text (`networking.c: validateClientAttr`).
fn is_printable(text: &[u8]) -> bool {
    text.iter().all(|byte| (b'!'..=b'~').contains(byte))
}

pub(super) fn set_name(ctx: &mut Ctx<'_>, name: &[u8]) -> Result<(), CommandError> {
    if !is_printable(name) {
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

/// The classes of clients that TYPE names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ClientType {
    Normal,
    PubSub,
    Replica,
    /// There are no such clients.
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
        if session.reads_stream() {
            Self::Replica
        } else if session.is_subscribed {
            Self::PubSub
        } else {
            Self::Normal
        }
    }
}

fn verbatim(text: &[u8]) -> Reply {
    Reply::Verbatim {
        format: *b"txt",
        text: text.to_vec(),
    }
}

fn info(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    ctx.settle_buffers();
    let mut text = Vec::new();
    ctx.push_client_line(ctx.session, args.request(), &mut text);
    text.push(b'\n');
    Ok(verbatim(&text))
}

fn list(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    ctx.settle_buffers();
    let request = args.request();
    let all = all_sessions(ctx);
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
        ctx.push_client_line(session, request, &mut text);
        text.push(b'\n');
    }
    Ok(verbatim(&text))
}

/// The filter of CLIENT KILL; an absent field matches every client.
struct Filter<'a> {
    id: Option<i64>,
    kind: Option<ClientType>,
    addr: Option<&'a [u8]>,
    laddr: Option<&'a [u8]>,
    user: Option<UserId>,
    skips_me: bool,
}

impl<'a> Filter<'a> {
    fn parse(ctx: &Ctx<'_>, args: &mut Args<'a>) -> Result<Self, CommandError> {
        let mut filter = Self {
            id: None,
            kind: None,
            addr: None,
            laddr: None,
            user: None,
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
                b"user" => {
                    let unknown = || CommandError::echoing("ERR No such user '", value, "'");
                    filter.user = Some(ctx.acl().id(value).ok_or_else(unknown)?);
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
            && self.user.is_none_or(|user| session.user == Some(user))
            && self.kind.is_none_or(|kind| kind == ClientType::of(session))
            && self
                .id
                .is_none_or(|id| i64::try_from(session.conn.client_id()) == Ok(id))
    }
}

fn kill(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let is_old = args.remaining() == 1;
    let filter = Filter::parse(ctx, args)?;
    let own = ctx.session.conn;
    let fitting = all_sessions(ctx).into_iter();
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
    // A client that waits for the end of a pause continues to wait; 7.0.15 crashes here.
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
    // As in Redis, a time that overflows counts as past.
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
            // Within a transaction, a SKIP before it still holds for the request behind EXEC.
            if *mode != ReplyMode::SkipNext {
                *mode = ReplyMode::On;
            }
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

/// `networking.c: clientSetinfoCommand` of 7.2.
fn setinfo(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (name, value) = (args.required()?, args.required()?);
    let library = &mut ctx.session.library;
    let field = match &name.to_ascii_lowercase()[..] {
        b"lib-name" => &mut library.name,
        b"lib-ver" => &mut library.version,
        _ => {
            return Err(CommandError::echoing(
                "ERR Unrecognized option '",
                name,
                "'",
            ));
        }
    };
    if !is_printable(value) {
        let after = " cannot contain spaces, newlines or special characters.";
        return Err(CommandError::echoing("ERR ", name, after));
    }
    *field = Blob::new(value);
    Ok(Reply::Ok)
}

fn no_touch(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    ctx.session.leaves_no_traces = match &args.required()?.to_ascii_lowercase()[..] {
        b"on" => true,
        b"off" => false,
        _ => return Err(CommandError::Syntax),
    };
    Ok(Reply::Ok)
}

const ADMIN: &[Flags] = &[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE];
const CHANGES: &[&str] = &["nondeterministic_output"];

pub(super) const CLIENT: CommandSpec =
    CommandSpec::container("client", -2, Group::Connection, SUBCOMMANDS)
        .flags(&[Flags::SENTINEL])
        .since("2.4.0")
        .summary("Commands about connections.");

const SUBCOMMANDS: &[CommandSpec] = &[
    help::row(Group::Connection, "5.0.0"),
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
        .summary("Facts about this connection."),
    row("kill", -3, kill)
        .flags(ADMIN)
        .since("2.4.0")
        .syntax(
            "filter=(ip:port!2.8.12 | new-format=([ID client-id:integer]@2.8.12 | [TYPE \
             normal_master_slave_pubsub=(NORMAL | MASTER@3.2.0 | SLAVE | REPLICA@5.0.0 | PUBSUB)]@2.8.12 \
             | [USER username] | [ADDR ip:port] | [LADDR ip:port]@6.2.0 | [SKIPME yes/no])...)",
        )
        .summary("Closes connections, by address or by filters."),
    row("list", -2, list)
        .flags(ADMIN)
        .tips(CHANGES)
        .since("2.4.0")
        .syntax(
            "[TYPE normal_master_replica_pubsub=(NORMAL | MASTER | REPLICA | PUBSUB)]@5.0.0 [ID \
             id=(client-id:integer...)]@6.2.0",
        )
        .summary("Facts about all connections, or some of them."),
    row("no-evict", 3, no_evict)
        .flags(ADMIN)
        .since("7.0.0")
        .syntax("enabled=(ON | OFF)")
        .summary("Exempts this connection from eviction."),
    row("no-touch", 3, no_touch)
        .flags(OWN)
        .since("7.2.0")
        .syntax("enabled=(ON | OFF)")
        .summary("Makes commands of this connection leave the last use of keys unchanged."),
    row("pause", -3, pause)
        .flags(ADMIN)
        .since("2.9.50")
        .syntax("timeout:integer [mode=(WRITE | ALL)]@6.2.0")
        .summary("Delays requests for a while, all of them or only writes."),
    row("reply", 3, reply)
        .flags(OWN)
        .since("3.2.0")
        .syntax("on_off_skip=(ON | OFF | SKIP)")
        .summary("Turns replies to this connection on or off."),
    row("setinfo", 4, setinfo)
        .flags(OWN)
        .since("7.2.0")
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
        .syntax("attr=(LIB-NAME libname | LIB-VER libver)")
        .summary("Names the library of this connection, or its version."),
    row("setname", 3, setname)
        .flags(OWN)
        .since("2.6.9")
        .syntax("connection-name")
        .summary("Names this connection."),
    row("unblock", -3, unblock)
        .flags(ADMIN)
        .since("5.0.0")
        .syntax("client-id:integer [timeout_error=(TIMEOUT | ERROR)]")
        .summary("Unblocks another connection."),
    row("unpause", 2, unpause)
        .flags(ADMIN)
        .since("6.2.0")
        .summary("Ends CLIENT PAUSE."),
];
