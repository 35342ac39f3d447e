//! Sets: members by name. Walks and random members are in `walk.rs`, operations on several sets in `algebra.rs`.

pub(super) mod algebra;
pub(super) mod walk;

use crate::command::spec::{CommandResult, CommandSpec, Flags, Group, Handler};
use crate::command::{Args, CommandError};
use crate::engine::{Class, Ctx, Set, SetLimits, TouchOrder, Value};
use crate::resp::Reply;

/// Adds members to the set at `key`, and creates it if it is missing; returns the number of new members.
fn add<'a>(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    members: impl Iterator<Item = &'a [u8]> + Clone,
    limits: SetLimits,
) -> Result<i64, CommandError> {
    let (first, count) = (members.clone().next(), members.clone().count());
    let added = if let Some(set) = ctx.write::<Set>(key)? {
        set.expect(count, limits);
        members.filter(|member| set.insert(member, limits)).count()
    } else {
        let mut set = Set::for_first(first.unwrap_or_default(), count, limits);
        let added = members.filter(|member| set.insert(member, limits)).count();
        ctx.add(key, Value::Set(set));
        added
    };
    if added > 0 {
        ctx.touched(key);
        ctx.notify(Class::Set, "sadd", key);
    }
    Ok(added as i64)
}

fn sadd(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let key = args.required()?;
    let limits = SetLimits::of(ctx.config());
    add(ctx, key, args.rest(), limits).map(Reply::Int)
}

fn srem(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let key = args.required()?;
    let Some(set) = ctx.write::<Set>(key)? else {
        return Ok(Reply::Int(0));
    };
    let removed = args.rest().filter(|member| set.remove(member)).count();
    let is_empty = set.is_empty();
    if removed > 0 {
        ctx.removed_from(key, is_empty, (Class::Set, "srem"), TouchOrder::First);
    }
    Ok(Reply::Int(removed as i64))
}

fn scard(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let set = ctx.read::<Set>(args.required()?)?;
    Ok(Reply::Int(set.map_or(0, |set| set.len() as i64)))
}

fn sismember(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (key, member) = (args.required()?, args.required()?);
    let set = ctx.read::<Set>(key)?;
    Ok(Reply::Int(
        set.is_some_and(|set| set.contains(member)).into(),
    ))
}

fn smismember(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let set = ctx.read::<Set>(args.required()?)?;
    let contains = |member: &[u8]| set.is_some_and(|set| set.contains(member));
    let replies = args
        .rest()
        .map(|member| Reply::Int(contains(member).into()));
    Ok(Reply::Array(replies.collect()))
}

/// `t_set.c: smoveCommand`.
fn smove(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (from, to, member) = (args.required()?, args.required()?, args.required()?);
    let limits = SetLimits::of(ctx.config());
    let Some(source) = ctx.find(from) else {
        ctx.find(to);
        return Ok(Reply::Int(0));
    };
    ctx.write::<Set>(from)?;
    ctx.write::<Set>(to)?;
    let is_same = ctx.find(to) == Some(source);
    let Some(set) = ctx.write::<Set>(from)? else {
        return Ok(Reply::Int(0));
    };
    if is_same || !set.remove(member) {
        return Ok(Reply::Int(set.contains(member).into()));
    }
    let is_empty = set.is_empty();
    ctx.removed_from(from, is_empty, (Class::Set, "srem"), TouchOrder::Last);
    add(ctx, to, std::iter::once(member), limits)?;
    Ok(Reply::Int(1))
}

const RO_FAST: &[Flags] = &[Flags::READONLY, Flags::FAST];
const WRITE_FAST: &[Flags] = &[Flags::WRITE, Flags::FAST];

pub(crate) const COMMANDS: &[CommandSpec] = &[
    row("sadd", -3, sadd)
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .keys(1, 1, 1, &["RW", "insert"])
        .syntax("key member...")
        .summary("Adds members to a set."),
    row("srem", -3, srem)
        .flags(WRITE_FAST)
        .keys(1, 1, 1, &["RW", "delete"])
        .syntax("key member...")
        .summary("Removes members, and the key with its last member."),
    row("scard", 2, scard)
        .flags(RO_FAST)
        .keys(1, 1, 1, &["RO"])
        .syntax("key")
        .summary("The number of members."),
    row("sismember", 3, sismember)
        .flags(RO_FAST)
        .keys(1, 1, 1, &["RO"])
        .syntax("key member")
        .summary("Whether a string is a member."),
    row("smismember", -3, smismember)
        .flags(RO_FAST)
        .keys(1, 1, 1, &["RO", "access"])
        .since("6.2.0")
        .syntax("key member...")
        .summary("Whether each of some strings is a member."),
    row("smove", 4, smove)
        .flags(WRITE_FAST)
        .keys(1, 1, 1, &["RW", "access", "delete"])
        .keys(2, 2, 1, &["RW", "insert"])
        .syntax("source:key destination:key member")
        .summary("Moves a member from one set to another."),
];

const fn row(name: &'static str, arity: i32, handler: Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::Set, handler)
}
