//! SLOWLOG and LATENCY: what took long. Durations are those of the node's clock, so only commands
//! that sleep have any.

use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandTable, Entry};
use crate::engine::{Ctx, groups};
use crate::resp::Reply;

/// Entries that SLOWLOG GET gives unless told otherwise.
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

fn latest(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    let events = ctx.latency().iter().filter_map(|(event, spikes)| {
        let (at, millis) = spikes.latest()?;
        Some(Reply::Array(vec![
            Reply::bulk(event),
            Reply::Int(at),
            Reply::Int(millis),
            Reply::Int(spikes.max()),
        ]))
    });
    Ok(Reply::Array(events.collect()))
}

fn history(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let spikes = ctx.latency().of(args.required()?);
    let samples = spikes.into_iter().flat_map(|spikes| spikes.samples());
    let samples =
        samples.map(|(at, millis)| Reply::Array(vec![Reply::Int(at), Reply::Int(millis)]));
    Ok(Reply::Array(samples.collect()))
}

fn latency_reset(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let count = if args.is_empty() {
        ctx.clear_latency()
    } else {
        args.rest()
            .filter(|event| ctx.forget_latency(event))
            .count()
    };
    Ok(Reply::Int(count as i64))
}

/// The histogram of a command, if it was ever measured.
fn histogram_of(ctx: &Ctx<'_>, number: u16) -> Option<(Reply, Reply)> {
    let durations = ctx.stats().durations(number);
    let calls: u64 = durations.iter().map(|(_, count)| count).sum();
    if calls == 0 {
        return None;
    }
    let int = |number: u64| Reply::Int(i64::try_from(number).unwrap_or(i64::MAX));
    let groups = groups(&durations).into_iter();
    let groups = groups.map(|(until, count)| (int(until), int(count)));
    let histogram = Reply::Map(vec![
        (Reply::bulk("calls"), int(calls)),
        (Reply::bulk("histogram_usec"), Reply::Map(groups.collect())),
    ]);
    Some((Reply::bulk(super::table(ctx).name(number)), histogram))
}

/// The command or subcommand of a name as in `config|get`.
fn named(table: &CommandTable, name: &[u8]) -> Option<Entry> {
    let mut parts = name.splitn(2, |byte| *byte == b'|');
    let entry = table.find(parts.next()?)?;
    match parts.next() {
        Some(sub) => entry.subcommand(sub),
        None => Some(entry),
    }
}

fn histogram(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let mut numbers: Vec<u16> = Vec::new();
    if args.is_empty() {
        numbers.extend(ctx.stats().commands().map(|(number, _)| number));
    }
    let table = super::table(ctx);
    for entry in args.rest().filter_map(|name| named(table, name)) {
        let subcommands = 0..=entry.spec.subcommands.len() as u16;
        numbers.extend(subcommands.map(|offset| entry.number + offset));
    }
    let found = numbers
        .into_iter()
        .filter_map(|number| histogram_of(ctx, number));
    Ok(Reply::Map(found.collect()))
}

const NODES: &str = "request_policy:all_nodes";
const CHANGES: &str = "nondeterministic_output";
const DONE: &str = "response_policy:all_succeeded";
const SPECIAL: &[&str] = &[CHANGES, NODES, "response_policy:special"];

pub(super) const SLOWLOG: CommandSpec =
    CommandSpec::container("slowlog", -2, Group::Server, ENTRIES)
        .since("2.2.12")
        .summary("The commands that took long.");

const ENTRIES: &[CommandSpec] = &[
    row("get", -2, get)
        .tips(&[NODES, CHANGES])
        .since("2.2.12")
        .syntax("[count:integer]")
        .summary("The latest entries, newest first."),
    row("len", 2, len)
        .tips(&[NODES, "response_policy:agg_sum", CHANGES])
        .since("2.2.12")
        .summary("How many entries there are."),
    row("reset", 2, reset)
        .tips(&[NODES, DONE])
        .since("2.2.12")
        .summary("Forgets all entries."),
];

pub(super) const LATENCY: CommandSpec =
    CommandSpec::container("latency", -2, Group::Server, EVENTS)
        .since("2.8.13")
        .summary("Events that took long, and how long commands take.");

const EVENTS: &[CommandSpec] = &[
    row("histogram", -2, histogram)
        .flags(&[Flags::NOSCRIPT])
        .tips(SPECIAL)
        .since("7.0.0")
        .syntax("[command...]")
        .summary("How many calls took how long."),
    row("history", 3, history)
        .flags(&[Flags::NOSCRIPT])
        .tips(SPECIAL)
        .since("2.8.13")
        .syntax("event")
        .summary("When an event was seen, and how long it took."),
    row("latest", 2, latest)
        .flags(&[Flags::NOSCRIPT])
        .tips(SPECIAL)
        .since("2.8.13")
        .summary("The latest and the longest of each event."),
    row("reset", -2, latency_reset)
        .flags(&[Flags::NOSCRIPT])
        .tips(&[NODES, DONE])
        .since("2.8.13")
        .syntax("[event...]")
        .summary("Forgets some events, or all."),
];

const fn row(name: &'static str, arity: i32, handler: super::spec::Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::Server, handler).flags(&[
        Flags::ADMIN,
        Flags::LOADING,
        Flags::STALE,
    ])
}
