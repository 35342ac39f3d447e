//! Sets: members by name. Walks and random members are in `walk.rs`, operations on several sets in `algebra.rs`.

pub(super) mod algebra;
pub(super) mod walk;

use crate::command::Args;
use crate::command::spec::{CommandResult, CommandSpec, Flags, Group, Handler};
use crate::engine::{Class, Ctx, Set, SetLimits, TouchOrder, Value};
use crate::resp::Reply;

/// Adds members to a set, or to a new one, which is returned; and the number of new members.
#[inline]
fn add<'a>(
    set: Option<&mut Set>,
    members: impl Iterator<Item = &'a [u8]> + Clone,
    limits: SetLimits,
) -> (Option<Set>, usize) {
    let count = members.clone().count();
    if let Some(set) = set {
        set.expect(count, limits);
        let added = members.filter(|member| set.insert(member, limits)).count();
        return (None, added);
    }
    let first = members.clone().next();
    let mut set = Set::for_first(first.unwrap_or_default(), count, limits);
    let added = members.filter(|member| set.insert(member, limits)).count();
    (Some(set), added)
}

/// Ends a command that has added members: stores a set that is new, and reports the change.
#[inline]
fn added(ctx: &mut Ctx<'_>, key: &[u8], new: Option<Set>, count: usize) {
    if let Some(set) = new {
        ctx.add(key, Value::Set(set));
    }
    if count > 0 {
        ctx.touched(key);
        ctx.notify(Class::Set, "sadd", key);
    }
}

fn sadd(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let key = args.required()?;
    let limits = SetLimits::of(ctx.config());
    let (new, count) = add(ctx.write::<Set>(key)?, args.rest(), limits);
    added(ctx, key, new, count);
    Ok(Reply::Int(count as i64))
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
    let (source, destination) = (ctx.find(from), ctx.find(to));
    if source.is_none() {
        return Ok(Reply::Int(0));
    }
    ctx.read_again::<Set>(from)?;
    ctx.read_again::<Set>(to)?;
    let Some(set) = ctx.write_again::<Set>(from)? else {
        return Ok(Reply::Int(0));
    };
    if source == destination || !set.remove(member) {
        return Ok(Reply::Int(set.contains(member).into()));
    }
    let is_empty = set.is_empty();
    ctx.removed_from(from, is_empty, (Class::Set, "srem"), TouchOrder::Last);
    let (new, count) = add(ctx.write_again::<Set>(to)?, std::iter::once(member), limits);
    added(ctx, to, new, count);
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
