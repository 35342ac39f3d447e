//! Sets: walks through all members, and random members.

use super::row;
use crate::command::scan::{Options, parse_cursor};
use crate::command::spec::{CommandResult, CommandSpec, Flags};
use crate::command::{Args, CommandError, random};
use crate::engine::{Class, Ctx, Rng, Set, SetLimits};
use crate::resp::Reply;

/// While the remaining members are more than this multiple of the removed ones, members are removed one by
/// one; otherwise the remaining ones move to a new set (`SPOP_MOVE_STRATEGY_MUL`).
const FEW_STAY: usize = 5;

fn smembers(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let set = ctx.read::<Set>(args.required()?)?;
    let members = set.into_iter().flat_map(Set::iter);
    Ok(Reply::Set(
        members
            .map(|member| Reply::Bulk(member.to_blob()))
            .collect(),
    ))
}

fn sscan(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let key = args.required()?;
    let profile = ctx.config().profile;
    let cursor = parse_cursor(args.required()?, profile).ok_or(CommandError::InvalidCursor)?;
    let (found, next) = match ctx.read::<Set>(key)? {
        Some(set) => {
            let options = Options::parse(args, false)?;
            let (found, next) = set.scan(cursor, options.count);
            let matching = found.into_iter().filter(|member| options.matches(member));
            (
                matching
                    .map(|member| Reply::Bulk(member.to_blob()))
                    .collect(),
                next,
            )
        }
        None => (Vec::new(), 0),
    };
    Ok(Reply::Array(vec![
        Reply::bulk(next.to_string()),
        Reply::Array(found),
    ]))
}

/// `t_set.c: srandmemberCommand`.
fn srandmember(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let key = args.required()?;
    if args.is_empty() {
        let (set, rng) = ctx.read_with_draws::<Set>(key)?;
        let member = set.and_then(|set| set.at(random::one(rng, set.len())));
        return Ok(member.map_or(Reply::Nil, |member| Reply::Bulk(member.to_blob())));
    }
    if args.remaining() > 1 {
        return Err(CommandError::Syntax);
    }
    let count = args.integer_within(-i64::MAX, i64::MAX)?;
    let limits = ctx.output_limits();
    let (Some(set), rng) = ctx.read_with_draws::<Set>(key)? else {
        return Ok(Reply::Array(Vec::new()));
    };
    let positions = random::positions(rng, set.len(), count, limits, "members")?;
    let members = positions.into_iter().filter_map(|at| set.at(at));
    Ok(Reply::Array(
        members
            .map(|member| Reply::Bulk(member.to_blob()))
            .collect(),
    ))
}

/// `t_set.c: spopCommand`.
fn spop(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let key = args.required()?;
    if args.remaining() > 1 {
        return Err(CommandError::Syntax);
    }
    if !args.is_empty() {
        let count = args.integer_from(0, "ERR value is out of range, must be positive")?;
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        return pop_several(ctx, key, count);
    }
    let (Some(set), rng) = ctx.write_with_draws::<Set>(key)? else {
        return Ok(Reply::Nil);
    };
    let member = set.take_at(random::one(rng, set.len()));
    let is_empty = set.is_empty();
    ctx.notify(Class::Set, "spop", key);
    if let Some(member) = &member {
        ctx.propagate_as(&[b"SREM".into(), key.into(), (&member.to_blob()).into()]);
    }
    ctx.replies_here();
    leave(ctx, key, is_empty);
    Ok(member.map_or(Reply::Nil, |member| Reply::Bulk(member.to_blob())))
}

/// Concludes a command that removed members of a set and has published its own event.
fn leave(ctx: &mut Ctx<'_>, key: &[u8], is_empty: bool) {
    if is_empty {
        ctx.delete(key);
        ctx.notify(Class::Generic, "del", key);
    } else {
        ctx.touched(key);
    }
}

/// `t_set.c: spopWithCountCommand`.
fn pop_several(ctx: &mut Ctx<'_>, key: &[u8], count: usize) -> CommandResult {
    let limits = SetLimits::of(ctx.config());
    let (Some(set), rng) = ctx.write_with_draws::<Set>(key)? else {
        return Ok(Reply::Set(Vec::new()));
    };
    if count == 0 {
        return Ok(Reply::Set(Vec::new()));
    }
    let taken = take(set, count, rng, limits);
    let is_empty = set.is_empty();
    ctx.notify(Class::Set, "spop", key);
    if is_empty {
        ctx.propagate_as(&[b"DEL".into(), key.into()]);
    } else if ctx.is_propagated() {
        ctx.propagate_nothing();
        for member in &taken {
            if let Reply::Bulk(member) = member {
                ctx.also_propagate(&[b"SREM".into(), key.into(), member.into()]);
            }
        }
    }
    ctx.replies_here();
    leave(ctx, key, is_empty);
    Ok(Reply::Set(taken))
}

/// Removes random members from a set.
fn take(set: &mut Set, count: usize, rng: &mut Rng, limits: SetLimits) -> Vec<Reply> {
    let stay = set.len().saturating_sub(count);
    if stay > 0 && stay.saturating_mul(FEW_STAY) <= count {
        let mut others = set.for_a_part(limits);
        for _ in 0..stay {
            if let Some(member) = set.take_at(random::one(rng, set.len())) {
                others.insert(&member, limits);
            }
        }
        let taken = std::mem::replace(set, others);
        return taken
            .iter()
            .map(|member| Reply::Bulk(member.to_blob()))
            .collect();
    }
    if stay == 0 {
        let taken = std::mem::take(set);
        return taken
            .iter()
            .map(|member| Reply::Bulk(member.to_blob()))
            .collect();
    }
    let taken = (0..count).filter_map(|_| set.take_at(random::one(rng, set.len())));
    taken.map(|member| Reply::Bulk(member.to_blob())).collect()
}

const VARYING: &[&str] = &["nondeterministic_output"];
const ACCESS: &[&str] = &["RO", "access"];

pub(crate) const COMMANDS: &[CommandSpec] = &[
    row("smembers", 2, smembers)
        .flags(&[Flags::READONLY])
        .keys(1, 1, 1, ACCESS)
        .tips(&["nondeterministic_output_order"])
        .syntax("key")
        .summary("All members."),
    row("sscan", -3, sscan)
        .flags(&[Flags::READONLY])
        .keys(1, 1, 1, ACCESS)
        .tips(VARYING)
        .since("2.8.0")
        .syntax("key cursor:integer [MATCH pattern:pattern] [COUNT count:integer]")
        .summary("The members of a set, piece by piece."),
    row("spop", -2, spop)
        .flags(&[Flags::WRITE, Flags::FAST])
        .keys(1, 1, 1, &["RW", "access", "delete"])
        .tips(VARYING)
        .syntax("key [count:integer]@3.2.0")
        .summary("Removes and returns random members of a set."),
    row("srandmember", -2, srandmember)
        .flags(&[Flags::READONLY])
        .keys(1, 1, 1, ACCESS)
        .tips(VARYING)
        .syntax("key [count:integer]@2.6.0")
        .summary("Random members, without removing them."),
];
