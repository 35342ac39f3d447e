//! Sorted sets: ranges of ranks, scores and members, to read, count, store or remove.

use super::bound::{LexRange, ScoreRange, ranks};
use super::{ACCESS, elements_reply, row};
use crate::command::spec::{CommandResult, CommandSpec, Flags};
use crate::command::{Args, CommandError};
use crate::engine::{Class, Ctx, SortedSet, SortedSetLimits, TouchOrder, Ttl, Value};
use crate::resp::{Blob, Reply};
use std::ops::Range;

/// Kind of a range's ends.
#[derive(Clone, Copy, PartialEq)]
enum By {
    Rank,
    Score,
    Lex,
}

/// A range of one of three kinds.
#[derive(Clone, Copy)]
enum Bounds<'a> {
    Rank(i64, i64),
    Score(ScoreRange),
    Lex(LexRange<'a>),
}

impl<'a> Bounds<'a> {
    fn parse(by: By, min: &'a [u8], max: &'a [u8]) -> Result<Self, CommandError> {
        Ok(match by {
            By::Rank => {
                let (start, stop) = (crate::command::integer_of(min)?, max);
                Self::Rank(start, crate::command::integer_of(stop)?)
            }
            By::Score => Self::Score(ScoreRange::parse(min, max)?),
            By::Lex => Self::Lex(LexRange::parse(min, max)?),
        })
    }

    /// Returns the ranks of the range after `offset` of its elements, or before them if it is walked from its
    /// end. Ranks of a reversed range count from the end, and take no offset.
    fn ranks(self, set: &SortedSet, is_reversed: bool, offset: usize) -> Range<usize> {
        match self {
            Self::Rank(start, stop) => {
                let (ranks, len) = (ranks(start, stop, set.len()), set.len());
                if is_reversed {
                    len - ranks.end..len - ranks.start
                } else {
                    ranks
                }
            }
            Self::Score(range) => {
                let Range { start, end } = range.ranks(set);
                let offset = offset.min(end - start);
                if is_reversed {
                    start..end - offset
                } else {
                    start + offset..end
                }
            }
            Self::Lex(range) => range.ranks(set, is_reversed, offset),
        }
    }

    fn count(self, set: &SortedSet) -> usize {
        match self {
            Self::Lex(range) => range.count(set),
            Self::Rank(..) | Self::Score(_) => self.ranks(set, false, 0).len(),
        }
    }

    /// The ranks of the elements that are removed.
    fn removed(self, set: &SortedSet) -> Range<usize> {
        match self {
            Self::Lex(range) => range.removed(set),
            Self::Rank(..) | Self::Score(_) => self.ranks(set, false, 0),
        }
    }
}

/// Arguments of a request of the ZRANGE family (`t_zset.c: zrangeGenericCommand`).
struct Query<'a> {
    bounds: Bounds<'a>,
    is_reversed: bool,
    with_scores: bool,
    offset: i64,
    limit: i64,
}

/// Kind of range that the name of a command implies; `None` lets its options decide.
#[derive(Clone, Copy)]
struct Fixed {
    by: Option<By>,
    is_reversed: Option<bool>,
    stores: bool,
}

impl<'a> Query<'a> {
    fn parse(args: &mut Args<'a>, fixed: Fixed) -> Result<Self, CommandError> {
        let (first, second) = (args.required()?, args.required()?);
        let (mut by, mut is_reversed) = (fixed.by, fixed.is_reversed);
        let (mut with_scores, mut offset, mut limit) = (false, 0, -1);
        while !args.is_empty() {
            if !fixed.stores && args.keyword("WITHSCORES") {
                with_scores = true;
            } else if args.remaining() > 2 && args.keyword("LIMIT") {
                (offset, limit) = (args.integer()?, args.integer()?);
            } else if is_reversed.is_none() && args.keyword("REV") {
                is_reversed = Some(true);
            } else if by.is_none() && args.keyword("BYLEX") {
                by = Some(By::Lex);
            } else if by.is_none() && args.keyword("BYSCORE") {
                by = Some(By::Score);
            } else {
                return Err(CommandError::Syntax);
            }
        }
        let (by, is_reversed) = (by.unwrap_or(By::Rank), is_reversed.unwrap_or(false));
        if limit != -1 && by == By::Rank {
            return Err(CommandError::Text(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX"
                    .into(),
            ));
        }
        if with_scores && by == By::Lex {
            return Err(CommandError::Text(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX".into(),
            ));
        }
        // A reversed range of scores or members begins with its upper bound.
        let (min, max) = if is_reversed && by != By::Rank {
            (second, first)
        } else {
            (first, second)
        };
        let bounds = Bounds::parse(by, min, max)?;
        Ok(Self {
            bounds,
            is_reversed,
            with_scores,
            offset,
            limit,
        })
    }

    /// Returns the requested ranks.
    fn ranks(&self, set: &SortedSet) -> Range<usize> {
        // With a negative offset the range is empty.
        let offset = usize::try_from(self.offset).unwrap_or(usize::MAX);
        let Range { start, end } = self.bounds.ranks(set, self.is_reversed, offset);
        let count = usize::try_from(self.limit).map_or(end - start, |limit| limit.min(end - start));
        if self.is_reversed {
            end - count..end
        } else {
            start..start + count
        }
    }

    fn reply(&self, set: &SortedSet) -> Reply {
        let ranks = self.ranks(set);
        let count = ranks.len();
        if self.with_scores {
            let mut pairs = Vec::with_capacity(count);
            set.for_each(ranks, self.is_reversed, |member, score| {
                pairs.push((Reply::Bulk(member), Reply::Double(score)));
            });
            Reply::Pairs(pairs)
        } else {
            let mut members = Vec::with_capacity(count);
            set.for_each(ranks, self.is_reversed, |member, _| {
                members.push(Reply::Bulk(member));
            });
            Reply::Array(members)
        }
    }
}

fn read(
    ctx: &mut Ctx<'_>,
    args: &mut Args<'_>,
    by: Option<By>,
    is_reversed: Option<bool>,
) -> CommandResult {
    let key = args.required()?;
    let fixed = Fixed {
        by,
        is_reversed,
        stores: false,
    };
    let query = Query::parse(args, fixed)?;
    Ok(match ctx.read::<SortedSet>(key)? {
        Some(set) => query.reply(set),
        None => elements_reply(Vec::new(), false),
    })
}

fn zrange(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    read(ctx, args, None, None)
}

fn zrevrange(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    read(ctx, args, Some(By::Rank), Some(true))
}

fn zrangebyscore(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    read(ctx, args, Some(By::Score), Some(false))
}

fn zrevrangebyscore(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    read(ctx, args, Some(By::Score), Some(true))
}

fn zrangebylex(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    read(ctx, args, Some(By::Lex), Some(false))
}

fn zrevrangebylex(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    read(ctx, args, Some(By::Lex), Some(true))
}

/// Replaces the value of the key by a sorted set, or removes the key if there are no elements. Returns the
/// keyspace event that the caller has to send.
pub(in crate::command) fn overwrite(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    elements: Vec<(Blob, f64)>,
    event: &'static str,
) -> Option<(Class, &'static str)> {
    if elements.is_empty() {
        return ctx
            .clear_destination(key)
            .then_some((Class::Generic, "del"));
    }
    let limits = SortedSetLimits::of(ctx.config());
    let set = SortedSet::from_elements(elements, limits);
    ctx.set(key, Value::SortedSet(set), Ttl::Clear);
    Some((Class::SortedSet, event))
}

/// The same for a command that replies with the number of elements before it sends its event.
pub(super) fn store(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    elements: Vec<(Blob, f64)>,
    event: &'static str,
) -> Reply {
    let count = elements.len();
    let event = overwrite(ctx, key, elements, event);
    ctx.replies_here();
    if let Some((class, event)) = event {
        ctx.notify(class, event, key);
    }
    Reply::Int(count as i64)
}

fn zrangestore(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (destination, source) = (args.required()?, args.required()?);
    let fixed = Fixed {
        by: None,
        is_reversed: None,
        stores: true,
    };
    let query = Query::parse(args, fixed)?;
    let set = ctx.read::<SortedSet>(source)?;
    let elements = set.map_or_else(Vec::new, |set| set.elements(query.ranks(set)));
    Ok(store(ctx, destination, elements, "zrangestore"))
}

fn count(ctx: &mut Ctx<'_>, args: &mut Args<'_>, by: By) -> CommandResult {
    let key = args.required()?;
    let bounds = Bounds::parse(by, args.required()?, args.required()?)?;
    let set = ctx.read::<SortedSet>(key)?;
    let count = set.map_or(0, |set| bounds.count(set));
    Ok(Reply::Int(count as i64))
}

fn zcount(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    count(ctx, args, By::Score)
}

fn zlexcount(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    count(ctx, args, By::Lex)
}

/// `t_zset.c: zremrangeGenericCommand`.
fn remove(ctx: &mut Ctx<'_>, args: &mut Args<'_>, by: By, event: &str) -> CommandResult {
    let key = args.required()?;
    let bounds = Bounds::parse(by, args.required()?, args.required()?)?;
    let Some(set) = ctx.write::<SortedSet>(key)? else {
        return Ok(Reply::Int(0));
    };
    let ranks = bounds.removed(set);
    let count = ranks.len();
    set.remove_range(ranks);
    let is_empty = set.is_empty();
    if count > 0 {
        ctx.removed_from(key, is_empty, (Class::SortedSet, event), TouchOrder::First);
    }
    Ok(Reply::Int(count as i64))
}

fn zremrangebyrank(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    remove(ctx, args, By::Rank, "zremrangebyrank")
}

fn zremrangebyscore(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    remove(ctx, args, By::Score, "zremrangebyscore")
}

fn zremrangebylex(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    remove(ctx, args, By::Lex, "zremrangebylex")
}

const RO: &[Flags] = &[Flags::READONLY];
const DELETE: &[&str] = &["RW", "delete"];

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[
    row("zrange", -4, zrange)
        .flags(RO)
        .keys(1, 1, 1, ACCESS)
        .since("1.2.0")
        .syntax(
            "key start stop [sortby=(BYSCORE | BYLEX)]@6.2.0 [REV]@6.2.0 [LIMIT \
             offset_count=(offset:integer count:integer)]@6.2.0 [WITHSCORES]",
        )
        .summary("The members of a range of ranks, scores or members."),
    row("zrangestore", -5, zrangestore)
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .keys(1, 1, 1, &["OW", "update"])
        .keys(2, 2, 1, ACCESS)
        .since("6.2.0")
        .syntax(
            "dst:key src:key min max [sortby=(BYSCORE | BYLEX)] [REV] [LIMIT \
             offset_count=(offset:integer count:integer)]",
        )
        .summary("Stores a range of a sorted set."),
    row("zrevrange", -4, zrevrange)
        .flags(RO)
        .keys(1, 1, 1, ACCESS)
        .since("1.2.0")
        .deprecated("6.2.0", "`ZRANGE` with `REV`")
        .syntax("key start:integer stop:integer [WITHSCORES]")
        .summary("The members of a range of ranks, the highest score first."),
    row("zrangebyscore", -4, zrangebyscore)
        .flags(RO)
        .keys(1, 1, 1, ACCESS)
        .since("1.0.5")
        .deprecated("6.2.0", "`ZRANGE` with `BYSCORE`")
        .syntax(
            "key min:double max:double [WITHSCORES]@2.0.0 [LIMIT offset_count=(offset:integer \
             count:integer)]",
        )
        .summary("The members of a range of scores."),
    row("zrevrangebyscore", -4, zrevrangebyscore)
        .flags(RO)
        .keys(1, 1, 1, ACCESS)
        .since("2.2.0")
        .deprecated("6.2.0", "`ZRANGE` with `REV` and `BYSCORE`")
        .syntax(
            "key max:double min:double [WITHSCORES] [LIMIT offset_count=(offset:integer count:integer)]",
        )
        .summary("The members of a range of scores, the highest first."),
    row("zrangebylex", -4, zrangebylex)
        .flags(RO)
        .keys(1, 1, 1, ACCESS)
        .since("2.8.9")
        .deprecated("6.2.0", "`ZRANGE` with `BYLEX`")
        .syntax("key min max [LIMIT offset_count=(offset:integer count:integer)]")
        .summary("The members of a range of members, where all scores are equal."),
    row("zrevrangebylex", -4, zrevrangebylex)
        .flags(RO)
        .keys(1, 1, 1, ACCESS)
        .since("2.8.9")
        .deprecated("6.2.0", "`ZRANGE` with `REV` and `BYLEX`")
        .syntax("key max min [LIMIT offset_count=(offset:integer count:integer)]")
        .summary("The members of a range of members, the last one first."),
    row("zcount", 4, zcount)
        .flags(super::RO_FAST)
        .keys(1, 1, 1, ACCESS)
        .since("2.0.0")
        .syntax("key min:double max:double")
        .summary("The number of members in a range of scores."),
    row("zlexcount", 4, zlexcount)
        .flags(super::RO_FAST)
        .keys(1, 1, 1, ACCESS)
        .since("2.8.9")
        .syntax("key min max")
        .summary("The number of members in a range of members."),
    row("zremrangebyrank", 4, zremrangebyrank)
        .flags(&[Flags::WRITE])
        .keys(1, 1, 1, DELETE)
        .since("2.0.0")
        .syntax("key start:integer stop:integer")
        .summary("Removes the members of a range of ranks."),
    row("zremrangebyscore", 4, zremrangebyscore)
        .flags(&[Flags::WRITE])
        .keys(1, 1, 1, DELETE)
        .since("1.2.0")
        .syntax("key min:double max:double")
        .summary("Removes the members of a range of scores."),
    row("zremrangebylex", 4, zremrangebylex)
        .flags(&[Flags::WRITE])
        .keys(1, 1, 1, DELETE)
        .since("2.8.9")
        .syntax("key min max")
        .summary("Removes the members of a range of members."),
];
