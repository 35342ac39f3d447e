//! Consumer groups of streams: commands that create and change them, and their pending entries.

use super::{end_of, id_reply, row, start_of, strict_id};
use crate::command::help;
use crate::command::spec::{CommandResult, CommandSpec, Flags, Group};
use crate::engine::{Args, CommandError};
use crate::engine::{Class, ConsumerGroup, ConsumerNumber, Ctx, Origin, Stream, StreamId, Value};
use crate::resp::Reply;

/// Returns the part of a text that C's `%s` prints.
fn c_text(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Error: the key or the group is missing.
pub(super) fn no_group(key: &[u8], group: &[u8], end: &str) -> CommandError {
    let (key, group) = (c_text(key), c_text(group));
    let parts = [
        b"NOGROUP No such key '",
        key,
        b"' or consumer group '",
        group,
        end.as_bytes(),
    ];
    CommandError::Echo(parts.concat())
}

/// Error: the key exists, the group does not.
pub(super) fn no_group_of(key: &[u8], group: &[u8]) -> CommandError {
    let (key, group) = (c_text(key), c_text(group));
    let parts: [&[u8]; 5] = [
        b"NOGROUP No such consumer group '",
        group,
        b"' for key name '",
        key,
        b"'",
    ];
    CommandError::Echo(parts.concat())
}

/// Returns the consumer of a group, and creates it if it is missing; `None` without the group.
pub(super) fn consumer(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    group: &[u8],
    name: &[u8],
) -> Result<Option<ConsumerNumber>, CommandError> {
    let now = ctx.now_millis();
    let Some(group) = ctx
        .write_again::<Stream>(key)?
        .and_then(|stream| stream.group_mut(group))
    else {
        return Ok(None);
    };
    if let Some(number) = group.find_consumer(name) {
        group.see(number, now);
        return Ok(Some(number));
    }
    let number = group.add_consumer(name, now);
    // Redis has started its reply at this point, unless the client has waited (`blocked.c:
    // serveClientsBlockedOnStreamKey`).
    if ctx.origin != Origin::Retry {
        ctx.replies_here();
    }
    told_of_consumer(ctx, key);
    Ok(number)
}

/// Propagates a pending entry (`t_stream.c: streamPropagateXCLAIM`).
pub(super) fn propagate_pending(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    group: &[u8],
    id: StreamId,
) -> Result<(), CommandError> {
    propagate_entry(ctx, key, group, id, None)
}

fn propagate_entry(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    group: &[u8],
    id: StreamId,
    read_up_to: Option<StreamId>,
) -> Result<(), CommandError> {
    if !ctx.is_propagated() {
        return Ok(());
    }
    let stream = ctx.write_again::<Stream>(key)?;
    let Some(found) = stream.and_then(|stream| stream.group(group)) else {
        return Ok(());
    };
    let Some(pending) = found.pending().get(id) else {
        return Ok(());
    };
    let Some(owner) = found.consumer(pending.consumer) else {
        return Ok(());
    };
    let (owner, last_id) = (owner.name.clone(), read_up_to.unwrap_or(found.last_id));
    let (delivered_at, deliveries) = (pending.delivered_at, pending.deliveries as i64);
    ctx.also_propagate(&[
        b"XCLAIM".into(),
        key.into(),
        group.into(),
        (&*owner).into(),
        b"0".into(),
        id.into(),
        b"TIME".into(),
        delivered_at.into(),
        b"RETRYCOUNT".into(),
        deliveries.into(),
        b"FORCE".into(),
        b"JUSTID".into(),
        b"LASTID".into(),
        last_id.into(),
    ]);
    Ok(())
}

/// Propagates entries that were delivered one by one: each names the last id of the group at that time.
pub(super) fn propagate_deliveries(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    group: &[u8],
    ids: &[StreamId],
) -> Result<(), CommandError> {
    for id in ids {
        propagate_entry(ctx, key, group, *id, Some(*id))?;
    }
    Ok(())
}

/// Propagates the last id of a group, if no pending entry does (`t_stream.c: streamPropagateGroupID`).
pub(super) fn propagate_last_id(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    group: &[u8],
) -> Result<(), CommandError> {
    if !ctx.is_propagated() {
        return Ok(());
    }
    let stream = ctx.write_again::<Stream>(key)?;
    let Some(found) = stream.and_then(|stream| stream.group(group)) else {
        return Ok(());
    };
    let last_id = found.last_id;
    let read = found.entries_read.map_or(-1, |read| read as i64);
    ctx.also_propagate(&[
        b"XGROUP".into(),
        b"SETID".into(),
        key.into(),
        group.into(),
        last_id.into(),
        b"ENTRIESREAD".into(),
        read.into(),
    ]);
    Ok(())
}

/// Propagates a consumer that no pending entry names (`t_stream.c: streamPropagateConsumerCreation`).
pub(super) fn propagate_consumer(ctx: &mut Ctx<'_>, key: &[u8], group: &[u8], name: &[u8]) {
    ctx.also_propagate(&[
        b"XGROUP".into(),
        b"CREATECONSUMER".into(),
        key.into(),
        group.into(),
        name.into(),
    ]);
}

/// Signals a new consumer.
fn told_of_consumer(ctx: &mut Ctx<'_>, key: &[u8]) {
    ctx.touched_quietly(key);
    ctx.notify(Class::Stream, "xgroup-createconsumer", key);
}

/// Common first arguments of the subcommands of XGROUP.
struct Target<'a> {
    key: &'a [u8],
    group: &'a [u8],
}

impl<'a> Target<'a> {
    fn parse(args: &mut Args<'a>) -> Result<Self, CommandError> {
        Ok(Self {
            key: args.required()?,
            group: args.required()?,
        })
    }

    /// Looks the stream up, after all options are parsed.
    fn look_up(&self, ctx: &mut Ctx<'_>) {
        ctx.find(self.key);
    }

    /// Returns the stream that was looked up; an error if it is missing.
    fn stream<'b>(&self, ctx: &'b mut Ctx<'_>) -> Result<&'b mut Stream, CommandError> {
        ctx.write_again::<Stream>(self.key)?.ok_or_else(|| {
            CommandError::Text(
                "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the \
                 MKSTREAM option to create an empty stream automatically."
                    .into(),
            )
        })
    }

    /// Returns the group; an error if it is missing.
    fn existing<'b>(&self, ctx: &'b mut Ctx<'_>) -> Result<&'b mut ConsumerGroup, CommandError> {
        let group = self.stream(ctx)?.group_mut(self.group);
        group.ok_or_else(|| no_group_of(self.key, self.group))
    }
}

/// Options of CREATE and SETID after the id.
#[derive(Default)]
struct GroupOptions {
    makes_stream: bool,
    entries_read: Option<u64>,
}

impl GroupOptions {
    fn parse(args: &mut Args<'_>, is_create: bool) -> Result<Self, CommandError> {
        let mut options = Self::default();
        while !args.is_empty() {
            if is_create && args.keyword("MKSTREAM") {
                options.makes_stream = true;
            } else if args.remaining() > 1 && args.keyword("ENTRIESREAD") {
                options.entries_read = match args.integer()? {
                    -1 => None,
                    read if read < 0 => {
                        return Err(CommandError::Text(
                            "ERR value for ENTRIESREAD must be positive or -1".into(),
                        ));
                    }
                    read => Some(read.unsigned_abs()),
                };
            } else {
                return Err(args.subcommand_syntax());
            }
        }
        Ok(options)
    }
}

/// Largest number of arguments of CREATE, including its name.
const CREATE_ARGS_MAX: usize = 8;
/// Largest number of arguments of SETID, including its name.
const SETID_ARGS_MAX: usize = 7;

fn create(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (target, id) = (Target::parse(args)?, args.required()?);
    let options = GroupOptions::parse(args, true)?;
    target.look_up(ctx);
    if !options.makes_stream {
        target.stream(ctx)?;
    }
    if args.request().len() > CREATE_ARGS_MAX {
        return Err(args.subcommand_syntax());
    }
    let stream = ctx.read_again::<Stream>(target.key)?;
    let last_id = match id {
        b"$" => stream
            .as_ref()
            .map_or(StreamId::MIN, |stream| stream.last_id()),
        id => strict_id(id)?,
    };
    if stream.is_none() {
        ctx.add(target.key, Value::Stream(Stream::default()));
        ctx.touched(target.key);
    }
    let group = ConsumerGroup::new(last_id, options.entries_read);
    if !target.stream(ctx)?.add_group(target.group, group) {
        return Err(CommandError::Text(
            "BUSYGROUP Consumer Group name already exists".into(),
        ));
    }
    ctx.replies_here();
    ctx.touched_quietly(target.key);
    ctx.notify(Class::Stream, "xgroup-create", target.key);
    Ok(Reply::Ok)
}

fn setid(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (target, id) = (Target::parse(args)?, args.required()?);
    let options = GroupOptions::parse(args, false)?;
    target.look_up(ctx);
    target.existing(ctx)?;
    if args.request().len() > SETID_ARGS_MAX {
        return Err(args.subcommand_syntax());
    }
    let last_id = match id {
        b"$" => target.stream(ctx)?.last_id(),
        // Unlike CREATE, SETID takes the ends of all ids.
        b"-" => StreamId::MIN,
        b"+" => StreamId::MAX,
        id => strict_id(id)?,
    };
    let group = target.existing(ctx)?;
    (group.last_id, group.entries_read) = (last_id, options.entries_read);
    ctx.replies_here();
    ctx.touched_quietly(target.key);
    ctx.notify(Class::Stream, "xgroup-setid", target.key);
    Ok(Reply::Ok)
}

fn destroy(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let target = Target::parse(args)?;
    target.look_up(ctx);
    if !target.stream(ctx)?.remove_group(target.group) {
        return Ok(Reply::Int(0));
    }
    ctx.replies_here();
    ctx.touched_quietly(target.key);
    ctx.notify(Class::Stream, "xgroup-destroy", target.key);
    // Clients that wait for the group get an error.
    ctx.signal_stream(target.key);
    Ok(Reply::Int(1))
}

fn createconsumer(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (target, name) = (Target::parse(args)?, args.required()?);
    let now = ctx.now_millis();
    target.look_up(ctx);
    if target.existing(ctx)?.add_consumer(name, now).is_none() {
        return Ok(Reply::Int(0));
    }
    told_of_consumer(ctx, target.key);
    Ok(Reply::Int(1))
}

fn delconsumer(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (target, name) = (Target::parse(args)?, args.required()?);
    target.look_up(ctx);
    let Some(pending) = target.existing(ctx)?.remove_consumer(name) else {
        return Ok(Reply::Int(0));
    };
    ctx.touched_quietly(target.key);
    ctx.notify(Class::Stream, "xgroup-delconsumer", target.key);
    Ok(Reply::Int(pending as i64))
}

fn xack(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (key, name) = (args.required()?, args.required()?);
    let stream = ctx.read::<Stream>(key)?;
    if stream.is_none_or(|stream| stream.group(name).is_none()) {
        return Ok(Reply::Int(0));
    }
    let ids: Vec<StreamId> = args.rest().map(strict_id).collect::<Result<_, _>>()?;
    let group = ctx
        .write_again::<Stream>(key)?
        .and_then(|stream| stream.group_mut(name));
    let count = group.map_or(0, |group| {
        ids.into_iter().filter(|id| group.acknowledge(*id)).count()
    });
    if count > 0 {
        ctx.touched_quietly(key);
    }
    Ok(Reply::Int(count as i64))
}

/// Selection of pending entries in XPENDING.
struct Filter<'a> {
    min_idle: i64,
    start: StreamId,
    end: StreamId,
    count: usize,
    consumer: Option<&'a [u8]>,
}

impl<'a> Filter<'a> {
    /// `None` for the summary.
    fn parse(args: &mut Args<'a>) -> Result<Option<Self>, CommandError> {
        match args.remaining() {
            0 => return Ok(None),
            3..=6 => {}
            _ => return Err(CommandError::Syntax),
        }
        let mut min_idle = 0;
        if args.keyword("IDLE") {
            min_idle = args.integer()?;
            if args.remaining() < 3 {
                return Err(CommandError::Syntax);
            }
        }
        let (start, end) = (args.required()?, args.required()?);
        let count = usize::try_from(args.integer()?).unwrap_or(0);
        Ok(Some(Self {
            min_idle,
            start: start_of(start)?,
            end: end_of(end)?,
            count,
            consumer: args.next(),
        }))
    }

    fn list(&self, group: &ConsumerGroup, now: i64) -> Reply {
        let number = match self.consumer.map(|name| group.find_consumer(name)) {
            Some(None) => return Reply::Array(Vec::new()),
            Some(number) => number,
            None => None,
        };
        let all = group.pending().iter_from(self.start);
        let within = all.take_while(|(id, _)| *id <= self.end);
        let wanted = within
            .filter(|(_, pending)| number.is_none_or(|number| pending.consumer == number))
            .filter(|(_, pending)| {
                self.min_idle == 0 || now.wrapping_sub(pending.delivered_at.0) >= self.min_idle
            });
        let describe = |(id, pending): (StreamId, &crate::engine::Pending)| {
            let name = group.consumer(pending.consumer);
            let name = name.map_or(Reply::Nil, |consumer| Reply::Bulk(consumer.name.clone()));
            Reply::Array(vec![
                id_reply(id),
                name,
                Reply::Int(now.wrapping_sub(pending.delivered_at.0).max(0)),
                Reply::Int(pending.deliveries as i64),
            ])
        };
        Reply::Array(wanted.take(self.count).map(describe).collect())
    }
}

fn summary(group: &ConsumerGroup) -> Reply {
    let pending = group.pending();
    let (Some((first, _)), Some((last, _))) = (pending.first(), pending.last()) else {
        return Reply::Array(vec![Reply::Int(0), Reply::Nil, Reply::Nil, Reply::NilArray]);
    };
    let busy = group
        .consumers()
        .filter(|consumer| consumer.pending_count() > 0);
    let consumers = busy.map(|consumer| {
        Reply::Array(vec![
            Reply::Bulk(consumer.name.clone()),
            Reply::bulk(consumer.pending_count().to_string()),
        ])
    });
    Reply::Array(vec![
        Reply::Int(pending.len() as i64),
        id_reply(first),
        id_reply(last),
        Reply::Array(consumers.collect()),
    ])
}

fn xpending(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (key, name) = (args.required()?, args.required()?);
    let filter = Filter::parse(args)?;
    let now = ctx.now_millis().0;
    let stream = ctx.read::<Stream>(key)?;
    let Some(group) = stream.and_then(|stream| stream.group(name)) else {
        return Err(no_group(key, name, "'"));
    };
    Ok(match filter {
        None => summary(group),
        Some(filter) => filter.list(group, now),
    })
}

const WRITE: &[Flags] = &[Flags::WRITE];
const STORE: &[Flags] = &[Flags::WRITE, Flags::DENYOOM];

pub(crate) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::container("xgroup", -2, Group::Stream, SUBCOMMANDS)
        .since("5.0.0")
        .summary("Consumer groups."),
    row("xack", -4, xack)
        .flags(&[Flags::WRITE, Flags::FAST])
        .keys(1, 1, 1, &["RW", "update"])
        .syntax("key group id...")
        .summary("Acknowledges entries: they are no longer pending."),
    row("xpending", -3, xpending)
        .flags(&[Flags::READONLY])
        .keys(1, 1, 1, &["RO", "access"])
        .tips(&["nondeterministic_output"])
        .syntax("key group [filters=([IDLE min-idle-time:integer]@6.2.0 start end count:integer [consumer])]")
        .summary("Pending entries of a group."),
];

const SUBCOMMANDS: &[CommandSpec] = &[
    help::row(Group::Stream, "5.0.0"),
    row("setid", -5, setid)
        .flags(WRITE)
        .keys(2, 2, 1, &["RW", "update"])
        .syntax("key groupname id=(id | new_id='$') [ENTRIESREAD entries_read:integer]")
        .summary("Sets the last delivered id of a group."),
    row("createconsumer", 5, createconsumer)
        .flags(STORE)
        .keys(2, 2, 1, &["RW", "insert"])
        .since("6.2.0")
        .syntax("key groupname consumername")
        .summary("Adds a consumer to a group."),
    row("destroy", 4, destroy)
        .flags(WRITE)
        .keys(2, 2, 1, &["RW", "delete"])
        .syntax("key groupname")
        .summary("Removes a group."),
    row("delconsumer", 5, delconsumer)
        .flags(WRITE)
        .keys(2, 2, 1, &["RW", "delete"])
        .syntax("key groupname consumername")
        .summary("Removes a consumer and its pending entries."),
    row("create", -5, create)
        .flags(STORE)
        .keys(2, 2, 1, &["RW", "insert"])
        .syntax("key groupname id=(id | new_id='$') [MKSTREAM] [ENTRIESREAD entries_read:integer]")
        .summary("Adds a group to a stream."),
];
