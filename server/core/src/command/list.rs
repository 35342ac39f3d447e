//! Lists: pushing, reading and changing elements in place. Removal at the ends is in `list_pop.rs`.

use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError};
use crate::engine::{Class, Ctx, End, List, TouchOrder, Value, clamp_range};
use crate::resp::Reply;

/// Name of a push, by the end that it goes to.
pub(super) fn push_event(end: End) -> &'static str {
    match end {
        End::Head => "lpush",
        End::Tail => "rpush",
    }
}

/// `t_list.c: pushGenericCommand`.
fn push(ctx: &mut Ctx<'_>, args: &mut Args<'_>, end: End, only_existing: bool) -> CommandResult {
    let key = args.required()?;
    let len = if let Some(list) = ctx.write::<List>(key)? {
        args.rest().for_each(|element| list.push(end, element));
        list.len()
    } else if only_existing {
        return Ok(Reply::Int(0));
    } else {
        let mut list = List::default();
        args.rest().for_each(|element| list.push(end, element));
        let len = list.len();
        ctx.add(key, Value::List(list));
        len
    };
    ctx.resized_list(key, false);
    ctx.replies_here();
    ctx.touched(key);
    ctx.notify(Class::List, push_event(end), key);
    Ok(Reply::Int(len as i64))
}

fn lpush(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    push(ctx, args, End::Head, false)
}

fn rpush(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    push(ctx, args, End::Tail, false)
}

fn lpushx(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    push(ctx, args, End::Head, true)
}

fn rpushx(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    push(ctx, args, End::Tail, true)
}

fn llen(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let list = ctx.read::<List>(args.required()?)?;
    Ok(Reply::Int(list.map_or(0, |list| list.len() as i64)))
}

/// Redis replies for a missing key before it reads the index.
fn lindex(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let Some(list) = ctx.read::<List>(args.required()?)? else {
        return Ok(Reply::Nil);
    };
    let at = list.position(args.integer()?);
    let element = at.and_then(|at| list.get(at));
    Ok(element.map_or(Reply::Nil, |element| Reply::Bulk(element.to_blob())))
}

fn lrange(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (key, start, stop) = (args.required()?, args.integer()?, args.integer()?);
    let Some(list) = ctx.read::<List>(key)? else {
        return Ok(Reply::Array(Vec::new()));
    };
    let elements = list.range(clamp_range(list.len(), start, stop));
    let replies = elements.map(|element| Reply::Bulk(element.to_blob()));
    Ok(Reply::Array(replies.collect()))
}

fn lset(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let key = args.required()?;
    let list = ctx.write::<List>(key)?;
    let list = list.ok_or_else(|| CommandError::Text("ERR no such key".into()))?;
    let (at, element) = (list.position(args.integer()?), args.required()?);
    if !at.is_some_and(|at| list.set(at, element)) {
        return Err(CommandError::Text("ERR index out of range".into()));
    }
    ctx.resized_list(key, true);
    ctx.replies_here();
    ctx.touched(key);
    ctx.notify(Class::List, "lset", key);
    Ok(Reply::Ok)
}

fn linsert(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let key = args.required()?;
    let is_before = match () {
        () if args.keyword("BEFORE") => true,
        () if args.keyword("AFTER") => false,
        () => return Err(CommandError::Syntax),
    };
    let (pivot, element) = (args.required()?, args.required()?);
    let Some(list) = ctx.write::<List>(key)? else {
        return Ok(Reply::Int(0));
    };
    if !list.insert(pivot, is_before, element) {
        return Ok(Reply::Int(-1));
    }
    let len = list.len();
    ctx.resized_list(key, false);
    ctx.touched(key);
    ctx.notify(Class::List, "linsert", key);
    Ok(Reply::Int(len as i64))
}

/// Signals that elements were removed from an end of a list, and deletes the list if it is empty (`t_list.c:
/// listElementsRemoved`).
pub(super) fn removed(ctx: &mut Ctx<'_>, key: &[u8], event: &str, is_empty: bool) {
    ctx.resized_list(key, true);
    ctx.removed_from(key, is_empty, (Class::List, event), TouchOrder::Last);
}

fn lrem(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (key, count, element) = (args.required()?, args.integer()?, args.required()?);
    let Some(list) = ctx.write::<List>(key)? else {
        return Ok(Reply::Int(0));
    };
    let end = if count < 0 { End::Tail } else { End::Head };
    let most = match count.unsigned_abs() {
        0 => usize::MAX,
        most => usize::try_from(most).unwrap_or(usize::MAX),
    };
    let gone = list.remove(element, end, most);
    let is_empty = list.is_empty();
    if gone > 0 {
        ctx.resized_list(key, true);
        ctx.removed_from(key, is_empty, (Class::List, "lrem"), TouchOrder::First);
    }
    Ok(Reply::Int(gone as i64))
}

/// The event is sent even if nothing was cut off.
fn ltrim(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (key, start, stop) = (args.required()?, args.integer()?, args.integer()?);
    let Some(list) = ctx.write::<List>(key)? else {
        return Ok(Reply::Ok);
    };
    let before = list.len();
    list.trim(clamp_range(before, start, stop));
    let (is_empty, is_same) = (list.is_empty(), list.len() == before);
    if is_same {
        ctx.propagate_nothing();
    }
    removed(ctx, key, "ltrim", is_empty);
    Ok(Reply::Ok)
}

/// Arguments of LPOS.
struct Search {
    /// Number of the first match that counts; negative from the tail, never 0.
    rank: i64,
    /// Number of matches to return, 0 for all; `None` for a single one.
    count: Option<i64>,
    /// Number of elements to compare, 0 for all.
    most: i64,
}

impl Search {
    fn parse(args: &mut Args<'_>) -> Result<Self, CommandError> {
        const RANK_ZERO: &str = "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... \
             or use negative to start from the end of the list";
        let mut search = Self {
            rank: 1,
            count: None,
            most: 0,
        };
        while !args.is_empty() {
            if args.keyword("RANK") {
                search.rank = args.integer()?;
                if search.rank == 0 {
                    return Err(CommandError::Text(RANK_ZERO.into()));
                }
            } else if args.keyword("COUNT") {
                search.count = Some(args.integer_from(0, "ERR COUNT can't be negative")?);
            } else if args.keyword("MAXLEN") {
                search.most = args.integer_from(0, "ERR MAXLEN can't be negative")?;
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(search)
    }

    /// Positions of the matches, nearest first. The arithmetic wraps, as it does in Redis for the
    /// smallest rank.
    fn run(&self, list: &List, element: &[u8]) -> Vec<usize> {
        let (len, from_tail) = (list.len(), self.rank < 0);
        let rank = if from_tail {
            self.rank.wrapping_neg()
        } else {
            self.rank
        };
        let compared = match usize::try_from(self.most) {
            Ok(most @ 1..) => most.min(len),
            Ok(0) | Err(_) => len,
        };
        let wanted = self.count.unwrap_or(1);
        let (mut found, mut matches) = (Vec::new(), 0_i64);
        let mut elements = list.iter();
        for step in 0..compared {
            let (at, other) = if from_tail {
                (len - 1 - step, elements.next_back())
            } else {
                (step, elements.next())
            };
            if other.is_none_or(|other| *other != *element) {
                continue;
            }
            matches += 1;
            if matches >= rank {
                found.push(at);
                let is_enough = matches.wrapping_sub(rank).wrapping_add(1) >= wanted;
                if self.count.is_none() || wanted != 0 && is_enough {
                    break;
                }
            }
        }
        found
    }
}

fn lpos(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (key, element) = (args.required()?, args.required()?);
    let search = Search::parse(args)?;
    let found = match ctx.read::<List>(key)? {
        Some(list) => search.run(list, element),
        None => Vec::new(),
    };
    let mut found = found.into_iter().map(|at| Reply::Int(at as i64));
    Ok(if search.count.is_some() {
        Reply::Array(found.collect())
    } else {
        found.next().unwrap_or(Reply::Nil)
    })
}

const RO: &[Flags] = &[Flags::READONLY];
const RO_FAST: &[Flags] = &[Flags::READONLY, Flags::FAST];
const STORE: &[Flags] = &[Flags::WRITE, Flags::DENYOOM];
const STORE_FAST: &[Flags] = &[Flags::WRITE, Flags::DENYOOM, Flags::FAST];
const ACCESS: &[&str] = &["RO", "access"];
const INSERT: &[&str] = &["RW", "insert"];
const DELETE: &[&str] = &["RW", "delete"];

pub(crate) const COMMANDS: &[CommandSpec] = &[
    row("lpush", -3, lpush)
        .flags(STORE_FAST)
        .keys(1, 1, 1, INSERT)
        .syntax("key element...")
        .summary("Pushes elements to the head, one after another."),
    row("rpush", -3, rpush)
        .flags(STORE_FAST)
        .keys(1, 1, 1, INSERT)
        .syntax("key element...")
        .summary("Pushes elements to the tail."),
    row("lpushx", -3, lpushx)
        .flags(STORE_FAST)
        .keys(1, 1, 1, INSERT)
        .since("2.2.0")
        .syntax("key element...")
        .summary("Like `LPUSH`, if the list exists."),
    row("rpushx", -3, rpushx)
        .flags(STORE_FAST)
        .keys(1, 1, 1, INSERT)
        .since("2.2.0")
        .syntax("key element...")
        .summary("Like `RPUSH`, if the list exists."),
    row("llen", 2, llen)
        .flags(RO_FAST)
        .keys(1, 1, 1, &["RO"])
        .syntax("key")
        .summary("Number of elements."),
    row("lrange", 4, lrange)
        .flags(RO)
        .keys(1, 1, 1, ACCESS)
        .syntax("key start:integer stop:integer")
        .summary("The elements of a range, including both ends."),
    row("lindex", 3, lindex)
        .flags(RO)
        .keys(1, 1, 1, ACCESS)
        .syntax("key index:integer")
        .summary("The element at an index."),
    row("lset", 4, lset)
        .flags(STORE)
        .keys(1, 1, 1, &["RW", "update"])
        .syntax("key index:integer element")
        .summary("Replaces the element at an index."),
    row("linsert", 5, linsert)
        .flags(STORE)
        .keys(1, 1, 1, INSERT)
        .since("2.2.0")
        .syntax("key where=(BEFORE | AFTER) pivot element")
        .summary("Inserts an element before or after another one."),
    row("lrem", 4, lrem)
        .flags(&[Flags::WRITE])
        .keys(1, 1, 1, DELETE)
        .syntax("key count:integer element")
        .summary("Removes elements that equal a value."),
    row("ltrim", 4, ltrim)
        .flags(&[Flags::WRITE])
        .keys(1, 1, 1, DELETE)
        .syntax("key start:integer stop:integer")
        .summary("Removes all elements outside of a range."),
    row("lpos", -3, lpos)
        .flags(RO)
        .keys(1, 1, 1, ACCESS)
        .since("6.0.6")
        .syntax("key element [RANK rank:integer] [COUNT num-matches:integer] [MAXLEN len:integer]")
        .summary("The positions of equal elements."),
];

const fn row(name: &'static str, arity: i32, handler: super::spec::Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::List, handler)
}
