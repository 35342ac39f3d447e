//! Walks through the keys of a database, and the common parts of SCAN and its variants for one key.

use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError};
use crate::engine::{Ctx, Profile, feature, glob_match};
use crate::resp::{Reply, parse_integer};

fn keys(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let pattern = args.required()?;
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(slot) = ctx.db().next_used(at) {
        at = slot + 1;
        let key = ctx.db().key(slot).clone();
        if glob_match(pattern, &key) && !ctx.is_expired(slot) {
            found.push(Reply::Bulk(key));
        }
    }
    Ok(Reply::Array(found))
}

/// `db.c: parseScanCursorOrReply`, which accepts the same texts as `strtoul`: a sign, or nothing at
/// all. Since 7.2 a negative number is none.
pub(super) fn parse_cursor(text: &[u8], profile: Profile) -> Option<u64> {
    if profile.has(feature::STRICT_CURSORS) && parse_integer(text).is_some_and(i64::is_negative) {
        return None;
    }
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    let (negative, digits) = match text {
        [] => return Some(0),
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = std::str::from_utf8(digits).ok()?.parse::<u64>().ok()?;
    Some(if negative {
        value.wrapping_neg()
    } else {
        value
    })
}

/// Options after a cursor (`db.c: scanGenericCommand`).
pub(super) struct Options<'a> {
    pattern: Option<&'a [u8]>,
    pub(super) count: usize,
    wanted_type: Option<&'a [u8]>,
    /// HSCAN returns only names of fields.
    pub(super) omits_values: bool,
}

impl<'a> Options<'a> {
    /// TYPE is only for keys.
    pub(super) fn parse(args: &mut Args<'a>, of_keys: bool) -> Result<Self, CommandError> {
        Self::parse_all(args, of_keys, false)
    }

    /// The options of HSCAN, with NOVALUES where the version has it.
    pub(super) fn parse_for_hash(
        args: &mut Args<'a>,
        may_omit_values: bool,
    ) -> Result<Self, CommandError> {
        Self::parse_all(args, false, may_omit_values)
    }

    fn parse_all(
        args: &mut Args<'a>,
        of_keys: bool,
        may_omit_values: bool,
    ) -> Result<Self, CommandError> {
        let mut options = Self {
            pattern: None,
            count: 10,
            wanted_type: None,
            omits_values: false,
        };
        while !args.is_empty() {
            if args.keyword("COUNT") {
                let count = usize::try_from(args.integer()?).unwrap_or(0);
                if count < 1 {
                    return Err(CommandError::Syntax);
                }
                options.count = count;
            } else if args.keyword("MATCH") {
                options.pattern = Some(args.required()?);
            } else if may_omit_values && args.keyword("NOVALUES") {
                options.omits_values = true;
            } else if of_keys && args.keyword("TYPE") {
                options.wanted_type = Some(args.required()?);
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(options)
    }

    pub(super) fn matches(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob_match(pattern, name))
    }

    fn takes_type(&self, name: &str) -> bool {
        self.wanted_type
            .is_none_or(|wanted| wanted.eq_ignore_ascii_case(name.as_bytes()))
    }
}

/// A cursor is the slot at which the walk continues.
fn scan(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let profile = ctx.config().profile;
    let cursor = parse_cursor(args.required()?, profile).ok_or(CommandError::InvalidCursor)?;
    let options = Options::parse(args, true)?;
    let mut found = Vec::new();
    let mut left = options.count;
    let mut next = u32::try_from(cursor)
        .ok()
        .and_then(|cursor| ctx.db().next_used(cursor));
    while let Some(slot) = next
        && left > 0
    {
        left -= 1;
        next = ctx.db().next_used(slot + 1);
        let key = ctx.db().key(slot).clone();
        if !options.matches(&key) {
            continue;
        }
        // The lookup of a type counts as a read.
        let found_slot = match options.wanted_type {
            Some(_) => ctx.find_for_look(&key),
            None => ctx.find_quietly(&key),
        };
        if let Some(slot) = found_slot
            && options.takes_type(ctx.db().value(slot).kind().name())
        {
            found.push(Reply::Bulk(key));
        }
    }
    let cursor = next.map_or(0, i64::from);
    Ok(Reply::Array(vec![
        Reply::bulk(cursor.to_string()),
        Reply::Array(found),
    ]))
}

/// Returns a key drawn by the node's generator.
fn randomkey(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    let slot = ctx.random_key();
    Ok(slot.map_or(Reply::Nil, |slot| Reply::Bulk(ctx.db().key(slot).clone())))
}

pub(crate) const COMMANDS: &[CommandSpec] = &[
    row("keys", 2, keys)
        .flags(&[Flags::READONLY])
        .acl(&["@dangerous"])
        .tips(&["request_policy:all_shards", "nondeterministic_output_order"])
        .syntax("pattern:pattern")
        .summary("All keys that match a pattern."),
    row("scan", -2, scan)
        .flags(&[Flags::READONLY])
        .tips(&["nondeterministic_output", "request_policy:special"])
        .since("2.8.0")
        .syntax("cursor:integer [MATCH pattern:pattern] [COUNT count:integer] [TYPE type]@6.0.0")
        .summary("The keys of a database, piece by piece."),
    row("randomkey", 1, randomkey)
        .flags(&[Flags::READONLY])
        .tips(&["request_policy:all_shards", "nondeterministic_output"])
        .summary("Any key."),
];

const fn row(name: &'static str, arity: i32, handler: super::spec::Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::Generic, handler)
}
