//! Hashes: deadlines of their fields (`t_hash.c` of Redis 7.4 and 8.0). Expired fields are removed before a request sees
//! them (`engine/state/change.rs`), so no handler meets one.

use super::expire::{Condition, absolute_deadline, already_expired};
use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError, integer_of};
use crate::engine::{Arg, Class, Ctx, Hash, HashLimits, TouchOrder, UnixMillis, Value};
use crate::resp::Reply;

/// Replies for a field: no deadline, no field, and the outcome.
const NO_DEADLINE: i64 = -1;
const NO_FIELD: i64 = -2;
const NOT_MET: i64 = 0;
const SET: i64 = 1;
const DELETED: i64 = 2;

/// The greatest deadline that Redis stores (`EB_EXPIRE_TIME_MAX`).
const DEADLINE_MAX: i64 = (1 << 46) - 2;

fn text(text: &'static str) -> CommandError {
    CommandError::Text(text.into())
}

/// The fields behind FIELDS and their number, which are the last arguments.
fn fields<'a>(args: &mut Args<'a>, too_few: &'static str) -> Result<Vec<&'a [u8]>, CommandError> {
    if !args.keyword("FIELDS") {
        return Err(text(
            "ERR Mandatory argument FIELDS is missing or not at the right position",
        ));
    }
    let count = args.integer_from(1, too_few)?;
    if usize::try_from(count) != Ok(args.remaining()) {
        return Err(text(
            "ERR The `numfields` parameter must match the number of arguments",
        ));
    }
    Ok(args.rest().collect())
}

const NOT_POSITIVE: &str = "ERR Number of fields must be a positive integer";

fn each(replies: impl IntoIterator<Item = i64>) -> Reply {
    Reply::Array(replies.into_iter().map(Reply::Int).collect())
}

/// Fields of a hash whose deadlines a command has changed, and those that it has removed.
#[derive(Default)]
struct Changes<'a> {
    timed: Vec<&'a [u8]>,
    freed: Vec<&'a [u8]>,
    removed: Vec<&'a [u8]>,
}

impl Changes<'_> {
    /// Publishes what has happened, and propagates it with absolute times.
    fn conclude(
        &self,
        ctx: &mut Ctx<'_>,
        key: &[u8],
        is_empty: bool,
        deadline: Option<UnixMillis>,
    ) {
        let Self {
            timed,
            freed,
            removed,
        } = self;
        if timed.is_empty() && freed.is_empty() && removed.is_empty() {
            return;
        }
        ctx.propagate_nothing();
        let numbers = [timed, freed].map(|fields| fields.len().to_string());
        for (fields, number, head) in [
            (timed, &numbers[0], b"HPEXPIREAT".as_slice()),
            (freed, &numbers[1], b"HPERSIST"),
        ] {
            if fields.is_empty() {
                continue;
            }
            let mut command: Vec<Arg<'_>> = vec![head.into(), key.into()];
            if let Some(deadline) = deadline.filter(|_| head == b"HPEXPIREAT") {
                command.push(deadline.into());
            }
            command.push(b"FIELDS".into());
            command.push(number.as_bytes().into());
            command.extend(fields.iter().map(|field| Arg::from(*field)));
            ctx.also_propagate(&command);
        }
        if !removed.is_empty() {
            let mut command: Vec<Arg<'_>> = vec![b"HDEL".into(), key.into()];
            command.extend(removed.iter().map(|field| Arg::from(*field)));
            ctx.also_propagate(&command);
        }
        if removed.is_empty() {
            ctx.touched(key);
        }
        if !timed.is_empty() {
            ctx.notify(Class::Hash, "hexpire", key);
        }
        if !freed.is_empty() {
            ctx.notify(Class::Hash, "hpersist", key);
        }
        if !removed.is_empty() {
            ctx.removed_from(key, is_empty, (Class::Hash, "hdel"), TouchOrder::First);
        }
    }
}

fn expire_fields(
    ctx: &mut Ctx<'_>,
    args: &mut Args<'_>,
    command: &str,
    is_seconds: bool,
    is_absolute: bool,
) -> CommandResult {
    let (key, value) = (args.required()?, args.required()?);
    ctx.write::<Hash>(key)?;
    let value = integer_of(value)?;
    if value < 0 {
        return Err(text("ERR invalid expire time, must be >= 0"));
    }
    let deadline = absolute_deadline(value, is_seconds, is_absolute, ctx.now_millis());
    let deadline = deadline.filter(|deadline| deadline.0 <= DEADLINE_MAX);
    let deadline = deadline.ok_or_else(|| CommandError::InvalidExpire {
        command: command.to_owned(),
    })?;
    let mut condition = Condition::default();
    condition.read(args);
    let names = fields(args, "ERR Parameter `numFields` should be greater than 0")?;
    let is_past = already_expired(ctx, deadline);
    let Some(hash) = ctx.write_again::<Hash>(key)? else {
        return Ok(each(names.iter().map(|_| NO_FIELD)));
    };
    hash.expect_deadlines();
    let mut changes = Changes::default();
    let mut set = |field: &&[u8]| {
        if hash.get(field).is_none() {
            NO_FIELD
        } else if !condition.holds(hash.deadline(field), deadline) {
            NOT_MET
        } else if is_past {
            hash.remove(field);
            DELETED
        } else {
            hash.set_deadline(field, Some(deadline));
            SET
        }
    };
    let replies: Vec<i64> = names.iter().map(&mut set).collect();
    let is_empty = hash.is_empty();
    for (field, reply) in names.iter().zip(&replies) {
        match *reply {
            SET => changes.timed.push(field),
            DELETED => changes.removed.push(field),
            _ => {}
        }
    }
    changes.conclude(ctx, key, is_empty, Some(deadline));
    Ok(each(replies))
}

fn hexpire(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    expire_fields(ctx, args, "hexpire", true, false)
}

fn hpexpire(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    expire_fields(ctx, args, "hpexpire", false, false)
}

fn hexpireat(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    expire_fields(ctx, args, "hexpireat", true, true)
}

fn hpexpireat(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    expire_fields(ctx, args, "hpexpireat", false, true)
}

/// Shows the deadline of each field in some form.
fn show(
    ctx: &mut Ctx<'_>,
    args: &mut Args<'_>,
    form: fn(UnixMillis, UnixMillis) -> i64,
) -> CommandResult {
    let key = args.required()?;
    ctx.read::<Hash>(key)?;
    let names = fields(args, NOT_POSITIVE)?;
    let now = ctx.now_millis();
    let hash = ctx.read_again::<Hash>(key)?;
    let replies = names.iter().map(|field| match hash {
        Some(hash) if hash.get(field).is_some() => hash
            .deadline(field)
            .map_or(NO_DEADLINE, |deadline| form(deadline, now)),
        Some(_) | None => NO_FIELD,
    });
    Ok(each(replies.collect::<Vec<i64>>()))
}

fn httl(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    show(ctx, args, |deadline, now| (deadline.0 - now.0 + 999) / 1000)
}

fn hpttl(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    show(ctx, args, |deadline, now| deadline.0 - now.0)
}

fn hexpiretime(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    show(ctx, args, |deadline, _| (deadline.0 + 999) / 1000)
}

fn hpexpiretime(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    show(ctx, args, |deadline, _| deadline.0)
}

fn hpersist(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let key = args.required()?;
    ctx.write::<Hash>(key)?;
    let names = fields(args, NOT_POSITIVE)?;
    let Some(hash) = ctx.write_again::<Hash>(key)? else {
        return Ok(each(names.iter().map(|_| NO_FIELD)));
    };
    let mut changes = Changes::default();
    let mut replies = Vec::new();
    for field in names {
        replies.push(match (hash.get(field).is_some(), hash.deadline(field)) {
            (false, _) => NO_FIELD,
            (true, None) => NO_DEADLINE,
            (true, Some(_)) => {
                hash.set_deadline(field, None);
                changes.freed.push(field);
                SET
            }
        });
    }
    changes.conclude(ctx, key, false, None);
    Ok(each(replies))
}

/// Forms of a deadline in HGETEX and HSETEX.
#[derive(Clone, Copy)]
enum Given {
    /// There is none.
    None,
    /// PERSIST or KEEPTTL.
    Keeps,
    At(UnixMillis),
}

/// Reads EX, PX, EXAT or PXAT with its value, if it comes next.
fn given(
    ctx: &Ctx<'_>,
    args: &mut Args<'_>,
    command: &str,
) -> Result<Option<UnixMillis>, CommandError> {
    let (is_seconds, is_absolute) = match () {
        () if args.keyword("EX") => (true, false),
        () if args.keyword("PX") => (false, false),
        () if args.keyword("EXAT") => (true, true),
        () if args.keyword("PXAT") => (false, true),
        () => return Ok(None),
    };
    let value = args.integer()?;
    if value < 0 {
        return Err(text("ERR invalid expire time, must be >= 0"));
    }
    let deadline = absolute_deadline(value, is_seconds, is_absolute, ctx.now_millis());
    let deadline = deadline.filter(|deadline| deadline.0 <= DEADLINE_MAX);
    deadline
        .map(Some)
        .ok_or_else(|| CommandError::InvalidExpire {
            command: command.to_owned(),
        })
}

/// The value of a field.
fn value_of(hash: &Hash, field: &[u8]) -> Reply {
    let value = hash.get(field);
    value.map_or(Reply::Nil, |value| Reply::Bulk(value.to_blob()))
}

fn hgetex(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let key = args.required()?;
    ctx.write::<Hash>(key)?;
    let given = match given(ctx, args, "hgetex")? {
        Some(deadline) => Given::At(deadline),
        None if args.keyword("PERSIST") => Given::Keeps,
        None => Given::None,
    };
    let names = fields(args, NOT_POSITIVE)?;
    let now = ctx.now_millis();
    let Some(hash) = ctx.write_again::<Hash>(key)? else {
        return Ok(Reply::Array(vec![Reply::Nil; names.len()]));
    };
    if !matches!(given, Given::None) {
        hash.expect_deadlines();
    }
    let mut replies = Vec::new();
    let mut changes = Changes::default();
    let mut until = None;
    for field in names {
        replies.push(value_of(hash, field));
        if hash.get(field).is_none() {
            continue;
        }
        match given {
            Given::None => {}
            Given::Keeps if hash.deadline(field).is_none() => {}
            Given::Keeps => {
                hash.set_deadline(field, None);
                changes.freed.push(field);
            }
            Given::At(deadline) if deadline <= now => {
                hash.remove(field);
                changes.removed.push(field);
            }
            Given::At(deadline) => {
                until = Some(deadline);
                hash.set_deadline(field, until);
                changes.timed.push(field);
            }
        }
    }
    let is_empty = hash.is_empty();
    ctx.replies_here();
    changes.conclude(ctx, key, is_empty, until);
    Ok(Reply::Array(replies))
}

fn hsetex(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    const ONE_TIME: &str =
        "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified";
    const ONE_CONDITION: &str = "ERR Only one of FXX or FNX arguments can be specified";
    let key = args.required()?;
    ctx.write::<Hash>(key)?;
    let (mut only_new, mut only_there, mut until) = (false, false, Given::None);
    while !args.keyword("FIELDS") {
        if let Some(deadline) = given(ctx, args, "hsetex")? {
            if !matches!(until, Given::None) {
                return Err(text(ONE_TIME));
            }
            until = Given::At(deadline);
            continue;
        }
        let is_known = match () {
            () if args.keyword("KEEPTTL") => {
                if !matches!(until, Given::None) {
                    return Err(text(ONE_TIME));
                }
                until = Given::Keeps;
                true
            }
            () if args.keyword("FNX") => {
                only_new = true;
                true
            }
            () if args.keyword("FXX") => {
                only_there = true;
                true
            }
            () => false,
        };
        if only_new && only_there {
            return Err(text(ONE_CONDITION));
        }
        if !is_known {
            return Err(match args.next() {
                Some(word) => CommandError::echoing("ERR unknown argument: ", word, ""),
                None => CommandError::Syntax,
            });
        }
    }
    let count = args.integer_from(1, "ERR invalid number of fields")?;
    let count = usize::try_from(count)
        .ok()
        .and_then(|count| count.checked_mul(2));
    if count != Some(args.remaining()) {
        return Err(CommandError::Arity {
            command: "hsetex".to_owned(),
        });
    }
    let words: Vec<&[u8]> = args.rest().collect();
    let (now, limits) = (ctx.now_millis(), HashLimits::of(ctx.config()));
    let former = ctx.write_again::<Hash>(key)?;
    let is_there = |field: &[u8]| {
        former
            .as_ref()
            .is_some_and(|hash| hash.get(field).is_some())
    };
    let mut names = words.iter().step_by(2);
    let is_refused = only_new && names.clone().any(|field| is_there(field))
        || only_there && !names.all(|field| is_there(field));
    if is_refused {
        return Ok(Reply::Int(0));
    }
    let is_new = former.is_none();
    let mut made = Hash::default();
    let hash = former.unwrap_or(&mut made);
    if matches!(until, Given::At(_)) {
        hash.expect_deadlines();
    }
    let mut is_past = false;
    for pair in words.chunks(2) {
        let (field, value) = (pair[0], pair[1]);
        match until {
            Given::None => {
                hash.set(field, value, limits);
            }
            Given::Keeps => {
                hash.change(field, value, limits);
            }
            Given::At(deadline) if deadline <= now => {
                is_past = true;
                hash.set(field, value, limits);
                hash.remove(field);
            }
            Given::At(deadline) => {
                hash.set(field, value, limits);
                hash.set_deadline(field, Some(deadline));
            }
        }
    }
    let is_empty = hash.is_empty();
    if is_new && !is_empty {
        ctx.add(key, Value::Hash(made));
    }
    if let Given::At(deadline) = until {
        let mut command: Vec<Arg<'_>> = vec![
            b"HSETEX".into(),
            key.into(),
            b"PXAT".into(),
            deadline.into(),
        ];
        let number = (words.len() / 2).to_string();
        command.push(b"FIELDS".into());
        command.push(number.as_bytes().into());
        command.extend(words.iter().map(|word| Arg::from(*word)));
        ctx.propagate_as(&command);
    }
    ctx.replies_here();
    match (is_past, is_empty && !is_new) {
        (_, true) => ctx.removed_from(key, true, (Class::Hash, "hdel"), TouchOrder::First),
        (is_past, false) => {
            ctx.touched(key);
            ctx.notify(Class::Hash, if is_past { "hdel" } else { "hset" }, key);
            if matches!(until, Given::At(_)) && !is_past {
                ctx.notify(Class::Hash, "hexpire", key);
            }
        }
    }
    Ok(Reply::Int(1))
}

fn hgetdel(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let key = args.required()?;
    ctx.write::<Hash>(key)?;
    let names = fields(args, NOT_POSITIVE)?;
    let Some(hash) = ctx.write_again::<Hash>(key)? else {
        return Ok(Reply::Array(vec![Reply::Nil; names.len()]));
    };
    let (mut replies, mut removed) = (Vec::new(), Vec::new());
    for field in names {
        replies.push(value_of(hash, field));
        if hash.remove(field) {
            removed.push(field);
        }
    }
    let is_empty = hash.is_empty();
    ctx.replies_here();
    let changes = Changes {
        removed,
        ..Changes::default()
    };
    changes.conclude(ctx, key, is_empty, None);
    Ok(Reply::Array(replies))
}

const WRITE: &[Flags] = &[Flags::WRITE, Flags::FAST];
const STORE: &[Flags] = &[Flags::WRITE, Flags::DENYOOM, Flags::FAST];
const CONDITION: &str =
    "key amount:integer [condition=(NX | XX | GT | LT)] FIELDS fields=(numfields:integer field...)";
const FIELDS: &str = "key FIELDS fields=(numfields:integer field...)";
const VARIES: &[&str] = &["nondeterministic_output"];

pub(crate) const COMMANDS: &[CommandSpec] = &[
    expiring("hexpire", hexpire).summary("Sets the time to live of fields, in seconds."),
    expiring("hpexpire", hpexpire).summary("Sets the time to live of fields, in milliseconds."),
    expiring("hexpireat", hexpireat).summary("Sets the deadlines of fields, in seconds since 1970."),
    expiring("hpexpireat", hpexpireat)
        .summary("Sets the deadlines of fields, in milliseconds since 1970."),
    telling("httl", httl).summary("Times to live of fields, in seconds."),
    telling("hpttl", hpttl).summary("Times to live of fields, in milliseconds."),
    telling("hexpiretime", hexpiretime).summary("Deadlines of fields, in seconds since 1970."),
    telling("hpexpiretime", hpexpiretime)
        .summary("Deadlines of fields, in milliseconds since 1970."),
    row("hpersist", -5, hpersist)
        .flags(WRITE)
        .keys(1, 1, 1, &["RW", "update"])
        .syntax(FIELDS)
        .summary("Removes the deadlines of fields."),
    row("hgetex", -5, hgetex)
        .flags(WRITE)
        .keys(1, 1, 1, &["RW", "access", "update"])
        .since("8.0.0")
        .syntax(
            "key [expiration=(EX seconds:integer | PX milliseconds:integer | EXAT \
             unix-time-seconds:unix-time | PXAT unix-time-milliseconds:unix-time | PERSIST)] \
             FIELDS fields=(numfields:integer field...)",
        )
        .summary("Returns the values of fields, and changes their deadlines."),
    row("hsetex", -6, hsetex)
        .flags(STORE)
        .keys(1, 1, 1, &["RW", "update"])
        .since("8.0.0")
        .syntax(
            "key [condition=(FNX | FXX)] [expiration=(EX seconds:integer | PX milliseconds:integer | \
             EXAT unix-time-seconds:unix-time | PXAT unix-time-milliseconds:unix-time | KEEPTTL)] \
             FIELDS fields=(numfields:integer data=(field value)...)",
        )
        .summary("Sets fields with a deadline."),
    row("hgetdel", -5, hgetdel)
        .flags(WRITE)
        .keys(1, 1, 1, &["RW", "access", "delete"])
        .since("8.0.0")
        .valkey_since("9.1.0")
        .syntax(FIELDS)
        .summary("Returns the values of fields, and deletes the fields."),
];

const fn expiring(name: &'static str, handler: super::spec::Handler) -> CommandSpec {
    row(name, -6, handler)
        .flags(WRITE)
        .keys(1, 1, 1, &["RW", "update"])
        .syntax(CONDITION)
}

const fn telling(name: &'static str, handler: super::spec::Handler) -> CommandSpec {
    row(name, -5, handler)
        .flags(&[Flags::READONLY, Flags::FAST])
        .keys(1, 1, 1, &["RO", "access"])
        .tips(VARIES)
        .syntax(FIELDS)
}

const fn row(name: &'static str, arity: i32, handler: super::spec::Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::Hash, handler)
        .since("7.4.0")
        .valkey_since("9.0.0")
}
