//! Lua scripts. `engine/script` runs them.

use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError, help};
use crate::engine::{Continuation, Ctx, ScriptCall};
use crate::resp::Reply;

/// Whether the command allows its script to write.
#[derive(Clone, Copy, PartialEq)]
enum Promise {
    Nothing,
    /// The script does not write.
    ReadsOnly,
}

/// Asks the engine to run a script; `first_key` is the position of the first key.
fn run(ctx: &mut Ctx<'_>, args: &mut Args<'_>, script: usize, promise: Promise) -> CommandResult {
    let keys = args.integer()?;
    let keys = match usize::try_from(keys) {
        Ok(keys) if keys <= args.remaining() => keys,
        Ok(_) => {
            return Err(CommandError::Text(
                "ERR Number of keys can't be greater than number of args".into(),
            ));
        }
        Err(_) => {
            return Err(CommandError::Text(
                "ERR Number of keys can't be negative".into(),
            ));
        }
    };
    let first_key = args.request().len() - args.remaining();
    ctx.then = Some(Continuation::Script(ScriptCall::Run {
        script,
        first_key,
        keys,
        reads_only: promise == Promise::ReadsOnly,
    }));
    Ok(Reply::Nil)
}

fn eval(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    by_body(ctx, args, Promise::Nothing)
}

fn eval_ro(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    by_body(ctx, args, Promise::ReadsOnly)
}

fn by_body(ctx: &mut Ctx<'_>, args: &mut Args<'_>, promise: Promise) -> CommandResult {
    let body = args.required()?;
    // Invalid numbers are refused before the script is looked up.
    run(ctx, &mut args.clone(), 0, promise)?;
    let script = ctx.intern_script(body);
    run(ctx, args, script, promise)
}

fn evalsha(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    by_sha(ctx, args, Promise::Nothing)
}

fn evalsha_ro(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    by_sha(ctx, args, Promise::ReadsOnly)
}

fn by_sha(ctx: &mut Ctx<'_>, args: &mut Args<'_>, promise: Promise) -> CommandResult {
    let sha = args.required()?;
    let script = ctx.scripts().by_sha(sha);
    if sha.len() != 40 {
        return Err(CommandError::NoScript);
    }
    run(ctx, &mut args.clone(), 0, promise)?;
    ctx.then = None;
    run(ctx, args, script.ok_or(CommandError::NoScript)?, promise)
}

fn load(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let script = ctx.intern_script(args.required()?);
    ctx.then = Some(Continuation::Script(ScriptCall::Load { script }));
    Ok(Reply::Nil)
}

fn exists(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let known = args
        .rest()
        .map(|sha| Reply::Int(i64::from(ctx.scripts().by_sha(sha).is_some())));
    Ok(Reply::Array(known.collect()))
}

fn flush(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    match args.next() {
        None => {}
        Some(mode)
            if args.is_empty()
                && (mode.eq_ignore_ascii_case(b"sync") || mode.eq_ignore_ascii_case(b"async")) => {}
        Some(_) => {
            return Err(CommandError::Text(
                "ERR SCRIPT FLUSH only support SYNC|ASYNC option".into(),
            ));
        }
    }
    ctx.flush_scripts();
    Ok(Reply::Ok)
}

fn kill(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    ctx.kill(false)?;
    Ok(Reply::Ok)
}

/// There is no debugger, so the command can only turn it off.
fn debug(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    if ctx.session.executing.is_some() {
        return Err(CommandError::Text(
            "ERR SCRIPT DEBUG must be called outside a pipeline".into(),
        ));
    }
    let mode = args.required()?;
    if mode.eq_ignore_ascii_case(b"no") {
        return Ok(Reply::Ok);
    }
    if mode.eq_ignore_ascii_case(b"yes") || mode.eq_ignore_ascii_case(b"sync") {
        return Err(CommandError::NotImplemented {
            what: format!(
                "SCRIPT DEBUG {}",
                String::from_utf8_lossy(mode).to_ascii_uppercase()
            ),
        });
    }
    Err(CommandError::Text(
        "ERR Use SCRIPT DEBUG YES/SYNC/NO".into(),
    ))
}

const SCRIPT_FLAGS: &[Flags] = &[
    Flags::NOSCRIPT,
    Flags::STALE,
    Flags::SKIP_MONITOR,
    Flags::NO_MANDATORY_KEYS,
    Flags::MAY_REPLICATE,
];
const READ_ONLY_FLAGS: &[Flags] = &[
    Flags::READONLY,
    Flags::NOSCRIPT,
    Flags::STALE,
    Flags::SKIP_MONITOR,
    Flags::NO_MANDATORY_KEYS,
];
const KEYS: &[&str] = &["RW", "access", "update"];
const KEYS_READ: &[&str] = &["RO", "access"];
const ALL_NODES: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];

const SCRIPT: &[CommandSpec] = &[
    help::row(Group::Scripting, "5.0.0"),
    row("debug", 3, debug)
        .since("3.2.0")
        .flags(&[Flags::NOSCRIPT])
        .syntax("mode=(YES | SYNC | NO)")
        .summary("Refuses to debug scripts."),
    row("load", 3, load)
        .flags(&[Flags::NOSCRIPT, Flags::STALE])
        .tips(ALL_NODES)
        .syntax("script")
        .summary("Compiles and caches a script without running it."),
    row("exists", -3, exists)
        .flags(&[Flags::NOSCRIPT])
        .tips(&[
            "request_policy:all_shards",
            "response_policy:agg_logical_and",
        ])
        .syntax("sha1...")
        .summary("Whether scripts are cached."),
    row("flush", -2, flush)
        .flags(&[Flags::NOSCRIPT])
        .tips(ALL_NODES)
        .syntax("[async=(ASYNC | SYNC)]@6.2.0")
        .summary("Deletes all cached scripts."),
    row("kill", 2, kill)
        .flags(&[Flags::NOSCRIPT, Flags::ALLOW_BUSY])
        .tips(&["request_policy:all_shards", "response_policy:one_succeeded"])
        .summary("Stops the script that is running, unless it has written."),
];

pub(crate) const COMMANDS: &[CommandSpec] = &[
    row("eval", -3, eval)
        .flags(SCRIPT_FLAGS)
        .counted_keys(2, KEYS)
        .key_notes("A script may do anything to its keys")
        .syntax("script numkeys:integer [key...] [arg...]")
        .summary("Runs a script."),
    row("evalsha", -3, evalsha)
        .flags(SCRIPT_FLAGS)
        .counted_keys(2, KEYS)
        .syntax("sha1 numkeys:integer [key...] [arg...]")
        .summary("Runs a cached script by its digest."),
    row("eval_ro", -3, eval_ro)
        .since("7.0.0")
        .flags(READ_ONLY_FLAGS)
        .counted_keys(2, KEYS_READ)
        .key_notes("A script that does not write may read its keys")
        .acl_without(&["@read"])
        .syntax("script numkeys:integer [key...] [arg...]")
        .summary("Runs a script that must not write."),
    row("evalsha_ro", -3, evalsha_ro)
        .since("7.0.0")
        .flags(READ_ONLY_FLAGS)
        .counted_keys(2, KEYS_READ)
        .acl_without(&["@read"])
        .syntax("sha1 numkeys:integer [key...] [arg...]")
        .summary("Runs a cached script that must not write, by its digest."),
    CommandSpec::container("script", -2, Group::Scripting, SCRIPT)
        .since("2.6.0")
        .summary("The cached scripts."),
];

const fn row(name: &'static str, arity: i32, handler: super::spec::Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::Scripting, handler).since("2.6.0")
}
