//! The server: all of its data, its clock, its end, and features that it lacks.

use super::connection::not_in_cluster;
use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError, help};
use crate::engine::{Ctx, Effect, Origin, SaveError};
use crate::resp::Reply;

fn dbsize(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    Ok(Reply::Int(ctx.db().len() as i64))
}

/// Parses SYNC or ASYNC of FLUSHALL and FLUSHDB; here both act at once. True if Redis frees the values in
/// another thread.
fn flush_mode(ctx: &Ctx<'_>, args: &mut Args<'_>) -> Result<bool, CommandError> {
    let is_sync = args.keyword("SYNC");
    let is_async = !is_sync && args.keyword("ASYNC");
    if args.is_empty() {
        Ok(is_async || !is_sync && ctx.config().is_on("lazyfree-lazy-user-flush"))
    } else {
        Err(CommandError::Syntax)
    }
}

fn flushall(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    if flush_mode(ctx, args)? {
        ctx.count_lazy_flush(None);
    }
    ctx.flush_all();
    ctx.propagate_always();
    if ctx.has_save_points()
        && let Err(error) = ctx.save_file()
        && !matches!(error, SaveError::NoStorage)
    {
        tracing::warn!(%error, "the file was not written at FLUSHALL");
    }
    Ok(Reply::Ok)
}

fn flushdb(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    if flush_mode(ctx, args)? {
        ctx.count_lazy_flush(Some(ctx.session.db));
    }
    ctx.flush();
    ctx.propagate_always();
    Ok(Reply::Ok)
}

fn swapdb(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    not_in_cluster(ctx, "ERR SWAPDB is not allowed in cluster mode")?;
    let mut index = |which: &str| {
        let index = args
            .integer()
            .ok()
            .and_then(|index| i32::try_from(index).ok());
        index.ok_or_else(|| CommandError::Text(format!("ERR invalid {which} DB index").into()))
    };
    let (first, second) = (index("first")?, index("second")?);
    let known = |index: i32| {
        let index = usize::try_from(index).ok();
        index.filter(|index| *index < ctx.databases().len())
    };
    match (known(first), known(second)) {
        // Swapping a database with itself does not change watched keys.
        (Some(first), Some(second)) if first == second => {}
        (Some(first), Some(second)) => ctx.swap(first, second),
        _ => return Err(CommandError::DbIndex),
    }
    ctx.count_change();
    Ok(Reply::Ok)
}

fn time(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    let (seconds, micros) = (
        ctx.now.0.div_euclid(1_000_000),
        ctx.now.0.rem_euclid(1_000_000),
    );
    Ok(Reply::Array(vec![
        Reply::bulk(seconds.to_string()),
        Reply::bulk(micros.to_string()),
    ]))
}

/// MONITOR. A connection that is already a monitor gets no reply.
fn monitor(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    if ctx.origin == Origin::Exec {
        return Err(CommandError::Text(
            "ERR MONITOR isn't allowed for DENY BLOCKING client".into(),
        ));
    }
    if ctx.session.is_monitor {
        return Err(CommandError::NoAnswer);
    }
    ctx.begin_monitor();
    Ok(Reply::Ok)
}

fn module_list(_: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    Ok(Reply::Array(Vec::new()))
}

/// No module can be loaded: the parameter `enable-module-command` is `no`, as in Redis unless a file says otherwise.
fn module_change(_: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    Err(CommandError::NoModules)
}

/// SHUTDOWN. Data are saved if the client asks for it, or if there are points of saving; both need a folder.
fn shutdown(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (mut saves, mut saves_not, mut aborts, mut others) = (false, false, false, false);
    let mut is_forced = false;
    for word in args.rest() {
        match &word.to_ascii_uppercase()[..] {
            b"NOSAVE" => saves_not = true,
            b"SAVE" => saves = true,
            b"NOW" => others = true,
            b"FORCE" => (others, is_forced) = (true, true),
            b"ABORT" => aborts = true,
            _ => return Err(CommandError::Syntax),
        }
    }
    match () {
        () if aborts && (saves || saves_not || others) || saves && saves_not => {
            return Err(CommandError::Syntax);
        }
        () if aborts => return Err(CommandError::Text("ERR No shutdown in progress.".into())),
        () if !saves_not && ctx.is_busy() => return Err(ctx.busy_error()),
        () if saves_not || !saves && !ctx.has_save_points() => {}
        () => match ctx.save_file() {
            Ok(()) => {}
            Err(SaveError::NoStorage) if !saves => {}
            Err(SaveError::NoStorage) => {
                return Err(CommandError::NotImplemented {
                    what: "SHUTDOWN SAVE without a folder for the file: start it with --dir"
                        .to_owned(),
                });
            }
            Err(error) => {
                tracing::warn!(%error, "the file was not written at SHUTDOWN");
                if !is_forced {
                    return Err(CommandError::Text(
                        "ERR Errors trying to SHUTDOWN. Check logs.".into(),
                    ));
                }
            }
        },
    }
    ctx.emit(Effect::Shutdown);
    Err(CommandError::NoAnswer)
}

const ADMIN: &[Flags] = &[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE];
const ALL_SHARDS: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];

const MODULE_CHANGE: &[Flags] = &[
    Flags::ADMIN,
    Flags::NOSCRIPT,
    Flags::NO_ASYNC_LOADING,
    Flags::REFUSED,
];

const MODULE: &[CommandSpec] = &[
    help::row(Group::Server, "5.0.0"),
    row("load", -3, module_change)
        .flags(MODULE_CHANGE)
        .since("4.0.0")
        .syntax("path [arg...]")
        .summary("Loads a module; refused."),
    row("loadex", -3, module_change)
        .flags(MODULE_CHANGE)
        .since("7.0.0")
        .syntax("path [CONFIG configs=(name value)...+] [ARGS args=(arg)...]")
        .summary("Loads a module with parameters; refused."),
    row("unload", 3, module_change)
        .flags(MODULE_CHANGE)
        .since("4.0.0")
        .syntax("name")
        .summary("Unloads a module; refused."),
    row("list", 2, module_list)
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT])
        .tips(&["nondeterministic_output_order"])
        .since("4.0.0")
        .summary("The modules that are loaded; none."),
];

pub(crate) const COMMANDS: &[CommandSpec] = &[
    row("dbsize", 1, dbsize)
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&["@keyspace"])
        .tips(&["request_policy:all_shards", "response_policy:agg_sum"])
        .summary("Number of keys in the database."),
    row("flushall", -1, flushall)
        .flags(&[Flags::WRITE])
        .acl(&["@keyspace", "@dangerous"])
        .tips(ALL_SHARDS)
        .syntax("[async=(ASYNC@4.0.0 | SYNC@6.2.0)]")
        .summary("Empties all databases."),
    row("flushdb", -1, flushdb)
        .flags(&[Flags::WRITE])
        .acl(&["@keyspace", "@dangerous"])
        .tips(ALL_SHARDS)
        .syntax("[async=(ASYNC@4.0.0 | SYNC@6.2.0)]")
        .summary("Empties the database."),
    row("swapdb", 3, swapdb)
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&["@keyspace", "@dangerous"])
        .since("4.0.0")
        .syntax("index1:integer index2:integer")
        .summary("Swaps two databases."),
    row("time", 1, time)
        .flags(&[Flags::LOADING, Flags::STALE, Flags::FAST])
        .tips(&["nondeterministic_output"])
        .since("2.6.0")
        .summary("The node's clock."),
    super::lolwut::LOLWUT,
    row("monitor", 1, monitor)
        .flags(ADMIN)
        .summary("Sends every executed command to this connection."),
    super::acl::ACL,
    CommandSpec::container("module", -2, Group::Server, MODULE)
        .since("4.0.0")
        .summary("Modules."),
    super::config::CONFIG,
    super::debug::DEBUG,
    super::info::INFO,
    super::memory::MEMORY,
    super::latency::LATENCY,
    super::slowlog::SLOWLOG,
    row("shutdown", -1, shutdown)
        .flags(&[Flags::SENTINEL])
        .flags(&[
            Flags::ADMIN,
            Flags::NOSCRIPT,
            Flags::LOADING,
            Flags::STALE,
            Flags::NO_MULTI,
            Flags::ALLOW_BUSY,
        ])
        .syntax("[nosave_save=(NOSAVE | SAVE)] [NOW]@7.0.0 [FORCE]@7.0.0 [ABORT]@7.0.0")
        .summary("Ends the server; nothing is saved."),
];

const fn row(name: &'static str, arity: i32, handler: super::spec::Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::Server, handler)
}
