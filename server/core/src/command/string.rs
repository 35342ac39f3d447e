//! Strings: the SET and GET families, and counters. Parts of strings are in `substring.rs`.

use super::expire::{absolute_deadline, already_expired};
use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError, integer_of};
use crate::engine::{
    Arg, Class, Ctx, EncodingHint, Profile, Since, Ttl, UnixMillis, Value, feature,
};
use crate::resp::{Blob, LongDouble, Reply};
use xxhash_rust::xxh3::xxh3_64;

/// Forms of an expiry in SET and GETEX.
#[derive(Clone, Copy)]
struct Expiry<'a> {
    value: &'a [u8],
    is_seconds: bool,
    is_absolute: bool,
}

impl Expiry<'_> {
    /// `t_string.c: getExpireMillisecondsOrReply`.
    fn deadline(self, ctx: &Ctx<'_>, command: &str) -> Result<UnixMillis, CommandError> {
        let value = integer_of(self.value)?;
        let invalid = || CommandError::InvalidExpire {
            command: command.to_owned(),
        };
        if value <= 0 {
            return Err(invalid());
        }
        absolute_deadline(value, self.is_seconds, self.is_absolute, ctx.now_millis())
            .ok_or_else(invalid)
    }
}

/// A condition of SET or DELEX on the value at the key. A missing key differs from every value.
#[derive(Clone, Copy)]
enum Condition<'a> {
    /// NX
    Missing,
    /// XX
    Present,
    /// IFEQ and IFNE
    Value { text: &'a [u8], is_equal: bool },
    /// IFDEQ and IFDNE
    Digest { hex: &'a [u8], is_equal: bool },
}

impl<'a> Condition<'a> {
    /// Returns the condition with this name on its operand.
    fn named(keyword: Keyword, operand: &'a [u8]) -> Option<Self> {
        let is_equal = matches!(keyword, Keyword(Keyword::IFEQ | Keyword::IFDEQ));
        match keyword {
            Keyword(Keyword::IFEQ | Keyword::IFNE) => Some(Self::Value {
                text: operand,
                is_equal,
            }),
            Keyword(Keyword::IFDEQ | Keyword::IFDNE) => Some(Self::Digest {
                hex: operand,
                is_equal,
            }),
            Keyword(_) => None,
        }
    }

    fn is_met(self, ctx: &mut Ctx<'_>, key: &[u8], is_there: bool) -> Result<bool, CommandError> {
        match self {
            Self::Missing => Ok(!is_there),
            Self::Present => Ok(is_there),
            Self::Value { is_equal, .. } | Self::Digest { is_equal, .. } => {
                let equals = match ctx.write_again::<Blob>(key)? {
                    Some(value) => self.holds_for(value)?,
                    None => false,
                };
                Ok(equals == is_equal)
            }
        }
    }

    /// Returns true if the value or its digest equals the operand.
    fn holds_for(self, value: &[u8]) -> Result<bool, CommandError> {
        match self {
            Self::Missing | Self::Present => Ok(true),
            Self::Value { text, .. } => Ok(value == text),
            Self::Digest { hex, .. } if hex.len() != DIGEST_LEN => Err(CommandError::Text(
                format!("ERR Digest must be exactly {DIGEST_LEN} hexadecimal characters").into(),
            )),
            Self::Digest { hex, .. } => Ok(digest_of(value).as_bytes().eq_ignore_ascii_case(hex)),
        }
    }
}

/// Number of characters of a digest.
const DIGEST_LEN: usize = 16;

/// Returns the digest of a string: XXH3 of 64 bits, in hexadecimal.
fn digest_of(value: &[u8]) -> String {
    format!("{:0DIGEST_LEN$x}", xxh3_64(value))
}

#[derive(Default)]
struct Options<'a> {
    condition: Option<Condition<'a>>,
    get: bool,
    keep_ttl: bool,
    persist: bool,
    expiry: Option<Expiry<'a>>,
}

impl<'a> Options<'a> {
    /// `t_string.c: parseExtendedStringArgumentsOrReply`.
    fn parse(args: &mut Args<'a>, for_set: bool, profile: Profile) -> Result<Self, CommandError> {
        let mut options = Self::default();
        while let Some(word) = args.next() {
            let kept = options.keep_ttl || options.persist;
            match Keyword::of(word) {
                Keyword(Keyword::PX | Keyword::EX | Keyword::PXAT | Keyword::EXAT) if !kept => {
                    let (is_seconds, is_absolute) = (word[0] | 0x20 == b'e', word.len() == 4);
                    // A repeated option overrides; a different one is an error.
                    if options.expiry.is_some_and(|other| {
                        (other.is_seconds, other.is_absolute) != (is_seconds, is_absolute)
                    }) {
                        return Err(CommandError::Syntax);
                    }
                    options.expiry = Some(Expiry {
                        value: args.required()?,
                        is_seconds,
                        is_absolute,
                    });
                }
                Keyword(Keyword::NX)
                    if for_set && matches!(options.condition, None | Some(Condition::Missing)) =>
                {
                    options.condition = Some(Condition::Missing);
                }
                Keyword(Keyword::XX)
                    if for_set && matches!(options.condition, None | Some(Condition::Present)) =>
                {
                    options.condition = Some(Condition::Present);
                }
                Keyword(Keyword::GET) if for_set => options.get = true,
                Keyword(Keyword::KEEPTTL) if for_set && options.expiry.is_none() => {
                    options.keep_ttl = true;
                }
                Keyword(Keyword::PERSIST) if !for_set && options.expiry.is_none() => {
                    options.persist = true;
                }
                keyword @ Keyword(
                    Keyword::IFEQ | Keyword::IFNE | Keyword::IFDEQ | Keyword::IFDNE,
                ) if for_set && options.condition.is_none() && profile.has(keyword.since()) => {
                    options.condition = Condition::named(keyword, args.required()?);
                }
                Keyword(_) => return Err(CommandError::Syntax),
            }
        }
        Ok(options)
    }
}

/// An option of up to eight letters as a number, ignoring case; 0 if it is longer.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Keyword(u64);

impl Keyword {
    const PX: u64 = Self::of(b"PX").0;
    const EX: u64 = Self::of(b"EX").0;
    const PXAT: u64 = Self::of(b"PXAT").0;
    const EXAT: u64 = Self::of(b"EXAT").0;
    const NX: u64 = Self::of(b"NX").0;
    const XX: u64 = Self::of(b"XX").0;
    const GET: u64 = Self::of(b"GET").0;
    const KEEPTTL: u64 = Self::of(b"KEEPTTL").0;
    const IFEQ: u64 = Self::of(b"IFEQ").0;
    const IFNE: u64 = Self::of(b"IFNE").0;
    const IFDEQ: u64 = Self::of(b"IFDEQ").0;
    const IFDNE: u64 = Self::of(b"IFDNE").0;
    const PERSIST: u64 = Self::of(b"PERSIST").0;

    /// No other byte than a letter in either case becomes this letter, so letters decide alone.
    #[inline]
    const fn of(word: &[u8]) -> Self {
        let (mut folded, mut at) = (0, 0);
        if word.len() > 8 {
            return Self(0);
        }
        while at < word.len() {
            folded = folded << 8 | (word[at] | 0x20) as u64;
            at += 1;
        }
        Self(folded)
    }

    /// Version that introduced a condition on the former value.
    fn since(self) -> Since {
        if self.0 == Self::IFEQ {
            feature::SET_IF_EQUAL
        } else {
            feature::SET_IF_DIFFERENT
        }
    }
}

fn bulk_or_nil(value: Option<&Blob>) -> Reply {
    value.map_or(Reply::Nil, |value| Reply::Bulk(value.clone()))
}

/// Stores a string in place of any earlier value.
fn store(ctx: &mut Ctx<'_>, key: &[u8], value: &[u8]) {
    ctx.set(key, Value::String(Blob::new(value)), Ttl::Clear);
    ctx.notify(Class::String, "set", key);
}

/// Propagates the deadline as a point in time, whatever its form in the request.
fn propagate_set_until(ctx: &mut Ctx<'_>, key: &[u8], value: &[u8], deadline: UnixMillis) {
    ctx.propagate_as(&[
        b"SET".into(),
        key.into(),
        value.into(),
        b"PXAT".into(),
        deadline.into(),
    ]);
}

fn set(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (key, value) = (args.required()?, args.required()?);
    if args.is_empty() {
        store(ctx, key, value);
        return Ok(Reply::Ok);
    }
    let options = Options::parse(args, true, ctx.config().profile)?;
    let deadline = options
        .expiry
        .map(|expiry| expiry.deadline(ctx, "set"))
        .transpose()?;
    let old = if options.get {
        let old = bulk_or_nil(ctx.read::<Blob>(key)?);
        ctx.replies_here();
        Some(old)
    } else {
        None
    };
    let found = ctx.find(key);
    if let Some(condition) = options.condition
        && !condition.is_met(ctx, key, found.is_some())?
    {
        return Ok(old.unwrap_or(Reply::Nil));
    }
    let ttl = match deadline {
        Some(deadline) => Ttl::At(deadline),
        None if options.keep_ttl => Ttl::Keep,
        None => Ttl::Clear,
    };
    ctx.set_found(found, key, Value::String(Blob::new(value)), ttl);
    ctx.notify(Class::String, "set", key);
    if let Some(deadline) = deadline {
        propagate_set_until(ctx, key, value, deadline);
        ctx.notify(Class::Generic, "expire", key);
    } else if options.get && ctx.is_propagated() {
        let is_kept = |(at, arg): &(usize, &[u8])| *at < 3 || !arg.eq_ignore_ascii_case(b"get");
        let kept = args.request().iter().enumerate().filter(is_kept);
        let kept: Vec<Arg<'_>> = kept.map(|(_, arg)| arg.into()).collect();
        ctx.propagate_as(&kept);
    }
    Ok(old.unwrap_or(Reply::Ok))
}

/// DELEX of 8.4: deletes a key, or a string that meets a condition.
fn delex(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let key = args.required()?;
    let condition = match (args.remaining(), args.next(), args.next()) {
        (0, ..) => None,
        (2, Some(word), Some(operand)) => {
            let condition = Condition::named(Keyword::of(word), operand);
            let condition = condition.ok_or_else(|| {
                CommandError::Text("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE".into())
            });
            Some(condition?)
        }
        _ => {
            return Err(CommandError::Arity {
                command: "delex".to_owned(),
            });
        }
    };
    if let Some(condition) = condition {
        if ctx.find(key).is_none() {
            return Ok(Reply::Int(0));
        }
        if ctx.read_again::<Blob>(key).is_err() {
            return Err(CommandError::Text(
                "ERR Key should be of string type if conditions are specified".into(),
            ));
        }
        if !condition.is_met(ctx, key, true)? {
            return Ok(Reply::Int(0));
        }
    }
    Ok(Reply::Int(delete(ctx, key).into()))
}

/// DELIFEQ of Valkey 9: deletes a string that equals another one.
fn delifeq(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (key, text) = (args.required()?, args.required()?);
    let condition = Condition::Value {
        text,
        is_equal: true,
    };
    let is_there = ctx.find(key).is_some();
    let is_equal = condition.is_met(ctx, key, is_there)?;
    Ok(Reply::Int((is_equal && delete(ctx, key)).into()))
}

/// Deletes a key; returns false if it is missing.
fn delete(ctx: &mut Ctx<'_>, key: &[u8]) -> bool {
    let is_gone = ctx.delete(key);
    if is_gone {
        ctx.propagate_removal(key, "lazyfree-lazy-user-del");
        ctx.notify(Class::Generic, "del", key);
    }
    is_gone
}

/// DIGEST of 8.4.
fn digest(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let value = ctx.read::<Blob>(args.required()?)?;
    Ok(value.map_or(Reply::Nil, |value| Reply::bulk(digest_of(value))))
}

fn get(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    Ok(bulk_or_nil(ctx.read::<Blob>(args.required()?)?))
}

fn getset(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (key, value) = (args.required()?, args.required()?);
    let old = bulk_or_nil(ctx.read::<Blob>(key)?);
    ctx.replies_here();
    store(ctx, key, value);
    ctx.propagate_edited(args.request(), &[(0, b"SET".into())]);
    Ok(old)
}

fn getdel(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let key = args.required()?;
    let old = bulk_or_nil(ctx.read::<Blob>(key)?);
    ctx.replies_here();
    delete(ctx, key);
    Ok(old)
}

fn getex(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let key = args.required()?;
    let options = Options::parse(args, false, ctx.config().profile)?;
    let Some(value) = ctx.read::<Blob>(key)?.cloned() else {
        return Ok(Reply::Nil);
    };
    let deadline = options.expiry.map(|expiry| expiry.deadline(ctx, "getex"));
    let deadline = deadline.transpose()?;
    ctx.replies_here();
    if let (Some(expiry), Some(deadline)) = (options.expiry, deadline) {
        if expiry.is_absolute && already_expired(ctx, deadline) {
            ctx.delete(key);
            ctx.propagate_removal(key, "lazyfree-lazy-expire");
            ctx.notify(Class::Generic, "del", key);
        } else {
            ctx.set_deadline(key, Some(deadline));
            ctx.propagate_as(&[b"PEXPIREAT".into(), key.into(), deadline.into()]);
            ctx.notify(Class::Generic, "expire", key);
        }
    } else if options.persist
        && let Some(slot) = ctx.find_quietly(key)
        && ctx.db().deadline(slot).is_some()
    {
        ctx.set_deadline_of(slot, key, None);
        ctx.propagate_as(&[b"PERSIST".into(), key.into()]);
        ctx.notify(Class::Generic, "persist", key);
    }
    Ok(Reply::Bulk(value))
}

fn setnx(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (key, value) = (args.required()?, args.required()?);
    if ctx.find(key).is_some() {
        return Ok(Reply::Int(0));
    }
    store(ctx, key, value);
    Ok(Reply::Int(1))
}

fn setex_in(
    ctx: &mut Ctx<'_>,
    args: &mut Args<'_>,
    is_seconds: bool,
    command: &str,
) -> CommandResult {
    let (key, value_of_ttl, value) = (args.required()?, args.required()?, args.required()?);
    let expiry = Expiry {
        value: value_of_ttl,
        is_seconds,
        is_absolute: false,
    };
    let deadline = expiry.deadline(ctx, command)?;
    ctx.set(key, Value::String(Blob::new(value)), Ttl::At(deadline));
    propagate_set_until(ctx, key, value, deadline);
    ctx.notify(Class::String, "set", key);
    ctx.notify(Class::Generic, "expire", key);
    Ok(Reply::Ok)
}

fn setex(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    setex_in(ctx, args, true, "setex")
}

fn psetex(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    setex_in(ctx, args, false, "psetex")
}

/// `t_string.c: incrDecrCommand`.
fn add(ctx: &mut Ctx<'_>, key: &[u8], by: i64) -> CommandResult {
    let sum = |value: i64| value.checked_add(by).ok_or(CommandError::Overflow);
    if let Some(value) = ctx.write::<Blob>(key)? {
        let next = sum(integer_of(value)?)?;
        *value = Blob::from_integer(next);
        ctx.set_form(key, EncodingHint::Natural);
        ctx.touched(key);
        ctx.notify(Class::String, "incrby", key);
        return Ok(Reply::Int(next));
    }
    let next = sum(0)?;
    ctx.set_found(
        None,
        key,
        Value::String(Blob::from_integer(next)),
        Ttl::Clear,
    );
    ctx.notify(Class::String, "incrby", key);
    Ok(Reply::Int(next))
}

fn incr(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    add(ctx, args.required()?, 1)
}

fn decr(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    add(ctx, args.required()?, -1)
}

fn incrby(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (key, by) = (args.required()?, args.integer()?);
    add(ctx, key, by)
}

fn decrby(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (key, by) = (args.required()?, args.integer()?);
    add(
        ctx,
        key,
        by.checked_neg().ok_or(CommandError::DecrementOverflow)?,
    )
}

/// `t_string.c: incrbyfloatCommand`. The value is read before the increment.
fn incrbyfloat(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (key, by) = (args.required()?, args.required()?);
    let number = |text: &[u8]| LongDouble::parse(text).ok_or(CommandError::NotFloat);
    let value = ctx
        .write::<Blob>(key)?
        .map_or(Ok(LongDouble::ZERO), |value| number(value))?;
    let sum = value
        .add(number(by)?)
        .filter(|sum| sum.is_finite())
        .ok_or(CommandError::NanOrInfinity)?;
    let sum = Blob::from(sum.to_string());
    let found = ctx.find_quietly(key);
    ctx.set_found(found, key, Value::String(sum.clone()), Ttl::Keep);
    ctx.set_form(key, EncodingHint::Text);
    // The sum is propagated as a value, because another server might round differently.
    let keep_ttl = b"KEEPTTL";
    ctx.propagate_as(&[b"SET".into(), key.into(), (&sum).into(), keep_ttl.into()]);
    ctx.notify(Class::String, "incrbyfloat", key);
    Ok(Reply::Bulk(sum))
}

/// A value of another type counts as missing.
fn mget(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let value = |key: &[u8]| bulk_or_nil(ctx.read::<Blob>(key).unwrap_or(None));
    Ok(Reply::Array(args.rest().map(value).collect()))
}

/// `t_string.c: msetGenericCommand`: with `only_new` sets all keys or none.
fn mset_in(ctx: &mut Ctx<'_>, args: &mut Args<'_>, command: &str, only_new: bool) -> CommandResult {
    if !args.remaining().is_multiple_of(2) {
        return Err(CommandError::Arity {
            command: command.to_owned(),
        });
    }
    if only_new
        && args
            .clone()
            .rest()
            .step_by(2)
            .any(|key| ctx.find(key).is_some())
    {
        return Ok(Reply::Int(0));
    }
    while let (Some(key), Some(value)) = (args.next(), args.next()) {
        store(ctx, key, value);
    }
    Ok(if only_new { Reply::Int(1) } else { Reply::Ok })
}

fn mset(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    mset_in(ctx, args, "mset", false)
}

fn msetnx(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    mset_in(ctx, args, "msetnx", true)
}

fn strlen(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    Ok(Reply::Int(
        ctx.read::<Blob>(args.required()?)?
            .map_or(0, |value| value.len() as i64),
    ))
}

const RO: &[Flags] = &[Flags::READONLY, Flags::FAST];
const STORE: &[Flags] = &[Flags::WRITE, Flags::DENYOOM];
const STORE_FAST: &[Flags] = &[Flags::WRITE, Flags::DENYOOM, Flags::FAST];
const WRITE_FAST: &[Flags] = &[Flags::WRITE, Flags::FAST];
const RW_UPDATE: &[&str] = &["RW", "access", "update"];

pub(crate) const COMMANDS: &[CommandSpec] = &[
    row("set", -3, set)
        .flags(STORE)
        .keys(1, 1, 1, &["RW", "access", "update", "variable_flags"])
        .key_notes("Read only with `GET`")
        .find_keys(super::keys::set)
        .syntax(
            "key value [condition=(NX | XX | IFEQ ifeq-value@8.4.0/8.1.0 | IFNE ifne-value@8.4.0 | \
             IFDEQ ifdeq-digest:integer@8.4.0 | IFDNE ifdne-digest:integer@8.4.0)]@2.6.12 [GET]@6.2.0 [expiration=(EX seconds:integer@2.6.12 | \
             PX milliseconds:integer@2.6.12 | EXAT unix-time-seconds:unix-time@6.2.0 | PXAT \
             unix-time-milliseconds:unix-time@6.2.0 | KEEPTTL@6.0.0)]",
        )
        .summary("Stores a string, with optional conditions and expiry."),
    row("get", 2, get)
        .flags(RO)
        .keys(1, 1, 1, &["RO", "access"])
        .syntax("key")
        .summary("The string at a key."),
    row("delex", -2, delex)
        .flags(WRITE_FAST)
        .keys(1, 1, 1, &["RW", "delete"])
        .since("8.4.0")
        .syntax(
            "key [condition=(IFEQ ifeq-value | IFNE ifne-value | IFDEQ ifdeq-digest:integer | IFDNE ifdne-digest:integer)]",
        )
        .summary("Deletes a key, with an optional condition."),
    row("digest", 2, digest)
        .flags(RO)
        .keys(1, 1, 1, &["RO", "access"])
        .since("8.4.0")
        .syntax("key")
        .summary("Returns the digest of a string, for IFDEQ and IFDNE."),
    row("delifeq", 3, delifeq)
        .flags(WRITE_FAST)
        .keys(1, 1, 1, &["RW", "delete"])
        .since("")
        .valkey_since("9.0.0")
        .syntax("key value")
        .summary("Deletes a string that equals a value."),
    row("getset", 3, getset)
        .flags(STORE_FAST)
        .keys(1, 1, 1, RW_UPDATE)
        .deprecated("6.2.0", "`SET` with `GET`")
        .syntax("key value")
        .summary("Stores a string and returns the former one."),
    row("getdel", 2, getdel)
        .flags(WRITE_FAST)
        .keys(1, 1, 1, &["RW", "access", "delete"])
        .since("6.2.0")
        .syntax("key")
        .summary("Returns a string and deletes its key."),
    row("getex", -2, getex)
        .flags(WRITE_FAST)
        .keys(1, 1, 1, RW_UPDATE)
        .key_notes("Written for its expiry")
        .since("6.2.0")
        .syntax(
            "key [expiration=(EX seconds:integer | PX milliseconds:integer | EXAT \
             unix-time-seconds:unix-time | PXAT unix-time-milliseconds:unix-time | PERSIST)]",
        )
        .summary("Returns a string and changes its expiry."),
    row("setnx", 3, setnx)
        .flags(STORE_FAST)
        .keys(1, 1, 1, &["OW", "insert"])
        .syntax("key value")
        .summary("Stores a string if the key is free."),
    row("setex", 4, setex)
        .flags(STORE)
        .keys(1, 1, 1, &["OW", "update"])
        .since("2.0.0")
        .syntax("key seconds:integer value")
        .summary("Stores a string for a number of seconds."),
    row("psetex", 4, psetex)
        .flags(STORE)
        .keys(1, 1, 1, &["OW", "update"])
        .since("2.6.0")
        .syntax("key milliseconds:integer value")
        .summary("Stores a string for a number of milliseconds."),
    row("incr", 2, incr)
        .flags(STORE_FAST)
        .keys(1, 1, 1, RW_UPDATE)
        .syntax("key")
        .summary("Adds one to a counter."),
    row("decr", 2, decr)
        .flags(STORE_FAST)
        .keys(1, 1, 1, RW_UPDATE)
        .syntax("key")
        .summary("Subtracts one from a counter."),
    row("incrby", 3, incrby)
        .flags(STORE_FAST)
        .keys(1, 1, 1, RW_UPDATE)
        .syntax("key increment:integer")
        .summary("Adds to a counter."),
    row("decrby", 3, decrby)
        .flags(STORE_FAST)
        .keys(1, 1, 1, RW_UPDATE)
        .syntax("key decrement:integer")
        .summary("Subtracts from a counter."),
    row("incrbyfloat", 3, incrbyfloat)
        .flags(STORE_FAST)
        .keys(1, 1, 1, RW_UPDATE)
        .since("2.6.0")
        .syntax("key increment:double")
        .summary("Adds to a number with a fraction."),
    row("mget", -2, mget)
        .flags(RO)
        .keys(1, -1, 1, &["RO", "access"])
        .tips(&["request_policy:multi_shard"])
        .syntax("key...")
        .summary("The strings at several keys."),
    row("mset", -3, mset)
        .flags(STORE)
        .keys(1, -1, 2, &["OW", "update"])
        .tips(&["request_policy:multi_shard", "response_policy:all_succeeded"])
        .since("1.0.1")
        .syntax("key_value=(key value)...")
        .summary("Stores several strings."),
    row("msetnx", -3, msetnx)
        .flags(STORE)
        .keys(1, -1, 2, &["OW", "insert"])
        .tips(&["request_policy:multi_shard", "response_policy:agg_min"])
        .since("1.0.1")
        .syntax("key_value=(key value)...")
        .summary("Stores several strings if all of their keys are free."),
    row("strlen", 2, strlen)
        .flags(RO)
        .keys(1, 1, 1, &["RO"])
        .since("2.2.0")
        .syntax("key")
        .summary("The length of a string, in bytes."),
];

const fn row(name: &'static str, arity: i32, handler: super::spec::Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::String, handler)
}
