//! Keys of any type: when they expire.

use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError};
use crate::engine::{Class, Ctx, UnixMillis};
use crate::resp::Reply;

/// `expire.c: checkAlreadyExpired`.
pub(super) fn already_expired(ctx: &Ctx<'_>, deadline: UnixMillis) -> bool {
    deadline <= ctx.now_millis()
}

/// Returns the deadline for the number in a command; `None` if it overflows.
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

/// Conditions on the present deadline: NX, XX, GT and LT.
#[derive(Default)]
pub(super) struct Condition {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
}

impl Condition {
    /// Reads one condition if it comes next; false if there is none.
    pub(super) fn read(&mut self, args: &mut Args<'_>) -> bool {
        let given = match () {
            () if args.keyword("NX") => &mut self.nx,
            () if args.keyword("XX") => &mut self.xx,
            () if args.keyword("GT") => &mut self.gt,
            () if args.keyword("LT") => &mut self.lt,
            () => return false,
        };
        *given = true;
        true
    }

    /// Reads all remaining arguments (`expire.c: parseExtendedExpireArgumentsOrReply`).
    fn read_all(args: &mut Args<'_>) -> Result<Self, CommandError> {
        let mut condition = Self::default();
        while condition.read(args) {}
        if let Some(word) = args.next() {
            return Err(CommandError::echoing("ERR Unsupported option ", word, ""));
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

    /// Returns true if the conditions hold. A key without a deadline counts as one that never expires.
    pub(super) fn holds(&self, current: Option<UnixMillis>, next: UnixMillis) -> bool {
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
    let condition = Condition::read_all(args)?;
    let value = super::integer_of(value)?;
    let deadline =
        absolute_deadline(value, is_seconds, is_absolute, ctx.now_millis()).ok_or_else(|| {
            CommandError::InvalidExpire {
                command: command.to_owned(),
            }
        })?;
    let Some(slot) = ctx.find(key) else {
        return Ok(Reply::Int(0));
    };
    let current = ctx.db().deadline(slot);
    if !condition.holds(current, deadline) {
        return Ok(Reply::Int(0));
    }
    if already_expired(ctx, deadline) {
        ctx.delete(key);
        ctx.propagate_removal(key, "lazyfree-lazy-expire");
        ctx.notify(Class::Generic, "del", key);
    } else {
        ctx.replies_here();
        ctx.set_deadline_of(slot, key, Some(deadline));
        let edits = [(0, b"PEXPIREAT".into()), (2, deadline.into())];
        // PEXPIREAT is propagated without a change.
        let edits = if is_absolute && !is_seconds {
            &[]
        } else {
            &edits[..]
        };
        ctx.propagate_edited(args.request(), edits);
        ctx.notify(Class::Generic, "expire", key);
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
    let Some(slot) = ctx.find_for_look(args.required()?) else {
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
    let Some(slot) = ctx.find(key) else {
        return Ok(Reply::Int(0));
    };
    if ctx.db().deadline(slot).is_none() {
        return Ok(Reply::Int(0));
    }
    ctx.set_deadline_of(slot, key, None);
    ctx.notify(Class::Generic, "persist", key);
    Ok(Reply::Int(1))
}

const RO_FAST: &[Flags] = &[Flags::READONLY, Flags::FAST];
const WRITE_FAST: &[Flags] = &[Flags::WRITE, Flags::FAST];
const UPDATE: &[&str] = &["RW", "update"];
const ACCESS: &[&str] = &["RO", "access"];
const VARYING: &[&str] = &["nondeterministic_output"];

pub(crate) const COMMANDS: &[CommandSpec] = &[
    row("expire", -3, expire)
        .flags(WRITE_FAST)
        .keys(1, 1, 1, UPDATE)
        .syntax("key seconds:integer [condition=(NX | XX | GT | LT)]@7.0.0")
        .summary("Sets the time to live of a key, in seconds."),
    row("pexpire", -3, pexpire)
        .flags(WRITE_FAST)
        .keys(1, 1, 1, UPDATE)
        .since("2.6.0")
        .syntax("key milliseconds:integer [condition=(NX | XX | GT | LT)]@7.0.0")
        .summary("Sets the time to live of a key, in milliseconds."),
    row("expireat", -3, expireat)
        .flags(WRITE_FAST)
        .keys(1, 1, 1, UPDATE)
        .since("1.2.0")
        .syntax("key unix-time-seconds:unix-time [condition=(NX | XX | GT | LT)]@7.0.0")
        .summary("Sets the deadline of a key, as a Unix time in seconds."),
    row("pexpireat", -3, pexpireat)
        .flags(WRITE_FAST)
        .keys(1, 1, 1, UPDATE)
        .since("2.6.0")
        .syntax("key unix-time-milliseconds:unix-time [condition=(NX | XX | GT | LT)]@7.0.0")
        .summary("Sets the deadline of a key, as a Unix time in milliseconds."),
    row("ttl", 2, ttl)
        .flags(RO_FAST)
        .keys(1, 1, 1, ACCESS)
        .tips(VARYING)
        .syntax("key")
        .summary("The time to live of a key, in seconds."),
    row("pttl", 2, pttl)
        .flags(RO_FAST)
        .keys(1, 1, 1, ACCESS)
        .tips(VARYING)
        .since("2.6.0")
        .syntax("key")
        .summary("The time to live of a key, in milliseconds."),
    row("expiretime", 2, expiretime)
        .flags(RO_FAST)
        .keys(1, 1, 1, ACCESS)
        .since("7.0.0")
        .syntax("key")
        .summary("The Unix time at which a key expires, in seconds."),
    row("pexpiretime", 2, pexpiretime)
        .flags(RO_FAST)
        .keys(1, 1, 1, ACCESS)
        .since("7.0.0")
        .syntax("key")
        .summary("The Unix time at which a key expires, in milliseconds."),
    row("persist", 2, persist)
        .flags(WRITE_FAST)
        .keys(1, 1, 1, UPDATE)
        .since("2.2.0")
        .syntax("key")
        .summary("Removes the expiry of a key."),
];

const fn row(name: &'static str, arity: i32, handler: super::spec::Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::Generic, handler)
}
