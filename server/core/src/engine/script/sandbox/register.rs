//! `redis.register_function`, in both of its forms (`function_lua.c: luaRegisterFunction`).

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the enums belong to mlua, and most variants are treated alike"
)]

use super::super::convert::c_text;
use super::super::host::Host;
use super::super::slot::{CallbackId, Registered, SharedSlot, lock};
use super::raise::raise_reply;
use crate::engine::libraries::{BAD_NAME, Function, ScriptFlags, is_name};
use crate::resp::Blob;
use mlua::{Function as LuaFunction, Lua, LuaString, MultiValue, Table, Value};
use std::sync::Arc;

/// Why a function is not registered: a text without its code, or an error of Lua.
enum Refusal {
    Text(&'static str),
    Lua(mlua::Error),
}

impl From<mlua::Error> for Refusal {
    fn from(error: mlua::Error) -> Self {
        Self::Lua(error)
    }
}

/// The arguments of one call.
struct Given {
    name: LuaString,
    description: Option<LuaString>,
    callback: LuaFunction,
    flags: ScriptFlags,
}

/// Adds the function to the natives, and the table of callbacks, which it fills.
pub(crate) fn registration<H: Host>(
    lua: &Lua,
    slot: &SharedSlot<H>,
    natives: &Table,
) -> mlua::Result<Table> {
    let callbacks = lua.create_table()?;
    natives.raw_set("callbacks", &callbacks)?;
    let (shared, numbered) = (Arc::clone(slot), callbacks.clone());
    let register = move |lua: &Lua, values: MultiValue| -> mlua::Result<()> {
        register(lua, &shared, &numbered, values).map_err(|refusal| match refusal {
            Refusal::Text(text) => raise_reply(lua, &shared, &format!("ERR {text}")),
            Refusal::Lua(error) => error,
        })
    };
    natives.raw_set("register_function", lua.create_function(register)?)?;
    Ok(callbacks)
}

fn register<H: Host>(
    lua: &Lua,
    slot: &SharedSlot<H>,
    callbacks: &Table,
    values: MultiValue,
) -> Result<(), Refusal> {
    if lock(slot).registering.is_none() {
        return Err(Refusal::Text(
            "redis.register_function can only be called on FUNCTION LOAD command",
        ));
    }
    let given = match values.len() {
        1 => named(lua, values)?,
        2 => positional(lua, values)?,
        _ => {
            return Err(Refusal::Text(
                "wrong number of arguments to redis.register_function",
            ));
        }
    };
    let name = given.name.as_bytes();
    if !is_name(&name) {
        return Err(Refusal::Text(&BAD_NAME["ERR ".len()..]));
    }
    let info = given.callback.info();
    let only_line = info
        .line_defined
        .filter(|line| Some(*line) == info.last_line_defined);
    let mut guard = lock(slot);
    let slot = &mut *guard;
    let registered = slot.registering.get_or_insert_default();
    if registered.iter().any(|known| *known.function.name == *name) {
        return Err(Refusal::Text("Function already exists in the library"));
    }
    let callback = CallbackId {
        number: slot.next_callback,
        only_line,
    };
    slot.next_callback += 1;
    let description = given.description.map(|text| Blob::new(&text.as_bytes()));
    registered.push(Registered {
        function: Function {
            name: Blob::new(&name),
            description,
            flags: given.flags,
        },
        callback,
    });
    drop(guard);
    callbacks.raw_set(callback.number, given.callback)?;
    Ok(())
}

/// A string, or a number as one.
fn text(lua: &Lua, value: &Value) -> mlua::Result<Option<LuaString>> {
    match value {
        Value::String(_) | Value::Integer(_) | Value::Number(_) => lua.coerce_string(value.clone()),
        _ => Ok(None),
    }
}

/// `redis.register_function(name, callback)`
fn positional(lua: &Lua, mut values: MultiValue) -> Result<Given, Refusal> {
    let name = values.pop_front().unwrap_or(Value::Nil);
    let name = text(lua, &name)?.ok_or(Refusal::Text(
        "first argument to redis.register_function must be a string",
    ))?;
    match values.pop_front() {
        Some(Value::Function(callback)) => Ok(Given {
            name,
            description: None,
            callback,
            flags: ScriptFlags::default(),
        }),
        _ => Err(Refusal::Text(
            "second argument to redis.register_function must be a function",
        )),
    }
}

/// `redis.register_function{function_name=name, callback=callback, flags={...}, description=text}`
fn named(lua: &Lua, mut values: MultiValue) -> Result<Given, Refusal> {
    let Some(Value::Table(table)) = values.pop_front() else {
        return Err(Refusal::Text(
            "calling redis.register_function with a single argument is only applicable to Lua table (representing \
             named arguments).",
        ));
    };
    let (mut name, mut description, mut callback) = (None, None, None);
    let mut flags = ScriptFlags::default();
    for pair in table.pairs() {
        let (key, value): (Value, Value) = pair?;
        let key = text(lua, &key)?.ok_or(Refusal::Text(
            "named argument key given to redis.register_function is not a string",
        ))?;
        let key = c_text(&key);
        if key.eq_ignore_ascii_case(b"function_name") {
            name = Some(text(lua, &value)?.ok_or(Refusal::Text(
                "function_name argument given to redis.register_function must be a string",
            ))?);
        } else if key.eq_ignore_ascii_case(b"description") {
            description = Some(text(lua, &value)?.ok_or(Refusal::Text(
                "description argument given to redis.register_function must be a string",
            ))?);
        } else if key.eq_ignore_ascii_case(b"callback") {
            let Value::Function(function) = value else {
                return Err(Refusal::Text(
                    "callback argument given to redis.register_function must be a function",
                ));
            };
            callback = Some(function);
        } else if key.eq_ignore_ascii_case(b"flags") {
            let Value::Table(names) = value else {
                return Err(Refusal::Text(
                    "flags argument to redis.register_function must be a table representing function flags",
                ));
            };
            flags = read_flags(lua, &names)?;
        } else {
            return Err(Refusal::Text(
                "unknown argument given to redis.register_function",
            ));
        }
    }
    Ok(Given {
        name: name.ok_or(Refusal::Text(
            "redis.register_function must get a function name argument",
        ))?,
        description,
        callback: callback.ok_or(Refusal::Text(
            "redis.register_function must get a callback argument",
        ))?,
        flags,
    })
}

fn read_flags(lua: &Lua, names: &Table) -> Result<ScriptFlags, Refusal> {
    let mut flags = ScriptFlags::default();
    for index in 1.. {
        let name: Value = names.raw_get(index)?;
        if name.is_nil() {
            break;
        }
        let name = text(lua, &name)?;
        let flag = name.and_then(|name| ScriptFlags::named_in_any_case(&c_text(&name)));
        flags = flags.or(flag.ok_or(Refusal::Text("unknown flag given"))?);
    }
    Ok(flags)
}
