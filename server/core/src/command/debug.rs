//! DEBUG, enabled as by `enable-debug-command yes`: the subcommands that tests of clients and of servers
//! need.
//!
//! Source: `debug.c: debugCommand`.

use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError};
#[cfg(feature = "script")]
use crate::engine::{Continuation, ScriptCall};
use crate::engine::{Ctx, ReplyBufferSettings, Ttl, Value, serialized_bytes};
use crate::resp::{Blob, ErrorReply, Protocol, Reply, parse_integer};
use std::fmt::Write as _;
use std::time::Duration;

/// `DICT_HT_INITIAL_SIZE`
const TABLE_PLACES_MIN: usize = 4;

/// Keys, and bytes of values, that one POPULATE makes. Redis has no bound.
const POPULATED_KEYS_MAX: i64 = 10_000_000;
const POPULATED_BYTES_MAX: i64 = 1 << 30;

/// Subcommands of 7.0.15 that the double does not have.
#[rustfmt::skip]
const MISSING: &[&str] = &[
    "aof-flush-sleep", "assert", "client-eviction", "clusterlink", "config-rewrite-force-all", "crash-and-recover",
    "drop-cluster-packet-filter", "leak", "mallctl", "mallctl-str", "oom", "panic", "replicate",
    "restart", "sdslen", "segfault", "stringmatch-test", "structsize", "ziplist",
];

fn debug(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let name = args.required()?.to_ascii_lowercase();
    let count = args.remaining();
    match (&*name, count) {
        (b"sleep", 1) => sleep(ctx, args),
        (b"set-disable-deny-scripts", 1) => {
            ctx.allow_all_in_scripts(parse_integer(args.required()?).unwrap_or(0) != 0);
            Ok(Reply::Ok)
        }
        (b"set-active-expire", 1) => {
            ctx.set_active_expire(parse_integer(args.required()?).unwrap_or(0) != 0);
            Ok(Reply::Ok)
        }
        (b"object", 1) => object(ctx, args),
        (b"protocol", 1) => protocol(ctx, args),
        (b"error", 1) => {
            // Neither checked nor counted, as in Redis.
            let text = args.required()?;
            Ok(Reply::Error(ErrorReply::from_bytes(text.to_vec())))
        }
        (b"log", 1) => {
            let text = args.required()?;
            tracing::warn!(text = %text.escape_ascii(), "DEBUG LOG");
            Ok(Reply::Ok)
        }
        (b"reload", _) => reload(ctx, args),
        (b"loadaof", 0) => load_append_only(ctx),
        (b"pause-cron", 1) => {
            ctx.pause_timers(parse_integer(args.required()?).unwrap_or(0) != 0);
            Ok(Reply::Ok)
        }
        (b"change-repl-id", 0) => {
            ctx.change_replication_id();
            Ok(Reply::Ok)
        }
        // The memory layout of lists in Redis; no client sees it.
        (b"quicklist-packed-threshold", 1) => packed_threshold(args),
        #[cfg(feature = "script")]
        (b"digest", 0) => Ok(Reply::Status(ctx.digest().into())),
        #[cfg(feature = "script")]
        (b"digest-value", _) => {
            let digests = args.rest().map(|key| ctx.value_digest(key));
            let digests = digests.map(|digest| Reply::Status(digest.into()));
            Ok(Reply::Array(digests.collect()))
        }
        (b"populate", 1..=3) => populate(ctx, args),
        (b"htstats", 1) => table_sizes(ctx, args),
        (b"htstats-key", 1) => table_size_of(ctx, args),
        (b"listpack", 1) => is_encoded(ctx, args, "listpack"),
        (b"quicklist", 1 | 2) => is_encoded(ctx, args, "quicklist"),
        (b"set-skip-checksum-validation", 1) => {
            let mut config = ctx.config().clone();
            config.skips_checksums = parse_integer(args.required()?).unwrap_or(0) != 0;
            ctx.configure(config);
            Ok(Reply::Ok)
        }
        (b"replybuffer", 2) => reply_buffer(ctx, args),
        (b"help", 0) => Ok(help()),
        (name, _) if MISSING.iter().any(|missing| missing.as_bytes() == name) => {
            let name = String::from_utf8_lossy(name).to_ascii_uppercase();
            Err(CommandError::NotImplemented {
                what: format!("DEBUG {name}"),
            })
        }
        _ => Err(args.subcommand_syntax()),
    }
}

/// DEBUG REPLYBUFFER: how the reply buffers of clients are resized.
fn reply_buffer(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    if args.keyword("RESIZING") {
        let is_resized = parse_integer(args.required()?).unwrap_or(0) != 0;
        ctx.set_reply_buffers(|settings| settings.is_resized = is_resized);
        return Ok(Reply::Ok);
    }
    if !args.keyword("PEAK-RESET-TIME") {
        return Err(args.subcommand_syntax());
    }
    let peak_lasts = match &args.required()?.to_ascii_lowercase()[..] {
        b"never" => None,
        b"reset" => ReplyBufferSettings::default().peak_lasts,
        millis => {
            let millis = u64::try_from(super::integer_of(millis)?);
            millis.ok().map(Duration::from_millis)
        }
    };
    ctx.set_reply_buffers(|settings| settings.peak_lasts = peak_lasts);
    Ok(Reply::Ok)
}

/// Subcommands with their arguments and descriptions.
const HELP: &[(&str, &str)] = &[
    ("CHANGE-REPL-ID", "Changes the node's replication id."),
    ("DIGEST", "A digest of all data."),
    (
        "DIGEST-VALUE <key> [<key> ...]",
        "Digests of the values of keys.",
    ),
    ("ERROR <text>", "Returns this error."),
    ("HTSTATS <db>", "Sizes of the hash tables of a database."),
    ("HTSTATS-KEY <key>", "Size of the hash table of a value."),
    ("LISTPACK <key>", "Whether a value is a listpack."),
    ("LOADAOF", "Loads the append-only file."),
    ("LOG <text>", "Writes a line to the log."),
    ("OBJECT <key>", "Encoding and sizes of a value."),
    ("PAUSE-CRON <0|1>", "Stops all timers."),
    (
        "POPULATE <count> [<prefix>] [<size>]",
        "Creates keys with strings.",
    ),
    ("PROTOCOL <type>", "A value of a type of the protocol."),
    ("QUICKLIST <key> [<0|1>]", "Whether a value is a quicklist."),
    (
        "QUICKLIST-PACKED-THRESHOLD <size>",
        "Accepts a size; it has no effect.",
    ),
    (
        "RELOAD [MERGE] [NOFLUSH] [NOSAVE]",
        "Saves all data and loads it again.",
    ),
    (
        "REPLYBUFFER PEAK-RESET-TIME <NEVER|RESET|milliseconds>",
        "Time after which the peak of a reply buffer is reset.",
    ),
    (
        "REPLYBUFFER RESIZING <0|1>",
        "Whether reply buffers are resized.",
    ),
    (
        "SET-ACTIVE-EXPIRE <0|1>",
        "Whether expired keys are removed before a command uses them.",
    ),
    (
        "SET-DISABLE-DENY-SCRIPTS <0|1>",
        "Whether scripts may call every command.",
    ),
    (
        "SET-SKIP-CHECKSUM-VALIDATION <0|1>",
        "Whether RESTORE accepts wrong checksums.",
    ),
    ("SLEEP <seconds>", "Serves no client for a while."),
    ("HELP", "Lists the subcommands."),
];

fn help() -> Reply {
    let title = "DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:".to_owned();
    let lines = HELP
        .iter()
        .flat_map(|(form, text)| [(*form).to_owned(), format!("    {text}")]);
    let lines = std::iter::once(title).chain(lines);
    Reply::Array(lines.map(|line| Reply::Status(line.into_bytes())).collect())
}

/// Size of a hash table as Redis would have it, without the chains, which the double does not have
/// (`dict.c: _dictGetStatsHt`).
fn table_stats(elements: usize) -> String {
    let mut text = "Hash table 0 stats (main hash table):\n".to_owned();
    if elements == 0 {
        text.push_str("No stats available for empty dictionaries\n");
    } else {
        let places = elements.next_power_of_two().max(TABLE_PLACES_MIN);
        let _infallible = write!(
            text,
            " table size: {places}\n number of elements: {elements}\n"
        );
    }
    text
}

fn verbatim(text: String) -> Reply {
    Reply::Verbatim {
        format: *b"txt",
        text: text.into_bytes(),
    }
}

fn table_sizes(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let db = usize::try_from(args.integer()?).ok();
    let db = db.and_then(|db| ctx.databases().get(db));
    let Some(db) = db else {
        return Err(CommandError::Text("ERR Out of range database".into()));
    };
    let (keys, deadlines) = (table_stats(db.len()), table_stats(db.volatile_len()));
    Ok(verbatim(format!(
        "[Dictionary HT]\n{keys}[Expires HT]\n{deadlines}"
    )))
}

fn table_size_of(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let key = args.required()?;
    let Some(slot) = ctx.db().find(key) else {
        return Err(CommandError::Text("ERR no such key".into()));
    };
    let elements = match ctx.db().value(slot) {
        Value::Hash(hash) => hash.len(),
        Value::Set(set) => set.len(),
        Value::SortedSet(set) => set.len(),
        Value::String(_) | Value::List(_) | Value::Stream(_) => 0,
    };
    if !["hashtable", "skiplist"].contains(&ctx.encoding(slot)) {
        let text =
            "ERR The value stored at the specified key is not represented using an hash table";
        return Err(CommandError::Text(text.into()));
    }
    Ok(verbatim(table_stats(elements)))
}

/// Redis prints the structure on its standard output; the double has no such structure and logs that it was asked.
fn is_encoded(ctx: &mut Ctx<'_>, args: &mut Args<'_>, encoding: &str) -> CommandResult {
    let key = args.required()?;
    let Some(slot) = ctx.db().find(key) else {
        return Err(CommandError::Text("ERR no such key".into()));
    };
    if ctx.encoding(slot) != encoding {
        let text = format!("ERR Not a {encoding} encoded object.");
        return Err(CommandError::Text(text.into()));
    }
    tracing::info!(key = %key.escape_ascii(), "DEBUG {encoding}: no structure to print");
    let mut name = encoding.to_owned();
    name[..1].make_ascii_uppercase();
    Ok(Reply::Status(
        format!("{name} structure printed on stdout").into_bytes(),
    ))
}

/// Saves all data and loads it again; without a folder for the file, in memory.
fn reload(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (mut saves, mut flushes, mut merges) = (true, true, false);
    while !args.is_empty() {
        match () {
            () if args.keyword("MERGE") => merges = true,
            () if args.keyword("NOFLUSH") => flushes = false,
            () if args.keyword("NOSAVE") => saves = false,
            () => {
                let text = "ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.";
                return Err(CommandError::Text(text.into()));
            }
        }
    }
    match ctx.reload(saves, flushes, merges) {
        Ok(()) => Ok(loaded(ctx)),
        Err(error) => {
            tracing::warn!(%error, "DEBUG RELOAD");
            let text = "ERR Error trying to load the RDB dump";
            Err(CommandError::Text(text.into()))
        }
    }
}

/// Redis ends without an append-only file; the double replies with an error.
fn load_append_only(ctx: &mut Ctx<'_>) -> CommandResult {
    match ctx.load_append_only() {
        Ok(()) => Ok(loaded(ctx)),
        Err(error) => {
            tracing::warn!(%error, "DEBUG LOADAOF");
            let text = "ERR Error trying to load the AOF files, check server logs.";
            Err(CommandError::Text(text.into()))
        }
    }
}

/// All data has been loaded. Libraries of functions are read with it.
fn loaded(ctx: &mut Ctx<'_>) -> Reply {
    #[cfg(feature = "script")]
    if ctx.has_unread_libraries() {
        ctx.then = Some(Continuation::Script(ScriptCall::ReadLibraries));
    }
    #[cfg(not(feature = "script"))]
    let _ = ctx;
    Reply::Ok
}

fn sleep(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    // Parses as `strtod` does: the longest valid prefix, or else 0. Negative times count as 0.
    let seconds = std::str::from_utf8(args.required()?).ok();
    let seconds = seconds.and_then(|text| text.trim_start().parse::<f64>().ok());
    let seconds = seconds.filter(|seconds| seconds.is_finite());
    let duration = Duration::from_secs_f64(seconds.unwrap_or(0.0).clamp(0.0, 1e9));
    if duration > Duration::ZERO {
        ctx.stall(duration);
    }
    Ok(Reply::Ok)
}

/// The address of a value is its slot; its size is that in an RDB file.
fn object(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let Some(slot) = ctx.db().find(args.required()?) else {
        return Err(CommandError::Text("ERR no such key".into()));
    };
    let idle = ctx.idle_seconds(slot);
    let used_at = ctx.now_millis().0.div_euclid(1000).saturating_sub(idle) & ((1 << 24) - 1);
    let value = ctx.db().value(slot);
    let mut text = format!(
        "Value at:{slot:#x} refcount:{} encoding:{} serializedlength:{} lru:{used_at} lru_seconds_idle:{idle}",
        ctx.references(slot),
        ctx.encoding(slot),
        serialized_bytes(value, ctx.config()),
    );
    text.push_str(&value.as_type().debug_details(ctx.config()));
    Ok(Reply::Status(text.into()))
}

/// A value of each type, for tests of clients.
#[expect(
    clippy::approx_constant,
    reason = "Redis chose this number, and it is not meant as pi"
)]
fn protocol(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let numbers = || (0..3).map(Reply::Int).collect();
    Ok(match &args.required()?.to_ascii_lowercase()[..] {
        b"string" => Reply::bulk("Hello World"),
        b"integer" => Reply::Int(12345),
        b"double" => Reply::Double(3.141),
        b"null" => Reply::Nil,
        b"array" => Reply::Array(numbers()),
        b"set" => Reply::Set(numbers()),
        b"map" => {
            let pairs = (0..3).map(|number| (Reply::Int(number), Reply::Bool(number == 1)));
            Reply::Map(pairs.collect())
        }
        b"attrib" => {
            let popularity = vec![Reply::bulk("key:123"), Reply::Int(90)];
            Reply::Attributed {
                attributes: vec![(Reply::bulk("key-popularity"), Reply::Array(popularity))],
                reply: Box::new(Reply::bulk("Some real reply following the attribute")),
            }
        }
        b"push" if ctx.session.protocol == Protocol::Resp2 => {
            return Err(CommandError::Text(
                "ERR RESP2 is not supported by this command".into(),
            ));
        }
        b"push" => Reply::Several(vec![
            Reply::Push(vec![Reply::bulk("server-cpu-usage"), Reply::Int(42)]),
            Reply::bulk("Some real reply following the push reply"),
        ]),
        b"true" => Reply::Bool(true),
        b"false" => Reply::Bool(false),
        b"verbatim" => Reply::Verbatim {
            format: *b"txt",
            text: b"This is a verbatim\nstring".to_vec(),
        },
        b"bignum" => Reply::BigNumber(b"1234567999999999999999999999999999999".to_vec()),
        _ => {
            return Err(CommandError::Text(
                "ERR Wrong protocol type name. Please use one of the following: \
                 string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false"
                    .into(),
            ));
        }
    })
}

fn packed_threshold(args: &mut Args<'_>) -> CommandResult {
    match crate::engine::parse_memory(args.required()?) {
        Some(0..4_294_967_296) => Ok(Reply::Ok),
        Some(_) | None => Err(CommandError::Text(
            "ERR argument must be a memory value bigger than 1 and smaller than 4gb".into(),
        )),
    }
}

/// Keys `<prefix>:<number>` with values `value:<number>`, cut or filled with zeros to a size.
fn populate(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    const RANGE: &str = "ERR value is out of range, must be positive";
    let count = args.integer_from(0, RANGE)?;
    let prefix = args.next().unwrap_or(b"key");
    let size = match args.is_empty() {
        true => None,
        false => Some(args.integer_from(0, RANGE)?).filter(|size| *size > 0),
    };
    if count > POPULATED_KEYS_MAX
        || size.is_some_and(|size| size.saturating_mul(count) > POPULATED_BYTES_MAX)
    {
        return Err(CommandError::NotImplemented {
            what: "DEBUG POPULATE for so much".to_owned(),
        });
    }
    ctx.uncounted(|ctx| {
        for number in 0..count {
            let key = [prefix, format!(":{number}").as_bytes()].concat();
            if ctx.find_quietly(&key).is_none() {
                let mut value = format!("value:{number}").into_bytes();
                if let Some(size) = size {
                    value.resize(usize::try_from(size).unwrap_or(0), 0);
                }
                ctx.set_found(None, &key, Value::String(Blob::new(&value)), Ttl::Clear);
            }
        }
    });
    Ok(Reply::Ok)
}

pub(super) const DEBUG: CommandSpec = CommandSpec::new("debug", -2, Group::Server, debug)
    .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
    .system_command()
    .summary("Commands for tests: sleeps, shows stored data, returns a reply of any type.");
