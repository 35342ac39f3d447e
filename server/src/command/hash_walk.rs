//! Hashes: all of their fields, some after the others, and random ones.

use super::scan::{Options, parse_cursor};
use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError};
use crate::engine::{Ctx, Hash, Rng};
use crate::resp::{Blob, Reply};
use std::collections::BTreeSet;

/// Fields that one HRANDFIELD with a negative count gives at most. Redis writes until its memory ends.
pub(super) const RANDOM_MAX: usize = 1 << 22;
/// Fewer than one in so many are drawn until they are different (`HRANDFIELD_SUB_STRATEGY_MUL`).
const FEW: usize = 3;

fn bulk(bytes: &Blob) -> Reply {
    Reply::Bulk(bytes.clone())
}

fn pair((field, value): (&Blob, &Blob)) -> (Reply, Reply) {
    (bulk(field), bulk(value))
}

fn hgetall(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let hash = ctx.read::<Hash>(args.required()?)?;
    let pairs = hash.into_iter().flat_map(Hash::iter);
    Ok(Reply::Map(pairs.map(pair).collect()))
}

fn hkeys(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let hash = ctx.read::<Hash>(args.required()?)?;
    let pairs = hash.into_iter().flat_map(Hash::iter);
    Ok(Reply::Array(pairs.map(|(field, _)| bulk(field)).collect()))
}

fn hvals(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let hash = ctx.read::<Hash>(args.required()?)?;
    let pairs = hash.into_iter().flat_map(Hash::iter);
    Ok(Reply::Array(pairs.map(|(_, value)| bulk(value)).collect()))
}

/// Goes from the last position to the first, since a removal moves the last pair to the place of the
/// removed one: what moves has been seen, or is still to come. The cursor is how many are to come.
fn hscan(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let key = args.required()?;
    let cursor = parse_cursor(args.required()?).ok_or(CommandError::InvalidCursor)?;
    let reply = |cursor: usize, found: Vec<Reply>| {
        Ok(Reply::Array(vec![
            Reply::bulk(cursor.to_string()),
            Reply::Array(found),
        ]))
    };
    let Some(hash) = ctx.read::<Hash>(key)? else {
        return reply(0, Vec::new());
    };
    let options = Options::parse(args, false)?;
    let (from, to) = match hash {
        // A listpack is given as a whole.
        Hash::Small(pairs) => (pairs.len(), 0),
        Hash::Big(map) => {
            let from = match usize::try_from(cursor) {
                Ok(0) => map.len(),
                Ok(cursor) => cursor.min(map.len()),
                Err(_) => map.len(),
            };
            (from, from.saturating_sub(options.count))
        }
    };
    let matching = |(field, value): (&'_ Blob, &'_ Blob)| {
        options.matches(field).then(|| [bulk(field), bulk(value)])
    };
    let found = if matches!(hash, Hash::Small(_)) {
        hash.iter().filter_map(matching).flatten().collect()
    } else {
        let positions = (to..from).rev().filter_map(|at| hash.at(at));
        positions.filter_map(matching).flatten().collect()
    };
    reply(to, found)
}

/// Positions that HRANDFIELD gives: `count` different ones, in the order of the hash.
pub(super) fn different(rng: &mut Rng, len: usize, count: usize) -> Vec<usize> {
    let mut wanted = count.min(len);
    if wanted.saturating_mul(FEW) < len {
        let mut positions = BTreeSet::new();
        while positions.len() < wanted {
            positions.insert((rng.next_u64() % len as u64) as usize);
        }
        return positions.into_iter().collect();
    }
    // Algorithm S (Knuth, 3.4.2): each position is taken with the probability that is left.
    let mut positions = Vec::with_capacity(wanted);
    for at in 0..len {
        if wanted > 0 && rng.next_u64() % ((len - at) as u64) < wanted as u64 {
            positions.push(at);
            wanted -= 1;
        }
    }
    positions
}

/// `t_hash.c: hrandfieldCommand`.
fn hrandfield(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let key = args.required()?;
    if args.is_empty() {
        let (Some(hash), rng) = ctx.read_with_draws::<Hash>(key)? else {
            return Ok(Reply::Nil);
        };
        let at = (rng.next_u64() % hash.len() as u64) as usize;
        return Ok(hash.at(at).map_or(Reply::Nil, |(field, _)| bulk(field)));
    }
    let count = args.integer_within(-i64::MAX, i64::MAX)?;
    let with_values = args.keyword("WITHVALUES");
    if !args.is_empty() {
        return Err(CommandError::Syntax);
    }
    if with_values && count.unsigned_abs() > (i64::MAX / 2).unsigned_abs() {
        return Err(CommandError::Text("ERR value is out of range".into()));
    }
    let (Some(hash), rng) = ctx.read_with_draws::<Hash>(key)? else {
        return Ok(Reply::Array(Vec::new()));
    };
    let size = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    let positions: Vec<usize> = if count >= 0 {
        different(rng, hash.len(), size)
    } else if size <= RANDOM_MAX {
        let len = hash.len() as u64;
        (0..size).map(|_| (rng.next_u64() % len) as usize).collect()
    } else {
        let text = format!("ERR redouble gives no more than {RANDOM_MAX} random fields at once");
        return Err(CommandError::Text(text.into()));
    };
    let pairs = positions.into_iter().filter_map(|at| hash.at(at));
    Ok(if with_values {
        Reply::Pairs(pairs.map(pair).collect())
    } else {
        Reply::Array(pairs.map(|(field, _)| bulk(field)).collect())
    })
}

const RO: &[Flags] = &[Flags::READONLY];
const ACCESS: &[&str] = &["RO", "access"];
const UNORDERED: &[&str] = &["nondeterministic_output_order"];
const VARYING: &[&str] = &["nondeterministic_output"];

pub(crate) const COMMANDS: &[CommandSpec] = &[
    row("hgetall", 2, hgetall)
        .tips(UNORDERED)
        .syntax("key")
        .summary("All fields with their values."),
    row("hkeys", 2, hkeys)
        .tips(UNORDERED)
        .syntax("key")
        .summary("All fields."),
    row("hvals", 2, hvals)
        .tips(UNORDERED)
        .syntax("key")
        .summary("All values."),
    row("hscan", -3, hscan)
        .tips(VARYING)
        .since("2.8.0")
        .syntax("key cursor:integer [MATCH pattern:pattern] [COUNT count:integer]")
        .summary("The fields of a hash, piece by piece."),
    row("hrandfield", -2, hrandfield)
        .tips(VARYING)
        .since("6.2.0")
        .syntax("key [options=(count:integer [WITHVALUES])]")
        .summary("Random fields, with their values if asked to."),
];

const fn row(name: &'static str, arity: i32, handler: super::spec::Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::Hash, handler)
        .since("2.0.0")
        .flags(RO)
        .keys(1, 1, 1, ACCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_positions_are_different_and_all_likely() {
        let mut rng = Rng::new(3);
        for (count, expected) in [(2, 160..240), (6, 530..670)] {
            let mut seen = [0; 10];
            for _ in 0..1000 {
                let drawn = different(&mut rng, 10, count);
                assert!(drawn.len() == count && drawn.is_sorted_by(|a, b| a < b));
                drawn.iter().for_each(|at| seen[*at] += 1);
            }
            assert!(
                seen.iter().all(|count| expected.contains(count)),
                "{seen:?}"
            );
        }
        assert_eq!(different(&mut rng, 3, 9), [0, 1, 2]);
    }
}
