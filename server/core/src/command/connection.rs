//! The connection itself: greeting, authentication, names.

use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError};
use crate::engine::{Asking, Ctx, DEFAULT_USER, ReplyMode, feature};
use crate::resp::{Blob, Protocol, Reply, parse_integer};

fn ping(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    if ctx.session.is_subscribed && ctx.session.protocol == Protocol::Resp2 && args.remaining() <= 1
    {
        // The reply has the form of a message, so that a subscriber understands it.
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

/// Refuses commands that a cluster node does not support, such as using another database.
pub(super) fn not_in_cluster(ctx: &Ctx<'_>, text: &'static str) -> Result<(), CommandError> {
    match ctx.cluster() {
        Some(_) => Err(CommandError::Text(text.into())),
        None => Ok(()),
    }
}

fn select(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let index = i32::try_from(args.integer()?).map_err(|_| CommandError::NotInt)?;
    if index != 0 {
        not_in_cluster(ctx, "ERR SELECT is not allowed in cluster mode")?;
    }
    match usize::try_from(index) {
        Ok(index) if index < ctx.databases().len() => ctx.session.db = index,
        _ => return Err(CommandError::DbIndex),
    }
    Ok(Reply::Ok)
}

/// `acl.c: ACLAuthenticateUser`
fn log_in(
    ctx: &mut Ctx<'_>,
    args: &Args<'_>,
    user: &[u8],
    password: &[u8],
) -> Result<(), CommandError> {
    if ctx.log_in(user, password, args.request()) {
        Ok(())
    } else {
        Err(CommandError::WrongPass)
    }
}

fn auth(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (first, second) = (args.required()?, args.next());
    if !args.is_empty() {
        return Err(CommandError::Syntax);
    }
    match second {
        None if !ctx.acl().default_has_password() => return Err(CommandError::NoPasswordSet),
        None => log_in(ctx, args, DEFAULT_USER, first)?,
        Some(password) => log_in(ctx, args, first, password)?,
    }
    Ok(Reply::Ok)
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
    // Each option takes effect before the next one is read.
    while let Some(word) = args.next() {
        if word.eq_ignore_ascii_case(b"AUTH") && args.remaining() >= 2 {
            let (user, password) = (args.required()?, args.required()?);
            log_in(ctx, args, user, password)?;
        } else if word.eq_ignore_ascii_case(b"SETNAME") && !args.is_empty() {
            super::client::set_name(ctx, args.required()?)?;
        } else {
            return Err(CommandError::echoing(
                "ERR Syntax error in HELLO option '",
                word,
                "'",
            ));
        }
    }
    if !ctx.session.authenticated {
        return Err(CommandError::Text(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH \
             <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the \
             same time"
                .into(),
        ));
    }
    if let Some(protocol) = protocol {
        ctx.session.protocol = protocol;
    }
    let proto = ctx.session.protocol.number();
    let is_replica = ctx.replication().is_replica();
    let is_clustered = ctx.cluster().is_some();
    let mode = if is_clustered {
        "cluster"
    } else {
        "standalone"
    };
    let role = if is_replica { "replica" } else { "master" };
    let pair = |name: &str, value: Reply| (Reply::bulk(name), value);
    let profile = ctx.config().profile;
    let is_sentinel = ctx.sentinel().is_some();
    let mode = if is_sentinel { "sentinel" } else { mode };
    let mut fields = vec![
        pair("server", Reply::bulk(profile.server_name())),
        pair("version", Reply::bulk(profile.server_version())),
        pair("proto", Reply::Int(proto)),
        pair("id", Reply::Int(ctx.session.conn.client_id() as i64)),
        pair("mode", Reply::bulk(mode)),
    ];
    if !is_sentinel {
        fields.push(pair("role", Reply::bulk(role)));
    }
    fields.push(pair("modules", Reply::Array(Vec::new())));
    Ok(Reply::Map(fields))
}

fn quit(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    ctx.close();
    Ok(Reply::Ok)
}

/// `networking.c: resetCommand`: restores the initial state of the connection.
fn reset(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    ctx.session.queue = None;
    // CLIENT REPLY SKIP before it still concerns its reply.
    if ctx.session.reply_mode != ReplyMode::Skip {
        ctx.session.reply_mode = ReplyMode::On;
    }
    ctx.session.asking = Asking::No;
    ctx.session.reads_replica = false;
    ctx.session.leaves_no_traces = false;
    if ctx.config().profile.has(feature::RESET_ENDS_NO_EVICT) {
        ctx.session.is_spared = false;
    }
    ctx.end_registrations();
    ctx.session.db = 0;
    ctx.session.protocol = Protocol::Resp2;
    ctx.session.name = Blob::default();
    ctx.log_out();
    Ok(Reply::Static("RESET"))
}

const OPEN: &[Flags] = &[Flags::LOADING, Flags::STALE, Flags::FAST];
const GATE: &[Flags] = &[
    Flags::NOSCRIPT,
    Flags::LOADING,
    Flags::STALE,
    Flags::FAST,
    Flags::NO_AUTH,
    Flags::ALLOW_BUSY,
];

const LEAVE: &[Flags] = &[Flags::NOT_QUEUED, Flags::WHILE_SUBSCRIBED];

pub(crate) const COMMANDS: &[CommandSpec] = &[
    row("ping", -1, ping).flags(&[Flags::SENTINEL])
        .flags(&[Flags::FAST, Flags::WHILE_SUBSCRIBED])
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
        .syntax("[message]")
        .summary("Returns PONG, or the given text."),
    row("echo", 2, echo)
        .flags(OPEN)
        .syntax("message")
        .summary("Returns the given text."),
    row("select", 2, select)
        .flags(OPEN)
        .syntax("index:integer")
        .summary("Changes the database of this connection."),
    row("auth", -2, auth).flags(&[Flags::SENTINEL])
        .flags(GATE)
        .syntax("[username]@6.0.0 password")
        .summary("Authenticates this connection."),
    row("hello", -1, hello).flags(&[Flags::SENTINEL])
        .flags(GATE)
        .since("6.0.0")
        .syntax("[arguments=(protover:integer [AUTH username_password=(username password)] [SETNAME clientname])]")
        .summary("Chooses the protocol, and returns facts about the server."),
    row("quit", -1, quit).flags(&[Flags::SENTINEL])
        .flags(GATE)
        .flags(LEAVE)
        .summary("Closes this connection."),
    row("reset", 1, reset)
        .flags(GATE)
        .flags(LEAVE)
        .since("6.2.0")
        .summary("Resets this connection to its initial state."),
    super::client::CLIENT,
];

const fn row(name: &'static str, arity: i32, handler: super::spec::Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::Connection, handler)
}
