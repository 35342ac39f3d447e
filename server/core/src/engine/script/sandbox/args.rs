//! The arguments of a native function, and Lua's messages for invalid ones.

use super::super::convert::{truncate, type_name};
use super::super::slot::Slot;
use super::frame::Called;
use super::raise::{raise, raise_here};
use mlua::{Error, Lua, LuaString, MultiValue, Value};
use std::sync::Mutex;

/// The arguments of a call, and Lua's messages for invalid ones.
pub(crate) struct Args<'a, H> {
    lua: &'a Lua,
    pub(crate) slot: &'a Mutex<Slot<H>>,
    name: &'static str,
    pub(crate) values: MultiValue,
}

impl<'a, H> Args<'a, H> {
    pub(crate) fn new(
        lua: &'a Lua,
        slot: &'a Mutex<Slot<H>>,
        name: &'static str,
        values: MultiValue,
    ) -> Self {
        Self {
            lua,
            slot,
            name,
            values,
        }
    }

    /// An error with `text` and the line of the calling script (`lauxlib.c: luaL_error`).
    pub(crate) fn fail(&self, text: &[u8]) -> Error {
        raise_here(self.lua, self.slot, text)
    }

    /// An error with `text` and no line: the Lua core adds no line to errors inside of C functions.
    pub(crate) fn fail_bare(&self, text: &str) -> Error {
        match self.lua.create_string(text) {
            Ok(text) => raise(self.slot, Value::String(text)),
            Err(problem) => problem,
        }
    }

    /// `lauxlib.c: luaL_argerror` for the argument at `index`, counted from zero.
    pub(crate) fn wrong(&self, index: usize, what: &str) -> Error {
        self.wrong_bytes(index, what.as_bytes())
    }

    /// [`Args::wrong`] with a message that may not be UTF-8.
    pub(crate) fn wrong_bytes(&self, index: usize, what: &[u8]) -> Error {
        self.wrong_at(index as i64 + 1, what)
    }

    /// [`Args::wrong`] for all arguments together, which C calls argument number 0.
    pub(crate) fn wrong_call(&self, what: &str) -> Error {
        self.wrong_at(0, what.as_bytes())
    }

    fn wrong_at(&self, number: i64, what: &[u8]) -> Error {
        self.fail(&Called::at(self.lua, 0, self.name).wrong(number, what))
    }

    pub(crate) fn mistyped(&self, index: usize, wanted: &str) -> Error {
        let found = self.values.get(index).map_or("no value", type_name);
        self.wrong(index, &format!("{wanted} expected, got {found}"))
    }

    /// Like [`Args::text`], for a C function that has pushed a nil after its arguments.
    pub(crate) fn text_or_nil(&self, index: usize) -> mlua::Result<LuaString> {
        match self.values.get(index) {
            Some(_) => self.text(index),
            None => Err(self.wrong(index, "string expected, got nil")),
        }
    }

    /// Like [`Args::number`], for a C function that has pushed a nil after its arguments.
    pub(crate) fn number_or_nil(&self, index: usize) -> mlua::Result<f64> {
        match self.values.get(index) {
            Some(_) => self.number(index),
            None => Err(self.wrong(index, "number expected, got nil")),
        }
    }

    pub(crate) fn text(&self, index: usize) -> mlua::Result<LuaString> {
        match self.values.get(index) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(value @ (Value::Integer(_) | Value::Number(_))) => self
                .lua
                .coerce_string(value.clone())?
                .ok_or_else(|| self.mistyped(index, "string")),
            _ => Err(self.mistyped(index, "string")),
        }
    }

    pub(crate) fn number(&self, index: usize) -> mlua::Result<f64> {
        match self.values.get(index) {
            Some(Value::Integer(number)) => Ok(*number as f64),
            Some(Value::Number(number)) => Ok(*number),
            Some(value @ Value::String(_)) => self
                .lua
                .coerce_number(value.clone())?
                .ok_or_else(|| self.mistyped(index, "number")),
            _ => Err(self.mistyped(index, "number")),
        }
    }

    pub(crate) fn integer(&self, index: usize) -> mlua::Result<i64> {
        self.number(index).map(truncate)
    }

    pub(crate) fn integer_or(&self, index: usize, default: i64) -> mlua::Result<i64> {
        match self.values.get(index) {
            None | Some(Value::Nil) => Ok(default),
            Some(_) => self.integer(index),
        }
    }
}
