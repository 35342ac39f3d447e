//! `redis.call` and `redis.pcall`: convert Lua values to a request, and the reply to Lua values.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the enums belong to mlua, and most variants are treated alike"
)]

use super::super::convert::{Digits, error_table, push_argument, to_lua};
use super::super::host::Host;
use super::super::slot::{SharedSlot, Slot, lock};
use super::super::template::Part;
use super::raise::{out_of_memory, raise};
use crate::resp::{OwnedRequest, Reply};
use mlua::{BString, Either, FromLua, Lua, MultiValue, Table, Value};
use std::sync::{Arc, Mutex};

pub(super) const MISTYPED: &str = "ERR Lua redis lib command arguments must be strings or integers";

const NO_ARGUMENT: &str = "ERR Please specify at least one argument for this redis lib call";

pub(super) const TOO_LARGE: &str =
    "ERR the arguments of the command take more memory than a script may";

/// Size from which a reply counts towards the memory limit at once. The hook notices the memory of
/// smaller ones.
const LARGE_BYTES_MIN: usize = 4_096;

/// Form in which a reply is returned to the script.
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

/// A reply for a script: an integer, a string, or another value. It is one value, not several, because mlua asks the Lua
/// stack for room in front of several, and the arguments of a call may have taken all of it.
type Shape = Either<i64, Either<String, Value>>;

/// An argument, or none. mlua converts a missing one by `from_lua_arg`, and an existing one by
/// `from_stack`.
enum Arg {
    Missing,
    Given(Value),
}

impl Arg {
    fn value(&self) -> Option<&Value> {
        match self {
            Self::Missing => None,
            Self::Given(value) => Some(value),
        }
    }
}

impl FromLua for Arg {
    fn from_lua(value: Value, _: &Lua) -> mlua::Result<Self> {
        Ok(Self::Given(value))
    }

    fn from_lua_arg(_: Value, _: usize, _: Option<&str>, _: &Lua) -> mlua::Result<Self> {
        Ok(Self::Missing)
    }
}

/// The number of a template, and the arguments that the script computed.
type ComputedArgs = (i64, Arg, Arg, MultiValue);

/// The reply of a command, and how the script sees it.
struct Answer {
    reply: Reply,
    shown: Shown,
    /// True if the heap has a limit while Lua runs.
    bounded: bool,
}

/// Runs a command for `redis.call` or `redis.pcall`.
fn invoke<H: Host>(shared: &Mutex<Slot<H>>, args: &CallArgs) -> Answer {
    let mut guard = lock(shared);
    let slot = &mut *guard;
    slot.request.clear();
    let (name, a, b, c, d, e, rest) = args;
    let values = [a, b, c, d, e]
        .into_iter()
        .filter_map(Arg::value)
        .chain(rest);
    let refusal = match name {
        Either::Left(name) => {
            slot.request.push(name);
            let (bytes_max, digits) = (slot.bytes_max(), slot.digits);
            let mut pushed =
                values.map(|value| push_value(&mut slot.request, value, digits, bytes_max));
            pushed.find_map(Result::err)
        }
        Either::Right(Value::Nil) if matches!(a, Arg::Missing) => Some(NO_ARGUMENT),
        Either::Right(_) => Some(MISTYPED),
    };
    run(slot, refusal)
}

/// Runs the command of a template. `computed` are the arguments that the script computed.
fn invoke_template<'a, H: Host>(
    shared: &Mutex<Slot<H>>,
    number: i64,
    computed: impl Iterator<Item = &'a Value>,
) -> Answer {
    let mut guard = lock(shared);
    let slot = &mut *guard;
    slot.request.clear();
    let refusal = fill(slot, number, computed).err();
    run(slot, refusal)
}

/// Writes the request of a template. The error is the reply that refuses it.
fn fill<'a, H: Host>(
    slot: &mut Slot<H>,
    number: i64,
    mut computed: impl Iterator<Item = &'a Value>,
) -> Result<(), &'static str> {
    let bytes_max = slot.bytes_max();
    let Slot {
        request,
        templates,
        inputs,
        digits,
        ..
    } = slot;
    let digits = *digits;
    // Templates are counted from 1.
    let index = usize::try_from(number)
        .ok()
        .and_then(|number| number.checked_sub(1));
    let template = index
        .and_then(|index| templates.get(index))
        .ok_or(NO_ARGUMENT)?;
    for part in template.parts() {
        match part {
            Part::Text(text) => request.push(text),
            Part::Input(index) => {
                push_text(request, inputs.get(*index).ok_or(MISTYPED)?, bytes_max)?;
            }
            Part::Computed => {
                push_value(request, computed.next().ok_or(MISTYPED)?, digits, bytes_max)?
            }
            Part::Rest => {
                computed.try_for_each(|value| push_value(request, value, digits, bytes_max))?;
            }
        }
    }
    // The only part may be a function call that returned nothing.
    request.as_request().map(|_| ()).ok_or(NO_ARGUMENT)
}

/// Adds a string to a request.
fn push_text(
    request: &mut OwnedRequest,
    text: &[u8],
    bytes_max: usize,
) -> Result<(), &'static str> {
    if text.len() > bytes_max.saturating_sub(request.size_bytes()) {
        return Err(TOO_LARGE);
    }
    request.push(text);
    Ok(())
}

/// Adds a value to a request.
fn push_value(
    request: &mut OwnedRequest,
    value: &Value,
    digits: Digits,
    bytes_max: usize,
) -> Result<(), &'static str> {
    // Most arguments are strings. Looking at one costs as much as copying it, so it is done once.
    if let Value::String(text) = value {
        return push_text(request, &text.as_bytes(), bytes_max);
    }
    push_argument(value, digits, request)
        .then_some(())
        .ok_or(MISTYPED)
}

/// Runs the request in the slot, or refuses it with this text.
fn run<H: Host>(slot: &mut Slot<H>, refusal: Option<&'static str>) -> Answer {
    let bounded = slot.bounded;
    let refused = |text| Answer {
        reply: Reply::error(text),
        shown: Shown::Uncounted,
        bounded,
    };
    if let Some(text) = refusal {
        return refused(text);
    }
    let (Some(request), Some(host)) = (slot.request.as_request(), &mut slot.host) else {
        return refused("ERR redis.call/pcall can only be called inside a script invocation");
    };
    Answer {
        reply: host.call(request),
        shown: if slot.resp3 {
            Shown::Resp3
        } else {
            Shown::Resp2
        },
        bounded,
    }
}

/// Converts a reply to the result of `redis.call` or `redis.pcall`.
fn answer<H: Host>(
    lua: &Lua,
    shared: &Mutex<Slot<H>>,
    answer: Answer,
    raises: bool,
    bytes_max: usize,
) -> mlua::Result<Shape> {
    let Answer {
        reply,
        shown,
        bounded,
    } = answer;
    // These need no memory, so the limit may stay on.
    match reply {
        Reply::Int(value) => return Ok(Either::Left(value)),
        Reply::Nil if shown == Shown::Resp2 => {
            return Ok(Either::Right(Either::Right(Value::Boolean(false))));
        }
        _ => {}
    }
    if !bounded
        && let Reply::Bulk(bytes) = &reply
        && bytes.len() < LARGE_BYTES_MIN
        && let Ok(text) = std::str::from_utf8(bytes)
    {
        return Ok(Either::Right(Either::Left(text.to_owned())));
    }
    // With a limit mlua makes every string in a protected call, which is slow.
    let bound = |bytes_max| match bounded {
        true => lua.set_memory_limit(bytes_max).map(|_| ()),
        false => Ok(()),
    };
    bound(0)?;
    let value = match &reply {
        Reply::Error(error) if shown == Shown::Uncounted => {
            error_table(lua, error.as_bytes(), false).map(Value::Table)
        }
        other => to_lua(lua, other, shown == Shown::Resp3),
    };
    if raises && reply.is_error() {
        bound(bytes_max)?;
        return Err(raise(shared, value?));
    }
    if value.is_ok() && lua.used_memory() > bytes_max {
        lua.gc_collect()?;
        if lua.used_memory() > bytes_max {
            bound(bytes_max)?;
            drop(value);
            return Err(out_of_memory(lua, shared));
        }
    }
    bound(bytes_max)?;
    Ok(Either::Right(Either::Right(value?)))
}

/// Adds `call` and `pcall`.
pub(super) fn calls<H: Host>(lua: &Lua, slot: &SharedSlot<H>, redis: &Table) -> mlua::Result<()> {
    let bytes_max = lock(slot).memory_bytes_max;
    for (name, raises) in [("call", true), ("pcall", false)] {
        let shared = Arc::clone(slot);
        let call = move |lua: &Lua, args: CallArgs| {
            answer(lua, &shared, invoke(&shared, &args), raises, bytes_max)
        };
        redis.raw_set(name, lua.create_function(call)?)?;
    }
    Ok(())
}

/// Adds the functions that replace `redis.call` and `redis.pcall` in scripts (see `template.rs`).
pub(in crate::engine::script) fn template_calls<H: Host>(
    lua: &Lua,
    slot: &SharedSlot<H>,
    natives: &Table,
) -> mlua::Result<()> {
    let bytes_max = lock(slot).memory_bytes_max;
    for (name, raises) in [("call", true), ("pcall", false)] {
        let shared = Arc::clone(slot);
        let call = move |lua: &Lua, number: i64| {
            let found = invoke_template(&shared, number, std::iter::empty());
            answer(lua, &shared, found, raises, bytes_max)
        };
        natives.raw_set(name, lua.create_function(call)?)?;
        let shared = Arc::clone(slot);
        let call = move |lua: &Lua, (number, a, b, rest): ComputedArgs| {
            let first = [&a, &b].into_iter().filter_map(Arg::value);
            let found = invoke_template(&shared, number, first.chain(&rest));
            answer(lua, &shared, found, raises, bytes_max)
        };
        natives.raw_set(format!("{name}_with"), lua.create_function(call)?)?;
    }
    Ok(())
}
