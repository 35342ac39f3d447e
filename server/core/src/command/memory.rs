//! MEMORY. Sizes are estimates of Redis's memory, see `engine/data/memory.rs`.

use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError, help};
use crate::engine::{Ctx, Overhead, STARTUP_BYTES, key_bytes};
use crate::resp::Reply;

/// Number of parts of a value that are measured by default (`OBJ_COMPUTE_SIZE_DEF_SAMPLES`).
const SAMPLES_DEFAULT: i64 = 5;

fn usage(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let key = args.required()?;
    let mut samples = SAMPLES_DEFAULT;
    while !args.is_empty() {
        if args.remaining() < 2 || !args.keyword("SAMPLES") {
            return Err(CommandError::Syntax);
        }
        samples = args.integer()?;
        if samples < 0 {
            return Err(CommandError::Syntax);
        }
    }
    let samples = match usize::try_from(samples) {
        Ok(0) | Err(_) => usize::MAX,
        Ok(samples) => samples,
    };
    // The command does not check whether the key has expired (`object.c: memoryCommand`).
    let Some(slot) = ctx.db().find(key) else {
        return Ok(Reply::Nil);
    };
    let bytes = key_bytes(ctx.db(), slot, samples, ctx.config());
    Ok(Reply::Int(bytes as i64))
}

/// Without jemalloc Redis has nothing to purge either, and also replies OK.
fn purge(_: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    Ok(Reply::Ok)
}

fn malloc_stats(_: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    Ok(Reply::Verbatim {
        format: *b"txt",
        text: b"Stats not supported for the current allocator".to_vec(),
    })
}

/// Returns the estimated bytes of the data, without figures of the process and of its allocator.
fn stats(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    let total = ctx.memory_bytes();
    let peak = ctx.memory_peak();
    let int = |bytes: usize| Reply::Int(bytes as i64);
    let pair = |name: &str, value: Reply| (Reply::bulk(name), value);
    let share = |part: usize, whole: usize| {
        let percent = part as f64 * 100.0 / whole.max(1) as f64;
        // Redis keeps this number in a float.
        Reply::Double(f64::from(percent as f32))
    };
    let (mut overhead, mut keys) = (STARTUP_BYTES, 0);
    let mut dbs = Vec::new();
    for (index, db) in ctx.databases().iter().enumerate() {
        if db.is_empty() {
            continue;
        }
        let own = Overhead::of(db);
        overhead += own.total();
        keys += db.len();
        let tables = Reply::Map(vec![
            pair("overhead.hashtable.main", int(own.main)),
            pair("overhead.hashtable.expires", int(own.expires)),
            pair("overhead.hashtable.slot-to-keys", int(0)),
        ]);
        dbs.push(pair(&format!("db.{index}"), tables));
    }
    let dataset = total.saturating_sub(overhead);
    let mut pairs = vec![
        pair("peak.allocated", int(peak)),
        pair("total.allocated", int(total)),
        pair("startup.allocated", int(STARTUP_BYTES)),
    ];
    for (name, bytes) in [
        ("replication.backlog", 0),
        ("clients.slaves", 0),
        ("clients.normal", ctx.clients_bytes()),
        ("cluster.links", 0),
        ("aof.buffer", 0),
        ("lua.caches", 0),
        // As a fresh server of 7.0.15 reports it.
        ("functions.caches", 200),
    ] {
        pairs.push(pair(name, int(bytes)));
    }
    pairs.extend(dbs);
    pairs.extend([
        pair("overhead.total", int(overhead)),
        pair("keys.count", int(keys)),
        pair(
            "keys.bytes-per-key",
            int((total - STARTUP_BYTES).checked_div(keys).unwrap_or(0)),
        ),
        pair("dataset.bytes", int(dataset)),
        pair("dataset.percentage", share(dataset, total - STARTUP_BYTES)),
        pair("peak.percentage", share(total, peak)),
    ]);
    Ok(Reply::Map(pairs))
}

/// MEMORY DOCTOR: an estimate has no fragmentation and no buffers that could be wrong.
fn doctor(_: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    Ok(Reply::Verbatim {
        format: *b"txt",
        text: b"This server only estimates its memory, so there is nothing to diagnose.\n".to_vec(),
    })
}

const CHANGES: &[&str] = &[
    "nondeterministic_output",
    "request_policy:all_shards",
    "response_policy:special",
];

pub(super) const MEMORY: CommandSpec =
    CommandSpec::container("memory", -2, Group::Server, SUBCOMMANDS)
        .since("4.0.0")
        .summary("Memory of keys.");

const SUBCOMMANDS: &[CommandSpec] = &[
    row("doctor", 2, doctor)
        .tips(CHANGES)
        .summary("Describes problems with the memory."),
    help::row(Group::Server, "4.0.0"),
    row("malloc-stats", 2, malloc_stats)
        .tips(CHANGES)
        .summary("Statistics of the allocator; none."),
    row("purge", 2, purge)
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
        .summary("Asks the allocator to release memory."),
    row("stats", 2, stats)
        .tips(CHANGES)
        .summary("Memory that all keys would take in Redis."),
    row("usage", -3, usage)
        .flags(&[Flags::READONLY])
        .keys(2, 2, 1, &["RO"])
        .syntax("key [SAMPLES count:integer]")
        .summary("Memory that a key would take in Redis, in bytes."),
];

const fn row(name: &'static str, arity: i32, handler: super::spec::Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::Server, handler).since("4.0.0")
}
