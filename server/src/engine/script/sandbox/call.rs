//! `redis.call` and `redis.pcall`: convert Lua values to a request, and the reply to Lua values.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the enums belong to mlua, and most variants are treated alike"
)]

use super::super::convert::{error_table, push_argument, to_lua};
use super::super::vm::{Host, MemoryLimit};
use super::raise::{out_of_memory, raise};
use super::{SharedSlot, Slot, lock};
use crate::resp::Reply;
use mlua::{BString, Either, FromLua, Lua, MultiValue, Table, Value};
use std::sync::{Arc, Mutex};

pub(super) const MISTYPED: &str = "ERR Lua redis lib command arguments must be strings or integers";

pub(super) const TOO_LARGE: &str =
    "ERR the arguments of the command take more memory than a script may";
/// Limit of a request in bytes: the same string may be an argument thousands of times. Redis has no
/// limit here.
pub(super) const REQUEST_BYTES_MAX: usize = 1 << 30;

/// Size from which a reply counts towards the memory limit at once. The hook notices the memory of
/// smaller ones.
const LARGE_BYTES_MIN: usize = 4_096;

/// How a reply is returned to the script.
#[derive(Clone, Copy, PartialEq)]
enum Shown {
    Resp2,
    Resp3,
    /// An error that no command has counted.
    Uncounted,
}

/// The first arguments of a call, without a list on the heap, and a list of the others. The command
/// name is copied from the stack. The other arguments keep their type, which determines how numbers
/// are written.
type CallArgs = (Either<BString, Value>, Arg, Arg, Arg, Arg, Arg, MultiValue);

/// A reply for a script: an integer, a string, or another value.
type Shape = Either<i64, Either<String, Value>>;

/// An argument, or none. mlua converts a missing one by `from_lua_arg`, and an existing one by
/// `from_stack`.
enum Arg {
    Missing,
    Given(Value),
}

impl FromLua for Arg {
    fn from_lua(value: Value, _: &Lua) -> mlua::Result<Self> {
        Ok(Self::Given(value))
    }

    fn from_lua_arg(_: Value, _: usize, _: Option<&str>, _: &Lua) -> mlua::Result<Self> {
        Ok(Self::Missing)
    }
}

/// Runs a command for `redis.call` or `redis.pcall`.
fn invoke<H: Host>(shared: &Mutex<Slot<H>>, args: &CallArgs) -> (Reply, Shown) {
    let mut guard = lock(shared);
    let slot = &mut *guard;
    slot.request.clear();
    let (name, a, b, c, d, e, rest) = args;
    match name {
        Either::Left(name) => slot.request.push(name),
        Either::Right(Value::Nil) if matches!(a, Arg::Missing) => {
            let text = "ERR Please specify at least one argument for this redis lib call";
            return (Reply::error(text), Shown::Uncounted);
        }
        Either::Right(_) => return (Reply::error(MISTYPED), Shown::Uncounted),
    }
    let first = [a, b, c, d, e].into_iter().map_while(|arg| match arg {
        Arg::Missing => None,
        Arg::Given(value) => Some(value),
    });
    let bytes_max = slot.memory_bytes_max.min(REQUEST_BYTES_MAX);
    for value in first.chain(rest) {
        // Most arguments are strings. Looking at one costs as much as copying it, so it is done
        // once.
        if let Value::String(text) = value {
            let text = text.as_bytes();
            if text.len() > bytes_max.saturating_sub(slot.request.size_bytes()) {
                return (Reply::error(TOO_LARGE), Shown::Uncounted);
            }
            slot.request.push(&text);
        } else if !push_argument(value, &mut slot.request) {
            return (Reply::error(MISTYPED), Shown::Uncounted);
        }
    }
    let (Some(request), Some(host)) = (slot.request.as_request(), &mut slot.host) else {
        let text = "ERR redis.call/pcall can only be called inside a script invocation";
        return (Reply::error(text), Shown::Uncounted);
    };
    (
        host.call(request),
        if slot.resp3 {
            Shown::Resp3
        } else {
            Shown::Resp2
        },
    )
}

/// Adds `call` and `pcall`.
pub(super) fn calls<H: Host>(lua: &Lua, slot: &SharedSlot<H>, redis: &Table) -> mlua::Result<()> {
    let bytes_max = lock(slot).memory_bytes_max;
    for (name, raises) in [("call", true), ("pcall", false)] {
        let shared = Arc::clone(slot);
        let call = move |lua: &Lua, args: CallArgs| -> mlua::Result<(Shape, MemoryLimit)> {
            let (reply, shown) = invoke(&shared, &args);
            let limit = MemoryLimit(bytes_max);
            if let Reply::Int(value) = reply {
                return Ok((Either::Left(value), limit));
            }
            lua.set_memory_limit(0)?;
            if let Reply::Bulk(bytes) = &reply
                && bytes.len() < LARGE_BYTES_MIN
                && let Ok(text) = std::str::from_utf8(bytes)
            {
                return Ok((Either::Right(Either::Left(text.to_owned())), limit));
            }
            let value = match &reply {
                Reply::Error(error) if shown == Shown::Uncounted => {
                    error_table(lua, error.as_bytes(), false).map(Value::Table)
                }
                other => to_lua(lua, other, shown == Shown::Resp3),
            };
            if value.is_err() || (raises && reply.is_error()) {
                lua.set_memory_limit(bytes_max)?;
                return Err(raise(&shared, value?));
            }
            if lua.used_memory() > bytes_max {
                let value = value?;
                lua.gc_collect()?;
                if lua.used_memory() > bytes_max {
                    lua.set_memory_limit(bytes_max)?;
                    drop(value);
                    return Err(out_of_memory(lua, &shared));
                }
                return Ok((Either::Right(Either::Right(value)), limit));
            }
            Ok((Either::Right(Either::Right(value?)), limit))
        };
        redis.raw_set(name, lua.create_function(call)?)?;
    }
    Ok(())
}
