//! Positions on the earth: members of a sorted set whose scores are geohash cells. GEORADIUS and GEOSEARCH are in
//! `search.rs`, the cells in `cell.rs`, distances in `area.rs`.

mod area;
mod cell;
pub(super) mod search;

use super::sorted_set::{Conditions, add, score as double_of};
use super::spec::{CommandResult, CommandSpec, Flags, Group, Handler};
use super::{Args, CommandError};
use crate::engine::{Arg, Ctx, SortedSet};
use crate::resp::Reply;
use cell::Position;

const RO: &[Flags] = &[Flags::READONLY];
const STORE: &[Flags] = &[Flags::WRITE, Flags::DENYOOM];
const ACCESS: &[&str] = &["RO", "access"];

const fn row(name: &'static str, arity: i32, handler: Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::Geo, handler)
}

/// The next two arguments as a position (`geo.c: extractLongLatOrReply`).
fn position(args: &mut Args<'_>) -> Result<Position, CommandError> {
    let position = Position {
        longitude: double_of(args.required()?)?,
        latitude: double_of(args.required()?)?,
    };
    if position.is_valid() {
        return Ok(position);
    }
    let Position {
        longitude,
        latitude,
    } = position;
    let text = format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}");
    Err(CommandError::Text(text.into()))
}

/// The next argument as a unit, in metres (`geo.c: extractUnitOrReply`).
fn unit(args: &mut Args<'_>) -> Result<f64, CommandError> {
    match () {
        () if args.keyword("M") => Ok(1.0),
        () if args.keyword("KM") => Ok(1000.0),
        () if args.keyword("FT") => Ok(0.3048),
        () if args.keyword("MI") => Ok(1609.34),
        () => Err(CommandError::Text(
            "ERR unsupported unit provided. please use M, KM, FT, MI".into(),
        )),
    }
}

/// A distance with four decimals (`util.c: fixedpoint_d2string`).
fn distance_reply(distance: f64) -> Reply {
    const DECIMALS: f64 = 10_000.0;
    const LIMIT: f64 = i64::MAX as f64;
    let scaled = (distance * DECIMALS).round_ties_even();
    // On x86-64 C converts an out-of-range number to the lowest 64-bit integer.
    let scaled = if scaled.abs() < LIMIT {
        scaled as i64
    } else {
        i64::MIN
    };
    let (sign, scaled) = (if scaled < 0 { "-" } else { "" }, scaled.unsigned_abs());
    let (whole, decimals) = (scaled / DECIMALS as u64, scaled % DECIMALS as u64);
    Reply::bulk(format!("{sign}{whole}.{decimals:04}"))
}

fn position_reply(position: Position) -> Reply {
    Reply::Array(vec![
        Reply::Decimal(position.longitude),
        Reply::Decimal(position.latitude),
    ])
}

/// GEOADD is ZADD with positions for scores.
fn geoadd(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let key = args.required()?;
    let mut conditions = Conditions::default();
    loop {
        match () {
            () if args.keyword("NX") => conditions.nx = true,
            () if args.keyword("XX") => conditions.xx = true,
            () if args.keyword("CH") => conditions.changed = true,
            () => break,
        }
    }
    if args.is_empty() || !args.remaining().is_multiple_of(3) || conditions.nx && conditions.xx {
        return Err(CommandError::Syntax);
    }
    let mut elements = Vec::with_capacity(args.remaining() / 3);
    while !args.is_empty() {
        let position = position(args)?;
        elements.push((position.to_score(), args.required()?));
    }
    let reply = add(ctx, key, &elements, &conditions)?;
    if ctx.is_propagated() {
        let options = args.request().iter().skip(2);
        let options = options.take(args.request().len() - 2 - 3 * elements.len());
        let mut command: Vec<Arg<'_>> = vec![b"zadd".into(), key.into()];
        command.extend(options.map(Arg::from));
        for (score, member) in &elements {
            command.extend([Arg::Number(*score as i64), (*member).into()]);
        }
        ctx.propagate_as(&command);
    }
    Ok(reply)
}

/// Replies with the result of `reply` for the position of each member, or with `missing` for a missing
/// member.
fn of_members(
    ctx: &mut Ctx<'_>,
    args: &mut Args<'_>,
    missing: &Reply,
    reply: impl Fn(Position) -> Reply,
) -> CommandResult {
    let set = ctx.read::<SortedSet>(args.required()?)?;
    let position = |member: &[u8]| Some(Position::of_score(set?.score(member)?));
    let replies = args
        .rest()
        .map(|member| position(member).map_or_else(|| missing.clone(), &reply));
    Ok(Reply::Array(replies.collect()))
}

fn geohash(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    of_members(ctx, args, &Reply::Nil, |position| {
        Reply::bulk(position.to_text())
    })
}

fn geopos(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    of_members(ctx, args, &Reply::NilArray, position_reply)
}

/// `geo.c: geodistCommand`.
fn geodist(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (key, first, second) = (args.required()?, args.required()?, args.required()?);
    let metres = match args.remaining() {
        0 => 1.0,
        1 => unit(args)?,
        _ => return Err(CommandError::Syntax),
    };
    let set = ctx.read::<SortedSet>(key)?;
    let position = |member| Some(Position::of_score(set?.score(member)?));
    Ok(match (position(first), position(second)) {
        (Some(first), Some(second)) => distance_reply(area::distance(first, second) / metres),
        (_, _) => Reply::Nil,
    })
}

pub(super) const COMMANDS: &[CommandSpec] = &[
    row("geoadd", -5, geoadd)
        .flags(STORE)
        .keys(1, 1, 1, &["RW", "update"])
        .since("3.2.0")
        .syntax(
            "key [condition=(NX | XX)]@6.2.0 [change=CH]@6.2.0 longitude_latitude_member=(longitude:double \
             latitude:double member)...",
        )
        .summary("Adds members with their positions, or moves them."),
    row("geodist", -4, geodist)
        .flags(RO)
        .keys(1, 1, 1, ACCESS)
        .since("3.2.0")
        .syntax("key member1 member2 [unit=(M | KM | FT | MI)]")
        .summary("The distance between two members."),
    row("geohash", -2, geohash)
        .flags(RO)
        .keys(1, 1, 1, ACCESS)
        .since("3.2.0")
        .syntax("key member...")
        .summary("The positions of members as geohash texts."),
    row("geopos", -2, geopos)
        .flags(RO)
        .keys(1, 1, 1, ACCESS)
        .since("3.2.0")
        .syntax("key member...")
        .summary("The positions of members."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_have_four_decimals() {
        for (distance, expected) in [
            (0.0, "0.0000"),
            (166_274.151_56, "166274.1516"),
            (0.000_06, "0.0001"),
            (0.000_04, "0.0000"),
            (12.5, "12.5000"),
            (f64::NAN, "-922337203685477.5808"),
        ] {
            assert_eq!(distance_reply(distance), Reply::bulk(expected));
        }
    }
}
