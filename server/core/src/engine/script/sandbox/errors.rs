//! The functions with which the prelude raises and catches errors, and what a script sees of errors.
//!
//! The prelude must be invisible in all of this.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the enums belong to mlua, and most variants are treated alike"
)]

use super::super::convert::c_text;
use super::super::host::Host;
use super::super::slot::{SharedSlot, Slot, lock};
use super::super::source::{self, PRELUDE_NAME};
use super::args::Args;
use super::frame::{Called, Frame, PROTECTED_NAME, caller, place};
use super::raise::{NO_MEMORY, describe, is_token, problem_text, raise, raise_here, token};
use mlua::{Function, Lua, LuaString, MultiValue, Table, Value};
use std::sync::{Arc, Mutex};

/// Bytes of the memory limit that count as one instruction when a script has reached the limit.
const MEMORY_BYTES_PER_INSTRUCTION: u64 = 64;

/// The functions with which the prelude raises and catches errors.
pub(in crate::engine::script) fn errors<H: Host>(
    lua: &Lua,
    slot: &SharedSlot<H>,
    natives: &Table,
) -> mlua::Result<()> {
    let shared = Arc::clone(slot);
    let deny = move |lua: &Lua, _: ()| -> mlua::Result<()> {
        Err(raise_here(
            lua,
            &shared,
            "Attempt to modify a readonly table",
        ))
    };
    natives.raw_set("deny", lua.create_function(deny)?)?;

    let shared = Arc::clone(slot);
    let missing = move |lua: &Lua, (_, name): (Value, Value)| -> mlua::Result<()> {
        if !matches!(
            name,
            Value::String(_) | Value::Integer(_) | Value::Number(_)
        ) {
            let text = "Second argument to luaProtectedTableError must be a string or number";
            return Err(raise_here(lua, &shared, text));
        }
        let name = c_text(&describe(lua, name)?);
        let before = &b"Script attempted to access nonexistent global variable '"[..];
        Err(raise_here(lua, &shared, [before, &name, b"'"].concat()))
    };
    natives.raw_set("missing", lua.create_function(missing)?)?;

    // fail(message): with the script's line; fail(message, name): as the C function of that name;
    // fail(message, false): without a line.
    let shared = Arc::clone(slot);
    let fail = move |lua: &Lua, (message, name): (Value, Value)| -> mlua::Result<()> {
        if let Value::Error(problem) = &message
            && is_token(problem)
        {
            return Err(token());
        }
        let mut message = describe(lua, message)?.as_bytes().to_vec();
        if let Value::String(name) = &name
            && let Some(named) = Called::at(lua, 1, &name.to_string_lossy()).rename(&message)
        {
            message = named;
        }
        // The Lua core adds no line to errors inside of C functions.
        let is_core = matches!(&name, Value::String(name) if [&b"next"[..], b"rawset", b"tostring"].contains(&&*name.as_bytes()))
            && !message.starts_with(b"bad argument");
        if is_core || name == Value::Boolean(false) || message == NO_MEMORY.as_bytes() {
            return Err(raise(&shared, Value::String(lua.create_string(message)?)));
        }
        Err(raise_here(lua, &shared, &message))
    };
    natives.raw_set("fail", lua.create_function(fail)?)?;

    let shared = Arc::clone(slot);
    let bytes_max = lock(slot).memory_bytes_max as u64;
    let caught = move |lua: &Lua, value: Value| -> mlua::Result<Value> {
        if lock(&shared).stopped {
            return Err(token());
        }
        let value = exchange(lua, &shared, value)?;
        // Few instructions filled all that memory, and could do so again.
        let cost = match &value {
            Value::String(text) if *text == NO_MEMORY => bytes_max / MEMORY_BYTES_PER_INSTRUCTION,
            _ => 0,
        };
        if cost > 0 && !lock(&shared).charge(cost) {
            return Err(token());
        }
        Ok(value)
    };
    let caught = lua.create_function(caught)?;
    natives.raw_set("caught", caught)?;

    // Like `caught`, for the end of the run, where nothing may be raised.
    let shared = Arc::clone(slot);
    let pending = move |lua: &Lua, value: Value| exchange(lua, &shared, value);
    natives.raw_set("pending", lua.create_function(pending)?)?;
    natives.raw_set("describe", lua.create_function(describe)?)?;
    error_and_dump(lua, slot, natives)?;
    let refuse = |_: &Lua, text: LuaString| Ok(source::refuse(&text.as_bytes()));
    natives.raw_set("refuse", lua.create_function(refuse)?)?;

    // The position of an error, as `__redis__err__handler` determines it: the function that raised
    // it, or its caller if that is a C function. Our own frames count as part of the C function.
    let shared = Arc::clone(slot);
    let origin = move |lua: &Lua, _: ()| -> mlua::Result<(Option<String>, Option<i64>)> {
        let from = if Frame::at(lua, 2).is_some_and(|frame| frame.is_c) {
            3
        } else {
            2
        };
        Ok(match caller(lua, &shared, from) {
            Some(frame) => {
                let line = frame
                    .line
                    .and_then(|line| i64::try_from(line).ok())
                    .unwrap_or(-1);
                (Some(frame.source), Some(line))
            }
            None => (None, None),
        })
    };
    natives.raw_set("origin", lua.create_function(origin)?)?;

    let shared = Arc::clone(slot);
    let charge = move |_: &Lua, amount: f64| -> mlua::Result<()> {
        if lock(&shared).charge(amount as u64) {
            Ok(())
        } else {
            Err(token())
        }
    };
    natives.raw_set("charge", lua.create_function(charge)?)
}

/// `error` and `string.dump`, and the data that the latter needs.
fn error_and_dump<H: Host>(lua: &Lua, slot: &SharedSlot<H>, natives: &Table) -> mlua::Result<()> {
    let shared = Arc::clone(slot);
    let error = move |lua: &Lua, values: MultiValue| -> mlua::Result<()> {
        let args = Args::new(lua, &shared, "error", values);
        let level = args.integer_or(1, 1)?;
        let value = args.values.front().cloned().unwrap_or(Value::Nil);
        let is_text = matches!(
            value,
            Value::String(_) | Value::Integer(_) | Value::Number(_)
        );
        if !is_text || level <= 0 {
            return Err(raise(&shared, value));
        }
        let place = place(lua, &shared, level);
        let text = [place.as_bytes(), &describe(lua, value)?.as_bytes()].concat();
        Err(raise(&shared, Value::String(lua.create_string(text)?)))
    };
    natives.raw_set("error", lua.create_function(error)?)?;

    let shared = Arc::clone(slot);
    let dump = move |lua: &Lua, values: MultiValue| {
        let args = Args::new(lua, &shared, "dump", values);
        match args.values.front() {
            Some(Value::Function(function)) if is_ours(function) => {
                Err(args.fail(b"unable to dump given function"))
            }
            Some(Value::Function(function)) => lua.create_string(function.dump(false)),
            _ => Err(args.mistyped(0, "function")),
        }
    };
    natives.raw_set("dump", lua.create_function(dump)?)?;
    let of_ours = |_: &Lua, value: Value| Ok(value.as_function().is_some_and(is_ours));
    natives.raw_set("is_ours", lua.create_function(of_ours)?)
}

/// True for a C function or one of the prelude, which are C functions in the original.
fn is_ours(function: &Function) -> bool {
    let info = function.info();
    info.what == "C" || info.source.as_deref() == Some(PRELUDE_NAME)
}

/// The error value that a script may see in place of the raised one.
fn exchange<H>(lua: &Lua, slot: &Mutex<Slot<H>>, value: Value) -> mlua::Result<Value> {
    match value {
        Value::Error(problem) if is_token(&problem) => {
            Ok(lock(slot).pending.take().unwrap_or(Value::Nil))
        }
        Value::Error(problem) => lua.create_string(problem_text(&problem)).map(Value::String),
        Value::String(text) => match without_prelude(&text.as_bytes()) {
            Some(rest) => lua.create_string(rest).map(Value::String),
            None => Ok(Value::String(text)),
        },
        other => Ok(other),
    }
}

/// The message without a position in the prelude, for which the original gives none.
fn without_prelude(text: &[u8]) -> Option<Vec<u8>> {
    let rest = text
        .strip_prefix(&PRELUDE_NAME.as_bytes()[1..])?
        .strip_prefix(b":")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = rest[digits..].strip_prefix(b": ")?;
    let named = format!("to '{PROTECTED_NAME}' (");
    let found = rest
        .windows(named.len())
        .position(|window| window == named.as_bytes())
        .filter(|_| rest.starts_with(b"bad argument #"));
    if let Some(at) = found {
        return Some([&rest[..at], b"to '?' (", &rest[at + named.len()..]].concat());
    }
    // Functions that the prelude calls have no name in the original.
    let kind = ["local", "upvalue"].into_iter().find_map(|what| {
        let called = format!("attempt to call {what} '{PROTECTED_NAME}' (");
        rest.strip_prefix(called.as_bytes())
    });
    Some(match kind {
        Some(kind) => [b"attempt to call ", kind.strip_suffix(b")").unwrap_or(kind)].concat(),
        None => rest.to_vec(),
    })
}
