//! The connection itself: greeting, authentication, names.

use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError};
use crate::engine::{Ctx, Origin, Paused, ReplyMode, UnixMillis};
use crate::resp::{Blob, Protocol, Reply, parse_integer};

fn ping(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    if ctx.session.is_subscribed && ctx.session.protocol == Protocol::Resp2 && args.remaining() <= 1
    {
        // In the shape of a message, so that a client that expects nothing else understands it.
        let text = args.next().unwrap_or_default();
        return Ok(Reply::Array(vec![Reply::bulk("pong"), Reply::bulk(text)]));
    }
    match (args.next(), args.is_empty()) {
        (None, _) => Ok(Reply::Static("PONG")),
        (Some(text), true) => Ok(Reply::bulk(text)),
        (Some(_), false) => Err(CommandError::Arity {
            command: "ping".to_owned(),
        }),
    }
}

fn echo(_: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    Ok(Reply::bulk(args.required()?))
}

fn select(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let index = i32::try_from(args.integer()?).map_err(|_| CommandError::NotInt)?;
    match usize::try_from(index) {
        Ok(index) if index < ctx.state.dbs.len() => ctx.session.db = index,
        _ => return Err(CommandError::DbIndex),
    }
    Ok(Reply::Ok)
}

/// `acl.c: ACLAuthenticateUser` for the one user there is: `default`.
fn log_in(ctx: &mut Ctx<'_>, user: &[u8], password: &[u8]) -> Result<(), CommandError> {
    let wanted = &ctx.state.config.requirepass;
    if user != b"default" || !(wanted.is_empty() || wanted == password) {
        return Err(CommandError::WrongPass);
    }
    ctx.session.authenticated = true;
    Ok(())
}

fn auth(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (first, second) = (args.required()?, args.next());
    if !args.is_empty() {
        return Err(CommandError::Syntax);
    }
    match second {
        None if ctx.state.config.requirepass.is_empty() => return Err(CommandError::NoPasswordSet),
        None => log_in(ctx, b"default", first)?,
        Some(password) => log_in(ctx, first, password)?,
    }
    Ok(Reply::Ok)
}

fn set_name(ctx: &mut Ctx<'_>, name: &[u8]) -> Result<(), CommandError> {
    if name.iter().any(|byte| !(b'!'..=b'~').contains(byte)) {
        return Err(CommandError::Text(
            "ERR Client names cannot contain spaces, newlines or special characters.".into(),
        ));
    }
    ctx.session.name = Blob::new(name);
    Ok(())
}

/// `networking.c: helloCommand`.
fn hello(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let mut protocol = None;
    if let Some(version) = args.next() {
        protocol = Some(match parse_integer(version) {
            Some(2) => Protocol::Resp2,
            Some(3) => Protocol::Resp3,
            Some(_) => return Err(CommandError::NoProto),
            None => {
                return Err(CommandError::Text(
                    "ERR Protocol version is not an integer or out of range".into(),
                ));
            }
        });
    }
    let (mut credentials, mut name) = (None, None);
    while let Some(word) = args.next() {
        if word.eq_ignore_ascii_case(b"AUTH") && args.remaining() >= 2 {
            credentials = Some((args.required()?, args.required()?));
        } else if word.eq_ignore_ascii_case(b"SETNAME") && !args.is_empty() {
            name = Some(args.required()?);
        } else {
            return Err(CommandError::echoing(
                "ERR Syntax error in HELLO option '",
                word,
                "'",
            ));
        }
    }
    if let Some((user, password)) = credentials {
        log_in(ctx, user, password)?;
    }
    if !ctx.session.authenticated {
        return Err(CommandError::Text(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH \
             <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the \
             same time"
                .into(),
        ));
    }
    if let Some(name) = name {
        set_name(ctx, name)?;
    }
    if let Some(protocol) = protocol {
        ctx.session.protocol = protocol;
    }
    let proto = if ctx.session.protocol == Protocol::Resp3 {
        3
    } else {
        2
    };
    let pair = |name: &str, value: Reply| (Reply::bulk(name), value);
    Ok(Reply::Map(vec![
        pair("server", Reply::bulk("redis")),
        pair("version", Reply::bulk(crate::REDIS_VERSION)),
        pair("proto", Reply::Int(proto)),
        pair("id", Reply::Int(ctx.session.conn.client_id() as i64)),
        pair("mode", Reply::bulk("standalone")),
        pair("role", Reply::bulk("master")),
        pair("modules", Reply::Array(Vec::new())),
    ]))
}

fn quit(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    ctx.close();
    Ok(Reply::Ok)
}

/// `networking.c: resetCommand`: back to how the connection began.
fn reset(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    let conn = ctx.session.conn;
    ctx.session.queue = None;
    ctx.session.reply_mode = ReplyMode::On;
    ctx.session.is_subscribed = false;
    ctx.session.is_monitor = false;
    ctx.state.watches.unwatch(conn);
    ctx.state.pubsub.leave(conn);
    ctx.state.monitors.retain(|other| *other != conn);
    ctx.session.db = 0;
    ctx.session.protocol = Protocol::Resp2;
    ctx.session.name = Blob::default();
    ctx.session.authenticated = ctx.state.config.requirepass.is_empty();
    Ok(Reply::Static("RESET"))
}

fn client_id(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    Ok(Reply::Int(ctx.session.conn.client_id() as i64))
}

fn client_setname(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    set_name(ctx, args.required()?)?;
    Ok(Reply::Ok)
}

fn client_getname(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    if ctx.session.name.is_empty() {
        Ok(Reply::Nil)
    } else {
        Ok(Reply::Bulk(ctx.session.name.clone()))
    }
}

/// `networking.c: clientPauseCommand`; the engine lets requests wait until then.
fn client_pause(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let refuse = |text: &'static str| Err(CommandError::Text(text.into()));
    let what = match args.nth(1) {
        Some(mode) if mode.eq_ignore_ascii_case(b"WRITE") => Paused::Writes,
        Some(mode) if mode.eq_ignore_ascii_case(b"ALL") => Paused::All,
        None => Paused::All,
        Some(_) => return refuse("ERR CLIENT PAUSE mode must be WRITE or ALL"),
    };
    let Some(millis) = parse_integer(args.required()?) else {
        return refuse("ERR timeout is not an integer or out of range");
    };
    if millis < 0 {
        return refuse("ERR timeout is negative");
    }
    let Some(until) = ctx.now_millis().0.checked_add(millis) else {
        return refuse("ERR timeout is out of range");
    };
    ctx.state.pause.begin(UnixMillis(until), what);
    Ok(Reply::Ok)
}

fn client_unpause(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    ctx.state.end_pause();
    Ok(Reply::Ok)
}

fn client_reply(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    if args.keyword("ON") {
        ctx.session.reply_mode = ReplyMode::On;
        return Ok(Reply::Ok);
    }
    if args.keyword("OFF") {
        ctx.session.reply_mode = ReplyMode::Off;
    } else if args.keyword("SKIP") {
        if ctx.session.reply_mode != ReplyMode::Off {
            ctx.session.reply_mode = ReplyMode::SkipNext;
        }
    } else {
        return Err(CommandError::Syntax);
    }
    Err(CommandError::NoAnswer)
}

/// Whether a connection may be dropped for want of memory; here none ever is.
fn client_no_evict(_: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    if args.keyword("ON") || args.keyword("OFF") {
        Ok(Reply::Ok)
    } else {
        Err(CommandError::Syntax)
    }
}

/// `networking.c: clientUnblockCommand`. A request that CLIENT PAUSE put off is not unblocked.
fn client_unblock(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let id = args.required()?;
    let with_error = match args.next() {
        None => false,
        Some(reason) if reason.eq_ignore_ascii_case(b"TIMEOUT") => false,
        Some(reason) if reason.eq_ignore_ascii_case(b"ERROR") => true,
        Some(_) => {
            return Err(CommandError::Text(
                "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR".into(),
            ));
        }
    };
    let id = parse_integer(id).ok_or(CommandError::NotInteger)?;
    let found = ctx.state.waiters.list().into_iter();
    let mut found = found.map(|waiting| waiting.conn);
    let Some(conn) = found.find(|conn| i64::try_from(conn.client_id()) == Ok(id)) else {
        return Ok(Reply::Int(0));
    };
    if let Some(waiter) = ctx.state.waiters.remove(conn) {
        let reply = if with_error {
            Reply::error("UNBLOCKED client unblocked via CLIENT UNBLOCK")
        } else {
            waiter.wait.on_timeout
        };
        ctx.state.answer(conn, reply);
    }
    Ok(Reply::Int(1))
}

/// MONITOR: from now on this connection is told of every command.
fn monitor(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    if ctx.origin == Origin::Exec {
        return Err(CommandError::Text(
            "ERR MONITOR isn't allowed for DENY BLOCKING client".into(),
        ));
    }
    if !ctx.session.is_monitor {
        ctx.session.is_monitor = true;
        ctx.state.monitors.push(ctx.session.conn);
    }
    Ok(Reply::Ok)
}

const OPEN: &[Flags] = &[Flags::LOADING, Flags::STALE, Flags::FAST];
const ADMIN: &[Flags] = &[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE];
const GATE: &[Flags] = &[
    Flags::NOSCRIPT,
    Flags::LOADING,
    Flags::STALE,
    Flags::FAST,
    Flags::NO_AUTH,
    Flags::ALLOW_BUSY,
];
const OWN: &[Flags] = &[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE];

const CLIENT: &[CommandSpec] = &[
    row("id", 2, client_id)
        .flags(OWN)
        .since("5.0.0")
        .summary("The id of this connection."),
    row("setname", 3, client_setname)
        .flags(OWN)
        .since("2.6.9")
        .syntax("connection-name")
        .summary("Names this connection."),
    row("getname", 2, client_getname)
        .flags(OWN)
        .since("2.6.9")
        .summary("The name of this connection."),
    row("pause", -3, client_pause)
        .flags(ADMIN)
        .since("2.9.50")
        .syntax("timeout:integer [mode=(WRITE | ALL)]@6.2.0")
        .summary("Lets all requests, or all writes, wait for some milliseconds."),
    row("unpause", 2, client_unpause)
        .flags(ADMIN)
        .since("6.2.0")
        .summary("Ends the pause."),
    row("reply", 3, client_reply)
        .flags(OWN)
        .since("3.2.0")
        .syntax("on_off_skip=(ON | OFF | SKIP)")
        .summary("Which replies this connection gets."),
    row("no-evict", 3, client_no_evict)
        .flags(ADMIN)
        .since("7.0.0")
        .syntax("enabled=(ON | OFF)")
        .summary("Accepted: no connection is ever evicted here."),
    row("unblock", -3, client_unblock)
        .flags(ADMIN)
        .since("5.0.0")
        .syntax("client-id:integer [timeout_error=(TIMEOUT | ERROR)]")
        .summary("Answers a connection that waits for a key."),
];

pub(crate) const COMMANDS: &[CommandSpec] = &[
    row("ping", -1, ping)
        .flags(&[Flags::FAST])
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
        .syntax("[message]")
        .summary("Answers PONG, or what it was given."),
    row("echo", 2, echo)
        .flags(OPEN)
        .syntax("message")
        .summary("Answers what it was given."),
    row("select", 2, select)
        .flags(OPEN)
        .syntax("index:integer")
        .summary("Changes the database of this connection."),
    row("auth", -2, auth)
        .flags(GATE)
        .syntax("[username]@6.0.0 password")
        .summary("Authenticates this connection."),
    row("hello", -1, hello)
        .flags(GATE)
        .since("6.0.0")
        .syntax("[arguments=(protover:integer [AUTH username_password=(username password)] [SETNAME clientname])]")
        .summary("Greets, and chooses the protocol."),
    row("quit", -1, quit)
        .flags(GATE)
        .summary("Ends this connection."),
    row("reset", 1, reset)
        .flags(GATE)
        .since("6.2.0")
        .summary("Puts this connection back to how it began."),
    CommandSpec::new("monitor", 1, Group::Server, monitor)
        .flags(ADMIN)
        .summary("Tells this connection of every command."),
    CommandSpec::container("client", -2, Group::Connection, CLIENT)
        .since("2.4.0")
        .summary("What concerns connections."),
];

const fn row(name: &'static str, arity: i32, handler: super::spec::Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::Connection, handler)
}
