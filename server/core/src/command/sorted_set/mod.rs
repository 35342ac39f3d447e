//! Sorted sets: members by name. Ranges, unions and intersections, pops and walks are in the files of this
//! folder.

pub(super) mod algebra;
mod bound;
pub(super) mod pop;
pub(super) mod range;
pub(super) mod walk;

use super::spec::{CommandResult, CommandSpec, Flags, Group, Handler};
use super::{Args, CommandError};
use crate::engine::{Class, Ctx, SortedSet, SortedSetLimits, TouchOrder, Value};
use crate::resp::{Blob, Reply};
pub(super) use bound::score;

const RO_FAST: &[Flags] = &[Flags::READONLY, Flags::FAST];
const STORE_FAST: &[Flags] = &[Flags::WRITE, Flags::DENYOOM, Flags::FAST];
const ACCESS: &[&str] = &["RO", "access"];

const fn row(name: &'static str, arity: i32, handler: Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::SortedSet, handler)
}

/// Members and scores as a reply: members alone, or with their scores.
fn elements_reply(elements: Vec<(Blob, f64)>, with_scores: bool) -> Reply {
    let elements = elements.into_iter();
    if with_scores {
        let pair = |(member, score)| (Reply::Bulk(member), Reply::Double(score));
        Reply::Pairs(elements.map(pair).collect())
    } else {
        Reply::Array(elements.map(|(member, _)| Reply::Bulk(member)).collect())
    }
}

/// The options of ZADD (`t_zset.c: zaddGenericCommand`).
#[derive(Default)]
pub(super) struct Conditions {
    pub(super) nx: bool,
    pub(super) xx: bool,
    gt: bool,
    lt: bool,
    /// Updated elements count too.
    pub(super) changed: bool,
    increment: bool,
}

impl Conditions {
    fn parse(args: &mut Args<'_>, increment: bool) -> Result<Self, CommandError> {
        let mut conditions = Self {
            increment,
            ..Self::default()
        };
        loop {
            match () {
                () if args.keyword("NX") => conditions.nx = true,
                () if args.keyword("XX") => conditions.xx = true,
                () if args.keyword("CH") => conditions.changed = true,
                () if args.keyword("INCR") => conditions.increment = true,
                () if args.keyword("GT") => conditions.gt = true,
                () if args.keyword("LT") => conditions.lt = true,
                () => break,
            }
        }
        if args.is_empty() || !args.remaining().is_multiple_of(2) {
            return Err(CommandError::Syntax);
        }
        let Self { nx, xx, gt, lt, .. } = conditions;
        if nx && xx {
            return Err(CommandError::Text(
                "ERR XX and NX options at the same time are not compatible".into(),
            ));
        }
        if nx && (gt || lt) || gt && lt {
            return Err(CommandError::Text(
                "ERR GT, LT, and/or NX options at the same time are not compatible".into(),
            ));
        }
        if conditions.increment && args.remaining() > 2 {
            return Err(CommandError::Text(
                "ERR INCR option supports a single increment-element pair".into(),
            ));
        }
        Ok(conditions)
    }
}

/// Effect of ZADD on one element.
#[derive(Clone, Copy, PartialEq)]
enum Outcome {
    /// A condition did not hold.
    Refused,
    Added(f64),
    Updated(f64),
    Unchanged(f64),
}

/// Adds one element, or changes its score (`t_zset.c: zsetAdd`).
fn put(
    set: &mut SortedSet,
    member: &[u8],
    score: f64,
    conditions: &Conditions,
    limits: SortedSetLimits,
) -> Result<Outcome, CommandError> {
    let Some(current) = set.score(member) else {
        return Ok(if conditions.xx {
            Outcome::Refused
        } else {
            set.insert(member, score, limits);
            Outcome::Added(score)
        });
    };
    if conditions.nx {
        return Ok(Outcome::Refused);
    }
    let score = if conditions.increment {
        current + score
    } else {
        score
    };
    if score.is_nan() {
        return Err(CommandError::Text(
            "ERR resulting score is not a number (NaN)".into(),
        ));
    }
    if conditions.lt && score >= current || conditions.gt && score <= current {
        return Ok(Outcome::Refused);
    }
    Ok(if score == current {
        Outcome::Unchanged(score)
    } else {
        set.set_score(member, score);
        Outcome::Updated(score)
    })
}

/// Adds elements to a sorted set or changes their scores; returns the numbers of added and of updated
/// elements, and the outcome of the last one.
fn put_all(
    set: &mut SortedSet,
    elements: &[(f64, &[u8])],
    conditions: &Conditions,
    limits: SortedSetLimits,
) -> Result<(i64, i64, Outcome), CommandError> {
    let (mut added, mut updated, mut last) = (0, 0, Outcome::Refused);
    for (score, member) in elements {
        last = put(set, member, *score, conditions, limits)?;
        added += i64::from(matches!(last, Outcome::Added(_)));
        updated += i64::from(matches!(last, Outcome::Updated(_)));
    }
    Ok((added, updated, last))
}

/// Adds elements to the sorted set at `key`, or changes their scores; answers as ZADD does.
pub(super) fn add(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    elements: &[(f64, &[u8])],
    conditions: &Conditions,
) -> CommandResult {
    let limits = SortedSetLimits::of(ctx.config());
    let (added, updated, last) = if let Some(set) = ctx.write::<SortedSet>(key)? {
        put_all(set, elements, conditions, limits)?
    } else if conditions.xx {
        (0, 0, Outcome::Refused)
    } else {
        let first_bytes = elements.first().map_or(0, |(_, member)| member.len());
        let mut set = SortedSet::for_first(first_bytes, limits);
        let outcome = put_all(&mut set, elements, conditions, limits)?;
        ctx.add(key, Value::SortedSet(set));
        outcome
    };
    ctx.replies_here();
    if added + updated > 0 {
        ctx.touched(key);
        let event = if conditions.increment {
            "zincr"
        } else {
            "zadd"
        };
        ctx.notify(Class::SortedSet, event, key);
    }
    Ok(match last {
        Outcome::Refused if conditions.increment => Reply::Nil,
        Outcome::Added(score) | Outcome::Updated(score) | Outcome::Unchanged(score)
            if conditions.increment =>
        {
            Reply::Double(score)
        }
        Outcome::Refused | Outcome::Added(_) | Outcome::Updated(_) | Outcome::Unchanged(_) => {
            let changed = if conditions.changed { updated } else { 0 };
            Reply::Int(added + changed)
        }
    })
}

fn zadd_in(ctx: &mut Ctx<'_>, args: &mut Args<'_>, increment: bool) -> CommandResult {
    let key = args.required()?;
    let conditions = Conditions::parse(args, increment)?;
    let mut elements = Vec::with_capacity(args.remaining() / 2);
    while let (Some(text), Some(member)) = (args.next(), args.next()) {
        elements.push((score(text)?, member));
    }
    add(ctx, key, &elements, &conditions)
}

fn zadd(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    zadd_in(ctx, args, false)
}

fn zincrby(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    zadd_in(ctx, args, true)
}

fn zrem(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let key = args.required()?;
    let Some(set) = ctx.write::<SortedSet>(key)? else {
        return Ok(Reply::Int(0));
    };
    let count = args.rest().filter(|member| set.remove(member)).count();
    let is_empty = set.is_empty();
    if count > 0 {
        ctx.removed_from(key, is_empty, (Class::SortedSet, "zrem"), TouchOrder::Last);
    }
    Ok(Reply::Int(count as i64))
}

fn zcard(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let set = ctx.read::<SortedSet>(args.required()?)?;
    Ok(Reply::Int(set.map_or(0, |set| set.len() as i64)))
}

fn zscore(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (key, member) = (args.required()?, args.required()?);
    let score = ctx
        .read::<SortedSet>(key)?
        .and_then(|set| set.score(member));
    Ok(score.map_or(Reply::Nil, Reply::Double))
}

fn zmscore(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let set = ctx.read::<SortedSet>(args.required()?)?;
    let score = |member: &[u8]| set.and_then(|set| set.score(member));
    let replies = args
        .rest()
        .map(|member| score(member).map_or(Reply::Nil, Reply::Double));
    Ok(Reply::Array(replies.collect()))
}

/// `t_zset.c: zrankGenericCommand`; WITHSCORE is an option from 7.2 on, where the arity lets it pass.
fn rank(ctx: &mut Ctx<'_>, args: &mut Args<'_>, name: &str, is_reversed: bool) -> CommandResult {
    let (key, member) = (args.required()?, args.required()?);
    if args.remaining() > 1 {
        return Err(CommandError::Arity {
            command: name.to_owned(),
        });
    }
    let with_score = args.keyword("WITHSCORE");
    if !args.is_empty() {
        return Err(CommandError::Syntax);
    }
    let found = ctx.read::<SortedSet>(key)?.and_then(|set| {
        let (rank, score) = set.rank(member)?;
        let rank = if is_reversed {
            set.len() - 1 - rank
        } else {
            rank
        };
        Some((Reply::Int(rank as i64), score))
    });
    Ok(match (found, with_score) {
        (None, true) => Reply::NilArray,
        (None, false) => Reply::Nil,
        (Some((rank, score)), true) => Reply::Array(vec![rank, Reply::Double(score)]),
        (Some((rank, _)), false) => rank,
    })
}

fn zrank(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    rank(ctx, args, "zrank", false)
}

fn zrevrank(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    rank(ctx, args, "zrevrank", true)
}

pub(super) const COMMANDS: &[CommandSpec] = &[
    row("zadd", -4, zadd)
        .flags(STORE_FAST)
        .keys(1, 1, 1, &["RW", "update"])
        .since("1.2.0")
        .syntax(
            "key [condition=(NX | XX)]@3.0.2 [comparison=(GT | LT)]@6.2.0 [change=CH]@3.0.2 \
             [increment=INCR]@3.0.2 score_member=(score:double member)...",
        )
        .summary("Adds members to a sorted set, or changes their scores."),
    row("zincrby", 4, zincrby)
        .flags(STORE_FAST)
        .keys(1, 1, 1, &["RW", "access", "update"])
        .since("1.2.0")
        .syntax("key increment:integer member")
        .summary("Adds to the score of a member."),
    row("zrem", -3, zrem)
        .flags(&[Flags::WRITE, Flags::FAST])
        .keys(1, 1, 1, &["RW", "delete"])
        .since("1.2.0")
        .syntax("key member...")
        .summary("Removes members, and the key with its last member."),
    row("zcard", 2, zcard)
        .flags(RO_FAST)
        .keys(1, 1, 1, &["RO"])
        .since("1.2.0")
        .syntax("key")
        .summary("The number of members."),
    row("zscore", 3, zscore)
        .flags(RO_FAST)
        .keys(1, 1, 1, ACCESS)
        .since("1.2.0")
        .syntax("key member")
        .summary("The score of a member."),
    row("zmscore", -3, zmscore)
        .flags(RO_FAST)
        .keys(1, 1, 1, ACCESS)
        .since("6.2.0")
        .syntax("key member...")
        .summary("The scores of several members."),
    row("zrank", 3, zrank)
        .flags(RO_FAST)
        .keys(1, 1, 1, ACCESS)
        .since("2.0.0")
        .arity_from("7.2.0", -3)
        .syntax("key member [WITHSCORE]@7.2.0")
        .summary("Rank of a member, from the lowest score."),
    row("zrevrank", 3, zrevrank)
        .flags(RO_FAST)
        .keys(1, 1, 1, ACCESS)
        .since("2.0.0")
        .arity_from("7.2.0", -3)
        .syntax("key member [WITHSCORE]@7.2.0")
        .summary("Rank of a member, from the highest score."),
];
