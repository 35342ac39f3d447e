//! FUNCTION and FCALL: libraries of Lua functions. `engine/driver/script/functions.rs` runs them.

use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError, help};
use crate::engine::{
    Continuation, Ctx, Function, RestorePolicy, ScriptCall, dump_libraries, glob_match,
};
use crate::resp::Reply;

fn text(text: &'static str) -> CommandError {
    CommandError::Text(text.into())
}

/// Asks the engine to continue with this call.
fn then(ctx: &mut Ctx<'_>, call: ScriptCall) -> CommandResult {
    ctx.then = Some(Continuation::Script(call));
    Ok(Reply::Nil)
}

fn fcall(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    call(ctx, args, false)
}

fn fcall_ro(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    call(ctx, args, true)
}

fn call(ctx: &mut Ctx<'_>, args: &mut Args<'_>, reads_only: bool) -> CommandResult {
    let name = args.required()?;
    if ctx.libraries().function(name).is_none() {
        return Err(text("ERR Function not found"));
    }
    let keys = args
        .integer()
        .map_err(|_| text("ERR Bad number of keys provided"))?;
    let keys = match usize::try_from(keys) {
        Ok(keys) if keys <= args.remaining() => keys,
        Ok(_) => {
            return Err(text(
                "ERR Number of keys can't be greater than number of args",
            ));
        }
        Err(_) => return Err(text("ERR Number of keys can't be negative")),
    };
    let first_key = args.request().len() - args.remaining();
    let call = ScriptCall::Function {
        first_key,
        keys,
        reads_only,
    };
    then(ctx, call)
}

fn load(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let mut replaces = false;
    while args.remaining() > 1 {
        let option = args.required()?;
        if !option.eq_ignore_ascii_case(b"replace") {
            return Err(CommandError::echoing(
                "ERR Unknown option given: ",
                option,
                "",
            ));
        }
        replaces = true;
    }
    then(ctx, ScriptCall::LoadLibrary { replaces })
}

fn delete(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let name = args.required()?;
    let found = ctx.libraries().get(name);
    let Some(name) = found.map(|library| library.name.clone()) else {
        return Err(text("ERR Library not found"));
    };
    ctx.remove_libraries(vec![name]);
    Ok(Reply::Ok)
}

fn flush(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    if args.remaining() > 1 {
        return Err(args.subcommand_syntax());
    }
    match args.next() {
        None => {}
        Some(mode) if mode.eq_ignore_ascii_case(b"sync") || mode.eq_ignore_ascii_case(b"async") => {
        }
        Some(_) => {
            return Err(text("ERR FUNCTION FLUSH only supports SYNC|ASYNC option"));
        }
    }
    let names = ctx.libraries().names();
    ctx.remove_libraries(names);
    Ok(Reply::Ok)
}

fn list(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (mut pattern, mut with_code) = (None, false);
    while let Some(word) = args.next() {
        if !with_code && word.eq_ignore_ascii_case(b"withcode") {
            with_code = true;
        } else if pattern.is_none() && word.eq_ignore_ascii_case(b"libraryname") {
            let given = args.next();
            pattern = Some(given.ok_or_else(|| text("ERR library name argument was not given"))?);
        } else {
            return Err(CommandError::echoing_breaks("ERR Unknown argument ", word));
        }
    }
    let pattern = pattern.map(<[u8]>::to_ascii_lowercase);
    let matches = |name: &[u8]| {
        let pattern = pattern.as_ref();
        pattern.is_none_or(|pattern| glob_match(pattern, &name.to_ascii_lowercase()))
    };
    let libraries = ctx.libraries().iter();
    let libraries = libraries.filter(|library| matches(&library.name));
    let reply = libraries.map(|library| {
        let functions = library.functions.iter().map(function).collect();
        let mut pairs = vec![
            (
                Reply::bulk("library_name"),
                Reply::Bulk(library.name.clone()),
            ),
            (Reply::bulk("engine"), Reply::bulk("LUA")),
            (Reply::bulk("functions"), Reply::Array(functions)),
        ];
        if with_code {
            let code = Reply::Bulk(library.code.clone());
            pairs.push((Reply::bulk("library_code"), code));
        }
        Reply::Map(pairs)
    });
    Ok(Reply::Array(reply.collect()))
}

/// Entry of FUNCTION LIST about a function.
fn function(function: &Function) -> Reply {
    let description = function.description.clone();
    let flags = function.flags.names();
    Reply::Map(vec![
        (Reply::bulk("name"), Reply::Bulk(function.name.clone())),
        (
            Reply::bulk("description"),
            description.map_or(Reply::Nil, Reply::Bulk),
        ),
        (
            Reply::bulk("flags"),
            Reply::Set(flags.map(Reply::Static).collect()),
        ),
    ])
}

fn stats(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    if ctx.is_busy() && !ctx.runs_function() {
        return Err(ctx.busy_error());
    }
    let running = if ctx.runs_function() {
        running(ctx)
    } else {
        Reply::Nil
    };
    let libraries = ctx.libraries();
    let counts = [
        ("libraries_count", libraries.len()),
        ("functions_count", libraries.function_count()),
    ];
    let counts = counts.map(|(name, count)| (Reply::bulk(name), Reply::Int(count as i64)));
    let engines = vec![(Reply::bulk("LUA"), Reply::Map(counts.into()))];
    Ok(Reply::Map(vec![
        (Reply::bulk("running_script"), running),
        (Reply::bulk("engines"), Reply::Map(engines)),
    ]))
}

/// Describes the function that keeps the node busy.
fn running(ctx: &Ctx<'_>) -> Reply {
    let (call, began) = ctx.function_call();
    let call = call.as_request();
    let given = call.and_then(|call| call.arg(1)).unwrap_or_default();
    let found = ctx.libraries().function(given);
    let name = found.map_or(given, |(library, place)| &library.functions[place].name);
    let args = call.iter().flat_map(|call| call.iter());
    let millis = ctx.now.0.saturating_sub(began.0).max(0) / 1000;
    Reply::Map(vec![
        (Reply::bulk("name"), Reply::bulk(name)),
        (
            Reply::bulk("command"),
            Reply::Array(args.map(Reply::bulk).collect()),
        ),
        (Reply::bulk("duration_ms"), Reply::Int(millis)),
    ])
}

fn kill(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    ctx.kill(true)?;
    Ok(Reply::Ok)
}

fn dump(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    Ok(Reply::bulk(dump_libraries(ctx.libraries(), ctx.config())))
}

fn restore(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    if args.remaining() > 2 {
        return Err(args.subcommand_syntax());
    }
    let _payload = args.required()?;
    let policy = match args.next().map(<[u8]>::to_ascii_lowercase).as_deref() {
        None | Some(b"append") => RestorePolicy::Append,
        Some(b"replace") => RestorePolicy::Replace,
        Some(b"flush") => RestorePolicy::Flush,
        Some(_) => {
            return Err(text(
                "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
            ));
        }
    };
    then(ctx, ScriptCall::RestoreLibraries { policy })
}

const CALL_FLAGS: &[Flags] = &[
    Flags::NOSCRIPT,
    Flags::STALE,
    Flags::SKIP_MONITOR,
    Flags::NO_MANDATORY_KEYS,
    Flags::MAY_REPLICATE,
];
const READ_ONLY_CALL_FLAGS: &[Flags] = &[
    Flags::READONLY,
    Flags::NOSCRIPT,
    Flags::STALE,
    Flags::SKIP_MONITOR,
    Flags::NO_MANDATORY_KEYS,
];
const WRITES: &[Flags] = &[Flags::WRITE, Flags::NOSCRIPT];
const WRITES_MORE: &[Flags] = &[Flags::WRITE, Flags::DENYOOM, Flags::NOSCRIPT];
const ALL_SHARDS: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];

const FUNCTION: &[CommandSpec] = &[
    row("load", -3, load)
        .flags(WRITES_MORE)
        .tips(ALL_SHARDS)
        .syntax("[REPLACE] function-code")
        .summary("Loads a library, which registers functions."),
    row("restore", -3, restore)
        .flags(WRITES_MORE)
        .tips(ALL_SHARDS)
        .syntax("serialized-value [policy=(FLUSH | APPEND | REPLACE)]")
        .summary("Restores libraries from the result of `FUNCTION DUMP`."),
    row("delete", 3, delete)
        .flags(WRITES)
        .tips(ALL_SHARDS)
        .syntax("library-name")
        .summary("Removes a library and its functions."),
    row("flush", -2, flush)
        .flags(WRITES)
        .tips(ALL_SHARDS)
        .syntax("[async=(ASYNC | SYNC)]")
        .summary("Removes all libraries."),
    row("list", -2, list)
        .flags(&[Flags::NOSCRIPT])
        .tips(&["nondeterministic_output_order"])
        .syntax("[LIBRARYNAME library-name-pattern] [WITHCODE]")
        .summary("The libraries, and the functions of each."),
    row("stats", 2, stats)
        .flags(&[Flags::NOSCRIPT, Flags::ALLOW_BUSY])
        .tips(&[
            "nondeterministic_output",
            "request_policy:all_shards",
            "response_policy:special",
        ])
        .summary("The running function, and the number of functions."),
    row("kill", 2, kill)
        .flags(&[Flags::NOSCRIPT, Flags::ALLOW_BUSY])
        .tips(&["request_policy:all_shards", "response_policy:one_succeeded"])
        .summary("Stops the function that is running, unless it has written."),
    row("dump", 2, dump)
        .flags(&[Flags::NOSCRIPT])
        .summary("All libraries as a string for `FUNCTION RESTORE`."),
    help::row(Group::Scripting, "7.0.0"),
];

pub(crate) const COMMANDS: &[CommandSpec] = &[
    row("fcall", -3, fcall)
        .flags(CALL_FLAGS)
        .counted_keys(2, &["RW", "access", "update"])
        .key_notes("A function may do anything to its keys")
        .syntax("function numkeys:integer [key...] [arg...]")
        .summary("Calls a function."),
    row("fcall_ro", -3, fcall_ro)
        .flags(READ_ONLY_CALL_FLAGS)
        .counted_keys(2, &["RO", "access"])
        .key_notes("A function that does not write may read its keys")
        .acl_without(&["@read"])
        .syntax("function numkeys:integer [key...] [arg...]")
        .summary("Calls a function that must not write."),
    CommandSpec::container("function", -2, Group::Scripting, FUNCTION)
        .since("7.0.0")
        .summary("Libraries of functions."),
];

const fn row(name: &'static str, arity: i32, handler: super::spec::Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::Scripting, handler).since("7.0.0")
}
