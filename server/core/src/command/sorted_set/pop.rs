//! Sorted sets: elements that are removed at one end, and waited for.

use super::row;
use crate::command::pop::{TwoEnded, pop_or_wait, pop_several, pop_several_or_wait};
use crate::command::spec::{CommandResult, CommandSpec, Flags};
use crate::command::{Args, CommandError};
use crate::engine::{Arg, Class, Ctx, Kind, SortedSet, TouchOrder};
use crate::resp::{Blob, Reply};

/// The end from which elements are removed.
#[derive(Clone, Copy, PartialEq)]
pub(in crate::command) enum End {
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

/// Removes up to `count` elements, at least one, from one end; `None` if there is no sorted set (`t_zset.c:
/// genericZpopCommand`).
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
    let event = (Class::SortedSet, end.event());
    ctx.removed_from(key, is_empty, event, TouchOrder::BeforeDel);
    Ok(Some(taken))
}

impl TwoEnded for SortedSet {
    type End = End;
    type Taken = Vec<(Blob, f64)>;

    const KIND: Kind = Kind::SortedSet;
    const IS_LOOKED_UP_TWICE: bool = true;
    const ENDS: [(&'static str, End); 2] = [("MIN", End::Min), ("MAX", End::Max)];

    fn command(end: End) -> Arg<'static> {
        match end {
            End::Min => b"ZPOPMIN".into(),
            End::Max => b"ZPOPMAX".into(),
        }
    }

    fn take(
        ctx: &mut Ctx<'_>,
        key: &[u8],
        end: End,
        count: usize,
    ) -> Result<Option<Vec<(Blob, f64)>>, CommandError> {
        take(ctx, key, end, count)
    }

    fn flat(taken: Vec<(Blob, f64)>) -> Vec<Reply> {
        let parts = |(member, score)| [Reply::Bulk(member), Reply::Double(score)];
        taken.into_iter().flat_map(parts).collect()
    }

    fn nested(taken: Vec<(Blob, f64)>) -> Vec<Reply> {
        let pair = |(member, score)| Reply::Array(vec![Reply::Bulk(member), Reply::Double(score)]);
        taken.into_iter().map(pair).collect()
    }
}

fn pop(ctx: &mut Ctx<'_>, args: &mut Args<'_>, end: End) -> CommandResult {
    if args.remaining() > 2 {
        return Err(CommandError::Syntax);
    }
    let key = args.required()?;
    if args.is_empty() {
        let taken = take(ctx, key, end, 1)?;
        return Ok(Reply::Array(SortedSet::flat(taken.unwrap_or_default())));
    }
    let count = args.integer_from(0, "ERR value is out of range, must be positive")?;
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    if count == 0 {
        ctx.write::<SortedSet>(key)?;
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

fn bzpopmin(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    pop_or_wait::<SortedSet>(ctx, args, End::Min)
}

fn bzpopmax(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    pop_or_wait::<SortedSet>(ctx, args, End::Max)
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
        .summary("Removes and returns the members with the lowest scores."),
    row("zpopmax", -2, zpopmax)
        .flags(FAST)
        .keys(1, 1, 1, DELETE)
        .since("5.0.0")
        .syntax("key [count:integer]")
        .summary("Removes and returns the members with the highest scores."),
    row("bzpopmin", -3, bzpopmin)
        .flags(WAIT)
        .keys(1, -2, 1, DELETE)
        .since("5.0.0")
        .syntax("key... timeout:double")
        .summary("Removes and returns the member with the lowest score; can wait for one."),
    row("bzpopmax", -3, bzpopmax)
        .flags(WAIT)
        .keys(1, -2, 1, DELETE)
        .since("5.0.0")
        .syntax("key... timeout:double")
        .summary("Removes and returns the member with the highest score; can wait for one."),
    row("zmpop", -4, pop_several::<SortedSet>)
        .flags(&[Flags::WRITE])
        .counted_keys(1, DELETE)
        .since("7.0.0")
        .syntax("numkeys:integer key... where=(MIN | MAX) [COUNT count:integer]")
        .summary("Removes and returns members of the first sorted set that exists."),
    row("bzmpop", -5, pop_several_or_wait::<SortedSet>)
        .flags(&[Flags::WRITE, Flags::BLOCKING])
        .counted_keys(2, DELETE)
        .since("7.0.0")
        .syntax("timeout:double numkeys:integer key... where=(MIN | MAX) [COUNT count:integer]")
        .summary(
            "Removes and returns members of the first sorted set that exists; can wait for one.",
        ),
];
