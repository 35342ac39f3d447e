//! Lists: elements that are removed, moved to another list, and waited for.

use super::list::{push_event, removed};
use super::pop::{TwoEnded, pop_or_wait, pop_several, pop_several_or_wait, timeout};
use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError};
use crate::engine::{Arg, Class, Ctx, End, Kind, List, Origin, Ttl, Value};
use crate::resp::{Blob, Reply, Request};
use std::time::Duration;

fn pop_event(end: End) -> &'static str {
    match end {
        End::Head => "lpop",
        End::Tail => "rpop",
    }
}

impl TwoEnded for List {
    type End = End;
    type Taken = Vec<Reply>;

    const KIND: Kind = Kind::List;
    const IS_LOOKED_UP_TWICE: bool = false;
    const ENDS: [(&'static str, End); 2] = [("LEFT", End::Head), ("RIGHT", End::Tail)];

    fn command(end: End) -> Arg<'static> {
        match end {
            End::Head => b"LPOP".into(),
            End::Tail => b"RPOP".into(),
        }
    }

    fn take(
        ctx: &mut Ctx<'_>,
        key: &[u8],
        end: End,
        count: usize,
    ) -> Result<Option<Vec<Reply>>, CommandError> {
        take(ctx, key, end, count)
    }

    fn flat(taken: Vec<Reply>) -> Vec<Reply> {
        taken
    }

    fn nested(taken: Vec<Reply>) -> Vec<Reply> {
        taken
    }
}

/// Removes up to `count` elements from one end; `None` if there is no list.
fn take(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    end: End,
    count: usize,
) -> Result<Option<Vec<Reply>>, CommandError> {
    let Some(list) = ctx.write_awaited::<List>(key)? else {
        return Ok(None);
    };
    let count = count.min(list.len());
    let taken = (0..count).filter_map(|_| list.pop(end).map(Reply::Bulk));
    let taken: Vec<Reply> = taken.collect();
    let is_empty = list.is_empty();
    ctx.replies_here();
    removed(ctx, key, pop_event(end), is_empty);
    Ok(Some(taken))
}

/// Removes one element from an end; `None` if there is no list.
fn take_one(ctx: &mut Ctx<'_>, key: &[u8], end: End) -> Result<Option<Blob>, CommandError> {
    let Some(list) = ctx.write::<List>(key)? else {
        return Ok(None);
    };
    let taken = list.pop(end);
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
    if count == 0 {
        let list = ctx.write::<List>(key)?;
        return Ok(list.map_or(Reply::NilArray, |_| Reply::Array(Vec::new())));
    }
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    Ok(take(ctx, key, end, count)?.map_or(Reply::NilArray, Reply::Array))
}

fn lpop(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    pop(ctx, args, End::Head, "lpop")
}

fn rpop(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    pop(ctx, args, End::Tail, "rpop")
}

fn blpop(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    pop_or_wait::<List>(ctx, args, End::Head)
}

fn brpop(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    pop_or_wait::<List>(ctx, args, End::Tail)
}

/// Moves an element from one list to another, which may be the same; `None` if the first one is missing
/// (`t_list.c: lmoveGenericCommand`).
fn move_element(
    ctx: &mut Ctx<'_>,
    source: &[u8],
    destination: &[u8],
    from: End,
    to: End,
) -> Result<Option<Reply>, CommandError> {
    if ctx.write_awaited::<List>(source)?.is_none() {
        return Ok(None);
    }
    ctx.write::<List>(destination)?;
    let Some(list) = ctx.write_again::<List>(source)? else {
        return Ok(None);
    };
    let Some(element) = list.pop(from) else {
        return Ok(None);
    };
    if let Some(list) = ctx.write_again::<List>(destination)? {
        list.push(to, &element);
        ctx.resized_list(destination, false);
        ctx.touched(destination);
    } else {
        let list = List::from_iter([element.clone()]);
        ctx.set_found(None, destination, Value::List(list), Ttl::Clear);
    }
    ctx.notify(Class::List, push_event(to), destination);
    ctx.replies_here();
    let is_empty = ctx
        .read_again::<List>(source)?
        .is_some_and(|list| list.is_empty());
    removed(ctx, source, pop_event(from), is_empty);
    Ok(Some(Reply::Bulk(element)))
}

fn lmove(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (source, destination) = (args.required()?, args.required()?);
    let (from, to) = (List::end(args)?, List::end(args)?);
    Ok(move_element(ctx, source, destination, from, to)?.unwrap_or(Reply::Nil))
}

fn rpoplpush(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (source, destination) = (args.required()?, args.required()?);
    let moved = move_element(ctx, source, destination, End::Tail, End::Head)?;
    Ok(moved.unwrap_or(Reply::Nil))
}

/// Returns the name of an end, as Redis propagates it for a client that has waited.
fn place_name(end: End) -> Arg<'static> {
    match end {
        End::Head => b"left".into(),
        End::Tail => b"right".into(),
    }
}

fn word(request: Request<'_>, index: usize) -> Arg<'_> {
    request.arg(index).unwrap_or_default().into()
}

fn blocking_move(
    ctx: &mut Ctx<'_>,
    request: Request<'_>,
    args: (&[u8], &[u8], End, End),
    timeout: Option<Duration>,
) -> CommandResult {
    let (source, destination, from, to) = args;
    // Redis looks whether there is a list, and then runs LMOVE, which looks it up again.
    if ctx.origin != Origin::Retry {
        ctx.write::<List>(source)?;
    }
    if let Some(reply) = move_element(ctx, source, destination, from, to)? {
        let name = request.name();
        if name.eq_ignore_ascii_case(b"brpoplpush") {
            ctx.propagate_as(&[b"RPOPLPUSH".into(), source.into(), destination.into()]);
        } else {
            let (from, to) = match ctx.origin {
                Origin::Retry => (place_name(from), place_name(to)),
                Origin::Client | Origin::Exec | Origin::Script => {
                    (word(request, 3), word(request, 4))
                }
            };
            let command = b"LMOVE".into();
            ctx.propagate_as(&[command, source.into(), destination.into(), from, to]);
        }
        return Ok(reply);
    }
    // Redis has two replies for the same case: null in EXEC, a null array after the timeout.
    let on_timeout = match ctx.origin {
        Origin::Exec | Origin::Script => Reply::Nil,
        Origin::Client | Origin::Retry => Reply::NilArray,
    };
    ctx.block_on(&[source], Kind::List, timeout, on_timeout)
}

fn blmove(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (source, destination) = (args.required()?, args.required()?);
    let (from, to) = (List::end(args)?, List::end(args)?);
    let timeout = timeout(ctx, args.required()?)?;
    let ends = (source, destination, from, to);
    blocking_move(ctx, args.request(), ends, timeout)
}

fn brpoplpush(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (source, destination) = (args.required()?, args.required()?);
    let timeout = timeout(ctx, args.required()?)?;
    let ends = (source, destination, End::Tail, End::Head);
    blocking_move(ctx, args.request(), ends, timeout)
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
        .summary("Removes and returns elements from the head."),
    row("rpop", -2, rpop)
        .flags(&[Flags::WRITE, Flags::FAST])
        .keys(1, 1, 1, DELETE)
        .syntax("key [count:integer]@6.2.0")
        .summary("Removes and returns elements from the tail."),
    row("lmpop", -4, pop_several::<List>)
        .flags(&[Flags::WRITE])
        .counted_keys(1, DELETE)
        .since("7.0.0")
        .syntax("numkeys:integer key... where=(LEFT | RIGHT) [COUNT count:integer]")
        .summary("Removes and returns elements of the first list that exists."),
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
        .summary("Removes and returns the head of a list; can wait for one."),
    row("brpop", -3, brpop)
        .flags(WAIT)
        .keys(1, -2, 1, DELETE)
        .since("2.0.0")
        .syntax("key... timeout:double")
        .summary("Removes and returns the tail of a list; can wait for one."),
    row("blmpop", -5, pop_several_or_wait::<List>)
        .flags(&[Flags::WRITE, Flags::BLOCKING])
        .counted_keys(2, DELETE)
        .since("7.0.0")
        .syntax("timeout:double numkeys:integer key... where=(LEFT | RIGHT) [COUNT count:integer]")
        .summary("Removes and returns elements of the first list that exists; can wait for one."),
    row("blmove", 6, blmove)
        .flags(STORE_OR_WAIT)
        .keys(1, 1, 1, DELETE)
        .keys(2, 2, 1, INSERT)
        .since("6.2.0")
        .syntax("source:key destination:key wherefrom=(LEFT | RIGHT) whereto=(LEFT | RIGHT) timeout:double")
        .summary("Moves an element from one list to another; can wait for one."),
    row("brpoplpush", 4, brpoplpush)
        .flags(STORE_OR_WAIT)
        .keys(1, 1, 1, DELETE)
        .keys(2, 2, 1, INSERT)
        .since("2.2.0")
        .deprecated("6.2.0", "`BLMOVE` with `RIGHT` and `LEFT`")
        .syntax("source:key destination:key timeout:double")
        .summary("Moves an element from a tail to a head; can wait for one."),
];

const fn row(name: &'static str, arity: i32, handler: super::spec::Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::List, handler)
}
