//! Streams: entries that are added, read by range and removed. Reading after an id, which may block, is in
//! `read.rs`; consumer groups are in `group.rs`, claims in `claim.rs`, XINFO in `info.rs`.

pub(super) mod claim;
pub(super) mod group;
pub(super) mod info;
pub(super) mod read;

use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError};
use crate::engine::{
    Arg, Class, Config, Counters, Ctx, NewId, NodeLimits, Stream, StreamEntry, StreamId, Threshold,
    Trim, Value,
};
use crate::resp::Reply;

/// Largest size of an entry, in bytes (`STREAM_LISTPACK_MAX_SIZE`).
const ENTRY_BYTES_MAX: usize = 1 << 30;
/// Largest number of nodes that an approximate trimming removes if the request has no limit.
const TRIMMED_NODES_MAX: u64 = 100;
/// The same limit as a number of entries, if nodes have no limit of entries; and its upper bound.
const TRIMMED_ENTRIES: u64 = 10_000;
const TRIMMED_ENTRIES_MAX: u64 = 1_000_000;

fn invalid_id() -> CommandError {
    CommandError::Text("ERR Invalid stream ID specified as stream command argument".into())
}

/// An id without `-`, `+` or `(` (`t_stream.c: streamParseStrictIDOrReply`).
fn strict_id(text: &[u8]) -> Result<StreamId, CommandError> {
    StreamId::parse(text, 0).ok_or_else(invalid_id)
}

/// One end of an interval, and whether the interval excludes it (`t_stream.c: streamParseIntervalIDOrReply`).
fn bound(text: &[u8], missing_seq: u64) -> Result<(StreamId, bool), CommandError> {
    let (id, is_excluded) = match text {
        b"-" => (Some(StreamId::MIN), false),
        b"+" => (Some(StreamId::MAX), false),
        [b'(', id @ ..] if !id.is_empty() => (StreamId::parse(id, missing_seq), true),
        id => (StreamId::parse(id, missing_seq), false),
    };
    Ok((id.ok_or_else(invalid_id)?, is_excluded))
}

/// The first id of an interval.
fn start_of(text: &[u8]) -> Result<StreamId, CommandError> {
    let (id, is_excluded) = bound(text, 0)?;
    let id = if is_excluded { id.next() } else { Some(id) };
    id.ok_or_else(|| CommandError::Text("ERR invalid start ID for the interval".into()))
}

/// The last id of an interval.
fn end_of(text: &[u8]) -> Result<StreamId, CommandError> {
    let (id, is_excluded) = bound(text, u64::MAX)?;
    let id = if is_excluded { id.previous() } else { Some(id) };
    id.ok_or_else(|| CommandError::Text("ERR invalid end ID for the interval".into()))
}

fn id_reply(id: StreamId) -> Reply {
    Reply::Bulk(id.to_blob())
}

/// An entry: its id, and its fields and values.
fn entry_reply(entry: StreamEntry<'_>) -> Reply {
    let mut fields = Vec::with_capacity(2 * entry.fields.count_left());
    for (field, value) in entry.fields {
        fields.push(Reply::Bulk(field));
        fields.push(Reply::Bulk(value));
    }
    Reply::Array(vec![id_reply(entry.id), Reply::Array(fields)])
}

fn limits(config: &Config) -> NodeLimits {
    NodeLimits {
        bytes: config.stream_node_max_bytes,
        entries: config.stream_node_max_entries,
    }
}

/// Returns the position of the last argument that was read.
fn place_before(args: &Args<'_>) -> usize {
    args.request().len() - args.remaining() - 1
}

/// Options before the id of XADD, and of XTRIM.
#[derive(Default)]
struct Options {
    threshold: Option<Threshold>,
    /// Position of the threshold in the request.
    threshold_at: usize,
    is_approximate: bool,
    limit: Option<i64>,
    only_existing: bool,
}

impl Options {
    /// Reads one option; false if there is none (`t_stream.c: streamParseAddOrTrimArgsOrReply`).
    fn read(&mut self, args: &mut Args<'_>) -> Result<bool, CommandError> {
        let has_more = args.remaining() > 1;
        if has_more && args.keyword("MAXLEN") {
            self.operator(args)?;
            let len = args.integer()?;
            let len = u64::try_from(len)
                .map_err(|_| CommandError::Text("ERR The MAXLEN argument must be >= 0.".into()))?;
            self.threshold = Some(Threshold::MaxLen(len));
            self.threshold_at = place_before(args);
        } else if has_more && args.keyword("MINID") {
            self.operator(args)?;
            self.threshold = Some(Threshold::MinId(strict_id(args.required()?)?));
            self.threshold_at = place_before(args);
        } else if has_more && args.keyword("LIMIT") {
            let limit = args.integer()?;
            if limit < 0 {
                return Err(CommandError::Text(
                    "ERR The LIMIT argument must be >= 0.".into(),
                ));
            }
            self.limit = Some(limit);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Returns the exact trimming for replicas: an approximate one depends on the nodes of the stream.
    fn exact<'a>(&self, stream: &Stream) -> Vec<(usize, Arg<'a>)> {
        let Some(threshold) = self.threshold.filter(|_| self.is_approximate) else {
            return Vec::new();
        };
        let left = match threshold {
            Threshold::MaxLen(_) => Arg::Number(stream.len() as i64),
            Threshold::MinId(_) => {
                let first = stream.first().map_or(StreamId::MIN, |entry| entry.id);
                Arg::Id(first)
            }
        };
        vec![
            (self.threshold_at - 1, b"=".into()),
            (self.threshold_at, left),
        ]
    }

    /// `~` or `=`, unless it is the last argument.
    fn operator(&mut self, args: &mut Args<'_>) -> Result<(), CommandError> {
        if self.threshold.is_some() {
            return Err(CommandError::Text(
                "ERR syntax error, MAXLEN and MINID options at the same time are not compatible"
                    .into(),
            ));
        }
        let is_operator = args.remaining() > 1 && matches!(args.peek(), Some(b"~" | b"="));
        self.is_approximate = is_operator && args.next() == Some(b"~");
        Ok(())
    }

    /// Returns the trimming of the options.
    fn trim(&self, config: &Config) -> Result<Option<Trim>, CommandError> {
        let error = |text: &'static str| Err(CommandError::Text(text.into()));
        let Some(threshold) = self.threshold else {
            return match self.limit {
                None => Ok(None),
                Some(0) => {
                    error("ERR syntax error, LIMIT cannot be used without the special ~ option")
                }
                Some(_) => error(
                    "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
                ),
            };
        };
        let limit = match self.limit {
            Some(_) if !self.is_approximate => {
                return error(
                    "ERR syntax error, LIMIT cannot be used without the special ~ option",
                );
            }
            Some(limit) => limit.unsigned_abs(),
            None if !self.is_approximate => 0,
            None => match TRIMMED_NODES_MAX.saturating_mul(config.stream_node_max_entries as u64) {
                0 => TRIMMED_ENTRIES,
                limit => limit.min(TRIMMED_ENTRIES_MAX),
            },
        };
        Ok(Some(Trim {
            threshold,
            is_approximate: self.is_approximate,
            limit,
        }))
    }
}

fn xadd(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let key = args.required()?;
    let mut options = Options::default();
    let (mut new_id, mut id_at) = (None, 0);
    while !args.is_empty() {
        if args.peek() == Some(b"*") || !options.read(args)? {
            if args.keyword("NOMKSTREAM") {
                options.only_existing = true;
                continue;
            }
            new_id = Some(NewId::parse(args.required()?).ok_or_else(invalid_id)?);
            id_at = place_before(args);
            break;
        }
    }
    let trim = options.trim(ctx.config())?;
    let (Some(new_id), true) = (
        new_id,
        args.remaining() >= 2 && args.remaining().is_multiple_of(2),
    ) else {
        return Err(CommandError::Arity {
            command: "xadd".to_owned(),
        });
    };
    if new_id == NewId::Given(StreamId::MIN) {
        return Err(CommandError::Text(
            "ERR The ID specified in XADD must be greater than 0-0".into(),
        ));
    }
    let mut fields = Vec::with_capacity(args.remaining() / 2);
    while let (Some(field), Some(value)) = (args.next(), args.next()) {
        fields.push((field, value));
    }
    let is_propagated = ctx.is_propagated();
    let (limits, now) = (
        limits(ctx.config()),
        ctx.now_millis().0.max(0).unsigned_abs(),
    );
    if ctx.write::<Stream>(key)?.is_none() {
        if options.only_existing {
            return Ok(Reply::Nil);
        }
        ctx.add(key, Value::Stream(Stream::default()));
    }
    let Some(stream) = ctx.write_again::<Stream>(key)? else {
        return Ok(Reply::Nil);
    };
    if stream.last_id() == StreamId::MAX {
        return Err(CommandError::Text(
            "ERR The stream has exhausted the last possible ID, unable to add more items".into(),
        ));
    }
    let Some(id) = new_id.resolve(stream.last_id(), now) else {
        return Err(CommandError::Text(
            "ERR The ID specified in XADD is equal or smaller than the target stream top item"
                .into(),
        ));
    };
    let bytes = fields
        .iter()
        .map(|(field, value)| field.len() + value.len());
    if bytes.sum::<usize>() > ENTRY_BYTES_MAX {
        return Err(CommandError::Text(
            "ERR Elements are too large to be stored".into(),
        ));
    }
    stream.append(id, &fields, limits);
    let trimmed = trim.map_or(0, |trim| stream.trim(trim));
    if is_propagated {
        let mut edits = options.exact(stream);
        edits.push((id_at, id.into()));
        ctx.propagate_edited(args.request(), &edits);
    }
    ctx.replies_here();
    ctx.touched(key);
    ctx.notify(Class::Stream, "xadd", key);
    if trimmed > 0 {
        ctx.notify(Class::Stream, "xtrim", key);
    }
    ctx.signal_stream(key);
    Ok(id_reply(id))
}

fn xtrim(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let key = args.required()?;
    let mut options = Options::default();
    while !args.is_empty() {
        if !options.read(args)? {
            return Err(CommandError::Syntax);
        }
    }
    let trim = match (options.threshold, options.limit) {
        (None, None | Some(0)) => {
            return Err(CommandError::Text(
                "ERR syntax error, XTRIM must be called with a trimming strategy".into(),
            ));
        }
        _ => options.trim(ctx.config())?,
    };
    let (Some(stream), Some(trim)) = (ctx.write::<Stream>(key)?, trim) else {
        return Ok(Reply::Int(0));
    };
    let deleted = stream.trim(trim);
    if deleted > 0 {
        let edits = options.exact(stream);
        ctx.propagate_edited(args.request(), &edits);
        ctx.touched(key);
        ctx.notify(Class::Stream, "xtrim", key);
    }
    Ok(Reply::Int(deleted as i64))
}

fn xdel(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let key = args.required()?;
    if ctx.write::<Stream>(key)?.is_none() {
        return Ok(Reply::Int(0));
    }
    let ids: Vec<StreamId> = args.rest().map(strict_id).collect::<Result<_, _>>()?;
    let deleted = ctx
        .write_again::<Stream>(key)?
        .map_or(0, |stream| stream.delete(&ids));
    if deleted > 0 {
        ctx.touched(key);
        ctx.notify(Class::Stream, "xdel", key);
    }
    Ok(Reply::Int(deleted as i64))
}

fn xlen(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let stream = ctx.read::<Stream>(args.required()?)?;
    Ok(Reply::Int(stream.map_or(0, |stream| stream.len() as i64)))
}

/// `t_stream.c: xrangeGenericCommand`.
fn range(ctx: &mut Ctx<'_>, args: &mut Args<'_>, is_back: bool) -> CommandResult {
    let (key, first, second) = (args.required()?, args.required()?, args.required()?);
    let (start, end) = if is_back {
        (second, first)
    } else {
        (first, second)
    };
    let (start, end) = (start_of(start)?, end_of(end)?);
    let mut count = usize::MAX;
    while !args.is_empty() {
        if args.remaining() < 2 || !args.keyword("COUNT") {
            return Err(CommandError::Syntax);
        }
        count = usize::try_from(args.integer()?).unwrap_or(0);
    }
    let Some(stream) = ctx.read::<Stream>(key)? else {
        return Ok(Reply::Array(Vec::new()));
    };
    if count == 0 {
        return Ok(Reply::NilArray);
    }
    Ok(Reply::Array(if is_back {
        let entries = stream.range_back(start, end).take(count);
        entries.map(entry_reply).collect()
    } else {
        let entries = stream.range(start, end).take(count);
        entries.map(entry_reply).collect()
    }))
}

fn xrange(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    range(ctx, args, false)
}

fn xrevrange(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    range(ctx, args, true)
}

fn xsetid(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let error = |text: &'static str| Err(CommandError::Text(text.into()));
    let (key, id) = (args.required()?, strict_id(args.required()?)?);
    let (mut added, mut max_deleted) = (None, StreamId::MIN);
    while !args.is_empty() {
        if args.remaining() > 1 && args.keyword("ENTRIESADDED") {
            let Ok(given) = u64::try_from(args.integer()?) else {
                return error("ERR entries_added must be positive");
            };
            added = Some(given);
        } else if args.remaining() > 1 && args.keyword("MAXDELETEDID") {
            max_deleted = strict_id(args.required()?)?;
            if id < max_deleted {
                return error(
                    "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
                );
            }
        } else {
            return Err(CommandError::Syntax);
        }
    }
    let Some(stream) = ctx.write::<Stream>(key)? else {
        return error("ERR no such key");
    };
    let counters = stream.counters();
    if stream.last().is_some_and(|last| id < last.id) {
        return error("ERR The ID specified in XSETID is smaller than the target stream top item");
    }
    if stream.len() > 0 && added.is_some_and(|added| added < stream.len()) {
        return error(
            "ERR The entries_added specified in XSETID is smaller than the target stream length",
        );
    }
    stream.set_counters(Counters {
        last_id: id,
        entries_added: added.unwrap_or(counters.entries_added),
        max_deleted_id: if max_deleted == StreamId::MIN {
            counters.max_deleted_id
        } else {
            max_deleted
        },
        ..counters
    });
    ctx.replies_here();
    ctx.touched_quietly(key);
    ctx.notify(Class::Stream, "xsetid", key);
    Ok(Reply::Ok)
}

pub(crate) const COMMANDS: &[CommandSpec] = &[
    row("xadd", -5, xadd)
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .keys(1, 1, 1, &["RW", "update"])
        .key_notes("UPDATE instead of INSERT because of the optional trimming feature")
        .tips(&["nondeterministic_output"])
        .syntax(
            "key [NOMKSTREAM]@6.2.0 [trim=(strategy=(MAXLEN | MINID@6.2.0) [operator=(equal='=' | approximately='~')] \
             threshold [LIMIT count:integer]@6.2.0)] id_or_auto=(auto_id='*' | id) field_value=(field value)...",
        )
        .summary("Adds an entry at the end of a stream."),
    row("xlen", 2, xlen)
        .flags(&[Flags::READONLY, Flags::FAST])
        .keys(1, 1, 1, &["RO"])
        .syntax("key")
        .summary("The number of entries."),
    row("xrange", -4, xrange)
        .flags(&[Flags::READONLY])
        .keys(1, 1, 1, &["RO", "access"])
        .syntax("key start end [COUNT count:integer]")
        .summary("Entries between two ids."),
    row("xrevrange", -4, xrevrange)
        .flags(&[Flags::READONLY])
        .keys(1, 1, 1, &["RO", "access"])
        .syntax("key end start [COUNT count:integer]")
        .summary("Entries between two ids, the last one first."),
    row("xdel", -3, xdel)
        .flags(&[Flags::WRITE, Flags::FAST])
        .keys(1, 1, 1, &["RW", "delete"])
        .syntax("key id...")
        .summary("Deletes entries by their ids."),
    row("xtrim", -4, xtrim)
        .flags(&[Flags::WRITE])
        .keys(1, 1, 1, &["RW", "delete"])
        .tips(&["nondeterministic_output"])
        .syntax(
            "key trim=(strategy=(MAXLEN | MINID@6.2.0) [operator=(equal='=' | approximately='~')] threshold \
             [LIMIT count:integer]@6.2.0)",
        )
        .summary("Removes the oldest entries."),
    row("xsetid", -3, xsetid)
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .keys(1, 1, 1, &["RW", "update"])
        .syntax(
            "key last-id [ENTRIESADDED entries_added:integer]@7.0.0 [MAXDELETEDID max_deleted_entry_id]@7.0.0",
        )
        .summary("Sets the last id of a stream, for replicas."),
];

const fn row(
    name: &'static str,
    arity: i32,
    handler: crate::command::spec::Handler,
) -> CommandSpec {
    CommandSpec::new(name, arity, Group::Stream, handler).since("5.0.0")
}
