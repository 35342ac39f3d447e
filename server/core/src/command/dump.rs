//! DUMP and RESTORE: a value with its version and checksum, as a string.

use super::expire::already_expired;
use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError};
use crate::engine::{Class, Ctx, PayloadError, Ttl, UnixMillis, dump, restore};
use crate::resp::Reply;

/// Greatest access frequency (`server.h`: the counter has 8 bits).
const FREQUENCY_MAX: i64 = 255;

fn dump_(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let Some(slot) = ctx.find_for_read(args.required()?) else {
        return Ok(Reply::Nil);
    };
    Ok(Reply::bulk(dump(ctx.db().value(slot), ctx.config())))
}

#[derive(Default)]
struct Options {
    replace: bool,
    is_absolute: bool,
    idle_seconds: Option<i64>,
    frequency: Option<i64>,
}

impl Options {
    fn parse(args: &mut Args<'_>) -> Result<Self, CommandError> {
        let mut options = Self::default();
        while !args.is_empty() {
            if args.keyword("REPLACE") {
                options.replace = true;
            } else if args.keyword("ABSTTL") {
                options.is_absolute = true;
            } else if options.frequency.is_none() && args.keyword("IDLETIME") {
                let seconds = args.integer()?;
                if seconds < 0 {
                    let text = "ERR Invalid IDLETIME value, must be >= 0";
                    return Err(CommandError::Text(text.into()));
                }
                options.idle_seconds = Some(seconds);
            } else if options.idle_seconds.is_none() && args.keyword("FREQ") {
                let frequency = args.integer()?;
                if !(0..=FREQUENCY_MAX).contains(&frequency) {
                    let text = "ERR Invalid FREQ value, must be >= 0 and <= 255";
                    return Err(CommandError::Text(text.into()));
                }
                options.frequency = Some(frequency);
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(options)
    }
}

/// `cluster.c: restoreCommand`.
fn restore_(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (key, ttl, payload) = (args.required()?, args.required()?, args.required()?);
    let options = Options::parse(args)?;
    let text = |text: &'static str| CommandError::Text(text.into());
    if !options.replace && ctx.find(key).is_some() {
        return Err(text("BUSYKEY Target key name already exists."));
    }
    let ttl = super::integer_of(ttl)?;
    if ttl < 0 {
        return Err(text("ERR Invalid TTL value, must be >= 0"));
    }
    let value = restore(payload, ctx.config()).map_err(|error| match error {
        PayloadError::Footer => text("ERR DUMP payload version or checksum are wrong"),
        PayloadError::Malformed => text("ERR Bad data format"),
        PayloadError::NotHere(kind) => CommandError::NotImplemented {
            what: format!("RESTORE of values of RDB type {kind}"),
        },
    })?;
    let was_there = options.replace && ctx.clear_destination(key);
    let deadline = match ttl {
        0 => None,
        ttl if options.is_absolute => Some(UnixMillis(ttl)),
        ttl => Some(UnixMillis(ttl.wrapping_add(ctx.now_millis().0))),
    };
    if deadline.is_some_and(|deadline| already_expired(ctx, deadline)) {
        if was_there {
            ctx.propagate_as(&[b"DEL".into(), key.into()]);
            ctx.notify(Class::Generic, "del", key);
        }
        return Ok(Reply::Ok);
    }
    ctx.set_found(None, key, value, deadline.map_or(Ttl::Clear, Ttl::At));
    ctx.resized_list(key, false);
    if let Some(deadline) = deadline.filter(|_| !options.is_absolute) {
        let edits = [(2, deadline.into()), (usize::MAX, b"ABSTTL".into())];
        ctx.propagate_edited(args.request(), &edits);
    }
    let is_lfu = ctx.config().maxmemory_policy.is_lfu();
    let frequency = options.frequency.and_then(|given| u8::try_from(given).ok());
    if let Some(frequency) = frequency.filter(|_| is_lfu) {
        ctx.set_frequency(key, frequency);
    } else if let Some(seconds) = options.idle_seconds.filter(|_| !is_lfu) {
        ctx.set_idle(key, seconds);
    }
    ctx.notify(Class::Generic, "restore", key);
    Ok(Reply::Ok)
}

pub(crate) const COMMANDS: &[CommandSpec] = &[
    row("dump", 2, dump_)
        .flags(&[Flags::READONLY])
        .keys(1, 1, 1, &["RO", "access"])
        .tips(&["nondeterministic_output"])
        .syntax("key")
        .summary("The value of a key as a string for `RESTORE`."),
    row("restore", -4, restore_)
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .keys(1, 1, 1, &["OW", "update"])
        .acl(&["@dangerous"])
        .syntax(
            "key ttl:integer serialized-value [REPLACE]@3.0.0 [ABSTTL]@5.0.0 [IDLETIME \
             seconds:integer]@5.0.0 [FREQ frequency:integer]@5.0.0",
        )
        .summary("Restores a key from the result of `DUMP`."),
    CommandSpec::new("restore-asking", -4, Group::Server, restore_)
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::ASKING])
        .keys(1, 1, 1, &["OW", "update"])
        .acl(&["@keyspace", "@dangerous"])
        .since("3.0.0")
        .system_command()
        .syntax(
            "key ttl:integer serialized-value [REPLACE]@3.0.0 [ABSTTL]@5.0.0 [IDLETIME \
             seconds:integer]@5.0.0 [FREQ frequency:integer]@5.0.0",
        )
        .summary("RESTORE for slots that are being imported."),
];

const fn row(name: &'static str, arity: i32, handler: super::spec::Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::Generic, handler).since("2.6.0")
}
