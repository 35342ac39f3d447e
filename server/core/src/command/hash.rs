//! Hashes: their fields by name. Walks through all of them, and random ones, are in `hash_walk.rs`.

use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError};
use crate::engine::{Class, Ctx, Hash, HashLimits, TouchOrder, Value};
use crate::resp::{Blob, LongDouble, Reply, parse_integer};

/// Changes the hash at `key`, and creates it if it is missing.
fn change<T>(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    event: &str,
    change: impl FnOnce(&mut Hash, HashLimits) -> Result<T, CommandError>,
) -> Result<T, CommandError> {
    let limits = HashLimits::of(ctx.config());
    let result = if let Some(hash) = ctx.write::<Hash>(key)? {
        change(hash, limits)?
    } else {
        let mut hash = Hash::default();
        let result = change(&mut hash, limits)?;
        ctx.add(key, Value::Hash(hash));
        result
    };
    changed(ctx, key, event);
    Ok(result)
}

/// Ends a command that has changed a hash.
fn changed(ctx: &mut Ctx<'_>, key: &[u8], event: &str) {
    ctx.replies_here();
    ctx.touched(key);
    ctx.notify(Class::Hash, event, key);
}

/// Sets the fields; returns the number of new ones.
fn set_fields(ctx: &mut Ctx<'_>, args: &mut Args<'_>, command: &str) -> Result<i64, CommandError> {
    let key = args.required()?;
    if !args.remaining().is_multiple_of(2) {
        return Err(CommandError::Arity {
            command: command.to_owned(),
        });
    }
    change(ctx, key, "hset", |hash, limits| {
        if hash.is_empty() {
            let mut pairs = *args;
            hash.reserve(pairs.rest(), limits);
        }
        let mut added = 0;
        while let (Some(field), Some(value)) = (args.next(), args.next()) {
            added += i64::from(hash.set(field, value, limits));
        }
        Ok(added)
    })
}

fn hset(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    set_fields(ctx, args, "hset").map(Reply::Int)
}

fn hmset(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    set_fields(ctx, args, "hmset").map(|_| Reply::Ok)
}

fn hsetnx(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (key, field, value) = (args.required()?, args.required()?, args.required()?);
    let limits = HashLimits::of(ctx.config());
    match ctx.write::<Hash>(key)? {
        Some(hash) if hash.get(field).is_some() => return Ok(Reply::Int(0)),
        Some(hash) => {
            hash.set(field, value, limits);
        }
        None => {
            let mut hash = Hash::default();
            hash.set(field, value, limits);
            ctx.add(key, Value::Hash(hash));
        }
    }
    changed(ctx, key, "hset");
    Ok(Reply::Int(1))
}

fn hget(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (key, field) = (args.required()?, args.required()?);
    let value = ctx.read::<Hash>(key)?.and_then(|hash| hash.get(field));
    Ok(value.map_or(Reply::Nil, |value| Reply::Bulk(value.to_blob())))
}

fn hmget(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let hash = ctx.read::<Hash>(args.required()?)?;
    let value = |field: &[u8]| hash.and_then(|hash| hash.get(field));
    let replies = args
        .rest()
        .map(|field| value(field).map_or(Reply::Nil, |value| Reply::Bulk(value.to_blob())));
    Ok(Reply::Array(replies.collect()))
}

fn hdel(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let key = args.required()?;
    let Some(hash) = ctx.write::<Hash>(key)? else {
        return Ok(Reply::Int(0));
    };
    let removed = args.rest().filter(|field| hash.remove(field)).count();
    let is_empty = hash.is_empty();
    if removed > 0 {
        ctx.removed_from(key, is_empty, (Class::Hash, "hdel"), TouchOrder::First);
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

fn hincrby(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (key, field, by) = (args.required()?, args.required()?, args.integer()?);
    let sum = change(ctx, key, "hincrby", |hash, limits| {
        let value = match hash.get(field) {
            Some(value) => parse_integer(&value).ok_or(CommandError::HashNotInteger)?,
            None => 0,
        };
        let sum = value.checked_add(by).ok_or(CommandError::Overflow)?;
        hash.change(field, &Blob::from_integer(sum), limits);
        Ok(sum)
    })?;
    Ok(Reply::Int(sum))
}

/// `t_hash.c: hincrbyfloatCommand`.
fn hincrbyfloat(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (key, field, by) = (args.required()?, args.required()?, args.required()?);
    let by = LongDouble::parse(by).ok_or(CommandError::NotFloat)?;
    if !by.is_finite() {
        return Err(CommandError::Text("ERR value is NaN or Infinity".into()));
    }
    let sum = change(ctx, key, "hincrbyfloat", |hash, limits| {
        let value = match hash.get(field) {
            Some(value) => LongDouble::parse(&value)
                .ok_or_else(|| CommandError::Text("ERR hash value is not a float".into()))?,
            None => LongDouble::ZERO,
        };
        let sum = value.add(by).filter(|sum| sum.is_finite());
        let sum = Blob::from(sum.ok_or(CommandError::NanOrInfinity)?.to_string());
        hash.change(field, &sum, limits);
        Ok(sum)
    })?;
    // The sum is propagated as a value, because another server might round differently.
    let edits = [(0, b"HSET".into()), (3, (&sum).into())];
    ctx.propagate_edited(args.request(), &edits);
    Ok(Reply::Bulk(sum))
}

fn hstrlen(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (key, field) = (args.required()?, args.required()?);
    let value = ctx.read::<Hash>(key)?.and_then(|hash| hash.get(field));
    Ok(Reply::Int(value.map_or(0, |value| value.len() as i64)))
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
        .syntax("key field_value=(field value)...")
        .summary("Sets fields of a hash."),
    row("hsetnx", 4, hsetnx)
        .flags(STORE_FAST)
        .keys(1, 1, 1, &["RW", "insert"])
        .syntax("key field value")
        .summary("Sets a field if it does not exist."),
    row("hmset", -4, hmset)
        .flags(STORE_FAST)
        .keys(1, 1, 1, &["RW", "update"])
        .deprecated("4.0.0", "`HSET`")
        .syntax("key field_value=(field value)...")
        .summary("Sets fields of a hash."),
    row("hget", 3, hget)
        .flags(RO_FAST)
        .keys(1, 1, 1, &["RO", "access"])
        .syntax("key field")
        .summary("The value of a field."),
    row("hmget", -3, hmget)
        .flags(RO_FAST)
        .keys(1, 1, 1, &["RO", "access"])
        .syntax("key field...")
        .summary("The values of several fields."),
    row("hdel", -3, hdel)
        .flags(&[Flags::WRITE, Flags::FAST])
        .keys(1, 1, 1, &["RW", "delete"])
        .syntax("key field...")
        .summary("Deletes fields, and the key with its last field."),
    row("hexists", 3, hexists)
        .flags(RO_FAST)
        .keys(1, 1, 1, &["RO"])
        .syntax("key field")
        .summary("Whether a field exists."),
    row("hincrby", 4, hincrby)
        .flags(STORE_FAST)
        .keys(1, 1, 1, &["RW", "access", "update"])
        .syntax("key field increment:integer")
        .summary("Adds to the counter in a field."),
    row("hincrbyfloat", 4, hincrbyfloat)
        .flags(STORE_FAST)
        .keys(1, 1, 1, &["RW", "access", "update"])
        .since("2.6.0")
        .syntax("key field increment:double")
        .summary("Adds to the number with a fraction in a field."),
    row("hstrlen", 3, hstrlen)
        .flags(RO_FAST)
        .keys(1, 1, 1, &["RO"])
        .since("3.2.0")
        .syntax("key field")
        .summary("The length of a field's value, in bytes."),
    row("hlen", 2, hlen)
        .flags(RO_FAST)
        .keys(1, 1, 1, &["RO"])
        .syntax("key")
        .summary("The number of fields."),
];

const fn row(name: &'static str, arity: i32, handler: super::spec::Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::Hash, handler).since("2.0.0")
}
