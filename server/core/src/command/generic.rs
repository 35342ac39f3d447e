//! Keys of any type: whether they exist, their names and databases, facts about their values.

use super::connection::not_in_cluster;
use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError, help};
use crate::engine::{Class, Ctx, EncodingHint, Kind, Ttl, UnixMillis, Value};
use crate::resp::Reply;

fn count_keys(args: &mut Args<'_>, mut one: impl FnMut(&[u8]) -> bool) -> CommandResult {
    Ok(Reply::Int(args.rest().filter(|key| one(key)).count() as i64))
}

fn del(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let is_lazy = ctx.config().is_on("lazyfree-lazy-user-del");
    delete(ctx, args, is_lazy)
}

fn unlink(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    delete(ctx, args, true)
}

fn delete(ctx: &mut Ctx<'_>, args: &mut Args<'_>, is_lazy: bool) -> CommandResult {
    count_keys(args, |key| {
        if is_lazy {
            ctx.count_lazy_removal(key);
        }
        let is_gone = ctx.delete(key);
        if is_gone {
            ctx.notify(Class::Generic, "del", key);
        }
        is_gone
    })
}

fn exists(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    count_keys(args, |key| ctx.find_for_look(key).is_some())
}

fn type_(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let slot = ctx.find_for_look(args.required()?);
    Ok(Reply::Static(
        slot.map_or("none", |slot| ctx.db().value(slot).kind().name()),
    ))
}

/// Returns the database in an argument.
fn database(ctx: &Ctx<'_>, args: &mut Args<'_>) -> Result<usize, CommandError> {
    let index = args.integer_within(i32::MIN.into(), i32::MAX.into())?;
    let index = usize::try_from(index).ok();
    index
        .filter(|index| *index < ctx.databases().len())
        .ok_or(CommandError::DbIndex)
}

/// A value with the attributes of its key, while it moves to another key.
struct CopiedValue {
    value: Value,
    deadline: Option<UnixMillis>,
    form: EncodingHint,
    /// Frequency of use under an LFU policy; `None` for a copy, which starts from the beginning.
    frequency: Option<u8>,
}

impl CopiedValue {
    fn of(ctx: &Ctx<'_>, slot: u32) -> Self {
        Self {
            value: ctx.db().value(slot).clone(),
            deadline: ctx.db().deadline(slot),
            form: ctx.form(slot),
            frequency: None,
        }
    }

    /// Takes the value from its key, and removes the key.
    fn take(ctx: &mut Ctx<'_>, key: &[u8], slot: u32) -> Self {
        let (deadline, form) = (ctx.db().deadline(slot), ctx.form(slot));
        let is_lfu = ctx.config().maxmemory_policy.is_lfu();
        let frequency = is_lfu.then(|| ctx.frequency(slot));
        let value = ctx.remove(slot);
        ctx.touched(key);
        Self {
            value,
            deadline,
            form,
            frequency,
        }
    }

    /// Puts the value at a free key.
    fn put(self, ctx: &mut Ctx<'_>, key: &[u8]) {
        let ttl = self.deadline.map_or(Ttl::Clear, Ttl::At);
        ctx.set_found(None, key, self.value, ttl);
        ctx.set_form(key, self.form);
        if let Some(frequency) = self.frequency {
            ctx.set_frequency(key, frequency);
        }
    }
}

/// `db.c: renameGenericCommand`; false if the new name must be free and is not.
fn rename_in(
    ctx: &mut Ctx<'_>,
    args: &mut Args<'_>,
    only_free: bool,
) -> Result<bool, CommandError> {
    let (from, to) = (args.required()?, args.required()?);
    let slot = ctx.find(from);
    let slot = slot.ok_or_else(|| CommandError::Text("ERR no such key".into()))?;
    if from == to {
        return Ok(!only_free);
    }
    if let Some(replaced) = ctx.find(to) {
        if only_free {
            return Ok(false);
        }
        // The change is signalled once, after the old key is removed.
        ctx.remove(replaced);
    }
    CopiedValue::take(ctx, from, slot).put(ctx, to);
    ctx.notify(Class::Generic, "rename_from", from);
    ctx.notify(Class::Generic, "rename_to", to);
    Ok(true)
}

fn rename(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    rename_in(ctx, args, false)?;
    Ok(Reply::Ok)
}

fn renamenx(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    Ok(Reply::Int(i64::from(rename_in(ctx, args, true)?)))
}

/// `db.c: moveCommand`.
fn move_(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    not_in_cluster(ctx, "ERR MOVE is not allowed in cluster mode")?;
    let key = args.required()?;
    let (own, other) = (ctx.session.db, database(ctx, args)?);
    if own == other {
        return Err(CommandError::SameObject);
    }
    let Some(slot) = ctx.find(key) else {
        return Ok(Reply::Int(0));
    };
    if ctx.in_db(other, |ctx| ctx.find(key).is_some()) {
        return Ok(Reply::Int(0));
    }
    let parcel = CopiedValue::take(ctx, key, slot);
    ctx.in_db(other, |ctx| parcel.put(ctx, key));
    ctx.notify(Class::Generic, "move_from", key);
    ctx.in_db(other, |ctx| ctx.notify(Class::Generic, "move_to", key));
    Ok(Reply::Int(1))
}

/// `db.c: copyCommand`.
fn copy(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (from, to) = (args.required()?, args.required()?);
    let (mut db, mut replace) = (ctx.session.db, false);
    while !args.is_empty() {
        if args.keyword("REPLACE") {
            replace = true;
        } else if args.keyword("DB") {
            db = database(ctx, args)?;
        } else {
            return Err(CommandError::Syntax);
        }
    }
    if db != 0 {
        not_in_cluster(
            ctx,
            "ERR Copying to another database is not allowed in cluster mode",
        )?;
    }
    if db == ctx.session.db && from == to {
        return Err(CommandError::SameObject);
    }
    let Some(slot) = ctx.find_for_read(from) else {
        return Ok(Reply::Int(0));
    };
    let mut parcel = CopiedValue::of(ctx, slot);
    if parcel.form == EncodingHint::Natural && parcel.value.kind() == Kind::String {
        parcel.form = EncodingHint::Unshared;
    }
    let is_done = ctx.in_db(db, |ctx| {
        if ctx.find(to).is_some() {
            if !replace {
                return false;
            }
            ctx.delete(to);
        }
        parcel.put(ctx, to);
        ctx.notify(Class::Generic, "copy_to", to);
        true
    });
    Ok(Reply::Int(i64::from(is_done)))
}

fn touch(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    // The copy counts as a use even if the connection must not update last uses.
    let leaves_none = std::mem::take(&mut ctx.session.leaves_no_traces);
    let reply = count_keys(args, |key| ctx.find_for_read(key).is_some());
    ctx.session.leaves_no_traces = leaves_none;
    reply
}

/// OBJECT: returns facts about a key without counting as an access to it.
fn object(
    ctx: &mut Ctx<'_>,
    args: &mut Args<'_>,
    tell: impl FnOnce(&Ctx<'_>, u32) -> CommandResult,
) -> CommandResult {
    match ctx.find_for_inspection(args.required()?) {
        Some(slot) => tell(ctx, slot),
        None => Ok(Reply::Nil),
    }
}

fn object_encoding(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    object(ctx, args, |ctx, slot| Ok(Reply::bulk(ctx.encoding(slot))))
}

fn object_refcount(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    object(ctx, args, |ctx, slot| Ok(Reply::Int(ctx.references(slot))))
}

fn object_idletime(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    const COUNTED: &str = "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when \
         switching between policies at runtime LRU and LFU data will take some time to adjust.";
    object(ctx, args, |ctx, slot| {
        if ctx.config().maxmemory_policy.is_lfu() {
            return Err(CommandError::Text(COUNTED.into()));
        }
        Ok(Reply::Int(ctx.idle_seconds(slot)))
    })
}

/// Frequencies are counted only under an LFU policy.
fn object_freq(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    const NO_POLICY: &str = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please \
         note that when switching between policies at runtime LRU and LFU data will take some time to adjust.";
    object(ctx, args, |ctx, slot| {
        if ctx.config().maxmemory_policy.is_lfu() {
            return Ok(Reply::Int(ctx.frequency(slot).into()));
        }
        Err(CommandError::Text(NO_POLICY.into()))
    })
}

const RO_FAST: &[Flags] = &[Flags::READONLY, Flags::FAST];
const WRITE_FAST: &[Flags] = &[Flags::WRITE, Flags::FAST];
const MANY: &[&str] = &["request_policy:multi_shard", "response_policy:agg_sum"];

const OBJECT: &[CommandSpec] = &[
    help::row(Group::Generic, "6.2.0"),
    about("encoding", object_encoding)
        .since("2.2.3")
        .summary("Encoding that Redis would use for the value."),
    about("freq", object_freq)
        .since("4.0.0")
        .summary("Access frequency of a key under an LFU policy."),
    about("idletime", object_idletime)
        .since("2.2.3")
        .summary("Time since the last use of a key, in seconds."),
    about("refcount", object_refcount)
        .since("2.2.3")
        .summary("Reference count that Redis would have."),
];

const fn about(name: &'static str, handler: super::spec::Handler) -> CommandSpec {
    row(name, 3, handler)
        .flags(&[Flags::READONLY])
        .keys(2, 2, 1, &["RO"])
        .tips(&["nondeterministic_output"])
        .syntax("key")
}

pub(crate) const COMMANDS: &[CommandSpec] = &[
    row("del", -2, del)
        .flags(&[Flags::WRITE])
        .keys(1, -1, 1, &["RM", "delete"])
        .tips(MANY)
        .syntax("key...")
        .summary("Deletes keys."),
    row("unlink", -2, unlink)
        .flags(WRITE_FAST)
        .keys(1, -1, 1, &["RM", "delete"])
        .tips(MANY)
        .since("4.0.0")
        .syntax("key...")
        .summary("Deletes keys; here their memory is freed at once."),
    row("exists", -2, exists)
        .flags(RO_FAST)
        .keys(1, -1, 1, &["RO"])
        .tips(MANY)
        .syntax("key...")
        .summary("Number of the keys that exist."),
    row("type", 2, type_)
        .flags(RO_FAST)
        .keys(1, 1, 1, &["RO"])
        .syntax("key")
        .summary("The type of a key's value."),
    row("rename", 3, rename)
        .flags(&[Flags::WRITE])
        .keys(1, 1, 1, &["RW", "access", "delete"])
        .keys(2, 2, 1, &["OW", "update"])
        .syntax("key newkey:key")
        .summary("Renames a key, and replaces a key with the new name."),
    row("renamenx", 3, renamenx)
        .flags(WRITE_FAST)
        .keys(1, 1, 1, &["RW", "access", "delete"])
        .keys(2, 2, 1, &["OW", "insert"])
        .syntax("key newkey:key")
        .summary("Renames a key, if the new name is free."),
    row("move", 3, move_)
        .flags(WRITE_FAST)
        .keys(1, 1, 1, &["RW", "access", "update"])
        .syntax("key db:integer")
        .summary("Moves a key to another database."),
    row("copy", -3, copy)
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .keys(1, 1, 1, &["RO", "access"])
        .keys(2, 2, 1, &["OW", "update"])
        .since("6.2.0")
        .syntax("source:key destination:key [DB destination-db:integer] [REPLACE]")
        .summary("Copies the value of a key to another one."),
    row("touch", -2, touch)
        .flags(RO_FAST)
        .keys(1, -1, 1, &["RO"])
        .tips(MANY)
        .since("3.2.1")
        .syntax("key...")
        .summary("Marks keys as used, and counts those that exist."),
    CommandSpec::container("object", -2, Group::Generic, OBJECT)
        .since("2.2.3")
        .summary("Facts about the value of a key."),
];

const fn row(name: &'static str, arity: i32, handler: super::spec::Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::Generic, handler)
}
