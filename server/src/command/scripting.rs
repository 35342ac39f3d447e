//! Lua scripts. What runs them is `engine/script`.

use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError};
use crate::engine::{Ctx, ScriptCall};
use crate::resp::Reply;

/// Asks the engine to run a script; `first_key` is where the keys of the request begin.
fn run(ctx: &mut Ctx<'_>, args: &mut Args<'_>, script: usize) -> CommandResult {
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
    ctx.script = Some(ScriptCall::Run {
        script,
        first_key,
        keys,
    });
    Ok(Reply::Nil)
}

fn eval(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let body = args.required()?;
    // Bad numbers are refused before the script is known.
    run(ctx, &mut args.clone(), 0)?;
    let script = ctx.state.scripts.intern(body);
    run(ctx, args, script)
}

fn evalsha(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let sha = args.required()?;
    let script = ctx.state.scripts.by_sha(sha);
    if sha.len() != 40 {
        return Err(CommandError::NoScript);
    }
    run(ctx, &mut args.clone(), 0)?;
    ctx.script = None;
    run(ctx, args, script.ok_or(CommandError::NoScript)?)
}

fn load(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let script = ctx.state.scripts.intern(args.required()?);
    ctx.script = Some(ScriptCall::Load { script });
    Ok(Reply::Nil)
}

fn exists(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let known = args
        .rest()
        .map(|sha| Reply::Int(i64::from(ctx.state.scripts.by_sha(sha).is_some())));
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
    ctx.state.scripts.clear();
    Ok(Reply::Ok)
}

fn kill(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    let wrote = ctx.state.script_wrote;
    let Some(busy) = &mut ctx.state.busy else {
        return Err(CommandError::NotBusy);
    };
    if wrote {
        return Err(CommandError::Unkillable);
    }
    busy.killed = true;
    if let Some(error) = busy.abandoned.take() {
        let (conn, transaction) = (busy.caller, busy.transaction.take());
        ctx.state.busy = None;
        match transaction {
            Some(transaction) => ctx.state.resume(transaction, error.into()),
            None => ctx.state.answer(conn, error.into()),
        }
    }
    Ok(Reply::Ok)
}

const SCRIPT_FLAGS: &[Flags] = &[
    Flags::NOSCRIPT,
    Flags::STALE,
    Flags::SKIP_MONITOR,
    Flags::NO_MANDATORY_KEYS,
];
const KEYS: &[&str] = &["RW", "access", "update"];
const ALL_NODES: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];

const SCRIPT: &[CommandSpec] = &[
    row("load", 3, load)
        .flags(&[Flags::NOSCRIPT, Flags::STALE])
        .tips(ALL_NODES)
        .syntax("script")
        .summary("Compiles and keeps a script without running it."),
    row("exists", -3, exists)
        .flags(&[Flags::NOSCRIPT])
        .tips(&[
            "request_policy:all_shards",
            "response_policy:agg_logical_and",
        ])
        .syntax("sha1...")
        .summary("Which scripts are kept."),
    row("flush", -2, flush)
        .flags(&[Flags::NOSCRIPT])
        .tips(ALL_NODES)
        .syntax("[async=(ASYNC | SYNC)]@6.2.0")
        .summary("Forgets all scripts."),
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
        .summary("Runs a script that is kept, by its digest."),
    CommandSpec::container("script", -2, Group::Scripting, SCRIPT)
        .since("2.6.0")
        .summary("The scripts that are kept."),
];

const fn row(name: &'static str, arity: i32, handler: super::spec::Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::Scripting, handler).since("2.6.0")
}
