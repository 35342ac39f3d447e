//! Streams: reading after an id, by XREAD, or by XREADGROUP as a consumer of a group. Both may block.
//!
//! *Policy* (`t_stream.c: xreadCommand`, `blocked.c: serveClientsBlockedOnStreamKey`): a blocked request
//! keeps its initial ids, so `$` is the last id of that time. It is run again for one stream with new
//! entries. XREADGROUP also ends with an error if its stream or its group is deleted.

use super::group::{consumer, propagate_consumer, propagate_deliveries, propagate_last_id};
use super::{entry_reply, id_reply, row, strict_id};
use crate::command::spec::{CommandResult, CommandSpec, Flags};
use crate::engine::{Args, CommandError};
use crate::engine::{ConsumerNumber, Ctx, Origin, Stream, StreamId};
use crate::resp::{Reply, parse_integer};
use std::time::Duration;

/// Largest number of entries for a request without COUNT that has waited (`XREAD_BLOCKED_DEFAULT_COUNT`).
const COUNT_AFTER_WAIT: usize = 1000;

/// A reading consumer.
#[derive(Clone, Copy)]
struct Reader<'a> {
    group: &'a [u8],
    consumer: &'a [u8],
    keeps_pending: bool,
}

/// Position after which a request reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    /// After this id. With a group: the pending entries of the consumer.
    Id(StreamId),
    /// `>`: entries that the group has not delivered.
    New,
}

/// A reading request.
struct Request<'a> {
    keys: Vec<&'a [u8]>,
    ids: Vec<&'a [u8]>,
    reader: Option<Reader<'a>>,
    /// 0 for all.
    count: usize,
    /// `BLOCK`; inner `None` waits forever.
    block: Option<Option<Duration>>,
}

/// `timeout.c: getTimeoutFromObjectOrReply`, in milliseconds; `None` waits forever.
fn timeout(ctx: &Ctx<'_>, text: &[u8]) -> Result<Option<Duration>, CommandError> {
    let error = |text: &'static str| CommandError::Text(text.into());
    let millis = parse_integer(text)
        .ok_or_else(|| error("ERR timeout is not an integer or out of range"))?;
    if millis < 0 {
        return Err(error("ERR timeout is negative"));
    }
    // A timeout beyond the largest time never ends.
    let ends = millis > 0 && ctx.now_millis().0.checked_add(millis).is_some();
    Ok(ends.then(|| Duration::from_millis(millis.unsigned_abs())))
}

impl<'a> Request<'a> {
    fn parse(ctx: &Ctx<'_>, args: &mut Args<'a>, has_group: bool) -> Result<Self, CommandError> {
        let error = |text: &'static str| Err(CommandError::Text(text.into()));
        let name = args.request().name();
        let (mut reader, mut keeps_pending) = (None, true);
        let (mut count, mut block) = (0, None);
        let mut streams = Vec::new();
        while !args.is_empty() {
            let more = args.remaining() - 1;
            if more > 0 && args.keyword("BLOCK") {
                if ctx.origin == Origin::Script {
                    let text = " command is not allowed with BLOCK option from scripts";
                    return Err(CommandError::echoing("ERR ", name, text));
                }
                block = Some(timeout(ctx, args.required()?)?);
            } else if more > 0 && args.keyword("COUNT") {
                count = usize::try_from(args.integer()?).unwrap_or(0);
            } else if more > 0 && args.keyword("STREAMS") {
                streams = args.rest().collect();
                if !streams.len().is_multiple_of(2) {
                    return error(
                        "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.",
                    );
                }
            } else if more > 1 && args.keyword("GROUP") {
                if !has_group {
                    return error(
                        "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.",
                    );
                }
                reader = Some((args.required()?, args.required()?));
            } else if args.keyword("NOACK") {
                if !has_group {
                    return error(
                        "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.",
                    );
                }
                keeps_pending = false;
            } else {
                return Err(CommandError::Syntax);
            }
        }
        if streams.is_empty() {
            return Err(CommandError::Syntax);
        }
        if has_group && reader.is_none() {
            return error("ERR Missing GROUP option for XREADGROUP");
        }
        let ids = streams.split_off(streams.len() / 2);
        Ok(Self {
            keys: streams,
            ids,
            reader: reader.map(|(group, consumer)| Reader {
                group,
                consumer,
                keeps_pending,
            }),
            count,
            block,
        })
    }

    /// Returns the start in each stream. All ids are read before any effect.
    fn resolve(&self, ctx: &mut Ctx<'_>) -> Result<Vec<From>, CommandError> {
        let pairs = self.keys.iter().zip(&self.ids);
        pairs
            .map(|(key, id)| self.resolve_one(ctx, key, id))
            .collect()
    }

    fn resolve_one(&self, ctx: &mut Ctx<'_>, key: &[u8], id: &[u8]) -> Result<From, CommandError> {
        let error = |text: &'static str| Err(CommandError::Text(text.into()));
        let stream = ctx.read::<Stream>(key)?;
        if let Some(reader) = self.reader
            && stream.is_none_or(|stream| stream.group(reader.group).is_none())
        {
            return Err(super::group::no_group(
                key,
                reader.group,
                "' in XREADGROUP with GROUP option",
            ));
        }
        match id {
            b"$" if self.reader.is_some() => error(
                "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this \
                 consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return \
                 an empty result set.",
            ),
            b"$" => Ok(From::Id(stream.map_or(StreamId::MIN, Stream::last_id))),
            b">" if self.reader.is_none() => error(
                "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
            ),
            b">" => Ok(From::New),
            id => match strict_id(id)? {
                StreamId::MAX if self.reader.is_some() => Ok(From::New),
                id => Ok(From::Id(id)),
            },
        }
    }

    /// Returns the entries of one stream; `None` if there are none.
    fn read(
        &self,
        ctx: &mut Ctx<'_>,
        key: &[u8],
        from: From,
    ) -> Result<Option<Reply>, CommandError> {
        let Some(stream) = ctx.read::<Stream>(key)? else {
            return Ok(None);
        };
        let has_more = |id: StreamId| stream.last().is_some_and(|last| last.id > id);
        let Some(reader) = self.reader else {
            return Ok(match from {
                From::Id(id) if has_more(id) => Some(entries_behind(stream, id, self.count)),
                From::Id(_) | From::New => None,
            });
        };
        let Some(group) = stream.group(reader.group) else {
            return Ok(None);
        };
        match from {
            From::New if !has_more(group.last_id) => Ok(None),
            From::New => deliver(ctx, key, reader, self.count),
            From::Id(id) => history(ctx, key, reader, id, self.count),
        }
    }

    /// Returns the reply to a request that has waited, for the stream that woke it.
    fn read_after_wait(&self, ctx: &mut Ctx<'_>) -> CommandResult {
        let Some(retry) = ctx.retry().cloned() else {
            return Err(CommandError::Parked);
        };
        let count = if self.count == 0 {
            COUNT_AFTER_WAIT
        } else {
            self.count
        };
        let error = |text: &'static str| CommandError::Text(text.into());
        let stream = ctx.write_again::<Stream>(&retry.key);
        let entries = if let Some(reader) = self.reader {
            let gone = || error("UNBLOCKED the stream key no longer exists");
            let stream = stream.ok().flatten().ok_or_else(gone)?;
            let Some(group) = stream.group(reader.group) else {
                return Err(error(
                    "NOGROUP the consumer group this client was blocked on no longer exists",
                ));
            };
            if !retry.has_news || stream.last_id() <= group.last_id {
                return Err(CommandError::Parked);
            }
            deliver(ctx, &retry.key, reader, count)?
        } else {
            let Some(after) = retry.after.filter(|_| retry.has_news) else {
                return Err(CommandError::Parked);
            };
            stream?
                .filter(|stream| stream.last_id() > after)
                .map(|stream| entries_behind(stream, after, count))
        };
        match entries {
            Some(entries) => Ok(Reply::Streams(vec![(Reply::bulk(&retry.key), entries)])),
            None => Err(CommandError::Parked),
        }
    }
}

fn entries_behind(stream: &Stream, id: StreamId, count: usize) -> Reply {
    let Some(start) = id.next() else {
        return Reply::Array(Vec::new());
    };
    let count = if count == 0 { usize::MAX } else { count };
    let entries = stream.range(start, StreamId::MAX).take(count);
    Reply::Array(entries.map(entry_reply).collect())
}

/// Delivers entries that no consumer of the group has received.
fn deliver(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    reader: Reader<'_>,
    count: usize,
) -> Result<Option<Reply>, CommandError> {
    let now = ctx.now_millis();
    let Some(number) = consumer_of(ctx, key, reader)? else {
        return Ok(None);
    };
    let Some(stream) = ctx.write_again::<Stream>(key)? else {
        return Ok(None);
    };
    let last_id = stream
        .group(reader.group)
        .map_or(StreamId::MAX, |group| group.last_id);
    let Some(start) = last_id.next() else {
        return Ok(Some(Reply::Array(Vec::new())));
    };
    let count = if count == 0 { usize::MAX } else { count };
    let (mut ids, mut replies) = (Vec::new(), Vec::new());
    for entry in stream.range(start, StreamId::MAX).take(count) {
        ids.push(entry.id);
        replies.push(entry_reply(entry));
    }
    stream.deliver(
        reader.group,
        &ids,
        reader.keeps_pending.then_some((number, now)),
    );
    ctx.touched_quietly(key);
    if ctx.is_propagated() {
        if reader.keeps_pending {
            propagate_deliveries(ctx, key, reader.group, &ids)?;
        } else if !ids.is_empty() {
            propagate_last_id(ctx, key, reader.group)?;
        }
    }
    Ok(Some(Reply::Array(replies)))
}

/// Returns the consumer of a reader. Replicas learn of it by its pending entries, or by a command of its own.
fn consumer_of(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    reader: Reader<'_>,
) -> Result<Option<ConsumerNumber>, CommandError> {
    let stream = ctx.write_again::<Stream>(key)?;
    let group = stream.and_then(|stream| stream.group(reader.group));
    let is_known = group.is_some_and(|group| group.find_consumer(reader.consumer).is_some());
    let number = consumer(ctx, key, reader.group, reader.consumer)?;
    if !is_known && !reader.keeps_pending && ctx.is_propagated() {
        propagate_consumer(ctx, key, reader.group, reader.consumer);
    }
    Ok(number)
}

/// Delivers pending entries of the consumer again.
fn history(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    reader: Reader<'_>,
    after: StreamId,
    count: usize,
) -> Result<Option<Reply>, CommandError> {
    let now = ctx.now_millis();
    let Some(number) = consumer_of(ctx, key, reader)? else {
        return Ok(None);
    };
    let Some(stream) = ctx.write_again::<Stream>(key)? else {
        return Ok(None);
    };
    let pending = stream
        .group(reader.group)
        .and_then(|group| group.consumer(number));
    let count = if count == 0 { usize::MAX } else { count };
    let ids: Vec<StreamId> = match (pending, after.next()) {
        (Some(consumer), Some(start)) => consumer.pending_from(start).take(count).collect(),
        _ => Vec::new(),
    };
    let mut replies = Vec::with_capacity(ids.len());
    let mut there = Vec::new();
    for id in ids {
        replies.push(match stream.get(id) {
            Some(entry) => {
                there.push(id);
                entry_reply(entry)
            }
            None => Reply::Array(vec![id_reply(id), Reply::NilArray]),
        });
    }
    if let Some(group) = stream.group_mut(reader.group) {
        there
            .into_iter()
            .for_each(|id| group.deliver_again(id, now));
    }
    ctx.touched_quietly(key);
    Ok(Some(Reply::Array(replies)))
}

/// `t_stream.c: xreadCommand`.
fn read(ctx: &mut Ctx<'_>, args: &mut Args<'_>, has_group: bool) -> CommandResult {
    let request = Request::parse(ctx, args, has_group)?;
    // The changes of a group's reader are propagated one by one.
    ctx.propagate_nothing();
    if ctx.origin == Origin::Retry {
        return request.read_after_wait(ctx);
    }
    let from = request.resolve(ctx)?;
    let mut served = Vec::new();
    for (key, from) in request.keys.iter().zip(&from) {
        if let Some(entries) = request.read(ctx, key, *from)? {
            served.push((Reply::bulk(key), entries));
        }
    }
    if !served.is_empty() {
        return Ok(Reply::Streams(served));
    }
    let Some(timeout) = request.block else {
        return Ok(Reply::NilArray);
    };
    let after = from.into_iter().map(|from| match from {
        From::Id(id) => id,
        From::New => StreamId::MAX,
    });
    let after = (!has_group).then(|| after.collect());
    ctx.block_on_streams(&request.keys, after, timeout)
}

fn xread(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    read(ctx, args, false)
}

fn xreadgroup(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    read(ctx, args, true)
}

pub(crate) const COMMANDS: &[CommandSpec] = &[
    row("xread", -4, xread)
        .flags(&[Flags::READONLY, Flags::BLOCKING])
        .keys_after("STREAMS", 1, -1, 1, 2, &["RO", "access"])
        .syntax("[COUNT count:integer] [BLOCK milliseconds:integer] STREAMS streams=(key... id...)")
        .summary("Entries after an id of each stream; can wait for them."),
    row("xreadgroup", -7, xreadgroup)
        .flags(&[Flags::WRITE, Flags::BLOCKING])
        .keys_after("STREAMS", 4, -1, 1, 2, &["RO", "access"])
        .syntax(
            "GROUP group_consumer=(group consumer) [COUNT count:integer] [BLOCK milliseconds:integer] [NOACK] \
             STREAMS streams=(key... id...)",
        )
        .summary("Entries that the group has not delivered yet, or those pending for the consumer."),
];
