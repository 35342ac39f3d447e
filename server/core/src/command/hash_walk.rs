//! Hashes: walks through all fields, and random fields.

use super::scan::{Options, parse_cursor};
use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError, random};
use crate::engine::{Ctx, Hash, Text, feature};
use crate::resp::Reply;

fn bulk(text: Text<'_>) -> Reply {
    Reply::Bulk(text.to_blob())
}

fn pair((field, value): (Text<'_>, Text<'_>)) -> (Reply, Reply) {
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

fn hscan(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let key = args.required()?;
    let profile = ctx.config().profile;
    let cursor = parse_cursor(args.required()?, profile).ok_or(CommandError::InvalidCursor)?;
    let may_omit_values = ctx.config().profile.has(feature::HSCAN_NOVALUES);
    let (found, next) = match ctx.read::<Hash>(key)? {
        Some(hash) => {
            let options = Options::parse_for_hash(args, may_omit_values)?;
            let (found, next) = hash.scan(cursor, options.count);
            let matching = found
                .into_iter()
                .filter(|(field, _)| options.matches(field));
            let replies = matching.flat_map(|(field, value)| {
                let value = (!options.omits_values).then(|| bulk(value));
                std::iter::once(bulk(field)).chain(value)
            });
            (replies.collect(), next)
        }
        None => (Vec::new(), 0),
    };
    Ok(Reply::Array(vec![
        Reply::bulk(next.to_string()),
        Reply::Array(found),
    ]))
}

/// `t_hash.c: hrandfieldCommand`.
fn hrandfield(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let key = args.required()?;
    if args.is_empty() {
        let (Some(hash), rng) = ctx.read_with_draws::<Hash>(key)? else {
            return Ok(Reply::Nil);
        };
        let at = random::one(rng, hash.len());
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
    let limits = ctx.output_limits();
    let (Some(hash), rng) = ctx.read_with_draws::<Hash>(key)? else {
        return Ok(Reply::Array(Vec::new()));
    };
    let positions = random::positions(rng, hash.len(), count, limits, "fields")?;
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
        .summary("Random fields, optionally with their values."),
];

const fn row(name: &'static str, arity: i32, handler: super::spec::Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::Hash, handler)
        .since("2.0.0")
        .flags(RO)
        .keys(1, 1, 1, ACCESS)
}
