//! Sorted sets: walks through all members, and random members.

use super::{ACCESS, elements_reply, row};
use crate::command::random::{different, repeated};
use crate::command::scan::{Options, parse_cursor};
use crate::command::spec::{CommandResult, CommandSpec, Flags};
use crate::command::{Args, CommandError};
use crate::engine::{Ctx, SortedSet};
use crate::resp::Reply;

fn zscan(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let key = args.required()?;
    let profile = ctx.config().profile;
    let cursor = parse_cursor(args.required()?, profile).ok_or(CommandError::InvalidCursor)?;
    let Some(set) = ctx.read::<SortedSet>(key)? else {
        return Ok(Reply::Array(vec![
            Reply::bulk("0"),
            Reply::Array(Vec::new()),
        ]));
    };
    let options = Options::parse(args, false)?;
    let (cursor, found) = set.scan(cursor, options.count);
    let text = |score| Reply::bulk(set.score_text(score, profile));
    let found = found
        .into_iter()
        .filter(|(member, _)| options.matches(member));
    // Scores are text here, also in RESP3.
    let found = found.flat_map(|(member, score)| [Reply::Bulk(member), text(score)]);
    Ok(Reply::Array(vec![
        Reply::bulk(cursor.to_string()),
        Reply::Array(found.collect()),
    ]))
}

/// `t_zset.c: zrandmemberCommand`.
fn zrandmember(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let key = args.required()?;
    if args.is_empty() {
        let (Some(set), rng) = ctx.read_with_draws::<SortedSet>(key)? else {
            return Ok(Reply::Nil);
        };
        let rank = (rng.next_u64() % set.len() as u64) as usize;
        let element = set.at(rank);
        return Ok(element.map_or(Reply::Nil, |(member, _)| Reply::Bulk(member)));
    }
    let count = args.integer_within(-i64::MAX, i64::MAX)?;
    let with_scores = args.keyword("WITHSCORES");
    if !args.is_empty() {
        return Err(CommandError::Syntax);
    }
    if with_scores && count.unsigned_abs() > (i64::MAX / 2).unsigned_abs() {
        return Err(CommandError::Text("ERR value is out of range".into()));
    }
    let limits = ctx.output_limits();
    let (Some(set), rng) = ctx.read_with_draws::<SortedSet>(key)? else {
        return Ok(Reply::Array(Vec::new()));
    };
    let size = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    let len = set.len() as u64;
    let elements = if size >= set.len() && count >= 0 {
        // All of them, the highest score first.
        let mut all = set.elements(0..set.len());
        all.reverse();
        all
    } else if count >= 0 {
        let ranks = different(rng, set.len(), size);
        ranks.into_iter().filter_map(|rank| set.at(rank)).collect()
    } else {
        let size = repeated(size, limits, "members")?;
        let ranks = (0..size).map(|_| (rng.next_u64() % len) as usize);
        ranks.filter_map(|rank| set.at(rank)).collect()
    };
    Ok(elements_reply(elements, with_scores))
}

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[
    row("zscan", -3, zscan)
        .flags(&[Flags::READONLY])
        .keys(1, 1, 1, ACCESS)
        .tips(&["nondeterministic_output"])
        .since("2.8.0")
        .syntax("key cursor:integer [MATCH pattern:pattern] [COUNT count:integer]")
        .summary("The members of a sorted set, piece by piece."),
    row("zrandmember", -2, zrandmember)
        .flags(&[Flags::READONLY])
        .keys(1, 1, 1, ACCESS)
        .tips(&["nondeterministic_output"])
        .since("6.2.0")
        .syntax("key [options=(count:integer [WITHSCORES])]")
        .summary("Random members, optionally with their scores."),
];
