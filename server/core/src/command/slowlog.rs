//! SLOWLOG: slow commands. Durations follow the node's clock, so only commands that sleep have any.

use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, help};
use crate::engine::Ctx;
use crate::resp::Reply;

/// Number of entries that SLOWLOG GET returns by default.
const ENTRIES_DEFAULT: usize = 10;

fn get(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let mut count = ENTRIES_DEFAULT;
    if !args.is_empty() {
        if args.remaining() > 1 {
            return Err(args.subcommand_syntax());
        }
        let given = args.integer_from(-1, "ERR count should be greater than or equal to -1")?;
        count = usize::try_from(given).unwrap_or(usize::MAX);
    }
    let entries = ctx.slowlog().iter().take(count).map(|entry| {
        let args = entry.args.iter().map(Reply::bulk);
        Reply::Array(vec![
            Reply::Int(entry.id),
            Reply::Int(entry.at),
            Reply::Int(i64::try_from(entry.micros).unwrap_or(i64::MAX)),
            Reply::Array(args.collect()),
            Reply::bulk(entry.addr.as_bytes()),
            Reply::Bulk(entry.client_name.clone()),
        ])
    });
    Ok(Reply::Array(entries.collect()))
}

fn len(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    Ok(Reply::Int(ctx.slowlog().len() as i64))
}

fn reset(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    ctx.clear_slowlog();
    Ok(Reply::Ok)
}

const NODES: &str = "request_policy:all_nodes";
const CHANGES: &str = "nondeterministic_output";
const DONE: &str = "response_policy:all_succeeded";

pub(super) const SLOWLOG: CommandSpec =
    CommandSpec::container("slowlog", -2, Group::Server, ENTRIES)
        .since("2.2.12")
        .summary("The slow commands.");

const ENTRIES: &[CommandSpec] = &[
    help::row(Group::Server, "6.2.0"),
    row("get", -2, get)
        .tips(&[NODES, CHANGES])
        .since("2.2.12")
        .syntax("[count:integer]")
        .summary("The latest entries, newest first."),
    row("len", 2, len)
        .tips(&[NODES, "response_policy:agg_sum", CHANGES])
        .since("2.2.12")
        .summary("Number of entries."),
    row("reset", 2, reset)
        .tips(&[NODES, DONE])
        .since("2.2.12")
        .summary("Deletes all entries."),
];

const fn row(name: &'static str, arity: i32, handler: super::spec::Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::Server, handler).flags(&[
        Flags::ADMIN,
        Flags::LOADING,
        Flags::STALE,
    ])
}
