//! Hashes.

use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError};
use crate::engine::{Ctx, Hash, Ttl, Value};
use crate::resp::{Blob, Reply, parse_integer};

/// Changes the hash at `key`, which is made if it is not there.
fn change<T>(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    change: impl FnOnce(&mut Hash, u64) -> Result<T, CommandError>,
) -> Result<T, CommandError> {
    let seed = ctx.state.hash_seed();
    if let Some(hash) = ctx.write::<Hash>(key)? {
        let result = change(hash, seed)?;
        ctx.touched(key);
        return Ok(result);
    }
    let mut hash = Hash::default();
    let result = change(&mut hash, seed)?;
    ctx.set(key, Value::Hash(Box::new(hash)), Ttl::Clear);
    Ok(result)
}

fn hset(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let key = args.required()?;
    if !args.remaining().is_multiple_of(2) {
        return Err(CommandError::Arity {
            command: "hset".to_owned(),
        });
    }
    let added = change(ctx, key, |hash, seed| {
        let mut added = 0;
        while let (Some(field), Some(value)) = (args.next(), args.next()) {
            added += i64::from(hash.set(field, Blob::new(value), seed));
        }
        Ok(added)
    })?;
    Ok(Reply::Int(added))
}

fn hget(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (key, field) = (args.required()?, args.required()?);
    let value = ctx.read::<Hash>(key)?.and_then(|hash| hash.get(field));
    Ok(value.map_or(Reply::Nil, |value| Reply::Bulk(value.clone())))
}

fn hmget(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let hash = ctx.read::<Hash>(args.required()?)?;
    let value = |field: &[u8]| hash.and_then(|hash| hash.get(field));
    let replies = args
        .rest()
        .map(|field| value(field).map_or(Reply::Nil, |value| Reply::Bulk(value.clone())));
    Ok(Reply::Array(replies.collect()))
}

fn hdel(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let key = args.required()?;
    let Some(hash) = ctx.write::<Hash>(key)? else {
        return Ok(Reply::Int(0));
    };
    let removed = args.rest().filter(|field| hash.remove(field)).count();
    if hash.is_empty() {
        ctx.delete(key);
    } else if removed > 0 {
        ctx.touched(key);
    }
    Ok(Reply::Int(removed as i64))
}

fn hexists(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (key, field) = (args.required()?, args.required()?);
    Ok(Reply::Int(i64::from(
        ctx.read::<Hash>(key)?
            .is_some_and(|hash| hash.get(field).is_some()),
    )))
}

fn hgetall(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let hash = ctx.read::<Hash>(args.required()?)?;
    let pairs = hash.into_iter().flat_map(Hash::iter);
    Ok(Reply::Map(
        pairs
            .map(|(field, value)| (Reply::Bulk(field.clone()), Reply::Bulk(value.clone())))
            .collect(),
    ))
}

fn hincrby(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (key, field, by) = (args.required()?, args.required()?, args.integer()?);
    let sum = change(ctx, key, |hash, seed| {
        let value = match hash.get(field) {
            Some(value) => parse_integer(value).ok_or(CommandError::HashNotInteger)?,
            None => 0,
        };
        let sum = value.checked_add(by).ok_or(CommandError::Overflow)?;
        hash.set(field, Blob::from_integer(sum), seed);
        Ok(sum)
    })?;
    Ok(Reply::Int(sum))
}

fn hlen(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    Ok(Reply::Int(
        ctx.read::<Hash>(args.required()?)?
            .map_or(0, |hash| hash.len() as i64),
    ))
}

const RO_FAST: &[Flags] = &[Flags::READONLY, Flags::FAST];
const STORE_FAST: &[Flags] = &[Flags::WRITE, Flags::DENYOOM, Flags::FAST];

pub(crate) const COMMANDS: &[CommandSpec] = &[
    row("hset", -4, hset)
        .flags(STORE_FAST)
        .keys(1, 1, 1, &["RW", "update"])
        .summary("Sets fields of a hash."),
    row("hget", 3, hget)
        .flags(RO_FAST)
        .keys(1, 1, 1, &["RO", "access"])
        .summary("The value of a field."),
    row("hmget", -3, hmget)
        .flags(RO_FAST)
        .keys(1, 1, 1, &["RO", "access"])
        .summary("The values of several fields."),
    row("hdel", -3, hdel)
        .flags(&[Flags::WRITE, Flags::FAST])
        .keys(1, 1, 1, &["RW", "delete"])
        .summary("Deletes fields; the last one takes the key with it."),
    row("hexists", 3, hexists)
        .flags(RO_FAST)
        .keys(1, 1, 1, &["RO"])
        .summary("Whether a field is there."),
    row("hgetall", 2, hgetall)
        .flags(&[Flags::READONLY])
        .keys(1, 1, 1, &["RO", "access"])
        .tips(&["nondeterministic_output_order"])
        .summary("All fields with their values."),
    row("hincrby", 4, hincrby)
        .flags(STORE_FAST)
        .keys(1, 1, 1, &["RW", "access", "update"])
        .summary("Adds to the counter in a field."),
    row("hlen", 2, hlen)
        .flags(RO_FAST)
        .keys(1, 1, 1, &["RO"])
        .summary("The number of fields."),
];

const fn row(name: &'static str, arity: i32, handler: super::spec::Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::Hash, handler).since("2.0.0")
}
