//! Lists: what is taken out, moved from one to another, and waited for.
//!
//! A blocking command looks at its keys as the one without `B` does, and asks to be run again when
//! none of them has anything to give.

use super::list::{push_event, removed};
use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError};
use crate::engine::{Class, Ctx, End, Kind, List, Origin, Ttl, Value};
use crate::resp::{Blob, LongDouble, Reply};
use std::time::Duration;

fn pop_event(end: End) -> &'static str {
    match end {
        End::Head => "lpop",
        End::Tail => "rpop",
    }
}

/// `t_list.c: getListPositionFromObjectOrReply`.
fn end(args: &mut Args<'_>) -> Result<End, CommandError> {
    match () {
        () if args.keyword("LEFT") => Ok(End::Head),
        () if args.keyword("RIGHT") => Ok(End::Tail),
        () => Err(CommandError::Syntax),
    }
}

/// Takes up to `count` elements from one end; `None` if there is no list.
fn take(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    end: End,
    count: usize,
) -> Result<Option<Vec<Reply>>, CommandError> {
    let Some(list) = ctx.write::<List>(key)? else {
        return Ok(None);
    };
    let count = count.min(list.len());
    let taken =
        (0..count).filter_map(|_| list.pop(end).map(|element| Reply::Bulk(element.to_blob())));
    let taken: Vec<Reply> = taken.collect();
    let is_empty = list.is_empty();
    ctx.replies_here();
    removed(ctx, key, pop_event(end), is_empty);
    Ok(Some(taken))
}

/// The same for one element.
fn take_one(ctx: &mut Ctx<'_>, key: &[u8], end: End) -> Result<Option<Blob>, CommandError> {
    let Some(list) = ctx.write::<List>(key)? else {
        return Ok(None);
    };
    let taken = list.pop(end).map(|element| element.to_blob());
    let is_empty = list.is_empty();
    ctx.replies_here();
    removed(ctx, key, pop_event(end), is_empty);
    Ok(taken)
}

/// `t_list.c: popGenericCommand`.
fn pop(ctx: &mut Ctx<'_>, args: &mut Args<'_>, end: End, command: &str) -> CommandResult {
    if args.remaining() > 2 {
        return Err(CommandError::Arity {
            command: command.to_owned(),
        });
    }
    let key = args.required()?;
    if args.is_empty() {
        return Ok(take_one(ctx, key, end)?.map_or(Reply::Nil, Reply::Bulk));
    }
    let count = args.integer_from(0, "ERR value is out of range, must be positive")?;
    Ok(match ctx.write::<List>(key)? {
        None => Reply::NilArray,
        Some(_) if count == 0 => Reply::Array(Vec::new()),
        Some(_) => {
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            take(ctx, key, end, count)?.map_or(Reply::NilArray, Reply::Array)
        }
    })
}

fn lpop(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    pop(ctx, args, End::Head, "lpop")
}

fn rpop(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    pop(ctx, args, End::Tail, "rpop")
}

/// `timeout.c: getTimeoutFromObjectOrReply`, in seconds; `None` waits for ever.
pub(super) fn timeout(ctx: &Ctx<'_>, text: &[u8]) -> Result<Option<Duration>, CommandError> {
    let seconds = LongDouble::parse(text)
        .ok_or_else(|| CommandError::Text("ERR timeout is not a float or out of range".into()))?;
    match seconds.to_millis_up() {
        0 => Ok(None),
        millis if millis < 0 => Err(CommandError::Text("ERR timeout is negative".into())),
        // One that ends after the end of time never does.
        millis => Ok(ctx
            .now_millis()
            .0
            .checked_add(millis)
            .map(|_| Duration::from_millis(millis.unsigned_abs()))),
    }
}

/// BLPOP and BRPOP: the first key with a list, and the element.
fn blocking_pop(ctx: &mut Ctx<'_>, args: &mut Args<'_>, end: End) -> CommandResult {
    let mut keys: Vec<&[u8]> = args.rest().collect();
    let timeout = timeout(ctx, keys.pop().unwrap_or_default())?;
    for key in &keys {
        if ctx.may_serve(key)
            && let Some(element) = take_one(ctx, key, end)?
        {
            return Ok(Reply::Array(vec![Reply::bulk(key), Reply::Bulk(element)]));
        }
    }
    ctx.block_on(&keys, Kind::List, timeout, Reply::NilArray)
}

fn blpop(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    blocking_pop(ctx, args, End::Head)
}

fn brpop(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    blocking_pop(ctx, args, End::Tail)
}

/// The arguments that LMPOP and BLMPOP share.
struct Several<'a> {
    keys: Vec<&'a [u8]>,
    end: End,
    count: usize,
}

impl<'a> Several<'a> {
    /// `t_list.c: lmpopGenericCommand`.
    fn parse(args: &mut Args<'a>) -> Result<Self, CommandError> {
        let numkeys = args.integer_from(1, "ERR numkeys should be greater than 0")?;
        let numkeys = usize::try_from(numkeys).unwrap_or(usize::MAX);
        if numkeys >= args.remaining() {
            return Err(CommandError::Syntax);
        }
        let keys = (0..numkeys).filter_map(|_| args.next()).collect();
        let end = end(args)?;
        let mut count = None;
        while !args.is_empty() {
            if count.is_some() || !args.keyword("COUNT") {
                return Err(CommandError::Syntax);
            }
            count = Some(args.integer_from(1, "ERR count should be greater than 0")?);
        }
        let count = usize::try_from(count.unwrap_or(1)).unwrap_or(usize::MAX);
        Ok(Self { keys, end, count })
    }

    /// The first key with a list, and its elements.
    fn take(&self, ctx: &mut Ctx<'_>) -> Result<Option<Reply>, CommandError> {
        for key in &self.keys {
            if ctx.may_serve(key)
                && let Some(elements) = take(ctx, key, self.end, self.count)?
            {
                let reply = vec![Reply::bulk(key), Reply::Array(elements)];
                return Ok(Some(Reply::Array(reply)));
            }
        }
        Ok(None)
    }
}

fn lmpop(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let several = Several::parse(args)?;
    Ok(several.take(ctx)?.unwrap_or(Reply::NilArray))
}

fn blmpop(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    // The timeout is judged after the other arguments, though it stands before them.
    let text = args.required()?;
    let several = Several::parse(args)?;
    let timeout = timeout(ctx, text)?;
    match several.take(ctx)? {
        Some(reply) => Ok(reply),
        None => ctx.block_on(&several.keys, Kind::List, timeout, Reply::NilArray),
    }
}

/// Takes an element from one list and gives it to another, which may be the same; `None` without
/// the first (`t_list.c: lmoveGenericCommand`).
fn move_element(
    ctx: &mut Ctx<'_>,
    source: &[u8],
    destination: &[u8],
    from: End,
    to: End,
) -> Result<Option<Reply>, CommandError> {
    if ctx.write::<List>(source)?.is_none() {
        return Ok(None);
    }
    ctx.write::<List>(destination)?;
    let Some(list) = ctx.write::<List>(source)? else {
        return Ok(None);
    };
    let Some(element) = list.pop(from) else {
        return Ok(None);
    };
    if let Some(list) = ctx.write::<List>(destination)? {
        list.push(to, element.clone());
        ctx.touched(destination);
    } else {
        let list = List::from_iter([element.clone()]);
        ctx.set_found(None, destination, Value::List(list), Ttl::Clear);
    }
    ctx.notify(Class::List, push_event(to), destination);
    ctx.replies_here();
    let is_empty = ctx
        .write::<List>(source)?
        .is_some_and(|list| list.is_empty());
    removed(ctx, source, pop_event(from), is_empty);
    Ok(Some(Reply::Bulk(element.to_blob())))
}

fn lmove(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (source, destination) = (args.required()?, args.required()?);
    let (from, to) = (end(args)?, end(args)?);
    Ok(move_element(ctx, source, destination, from, to)?.unwrap_or(Reply::Nil))
}

fn rpoplpush(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (source, destination) = (args.required()?, args.required()?);
    let moved = move_element(ctx, source, destination, End::Tail, End::Head)?;
    Ok(moved.unwrap_or(Reply::Nil))
}

fn blocking_move(
    ctx: &mut Ctx<'_>,
    args: (&[u8], &[u8], End, End),
    timeout: Option<Duration>,
) -> CommandResult {
    let (source, destination, from, to) = args;
    if let Some(reply) = move_element(ctx, source, destination, from, to)? {
        return Ok(reply);
    }
    // Redis says the same thing in two ways here: no value in EXEC, no array after the timeout.
    let on_timeout = match ctx.origin {
        Origin::Exec | Origin::Script => Reply::Nil,
        Origin::Client | Origin::Retry => Reply::NilArray,
    };
    ctx.block_on(&[source], Kind::List, timeout, on_timeout)
}

fn blmove(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (source, destination) = (args.required()?, args.required()?);
    let (from, to) = (end(args)?, end(args)?);
    let timeout = timeout(ctx, args.required()?)?;
    blocking_move(ctx, (source, destination, from, to), timeout)
}

fn brpoplpush(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (source, destination) = (args.required()?, args.required()?);
    let timeout = timeout(ctx, args.required()?)?;
    blocking_move(ctx, (source, destination, End::Tail, End::Head), timeout)
}

const STORE: &[Flags] = &[Flags::WRITE, Flags::DENYOOM];
const WAIT: &[Flags] = &[Flags::WRITE, Flags::NOSCRIPT, Flags::BLOCKING];
const STORE_OR_WAIT: &[Flags] = &[
    Flags::WRITE,
    Flags::DENYOOM,
    Flags::NOSCRIPT,
    Flags::BLOCKING,
];
const DELETE: &[&str] = &["RW", "access", "delete"];
const INSERT: &[&str] = &["RW", "insert"];

pub(crate) const COMMANDS: &[CommandSpec] = &[
    row("lpop", -2, lpop)
        .flags(&[Flags::WRITE, Flags::FAST])
        .keys(1, 1, 1, DELETE)
        .syntax("key [count:integer]@6.2.0")
        .summary("Takes elements from the head."),
    row("rpop", -2, rpop)
        .flags(&[Flags::WRITE, Flags::FAST])
        .keys(1, 1, 1, DELETE)
        .syntax("key [count:integer]@6.2.0")
        .summary("Takes elements from the tail."),
    row("lmpop", -4, lmpop)
        .flags(&[Flags::WRITE])
        .counted_keys(1, DELETE)
        .since("7.0.0")
        .syntax("numkeys:integer key... where=(LEFT | RIGHT) [COUNT count:integer]")
        .summary("Takes elements from the first list that is there."),
    row("lmove", 5, lmove)
        .flags(STORE)
        .keys(1, 1, 1, DELETE)
        .keys(2, 2, 1, INSERT)
        .since("6.2.0")
        .syntax("source:key destination:key wherefrom=(LEFT | RIGHT) whereto=(LEFT | RIGHT)")
        .summary("Moves an element from one list to another."),
    row("rpoplpush", 3, rpoplpush)
        .flags(STORE)
        .keys(1, 1, 1, DELETE)
        .keys(2, 2, 1, INSERT)
        .since("1.2.0")
        .deprecated("6.2.0", "`LMOVE` with `RIGHT` and `LEFT`")
        .syntax("source:key destination:key")
        .summary("Moves an element from the tail of one list to the head of another."),
    row("blpop", -3, blpop)
        .flags(WAIT)
        .keys(1, -2, 1, DELETE)
        .since("2.0.0")
        .syntax("key... timeout:double")
        .summary("Takes an element from a head, or waits for one."),
    row("brpop", -3, brpop)
        .flags(WAIT)
        .keys(1, -2, 1, DELETE)
        .since("2.0.0")
        .syntax("key... timeout:double")
        .summary("Takes an element from a tail, or waits for one."),
    row("blmpop", -5, blmpop)
        .flags(&[Flags::WRITE, Flags::BLOCKING])
        .counted_keys(2, DELETE)
        .since("7.0.0")
        .syntax("timeout:double numkeys:integer key... where=(LEFT | RIGHT) [COUNT count:integer]")
        .summary("Takes elements from the first list that is there, or waits for one."),
    row("blmove", 6, blmove)
        .flags(STORE_OR_WAIT)
        .keys(1, 1, 1, DELETE)
        .keys(2, 2, 1, INSERT)
        .since("6.2.0")
        .syntax("source:key destination:key wherefrom=(LEFT | RIGHT) whereto=(LEFT | RIGHT) timeout:double")
        .summary("Moves an element from one list to another, or waits for one."),
    row("brpoplpush", 4, brpoplpush)
        .flags(STORE_OR_WAIT)
        .keys(1, 1, 1, DELETE)
        .keys(2, 2, 1, INSERT)
        .since("2.2.0")
        .deprecated("6.2.0", "`BLMOVE` with `RIGHT` and `LEFT`")
        .syntax("source:key destination:key timeout:double")
        .summary("Moves an element from a tail to a head, or waits for one."),
];

const fn row(name: &'static str, arity: i32, handler: super::spec::Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::List, handler)
}
