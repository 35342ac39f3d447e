//! LATENCY: latency events, and latencies of commands. Durations of commands follow the node's clock, so only
//! commands that sleep have any. On the system clock events are measured in real time too
//! (`state/measure.rs`).

use super::sparkline::{Point, sparkline};
use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError, CommandTable, Entry, help};
use crate::engine::{Ctx, groups};
use crate::resp::Reply;

/// Characters in a row of a graph (`LATENCY_GRAPH_COLS`).
const GRAPH_COLUMNS: usize = 80;
/// Rows of a graph, without labels.
const GRAPH_ROWS: usize = 4;

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

/// Draws an event. Source: `latency.c: latencyCommandGenSparkline`.
fn graph(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let event = args.required()?;
    let now = ctx.now_millis().0.div_euclid(1000);
    let latency = ctx.latency();
    let Some(spikes) = latency.of(event) else {
        return Err(CommandError::echoing(
            "ERR No samples available for event '",
            event,
            "'",
        ));
    };
    let points: Vec<Point> = spikes
        .samples()
        .map(|(at, millis)| Point {
            value: millis,
            label: age(now - at),
        })
        .collect();
    let values = || points.iter().map(|point| point.value);
    let mut text = format!(
        "{} - high {} ms, low {} ms (all time high {} ms)\n{}\n",
        String::from_utf8_lossy(event),
        values().max().unwrap_or(0),
        values().min().unwrap_or(0),
        spikes.max(),
        "-".repeat(GRAPH_COLUMNS),
    );
    text.push_str(&sparkline(&points, GRAPH_COLUMNS, GRAPH_ROWS));
    Ok(verbatim(text))
}

/// Formats the age of an event, in the largest unit that fits.
fn age(seconds: i64) -> String {
    match seconds {
        ..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Returns the report of LATENCY DOCTOR, in our own words.
fn doctor(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    let threshold = ctx.config().latency_monitor_threshold;
    if threshold == 0 {
        return Ok(verbatim(
            "Latency monitoring is off. CONFIG SET latency-monitor-threshold <milliseconds> switches it on.\n".into(),
        ));
    }
    let mut text = String::new();
    for (event, spikes) in ctx.latency().iter() {
        let samples: Vec<i64> = spikes.samples().map(|(_, millis)| millis).collect();
        let count = samples.len().max(1) as i64;
        let average = samples.iter().sum::<i64>() / count;
        text.push_str(&format!(
            "{event}: {} spikes, {average} ms on average, {} ms at worst.\n",
            samples.len(),
            spikes.max(),
        ));
    }
    if text.is_empty() {
        text = format!("No event took {threshold} ms or longer.\n");
    } else {
        text.push_str("SLOWLOG GET lists the commands that took long.\n");
    }
    Ok(verbatim(text))
}

fn verbatim(text: String) -> Reply {
    Reply::Verbatim {
        format: *b"txt",
        text: text.into(),
    }
}

const NODES: &str = "request_policy:all_nodes";
const CHANGES: &str = "nondeterministic_output";
const DONE: &str = "response_policy:all_succeeded";
const SPECIAL: &[&str] = &[CHANGES, NODES, "response_policy:special"];

pub(super) const LATENCY: CommandSpec =
    CommandSpec::container("latency", -2, Group::Server, EVENTS)
        .since("2.8.13")
        .summary("Latency events, and latencies of commands.");

const EVENTS: &[CommandSpec] = &[
    help::row(Group::Server, "2.8.13"),
    row("doctor", 2, doctor)
        .flags(&[Flags::NOSCRIPT])
        .tips(SPECIAL)
        .since("2.8.13")
        .summary("A report of slow events."),
    row("graph", 3, graph)
        .flags(&[Flags::NOSCRIPT])
        .tips(SPECIAL)
        .since("2.8.13")
        .syntax("event")
        .summary("One event as a picture."),
    row("histogram", -2, histogram)
        .flags(&[Flags::NOSCRIPT])
        .tips(SPECIAL)
        .since("7.0.0")
        .syntax("[command...]")
        .summary("Distribution of the latencies of commands."),
    row("history", 3, history)
        .flags(&[Flags::NOSCRIPT])
        .tips(SPECIAL)
        .since("2.8.13")
        .syntax("event")
        .summary("Times and durations of an event."),
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
        .summary("Deletes the records of some events, or of all."),
];

const fn row(name: &'static str, arity: i32, handler: super::spec::Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::Server, handler).flags(&[
        Flags::ADMIN,
        Flags::LOADING,
        Flags::STALE,
    ])
}
