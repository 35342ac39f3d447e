//! XINFO: facts about a stream, its groups and their consumers.

use super::group::no_group_of;
use super::{entry_reply, id_reply, row};
use crate::command::help;
use crate::command::spec::{CommandResult, CommandSpec, Flags, Group};
use crate::engine::{Args, CommandError};
use crate::engine::{ConsumerGroup, Ctx, Stream, StreamId, UnixMillis, feature};
use crate::resp::{Blob, Reply};

/// Number of entries, and of pending entries of each group and consumer, that FULL lists by default.
const COUNT: usize = 10;

fn no_such_key() -> CommandError {
    CommandError::Text("ERR no such key".into())
}

/// Makes a field of a reply.
fn field(name: &'static str, value: Reply) -> (Reply, Reply) {
    (Reply::bulk(name), value)
}

fn number(name: &'static str, value: usize) -> (Reply, Reply) {
    field(name, Reply::Int(value as i64))
}

/// Returns the common first fields of both forms of XINFO STREAM.
fn common(stream: &Stream) -> Vec<(Reply, Reply)> {
    let counters = stream.counters();
    vec![
        field("length", Reply::Int(stream.len() as i64)),
        number("radix-tree-keys", stream.node_count()),
        number("radix-tree-nodes", stream.radix_nodes()),
        field("last-generated-id", id_reply(counters.last_id)),
        field("max-deleted-entry-id", id_reply(counters.max_deleted_id)),
        field("entries-added", Reply::Int(counters.entries_added as i64)),
        field("recorded-first-entry-id", id_reply(counters.first_id)),
    ]
}

/// Returns the progress of a group: the last id, and the number of entries before and after it.
fn progress(stream: &Stream, group: &ConsumerGroup) -> [(Reply, Reply); 3] {
    let read = group.entries_read;
    let lag = stream.lag(group);
    [
        field("last-delivered-id", id_reply(group.last_id)),
        field(
            "entries-read",
            read.map_or(Reply::Nil, |read| Reply::Int(read as i64)),
        ),
        field("lag", lag.map_or(Reply::Nil, Reply::Int)),
    ]
}

fn full_group(
    stream: &Stream,
    name: &Blob,
    group: &ConsumerGroup,
    count: usize,
    tells_activity: bool,
) -> Reply {
    let pending = group.pending().iter().take(count).map(|(id, pending)| {
        let consumer = group.consumer(pending.consumer);
        Reply::Array(vec![
            id_reply(id),
            consumer.map_or(Reply::Nil, |consumer| Reply::Bulk(consumer.name.clone())),
            Reply::Int(pending.delivered_at.0),
            Reply::Int(pending.deliveries as i64),
        ])
    });
    let consumers = group.consumers().map(|consumer| {
        let ids = consumer.pending_from(StreamId::MIN).take(count);
        let pending = ids.filter_map(|id| {
            let pending = group.pending().get(id)?;
            Some(Reply::Array(vec![
                id_reply(id),
                Reply::Int(pending.delivered_at.0),
                Reply::Int(pending.deliveries as i64),
            ]))
        });
        let mut fields = vec![
            field("name", Reply::Bulk(consumer.name.clone())),
            field("seen-time", Reply::Int(consumer.seen_at.0)),
        ];
        if tells_activity {
            let active_at = consumer.active_at.map_or(NEVER, |at| at.0);
            fields.push(field("active-time", Reply::Int(active_at)));
        }
        fields.push(number("pel-count", consumer.pending_count()));
        fields.push(field("pending", Reply::Array(pending.collect())));
        Reply::Map(fields)
    });
    let mut fields = vec![field("name", Reply::Bulk(name.clone()))];
    fields.extend(progress(stream, group));
    fields.push(number("pel-count", group.pending().len()));
    fields.push(field("pending", Reply::Array(pending.collect())));
    fields.push(field("consumers", Reply::Array(consumers.collect())));
    Reply::Map(fields)
}

fn stream(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let tells_activity = ctx.config().profile.has(feature::CONSUMER_ACTIVITY);
    let key = args.required()?;
    let stream = ctx.read::<Stream>(key)?.ok_or_else(no_such_key)?;
    let mut fields = common(stream);
    if args.is_empty() {
        fields.push(number("groups", stream.group_count()));
        let entry = |entry: Option<_>| entry.map_or(Reply::Nil, entry_reply);
        fields.push(field("first-entry", entry(stream.first())));
        fields.push(field("last-entry", entry(stream.last())));
        return Ok(Reply::Map(fields));
    }
    let mut count = COUNT;
    let options = args.remaining();
    if !matches!(options, 1 | 3) || !args.keyword("FULL") {
        return Err(args.subcommand_syntax());
    }
    if options == 3 {
        if !args.keyword("COUNT") {
            return Err(args.subcommand_syntax());
        }
        count = usize::try_from(args.integer()?).unwrap_or(COUNT);
    }
    if count == 0 {
        count = usize::MAX;
    }
    let entries = stream.range(StreamId::MIN, StreamId::MAX).take(count);
    fields.push(field(
        "entries",
        Reply::Array(entries.map(entry_reply).collect()),
    ));
    let groups = stream.groups();
    let groups = groups.map(|(name, group)| full_group(stream, name, group, count, tells_activity));
    fields.push(field("groups", Reply::Array(groups.collect())));
    Ok(Reply::Map(fields))
}

fn groups(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let key = args.required()?;
    let stream = ctx.read::<Stream>(key)?.ok_or_else(no_such_key)?;
    let groups = stream.groups().map(|(name, group)| {
        let mut fields = vec![
            field("name", Reply::Bulk(name.clone())),
            number("consumers", group.consumer_count()),
            number("pending", group.pending().len()),
        ];
        fields.extend(progress(stream, group));
        Reply::Map(fields)
    });
    Ok(Reply::Array(groups.collect()))
}

/// The time for a consumer that never got an entry.
const NEVER: i64 = -1;

fn consumers(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (key, name) = (args.required()?, args.required()?);
    let now = ctx.now_millis().0;
    let tells_activity = ctx.config().profile.has(feature::CONSUMER_ACTIVITY);
    let stream = ctx.read::<Stream>(key)?.ok_or_else(no_such_key)?;
    let group = stream.group(name).ok_or_else(|| no_group_of(key, name))?;
    let consumers = group.consumers().map(|consumer| {
        let since = |at: UnixMillis| now.wrapping_sub(at.0).max(0);
        let mut fields = vec![
            field("name", Reply::Bulk(consumer.name.clone())),
            number("pending", consumer.pending_count()),
            field("idle", Reply::Int(since(consumer.seen_at))),
        ];
        if tells_activity {
            let inactive = consumer.active_at.map_or(NEVER, since);
            fields.push(field("inactive", Reply::Int(inactive)));
        }
        Reply::Map(fields)
    });
    Ok(Reply::Array(consumers.collect()))
}

const ACCESS: &[&str] = &["RO", "access"];

pub(crate) const COMMANDS: &[CommandSpec] =
    &[
        CommandSpec::container("xinfo", -2, Group::Stream, SUBCOMMANDS)
            .since("5.0.0")
            .summary("Facts about a stream."),
    ];

const SUBCOMMANDS: &[CommandSpec] = &[
    help::row(Group::Stream, "5.0.0"),
    row("stream", -3, stream)
        .flags(&[Flags::READONLY])
        .keys(2, 2, 1, ACCESS)
        .syntax("key [FULL full=([COUNT count:integer])]")
        .summary("Facts about a stream."),
    row("consumers", 4, consumers)
        .flags(&[Flags::READONLY])
        .keys(2, 2, 1, ACCESS)
        .tips(&["nondeterministic_output"])
        .syntax("key groupname")
        .summary("The consumers of a group."),
    row("groups", 3, groups)
        .flags(&[Flags::READONLY])
        .keys(2, 2, 1, ACCESS)
        .syntax("key")
        .summary("The groups of a stream."),
];
