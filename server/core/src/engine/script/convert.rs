//! Converts replies to Lua values, and Lua values to arguments (`script_lua.c:
//! redisProtocolToLuaType`).
//!
//! Supports RESP2 and RESP3. Knows no command and no state of the virtual machine.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the enums belong to mlua, and most variants are treated alike"
)]

use crate::resp::{OwnedRequest, Reply, format_decimal, format_double, format_shortest};
use mlua::{Either, IntoLuaMulti, Lua, LuaString, MultiValue, Table, Value};

/// `%.17g` prints integers below this without an exponent.
const DECIMAL_MAX: u64 = 100_000_000_000_000_000;

/// Converts a reply to the value that a script receives.
pub(crate) fn to_lua(lua: &Lua, reply: &Reply, resp3: bool) -> mlua::Result<Value> {
    Ok(match reply {
        Reply::Ok => single(lua, "ok", lua.create_string("OK")?)?,
        Reply::Static(text) => single(lua, "ok", lua.create_string(text)?)?,
        Reply::Status(text) => single(lua, "ok", lua.create_string(&**text)?)?,
        Reply::Nil | Reply::NilArray if resp3 => Value::Nil,
        Reply::Nil | Reply::NilArray => Value::Boolean(false),
        // Only commands that scripts may not call reply such bytes.
        Reply::Raw(_) => Value::Nil,
        Reply::Int(value) => Value::Integer(*value),
        Reply::Bulk(bytes) => text(lua, bytes)?,
        Reply::Error(error) => Value::Table(error_table(lua, error.as_bytes(), true)?),
        Reply::Array(items) | Reply::Push(items) => array(lua, items, resp3)?,
        // Only commands that scripts may not call reply several frames.
        Reply::Several(frames) => match frames.last() {
            Some(last) => to_lua(lua, last, resp3)?,
            None => Value::Nil,
        },
        // Attributes are omitted, as in `script_lua.c: DefaultLuaTypeParserCallbacks`.
        Reply::Attributed { reply, .. } | Reply::Earlier { reply, .. } => {
            to_lua(lua, reply, resp3)?
        }
        Reply::Map(pairs) | Reply::Streams(pairs) if resp3 => {
            let map = lua.create_table_with_capacity(0, pairs.len())?;
            for (key, value) in pairs {
                map.raw_set(to_lua(lua, key, resp3)?, to_lua(lua, value, resp3)?)?;
            }
            single(lua, "map", map)?
        }
        Reply::Streams(pairs) => pairs_table(lua, pairs, resp3)?,
        Reply::Pairs(pairs) if resp3 => pairs_table(lua, pairs, resp3)?,
        Reply::Map(pairs) | Reply::Pairs(pairs) => {
            let flat = lua.create_table_with_capacity(pairs.len() * 2, 0)?;
            for (index, (key, value)) in pairs.iter().enumerate() {
                flat.raw_set(index * 2 + 1, to_lua(lua, key, resp3)?)?;
                flat.raw_set(index * 2 + 2, to_lua(lua, value, resp3)?)?;
            }
            Value::Table(flat)
        }
        Reply::Set(items) if resp3 => {
            let set = lua.create_table_with_capacity(0, items.len())?;
            for item in items {
                set.raw_set(to_lua(lua, item, resp3)?, true)?;
            }
            single(lua, "set", set)?
        }
        Reply::Set(items) => array(lua, items, resp3)?,
        Reply::Double(value) | Reply::ShortDouble(value) if resp3 => single(lua, "double", *value)?,
        Reply::ShortDouble(value) => text(lua, format_shortest(*value).as_bytes())?,
        Reply::Double(value) => text(lua, format_double(*value).as_bytes())?,
        Reply::Decimal(value) if resp3 => single(lua, "double", *value)?,
        Reply::Decimal(value) => text(lua, format_decimal(*value).as_bytes())?,
        Reply::Bool(value) if resp3 => Value::Boolean(*value),
        Reply::Bool(value) => Value::Integer(i64::from(*value)),
        Reply::BigNumber(digits) if resp3 => single(lua, "big_number", lua.create_string(digits)?)?,
        Reply::BigNumber(digits) => text(lua, digits)?,
        Reply::Verbatim { format, text: body } if resp3 => {
            let parts = lua.create_table_with_capacity(0, 2)?;
            parts.raw_set("format", text(lua, format)?)?;
            parts.raw_set("string", text(lua, body)?)?;
            single(lua, "verbatim_string", parts)?
        }
        Reply::Verbatim { text: body, .. } => text(lua, body)?,
    })
}

/// A table of tables of two.
fn pairs_table(lua: &Lua, pairs: &[(Reply, Reply)], resp3: bool) -> mlua::Result<Value> {
    let table = lua.create_table_with_capacity(pairs.len(), 0)?;
    for (index, (first, second)) in pairs.iter().enumerate() {
        let pair = lua.create_table_with_capacity(2, 0)?;
        pair.raw_set(1, to_lua(lua, first, resp3)?)?;
        pair.raw_set(2, to_lua(lua, second, resp3)?)?;
        table.raw_set(index + 1, pair)?;
    }
    Ok(Value::Table(table))
}

fn text(lua: &Lua, bytes: &[u8]) -> mlua::Result<Value> {
    lua.create_string(bytes).map(Value::String)
}

fn single(lua: &Lua, name: &str, value: impl mlua::IntoLua) -> mlua::Result<Value> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set(name, value)?;
    Ok(Value::Table(table))
}

fn array(lua: &Lua, items: &[Reply], resp3: bool) -> mlua::Result<Value> {
    let table = lua.create_table_with_capacity(items.len(), 0)?;
    for (index, item) in items.iter().enumerate() {
        table.raw_set(index + 1, to_lua(lua, item, resp3)?)?;
    }
    Ok(Value::Table(table))
}

/// The table of an error. `counted` means that a command has counted the error already.
pub(crate) fn error_table(lua: &Lua, text: impl AsRef<[u8]>, counted: bool) -> mlua::Result<Table> {
    let text = with_code(text.as_ref());
    let table = lua.create_table_with_capacity(0, 2)?;
    table.raw_set("err", lua.create_string(text)?)?;
    if counted {
        table.raw_set("ignore_error_stats_update", true)?;
    }
    Ok(table)
}

/// `script_lua.c: luaPushErrorBuff`: the first word is the error code; a single word gets `ERR` as
/// its code.
fn with_code(text: &[u8]) -> Vec<u8> {
    let is_break = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let end = text
        .iter()
        .rposition(|byte| !is_break(byte))
        .map_or(0, |last| last + 1);
    let text = &text[..end];
    match text.iter().position(|&byte| byte == b' ') {
        Some(_) => text.to_vec(),
        None => [b"ERR ", text].concat(),
    }
}

/// How `redis.call` writes a number that is an argument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Digits {
    /// As `%.17g`.
    #[default]
    Seventeen,
    /// As few as the number needs (Redis 7.2).
    Shortest,
}

/// Appends an argument of `redis.call`: strings unchanged, numbers with these digits. Returns false for
/// other types.
pub(crate) fn push_argument(value: &Value, digits: Digits, request: &mut OwnedRequest) -> bool {
    let text = |number: f64| match digits {
        Digits::Seventeen => format_double(number),
        Digits::Shortest => format_shortest(number),
    };
    match value {
        Value::String(text) => request.push(&text.as_bytes()),
        Value::Integer(number) if number.unsigned_abs() < DECIMAL_MAX => {
            request.push(itoa::Buffer::new().format(*number).as_bytes());
        }
        Value::Integer(number) => request.push(text(*number as f64).as_bytes()),
        Value::Number(number) => request.push(text(*number).as_bytes()),
        _ => return false,
    }
    true
}

/// A string up to its first zero byte, as C reads it.
pub(crate) fn c_text(text: &LuaString) -> Vec<u8> {
    let bytes = text.as_bytes();
    let end = bytes
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(bytes.len());
    bytes[..end].to_vec()
}

/// The C cast `(long long)` of a double on x86: a number out of range becomes the smallest integer.
pub(crate) fn truncate(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if number > -LIMIT && number < LIMIT {
        number as i64
    } else {
        i64::MIN
    }
}

/// `lua_typename`.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Nil => "nil",
        Value::Boolean(_) => "boolean",
        Value::Integer(_) | Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Table(_) => "table",
        Value::Function(_) => "function",
        Value::Thread(_) => "thread",
        _ => "userdata",
    }
}

/// The last argument or result. It has no value, and turns the memory limit on if there is one.
///
/// With a memory limit mlua pushes every string in a protected call, which is slow. So the limit is
/// off while values are passed, and this follows the last of them. Small scripts have no limit.
pub(crate) struct MemoryLimit(pub(crate) Option<usize>);

impl IntoLuaMulti for MemoryLimit {
    fn into_lua_multi(self, lua: &Lua) -> mlua::Result<MultiValue> {
        if let Some(bytes_max) = self.0 {
            lua.set_memory_limit(bytes_max)?;
        }
        Ok(MultiValue::new())
    }
}

/// Passes bytes to the VM. Strings in UTF-8 need no reference.
pub(crate) fn pass<'a>(lua: &Lua, bytes: &'a [u8]) -> mlua::Result<Either<&'a str, LuaString>> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(Either::Left(text)),
        Err(_) => lua.create_string(bytes).map(Either::Right),
    }
}
