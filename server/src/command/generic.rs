//! Keys of any type: deletion, expiry, enumeration.

use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError};
use crate::engine::{Ctx, UnixMillis, glob_match};
use crate::resp::{Reply, parse_integer};

/// `expire.c: checkAlreadyExpired`.
pub(super) fn already_expired(ctx: &Ctx<'_>, deadline: UnixMillis) -> bool {
    deadline <= ctx.now_millis()
}

/// The deadline that a number in a command means; `None` when it overflows.
pub(super) fn absolute_deadline(
    value: i64,
    is_seconds: bool,
    is_absolute: bool,
    now: UnixMillis,
) -> Option<UnixMillis> {
    let millis = if is_seconds {
        value.checked_mul(1000)?
    } else {
        value
    };
    let base = if is_absolute { 0 } else { now.0 };
    millis.checked_add(base).map(UnixMillis)
}

fn count_keys(args: &mut Args<'_>, mut one: impl FnMut(&[u8]) -> bool) -> CommandResult {
    Ok(Reply::Int(args.rest().filter(|key| one(key)).count() as i64))
}

fn del(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    count_keys(args, |key| ctx.delete(key))
}

fn exists(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    count_keys(args, |key| ctx.find_for_read(key).is_some())
}

fn type_(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let slot = ctx.find_for_read(args.required()?);
    Ok(Reply::Static(
        slot.map_or("none", |slot| ctx.db().value(slot).kind().name()),
    ))
}

#[derive(Default)]
struct Condition {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
}

impl Condition {
    /// `expire.c: parseExtendedExpireArgumentsOrReply`.
    fn parse(args: &mut Args<'_>) -> Result<Self, CommandError> {
        let mut condition = Self::default();
        while let Some(word) = args.next() {
            match &word.to_ascii_uppercase()[..] {
                b"NX" => condition.nx = true,
                b"XX" => condition.xx = true,
                b"GT" => condition.gt = true,
                b"LT" => condition.lt = true,
                _ => {
                    return Err(CommandError::echoing("ERR Unsupported option ", word, ""));
                }
            }
        }
        if condition.nx && (condition.xx || condition.gt || condition.lt) {
            return Err(CommandError::Text(
                "ERR NX and XX, GT or LT options at the same time are not compatible".into(),
            ));
        }
        if condition.gt && condition.lt {
            return Err(CommandError::Text(
                "ERR GT and LT options at the same time are not compatible".into(),
            ));
        }
        Ok(condition)
    }

    /// A key without a deadline counts as one that never expires.
    fn holds(&self, current: Option<UnixMillis>, next: UnixMillis) -> bool {
        !(self.nx && current.is_some()
            || self.xx && current.is_none()
            || self.gt && current.is_none_or(|current| next <= current)
            || self.lt && current.is_some_and(|current| next >= current))
    }
}

/// `expire.c: expireGenericCommand`.
fn expire_in(
    ctx: &mut Ctx<'_>,
    args: &mut Args<'_>,
    command: &str,
    is_seconds: bool,
    is_absolute: bool,
) -> CommandResult {
    let (key, value) = (args.required()?, args.required()?);
    let condition = Condition::parse(args)?;
    let value = parse_integer(value).ok_or(CommandError::NotInteger)?;
    let deadline =
        absolute_deadline(value, is_seconds, is_absolute, ctx.now_millis()).ok_or_else(|| {
            CommandError::InvalidExpire {
                command: command.to_owned(),
            }
        })?;
    let Some(current) = ctx.deadline(key) else {
        return Ok(Reply::Int(0));
    };
    if !condition.holds(current, deadline) {
        return Ok(Reply::Int(0));
    }
    if already_expired(ctx, deadline) {
        ctx.delete(key);
    } else {
        ctx.set_deadline(key, Some(deadline));
    }
    Ok(Reply::Int(1))
}

fn expire(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    expire_in(ctx, args, "expire", true, false)
}

fn pexpire(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    expire_in(ctx, args, "pexpire", false, false)
}

fn expireat(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    expire_in(ctx, args, "expireat", true, true)
}

fn pexpireat(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    expire_in(ctx, args, "pexpireat", false, true)
}

/// `expire.c: ttlGenericCommand`: -2 without the key, -1 without a deadline.
fn ttl_in(
    ctx: &mut Ctx<'_>,
    args: &mut Args<'_>,
    is_seconds: bool,
    is_absolute: bool,
) -> CommandResult {
    let Some(slot) = ctx.find_for_read(args.required()?) else {
        return Ok(Reply::Int(-2));
    };
    let Some(deadline) = ctx.db().deadline(slot) else {
        return Ok(Reply::Int(-1));
    };
    let millis = if is_absolute {
        deadline.0
    } else {
        deadline.0.saturating_sub(ctx.now_millis().0).max(0)
    };
    // To the nearest second, without an overflow at the end of time.
    Ok(Reply::Int(if is_seconds {
        millis / 1000 + i64::from(millis % 1000 >= 500)
    } else {
        millis
    }))
}

fn ttl(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    ttl_in(ctx, args, true, false)
}

fn pttl(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    ttl_in(ctx, args, false, false)
}

fn expiretime(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    ttl_in(ctx, args, true, true)
}

fn pexpiretime(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    ttl_in(ctx, args, false, true)
}

fn persist(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let key = args.required()?;
    let has_deadline = ctx.deadline(key).flatten().is_some();
    if has_deadline {
        ctx.set_deadline(key, None);
    }
    Ok(Reply::Int(i64::from(has_deadline)))
}

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

/// `db.c: parseScanCursorOrReply`, which takes what `strtoul` takes: a sign, or nothing at all.
fn parse_cursor(text: &[u8]) -> Option<u64> {
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

/// A cursor is the slot at which to go on. `db.c: scanGenericCommand` for the options.
fn scan(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let cursor = parse_cursor(args.required()?).ok_or(CommandError::InvalidCursor)?;
    let (mut pattern, mut count, mut wanted_type) = (None, 10, None);
    while let Some(word) = args.next() {
        match &word.to_ascii_uppercase()[..] {
            b"COUNT" => {
                count = args.integer()?;
                if count < 1 {
                    return Err(CommandError::Syntax);
                }
            }
            b"MATCH" => pattern = Some(args.required()?),
            b"TYPE" => wanted_type = Some(args.required()?),
            _ => return Err(CommandError::Syntax),
        }
    }
    let mut found = Vec::new();
    let mut next = u32::try_from(cursor)
        .ok()
        .and_then(|cursor| ctx.db().next_used(cursor));
    while let Some(slot) = next
        && count > 0
    {
        count -= 1;
        next = ctx.db().next_used(slot + 1);
        let key = ctx.db().key(slot).clone();
        let matches = pattern.is_none_or(|pattern| glob_match(pattern, &key));
        if matches && let Some(slot) = ctx.find(&key) {
            let name = ctx.db().value(slot).kind().name();
            if wanted_type.is_none_or(|wanted| wanted.eq_ignore_ascii_case(name.as_bytes())) {
                found.push(Reply::Bulk(key));
            }
        }
    }
    let cursor = next.map_or(0, i64::from);
    Ok(Reply::Array(vec![
        Reply::bulk(cursor.to_string()),
        Reply::Array(found),
    ]))
}

const RO_FAST: &[Flags] = &[Flags::READONLY, Flags::FAST];
const WRITE_FAST: &[Flags] = &[Flags::WRITE, Flags::FAST];
const MANY: &[&str] = &["request_policy:multi_shard", "response_policy:agg_sum"];
const UPDATE: &[&str] = &["RW", "update"];
const ACCESS: &[&str] = &["RO", "access"];
const VARYING: &[&str] = &["nondeterministic_output"];

pub(crate) const COMMANDS: &[CommandSpec] = &[
    row("del", -2, del)
        .flags(&[Flags::WRITE])
        .keys(1, -1, 1, &["RM", "delete"])
        .tips(MANY)
        .summary("Deletes keys."),
    row("unlink", -2, del)
        .flags(WRITE_FAST)
        .keys(1, -1, 1, &["RM", "delete"])
        .tips(MANY)
        .since("4.0.0")
        .summary("Deletes keys; here their memory is freed at once."),
    row("exists", -2, exists)
        .flags(RO_FAST)
        .keys(1, -1, 1, &["RO"])
        .tips(MANY)
        .summary("How many of the keys are there."),
    row("type", 2, type_)
        .flags(RO_FAST)
        .keys(1, 1, 1, &["RO"])
        .summary("The type of a key's value."),
    row("expire", -3, expire)
        .flags(WRITE_FAST)
        .keys(1, 1, 1, UPDATE)
        .summary("Lets a key expire after seconds."),
    row("pexpire", -3, pexpire)
        .flags(WRITE_FAST)
        .keys(1, 1, 1, UPDATE)
        .since("2.6.0")
        .summary("Lets a key expire after milliseconds."),
    row("expireat", -3, expireat)
        .flags(WRITE_FAST)
        .keys(1, 1, 1, UPDATE)
        .since("1.2.0")
        .summary("Lets a key expire at a Unix time in seconds."),
    row("pexpireat", -3, pexpireat)
        .flags(WRITE_FAST)
        .keys(1, 1, 1, UPDATE)
        .since("2.6.0")
        .summary("Lets a key expire at a Unix time in milliseconds."),
    row("ttl", 2, ttl)
        .flags(RO_FAST)
        .keys(1, 1, 1, ACCESS)
        .tips(VARYING)
        .summary("The time to live of a key, in seconds."),
    row("pttl", 2, pttl)
        .flags(RO_FAST)
        .keys(1, 1, 1, ACCESS)
        .tips(VARYING)
        .since("2.6.0")
        .summary("The time to live of a key, in milliseconds."),
    row("expiretime", 2, expiretime)
        .flags(RO_FAST)
        .keys(1, 1, 1, ACCESS)
        .since("7.0.0")
        .summary("The Unix time at which a key expires, in seconds."),
    row("pexpiretime", 2, pexpiretime)
        .flags(RO_FAST)
        .keys(1, 1, 1, ACCESS)
        .since("7.0.0")
        .summary("The Unix time at which a key expires, in milliseconds."),
    row("persist", 2, persist)
        .flags(WRITE_FAST)
        .keys(1, 1, 1, UPDATE)
        .since("2.2.0")
        .summary("Takes the expiry from a key."),
    row("keys", 2, keys)
        .flags(&[Flags::READONLY])
        .acl(&["@dangerous"])
        .tips(&["request_policy:all_shards", "nondeterministic_output_order"])
        .summary("All keys that match a pattern."),
    row("scan", -2, scan)
        .flags(&[Flags::READONLY])
        .tips(&["nondeterministic_output", "request_policy:special"])
        .since("2.8.0")
        .summary("The keys of a database, piece by piece."),
];

const fn row(name: &'static str, arity: i32, handler: super::spec::Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::Generic, handler)
}
