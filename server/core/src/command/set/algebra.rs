//! Sets: intersections, unions and differences.
//!
//! The encoding of a stored set depends on Redis's algorithm, so the algorithms are the same (`t_set.c:
//! sinterGenericCommand`, `sunionDiffGenericCommand`).

use super::row;
use crate::command::spec::{CommandResult, CommandSpec, Flags, Handler};
use crate::command::{Args, CommandError};
use crate::engine::{Class, Ctx, Set, SetLimits, Ttl, Value};
use crate::resp::Reply;
use std::cmp::Reverse;

/// Returns the sets at keys; `None` for a missing key. They share their members with the keyspace.
fn sets_at(ctx: &mut Ctx<'_>, keys: &[&[u8]]) -> Result<Vec<Option<Set>>, CommandError> {
    let mut sets = Vec::with_capacity(keys.len());
    for key in keys {
        sets.push(ctx.read::<Set>(key)?.cloned());
    }
    Ok(sets)
}

/// Returns the sets from the smallest to the largest; empty if a key is missing.
fn by_size(sets: Vec<Option<Set>>) -> Vec<Set> {
    let sets = sets.into_iter().collect::<Option<Vec<Set>>>();
    let mut sets = sets.unwrap_or_default();
    sets.sort_by_key(Set::len);
    sets
}

/// Finds the members of the first set that all other sets have.
fn common(sets: &[Set], mut each: impl FnMut(&[u8]) -> bool) {
    let Some((smallest, others)) = sets.split_first() else {
        return;
    };
    for member in smallest.iter() {
        let is_common = others.iter().all(|other| other.contains(&member));
        if is_common && !each(&member) {
            return;
        }
    }
}

fn intersection(sets: Vec<Option<Set>>, limits: SetLimits) -> Set {
    let sets = by_size(sets);
    let smallest = sets.first();
    let mut result = smallest.map_or_else(Set::default, |set| set.for_a_part(limits));
    common(&sets, |member| {
        result.insert(member, limits);
        true
    });
    result.settle(limits);
    result
}

fn union(sets: Vec<Option<Set>>, limits: SetLimits) -> Set {
    let mut result = Set::default();
    for member in sets.iter().flatten().flat_map(Set::iter) {
        result.insert(&member, limits);
    }
    result
}

fn difference(keys: &[&[u8]], mut sets: Vec<Option<Set>>, limits: SetLimits) -> Set {
    let mut result = Set::default();
    let is_in_itself = keys.iter().skip(1).any(|key| *key == keys[0]);
    let Some(first) = sets
        .first_mut()
        .and_then(Option::take)
        .filter(|_| !is_in_itself)
    else {
        return result;
    };
    let mut others: Vec<Set> = sets.into_iter().flatten().collect();
    // Redis looks up each member if that is cheaper than removing the members of all other sets.
    let look_ups = (others.len() + 1).saturating_mul(first.len()) / 2;
    let removals = first.len() + others.iter().map(Set::len).sum::<usize>();
    if look_ups <= removals {
        others.sort_by_key(|other| Reverse(other.len()));
        for member in first.iter() {
            if !others.iter().any(|other| other.contains(&member)) {
                result.insert(&member, limits);
            }
        }
        return result;
    }
    for member in first.iter() {
        result.insert(&member, limits);
    }
    for other in others {
        for member in other.iter() {
            result.remove(&member);
        }
        if result.is_empty() {
            break;
        }
    }
    result
}

#[derive(Clone, Copy)]
enum Operation {
    Intersection,
    Union,
    Difference,
}

impl Operation {
    /// Returns the resulting set, and whether a key is missing.
    fn run(self, ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<(Set, bool), CommandError> {
        let keys: Vec<&[u8]> = args.rest().collect();
        let limits = SetLimits::of(ctx.config());
        let sets = sets_at(ctx, &keys)?;
        let misses_one = sets.iter().any(Option::is_none);
        let result = match self {
            Self::Intersection => intersection(sets, limits),
            Self::Union => union(sets, limits),
            Self::Difference => difference(&keys, sets, limits),
        };
        Ok((result, misses_one))
    }

    fn event(self) -> &'static str {
        match self {
            Self::Intersection => "sinterstore",
            Self::Union => "sunionstore",
            Self::Difference => "sdiffstore",
        }
    }
}

fn reply(ctx: &mut Ctx<'_>, args: &mut Args<'_>, operation: Operation) -> CommandResult {
    let (members, _) = operation.run(ctx, args)?;
    let members = members.iter().map(|member| Reply::Bulk(member.to_blob()));
    Ok(Reply::Set(members.collect()))
}

fn store(ctx: &mut Ctx<'_>, args: &mut Args<'_>, operation: Operation) -> CommandResult {
    let destination = args.required()?;
    let (set, misses_one) = operation.run(ctx, args)?;
    let len = set.len();
    if len > 0 {
        ctx.set(destination, Value::Set(set), Ttl::Clear);
        ctx.replies_here();
        ctx.notify(Class::Set, operation.event(), destination);
    } else {
        // An intersection with a missing set is empty at once: Redis then writes its reply last.
        let is_at_once = misses_one && matches!(operation, Operation::Intersection);
        if !is_at_once {
            ctx.replies_here();
        }
        if ctx.clear_destination(destination) {
            ctx.notify(Class::Generic, "del", destination);
        }
    }
    Ok(Reply::Int(len as i64))
}

fn sinter(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    reply(ctx, args, Operation::Intersection)
}

fn sunion(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    reply(ctx, args, Operation::Union)
}

fn sdiff(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    reply(ctx, args, Operation::Difference)
}

fn sinterstore(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    store(ctx, args, Operation::Intersection)
}

fn sunionstore(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    store(ctx, args, Operation::Union)
}

fn sdiffstore(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    store(ctx, args, Operation::Difference)
}

/// `t_set.c: sinterCardCommand`.
fn sintercard(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let count = args.integer_from(1, "ERR numkeys should be greater than 0")?;
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    if count > args.remaining() {
        let text = "ERR Number of keys can't be greater than number of args";
        return Err(CommandError::Text(text.into()));
    }
    let keys: Vec<&[u8]> = (0..count).filter_map(|_| args.next()).collect();
    let mut limit = 0;
    while !args.is_empty() {
        if args.remaining() < 2 || !args.keyword("LIMIT") {
            return Err(CommandError::Syntax);
        }
        limit = args.integer_from(0, "ERR LIMIT can't be negative")?;
    }
    let mut found = 0;
    common(&by_size(sets_at(ctx, &keys)?), |_| {
        found += 1;
        found != limit
    });
    Ok(Reply::Int(found))
}

const RO: &[Flags] = &[Flags::READONLY];
const STORE: &[Flags] = &[Flags::WRITE, Flags::DENYOOM];
const ACCESS: &[&str] = &["RO", "access"];
const UNORDERED: &[&str] = &["nondeterministic_output_order"];

pub(crate) const COMMANDS: &[CommandSpec] = &[
    read("sinter", sinter).summary("The members that all sets have."),
    read("sunion", sunion).summary("The members that any of the sets has."),
    read("sdiff", sdiff).summary("The members of the first set that no other set has."),
    write("sinterstore", sinterstore, &["RW", "update"])
        .summary("Stores the members that all sets have."),
    write("sunionstore", sunionstore, &["OW", "update"])
        .summary("Stores the members that any of the sets has."),
    write("sdiffstore", sdiffstore, &["OW", "update"])
        .summary("Stores the members of the first set that no other set has."),
    row("sintercard", -3, sintercard)
        .flags(RO)
        .counted_keys(1, ACCESS)
        .since("7.0.0")
        .syntax("numkeys:integer key... [LIMIT limit:integer]")
        .summary("Counts the members that all sets have."),
];

const fn read(name: &'static str, handler: Handler) -> CommandSpec {
    row(name, -2, handler)
        .flags(RO)
        .keys(1, -1, 1, ACCESS)
        .tips(UNORDERED)
        .syntax("key...")
}

const fn write(
    name: &'static str,
    handler: Handler,
    destination: &'static [&'static str],
) -> CommandSpec {
    row(name, -3, handler)
        .flags(STORE)
        .keys(1, 1, 1, destination)
        .keys(2, -1, 1, ACCESS)
        .syntax("destination:key key...")
}
