//! CONFIG. The parameters are in `engine/parameter/table.rs`.

use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError, help};
use crate::engine::Ctx;
use crate::resp::Reply;

fn get(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let patterns: Vec<&[u8]> = args.rest().collect();
    let found = ctx.config().matching(&patterns).into_iter();
    let found = found.map(|(name, value)| (Reply::bulk(name), Reply::bulk(value)));
    Ok(Reply::Map(found.collect()))
}

/// Sets all parameters or none.
fn set(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    if !args.remaining().is_multiple_of(2) {
        return Err(CommandError::Syntax);
    }
    let mut changes = Vec::new();
    while let (Some(name), Some(value)) = (args.next(), args.next()) {
        changes.push((name, value));
    }
    let next = ctx.config().with(&changes)?;
    ctx.configure(next);
    Ok(Reply::Ok)
}

fn resetstat(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    ctx.reset_stats();
    Ok(Reply::Ok)
}

/// There is no file to rewrite.
fn rewrite(_: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    Err(CommandError::Text(
        "ERR The server is running without a config file".into(),
    ))
}

const ADMIN: &[Flags] = &[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE];

pub(super) const CONFIG: CommandSpec =
    CommandSpec::container("config", -2, Group::Server, SUBCOMMANDS)
        .since("2.0.0")
        .summary("The configuration.");

const SUBCOMMANDS: &[CommandSpec] = &[
    help::row(Group::Server, "5.0.0"),
    row("get", -3, get)
        .since("2.0.0")
        .syntax("parameter=(parameter)...")
        .summary("The parameters that match."),
    row("resetstat", 2, resetstat)
        .since("2.0.0")
        .summary("Resets the counters of INFO."),
    row("rewrite", 2, rewrite)
        .since("2.8.0")
        .summary("Rewrites the configuration file; there is none."),
    row("set", -4, set)
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
        .since("2.0.0")
        .syntax("parameter_value=(parameter value)...")
        .summary("Changes parameters: all of them, or none."),
];

const fn row(name: &'static str, arity: i32, handler: super::spec::Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::Server, handler).flags(ADMIN)
}
