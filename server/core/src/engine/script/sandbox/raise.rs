//! Errors: how native functions raise them, and their line.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the enums belong to mlua, and most variants are treated alike"
)]

use super::super::convert::{error_table, type_name};
use super::super::slot::{Slot, lock};
use super::frame::place;
use mlua::{Error, Lua, LuaString, Value};
use std::fmt;
use std::sync::Mutex;

/// `lmem.c: MEMERRMSG`.
pub(crate) const NO_MEMORY: &str = "not enough memory";

/// The token that a native function raises; the value is in the slot.
#[derive(Debug)]
struct Token;

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a script error")
    }
}

impl std::error::Error for Token {}

pub(crate) fn token() -> Error {
    Error::external(Token)
}

/// Raises `value`.
pub(super) fn raise<H>(slot: &Mutex<Slot<H>>, value: Value) -> Error {
    lock(slot).pending = Some(value);
    token()
}

/// Raises `message` with the line of the calling script.
pub(super) fn raise_here<H>(lua: &Lua, slot: &Mutex<Slot<H>>, message: impl AsRef<[u8]>) -> Error {
    let text = [place(lua, slot, 1).as_bytes(), message.as_ref()].concat();
    match lua.create_string(text) {
        Ok(text) => raise(slot, Value::String(text)),
        Err(problem) => problem,
    }
}

/// Raises Lua's error for lack of memory.
pub(crate) fn out_of_memory<H>(lua: &Lua, slot: &Mutex<Slot<H>>) -> Error {
    match lua.create_string(NO_MEMORY) {
        Ok(text) => raise(slot, Value::String(text)),
        Err(problem) => problem,
    }
}

/// Raises the error of a `redis` function: a table, whose position is added where it is caught.
pub(super) fn raise_reply<H>(lua: &Lua, slot: &Mutex<Slot<H>>, message: &str) -> Error {
    match error_table(lua, message, false) {
        Ok(table) => raise(slot, Value::Table(table)),
        Err(problem) => problem,
    }
}

/// A value as part of an error message; a value with an address is described by its type only.
pub(super) fn describe(lua: &Lua, value: Value) -> mlua::Result<LuaString> {
    match value {
        Value::Nil => lua.create_string("nil"),
        Value::Boolean(value) => lua.create_string(if value { "true" } else { "false" }),
        Value::Error(problem) => lua.create_string(problem_text(&problem)),
        other => {
            let name = type_name(&other);
            match lua.coerce_string(other)? {
                Some(text) => Ok(text),
                None => lua.create_string(name),
            }
        }
    }
}

/// The message of an error of mlua's own.
pub(crate) fn problem_text(problem: &Error) -> String {
    match problem {
        Error::CallbackError { cause, .. } => problem_text(cause),
        Error::MemoryError(_) => NO_MEMORY.into(),
        Error::RuntimeError(text) => text.lines().next().unwrap_or_default().into(),
        other => other.to_string(),
    }
}

/// True for the token, also inside of an error that mlua adds.
pub(super) fn is_token(problem: &Error) -> bool {
    match problem {
        Error::CallbackError { cause, .. } => is_token(cause),
        Error::ExternalError(cause) => cause.is::<Token>(),
        _ => false,
    }
}
