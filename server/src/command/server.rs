//! The server: its data as a whole, its configuration, what it says of itself.

use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError};
use crate::engine::{Ctx, Effect};
use crate::resp::Reply;
use std::fmt::Write as _;
use std::time::Duration;

fn dbsize(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    Ok(Reply::Int(ctx.db().len() as i64))
}

/// FLUSHALL and FLUSHDB take SYNC or ASYNC; here both are done at once.
fn flush_mode(args: &mut Args<'_>) -> Result<(), CommandError> {
    let _known = args.keyword("SYNC") || args.keyword("ASYNC");
    if args.is_empty() {
        Ok(())
    } else {
        Err(CommandError::Syntax)
    }
}

fn flushall(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    flush_mode(args)?;
    (0..ctx.state.dbs.len()).for_each(|db| ctx.state.flush(db));
    Ok(Reply::Ok)
}

fn flushdb(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    flush_mode(args)?;
    let db = ctx.session.db;
    ctx.state.flush(db);
    Ok(Reply::Ok)
}

fn swapdb(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
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
        index.filter(|index| *index < ctx.state.dbs.len())
    };
    match (known(first), known(second)) {
        (Some(first), Some(second)) => ctx.state.swap(first, second),
        _ => return Err(CommandError::DbIndex),
    }
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

fn config_get(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let patterns: Vec<&[u8]> = args.rest().collect();
    let found = ctx.state.config.matching(&patterns);
    Ok(Reply::Map(
        found
            .into_iter()
            .map(|(name, value)| (Reply::bulk(name), Reply::bulk(value)))
            .collect(),
    ))
}

/// All or nothing.
fn config_set(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    if !args.remaining().is_multiple_of(2) {
        return Err(CommandError::Syntax);
    }
    let mut changes = Vec::new();
    while let (Some(name), Some(value)) = (args.next(), args.next()) {
        changes.push((name, value));
    }
    ctx.state.config = ctx.state.config.with(&changes)?;
    Ok(Reply::Ok)
}

/// INFO: the sections and fields that clients and tools read. Figures that a double cannot know
/// truthfully (memory of the process, CPU time) are left out.
fn info(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    const SECTIONS: [&str; 8] = [
        "server",
        "clients",
        "memory",
        "persistence",
        "stats",
        "replication",
        "cluster",
        "keyspace",
    ];
    let wanted: Vec<String> = args
        .rest()
        .map(|name| String::from_utf8_lossy(name).to_ascii_lowercase())
        .collect();
    let everything = wanted.is_empty()
        || wanted
            .iter()
            .any(|name| matches!(&**name, "all" | "default" | "everything"));
    let mut text = String::new();
    for section in SECTIONS {
        if everything || wanted.iter().any(|name| name == section) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            section_of_info(ctx, section, &mut text);
        }
    }
    Ok(Reply::Verbatim {
        format: *b"txt",
        text: text.into(),
    })
}

fn section_of_info(ctx: &Ctx<'_>, section: &str, text: &mut String) {
    let state = &*ctx.state;
    let mut title = section.to_owned();
    title[..1].make_ascii_uppercase();
    let uptime =
        Duration::from_micros(u64::try_from(ctx.now.0 - state.started.0).unwrap_or(0)).as_secs();
    let mut fields: Vec<(String, String)> = Vec::new();
    let mut field =
        |name: &str, value: &dyn ToString| fields.push((name.to_owned(), value.to_string()));
    match section {
        "server" => {
            field("redis_version", &crate::REDIS_VERSION);
            field("redis_mode", &"standalone");
            field("redouble_version", &env!("CARGO_PKG_VERSION"));
            field("arch_bits", &usize::BITS);
            field("multiplexing_api", &"none");
            field("process_id", &std::process::id());
            field("run_id", &state.run_id);
            field("tcp_port", &state.config.port);
            field("server_time_usec", &ctx.now.0);
            field("uptime_in_seconds", &uptime);
            field("uptime_in_days", &(uptime / 86_400));
            field("hz", &10);
        }
        "clients" => {
            // The caller's own session is out of the table while it is served, but still counted.
            field("connected_clients", &state.sessions.len());
            field("maxclients", &state.config.maxclients);
            field("blocked_clients", &0);
        }
        "memory" => {
            field("maxmemory", &0);
            field("maxmemory_policy", &"noeviction");
        }
        "persistence" => {
            field("loading", &0);
            field("rdb_changes_since_last_save", &state.dirty);
            field("rdb_bgsave_in_progress", &0);
            field("aof_enabled", &0);
        }
        "stats" => {
            field("total_connections_received", &state.stats.connections);
            field("total_commands_processed", &state.stats.commands);
            field("rejected_connections", &state.stats.rejected_connections);
            field("expired_keys", &state.stats.expired_keys);
            field("evicted_keys", &0);
            field("keyspace_hits", &state.stats.keyspace_hits);
            field("keyspace_misses", &state.stats.keyspace_misses);
            field("total_error_replies", &state.stats.errors);
        }
        "replication" => {
            field("role", &"master");
            field("connected_slaves", &0);
            field("master_failover_state", &"no-failover");
            field("master_replid", &state.run_id);
            field("master_repl_offset", &0);
        }
        "cluster" => field("cluster_enabled", &0),
        _ => {
            for (index, db) in state.dbs.iter().enumerate().filter(|(_, db)| db.len() > 0) {
                let value = format!("keys={},expires={},avg_ttl=0", db.len(), db.volatile_len());
                field(&format!("db{index}"), &value);
            }
        }
    }
    let _infallible = write!(text, "# {title}\r\n");
    for (name, value) in fields {
        let _infallible = write!(text, "{name}:{value}\r\n");
    }
}

/// DEBUG, which is enabled as if by `enable-debug-command yes`.
fn debug(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let name = String::from_utf8_lossy(args.required()?).to_ascii_uppercase();
    match (&*name, args.next(), args.is_empty()) {
        ("SLEEP", Some(seconds), true) => {
            // `strtod` takes what it can and else answers 0; so does this, without negative times.
            let seconds = std::str::from_utf8(seconds)
                .ok()
                .and_then(|text| text.trim_start().parse::<f64>().ok());
            let seconds = seconds
                .filter(|seconds| seconds.is_finite())
                .unwrap_or(0.0)
                .clamp(0.0, 1e9);
            let duration = Duration::from_secs_f64(seconds);
            if duration > Duration::ZERO {
                ctx.stall(duration);
            }
            Ok(Reply::Ok)
        }
        ("SET-ACTIVE-EXPIRE", Some(flag), true) => {
            ctx.state.active_expire = crate::resp::parse_integer(flag).unwrap_or(0) != 0;
            Ok(Reply::Ok)
        }
        _ => Err(CommandError::NotImplemented {
            what: format!("DEBUG {name} with these arguments"),
        }),
    }
}

/// SHUTDOWN: nothing is ever saved, so only the forms that save nothing are honest.
fn shutdown(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (mut saves, mut saves_not, mut aborts, mut others) = (false, false, false, false);
    for word in args.rest() {
        match &word.to_ascii_uppercase()[..] {
            b"NOSAVE" => saves_not = true,
            b"SAVE" => saves = true,
            b"NOW" | b"FORCE" => others = true,
            b"ABORT" => aborts = true,
            _ => return Err(CommandError::Syntax),
        }
    }
    match () {
        () if aborts && (saves || saves_not || others) || saves && saves_not => {
            return Err(CommandError::Syntax);
        }
        () if aborts => return Err(CommandError::Text("ERR No shutdown in progress.".into())),
        () if saves => {
            return Err(CommandError::NotImplemented {
                what: "SHUTDOWN SAVE".to_owned(),
            });
        }
        () => {}
    }
    ctx.state.outbox.push(Effect::Shutdown);
    Err(CommandError::NoAnswer)
}

const OPEN: &[Flags] = &[Flags::LOADING, Flags::STALE];
const ADMIN: &[Flags] = &[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE];
const ALL_SHARDS: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];

const CONFIG: &[CommandSpec] = &[
    row("get", -3, config_get)
        .flags(ADMIN)
        .since("2.0.0")
        .syntax("parameter=(parameter)...")
        .summary("The parameters that match."),
    row("set", -4, config_set)
        .flags(ADMIN)
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
        .since("2.0.0")
        .syntax("parameter_value=(parameter value)...")
        .summary("Changes parameters, all or none."),
];

pub(crate) const COMMANDS: &[CommandSpec] = &[
    row("dbsize", 1, dbsize)
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&["@keyspace"])
        .tips(&["request_policy:all_shards", "response_policy:agg_sum"])
        .summary("How many keys the database has."),
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
        .summary("Exchanges two databases."),
    row("time", 1, time)
        .flags(&[Flags::LOADING, Flags::STALE, Flags::FAST])
        .tips(&["nondeterministic_output"])
        .since("2.6.0")
        .summary("The node's clock."),
    row("info", -1, info)
        .flags(OPEN)
        .acl(&["@dangerous"])
        .tips(&[
            "nondeterministic_output",
            "request_policy:all_shards",
            "response_policy:special",
        ])
        .syntax("[section...]")
        .summary("What the server says of itself."),
    CommandSpec::container("config", -2, Group::Server, CONFIG)
        .since("2.0.0")
        .summary("The configuration."),
    row("debug", -2, debug)
        .flags(ADMIN)
        .system_command()
        .summary("SLEEP and SET-ACTIVE-EXPIRE, for tests."),
    row("shutdown", -1, shutdown)
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
