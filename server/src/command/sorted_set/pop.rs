//! Sorted sets: elements that are taken out at one end, and waited for.
//!
//! A blocking command looks at its keys as the one without `B` does, and asks to be run again when none of them has
//! anything to give.

use super::{removed, row};
use crate::command::list_pop::timeout;
use crate::command::spec::{CommandResult, CommandSpec, Flags};
use crate::command::{Args, CommandError};
use crate::engine::{Ctx, Kind, SortedSet};
use crate::resp::{Blob, Reply};

/// The end that elements are taken from.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Min,
    Max,
}

impl End {
    fn event(self) -> &'static str {
        match self {
            Self::Min => "zpopmin",
            Self::Max => "zpopmax",
        }
    }
}

/// Takes up to `count` elements, at least one, from one end; `None` if there is no sorted set
/// (`t_zset.c: genericZpopCommand`).
fn take(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    end: End,
    count: usize,
) -> Result<Option<Vec<(Blob, f64)>>, CommandError> {
    let Some(set) = ctx.write::<SortedSet>(key)? else {
        return Ok(None);
    };
    let len = set.len();
    let count = count.min(len);
    let ranks = match end {
        End::Min => 0..count,
        End::Max => len - count..len,
    };
    let mut taken = Vec::with_capacity(count);
    set.for_each(ranks.clone(), end == End::Max, |member, score| {
        taken.push((member, score));
    });
    set.remove_range(ranks);
    let is_empty = set.is_empty();
    ctx.replies_here();
    removed(ctx, key, end.event(), is_empty);
    Ok(Some(taken))
}

/// Members and scores one after the other, in both protocols.
fn flat(first: Option<Reply>, elements: Vec<(Blob, f64)>) -> Reply {
    let elements = elements.into_iter();
    let elements = elements.flat_map(|(member, score)| [Reply::Bulk(member), Reply::Double(score)]);
    Reply::Array(first.into_iter().chain(elements).collect())
}

/// A key with pairs of members and scores, in both protocols.
fn nested(key: &[u8], elements: Vec<(Blob, f64)>) -> Reply {
    let pair = |(member, score)| Reply::Array(vec![Reply::Bulk(member), Reply::Double(score)]);
    let pairs = elements.into_iter().map(pair).collect();
    Reply::Array(vec![Reply::bulk(key), Reply::Array(pairs)])
}

fn pop(ctx: &mut Ctx<'_>, args: &mut Args<'_>, end: End) -> CommandResult {
    if args.remaining() > 2 {
        return Err(CommandError::Syntax);
    }
    let key = args.required()?;
    if args.is_empty() {
        let taken = take(ctx, key, end, 1)?;
        return Ok(flat(None, taken.unwrap_or_default()));
    }
    let count = args.integer_from(0, "ERR value is out of range, must be positive")?;
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    if ctx.write::<SortedSet>(key)?.is_none() || count == 0 {
        return Ok(Reply::Array(Vec::new()));
    }
    let taken = take(ctx, key, end, count)?;
    Ok(super::elements_reply(taken.unwrap_or_default(), true))
}

fn zpopmin(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    pop(ctx, args, End::Min)
}

fn zpopmax(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    pop(ctx, args, End::Max)
}

/// The first key with a sorted set, and the element.
fn blocking_pop(ctx: &mut Ctx<'_>, args: &mut Args<'_>, end: End) -> CommandResult {
    let mut keys: Vec<&[u8]> = args.rest().collect();
    let timeout = timeout(ctx, keys.pop().unwrap_or_default())?;
    for key in &keys {
        if ctx.may_serve(key)
            && let Some(taken) = take(ctx, key, end, 1)?
        {
            return Ok(flat(Some(Reply::bulk(key)), taken));
        }
    }
    ctx.block_on(&keys, Kind::SortedSet, timeout, Reply::NilArray)
}

fn bzpopmin(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    blocking_pop(ctx, args, End::Min)
}

fn bzpopmax(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    blocking_pop(ctx, args, End::Max)
}

/// The arguments that ZMPOP and BZMPOP share.
struct Several<'a> {
    keys: Vec<&'a [u8]>,
    end: End,
    count: usize,
}

impl<'a> Several<'a> {
    /// `t_zset.c: zmpopGenericCommand`.
    fn parse(args: &mut Args<'a>) -> Result<Self, CommandError> {
        let numkeys = args.integer_from(1, "ERR numkeys should be greater than 0")?;
        let numkeys = usize::try_from(numkeys).unwrap_or(usize::MAX);
        if numkeys >= args.remaining() {
            return Err(CommandError::Syntax);
        }
        let keys = (0..numkeys).filter_map(|_| args.next()).collect();
        let end = match () {
            () if args.keyword("MIN") => End::Min,
            () if args.keyword("MAX") => End::Max,
            () => return Err(CommandError::Syntax),
        };
        let mut count = None;
        while !args.is_empty() {
            if count.is_some() || args.remaining() < 2 || !args.keyword("COUNT") {
                return Err(CommandError::Syntax);
            }
            count = Some(args.integer_from(1, "ERR count should be greater than 0")?);
        }
        let count = usize::try_from(count.unwrap_or(1)).unwrap_or(usize::MAX);
        Ok(Self { keys, end, count })
    }

    /// The first key with a sorted set, and its elements.
    fn take(&self, ctx: &mut Ctx<'_>) -> Result<Option<Reply>, CommandError> {
        for key in &self.keys {
            if ctx.may_serve(key)
                && let Some(elements) = take(ctx, key, self.end, self.count)?
            {
                return Ok(Some(nested(key, elements)));
            }
        }
        Ok(None)
    }
}

fn zmpop(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let several = Several::parse(args)?;
    Ok(several.take(ctx)?.unwrap_or(Reply::NilArray))
}

fn bzmpop(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    // The timeout is judged after the other arguments, though it stands before them.
    let text = args.required()?;
    let several = Several::parse(args)?;
    let timeout = timeout(ctx, text)?;
    match several.take(ctx)? {
        Some(reply) => Ok(reply),
        None => ctx.block_on(&several.keys, Kind::SortedSet, timeout, Reply::NilArray),
    }
}

const FAST: &[Flags] = &[Flags::WRITE, Flags::FAST];
const WAIT: &[Flags] = &[Flags::WRITE, Flags::NOSCRIPT, Flags::BLOCKING, Flags::FAST];
const DELETE: &[&str] = &["RW", "access", "delete"];

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[
    row("zpopmin", -2, zpopmin)
        .flags(FAST)
        .keys(1, 1, 1, DELETE)
        .since("5.0.0")
        .syntax("key [count:integer]")
        .summary("Takes the members with the lowest scores."),
    row("zpopmax", -2, zpopmax)
        .flags(FAST)
        .keys(1, 1, 1, DELETE)
        .since("5.0.0")
        .syntax("key [count:integer]")
        .summary("Takes the members with the highest scores."),
    row("bzpopmin", -3, bzpopmin)
        .flags(WAIT)
        .keys(1, -2, 1, DELETE)
        .since("5.0.0")
        .syntax("key... timeout:double")
        .summary("Takes the member with the lowest score, or waits for one."),
    row("bzpopmax", -3, bzpopmax)
        .flags(WAIT)
        .keys(1, -2, 1, DELETE)
        .since("5.0.0")
        .syntax("key... timeout:double")
        .summary("Takes the member with the highest score, or waits for one."),
    row("zmpop", -4, zmpop)
        .flags(&[Flags::WRITE])
        .counted_keys(1, DELETE)
        .since("7.0.0")
        .syntax("numkeys:integer key... where=(MIN | MAX) [COUNT count:integer]")
        .summary("Takes members from the first sorted set that is there."),
    row("bzmpop", -5, bzmpop)
        .flags(&[Flags::WRITE, Flags::BLOCKING])
        .counted_keys(2, DELETE)
        .since("7.0.0")
        .syntax("timeout:double numkeys:integer key... where=(MIN | MAX) [COUNT count:integer]")
        .summary("Takes members from the first sorted set that is there, or waits for one."),
];
