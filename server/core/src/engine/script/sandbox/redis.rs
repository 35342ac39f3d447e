//! The table `redis`, except for `call` and `pcall`.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the enums are those of mlua"
)]

use super::super::convert::{error_table, push_argument, truncate};
use super::super::host::Host;
use super::super::slot::{REQUEST_BYTES_MAX, SharedSlot, lock};
use super::call::{MISTYPED, TOO_LARGE, calls};
use super::raise::{raise_reply, token};
use crate::resp::OwnedRequest;
use mlua::{Error, IntoLuaMulti, Lua, LuaString, MultiValue, Table, Value};
use std::sync::Arc;

/// A version as a number, a byte for each of its parts (`REDIS_VERSION_NUM`).
fn version_number(version: &str) -> i64 {
    let parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    parts.fold(0, |number, part: i64| number << 8 | part)
}

/// Bytes of a digest that count as one instruction.
const DIGEST_BYTES_PER_INSTRUCTION: u64 = 16;

/// Why a function of the table fails.
enum Refusal {
    /// An error with this code and message.
    Text(&'static str),
    Lua(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Lua(error)
    }
}

/// The table, which the prelude makes read-only. `next` iterates in the order of insertion, which
/// is that of the original.
pub(in crate::engine::script) fn redis<H: Host>(
    lua: &Lua,
    slot: &SharedSlot<H>,
    version: &str,
) -> mlua::Result<Table> {
    let redis = lua.create_table()?;
    calls(lua, slot, &redis)?;
    add(lua, slot, &redis, "log", log)?;
    for (name, level) in [
        ("LOG_DEBUG", 0),
        ("LOG_VERBOSE", 1),
        ("LOG_NOTICE", 2),
        ("LOG_WARNING", 3),
    ] {
        redis.raw_set(name, level)?;
    }
    redis.raw_set("REDIS_VERSION_NUM", version_number(version))?;
    redis.raw_set("REDIS_VERSION", version)?;
    add(lua, slot, &redis, "setresp", setresp)?;
    add(lua, slot, &redis, "sha1hex", sha1hex)?;
    add(lua, slot, &redis, "error_reply", |lua, _, values| {
        let Some(text) = only_text(values) else {
            return Ok(error_table(lua, NOT_A_TEXT, false)?);
        };
        let text = text.as_bytes();
        let text = text.strip_prefix(b"-").unwrap_or(&text);
        Ok(error_table(lua, text, false)?)
    })?;
    add(lua, slot, &redis, "status_reply", |lua, _, values| {
        let Some(text) = only_text(values) else {
            return Ok(error_table(lua, NOT_A_TEXT, false)?);
        };
        let table = lua.create_table_with_capacity(0, 1)?;
        table.raw_set("ok", text)?;
        Ok(table)
    })?;
    add(lua, slot, &redis, "set_repl", set_repl)?;
    for (name, flags) in [
        ("REPL_NONE", 0),
        ("REPL_AOF", 1),
        ("REPL_SLAVE", 2),
        ("REPL_REPLICA", 2),
        ("REPL_ALL", 3),
    ] {
        redis.raw_set(name, flags)?;
    }
    add(lua, slot, &redis, "acl_check_cmd", acl_check_cmd)?;
    // There is no debugger, so it never stops.
    add(lua, slot, &redis, "breakpoint", |_, _, _| Ok(false))?;
    add(lua, slot, &redis, "debug", |_, _, _| Ok(()))?;
    add(lua, slot, &redis, "replicate_commands", |_, _, _| Ok(true))?;
    Ok(redis)
}

fn add<H: Host, R: IntoLuaMulti>(
    lua: &Lua,
    slot: &SharedSlot<H>,
    redis: &Table,
    name: &str,
    body: impl Fn(&Lua, &SharedSlot<H>, MultiValue) -> Result<R, Refusal> + Send + 'static,
) -> mlua::Result<()> {
    let shared = Arc::clone(slot);
    let function = lua.create_function(move |lua, values: MultiValue| {
        body(lua, &shared, values).map_err(|refusal| match refusal {
            Refusal::Text(text) => raise_reply(lua, &shared, text),
            Refusal::Lua(error) => error,
        })
    })?;
    redis.raw_set(name, function)
}

const NOT_A_TEXT: &str = "ERR wrong number or type of arguments";

/// The argument, if there is exactly one and it is a string.
fn only_text(mut values: MultiValue) -> Option<LuaString> {
    match (values.pop_front(), values.is_empty()) {
        (Some(Value::String(text)), true) => Some(text),
        _ => None,
    }
}

/// The argument, if there is exactly one.
fn only(mut values: MultiValue) -> Option<Value> {
    values.pop_front().filter(|_| values.is_empty())
}

/// The integer part of a number, or of a string that looks like one.
fn number(lua: &Lua, value: Value) -> mlua::Result<Option<i64>> {
    Ok(lua.coerce_number(value)?.map(truncate))
}

fn log<H: Host>(lua: &Lua, shared: &SharedSlot<H>, mut values: MultiValue) -> Result<(), Refusal> {
    let (Some(level), false) = (values.pop_front(), values.is_empty()) else {
        return Err(Refusal::Text(
            "ERR redis.log() requires two arguments or more.",
        ));
    };
    let level = number(lua, level)?.ok_or(Refusal::Text(
        "ERR First argument must be a number (log level).",
    ))?;
    if !(0..=3).contains(&level) {
        return Err(Refusal::Text("ERR Invalid debug level."));
    }
    let mut line = Vec::new();
    for (index, value) in values.into_iter().enumerate() {
        if let Some(text) = lua.coerce_string(value)? {
            if index > 0 {
                line.push(b' ');
            }
            line.extend_from_slice(&text.as_bytes());
        }
        line.truncate(LOG_BYTES_MAX);
    }
    if let Some(host) = &mut lock(shared).host {
        host.log(level, &line);
    }
    Ok(())
}

/// `server.h: LOG_MAX_LEN`.
const LOG_BYTES_MAX: usize = 1_024;

fn setresp<H: Host>(lua: &Lua, shared: &SharedSlot<H>, values: MultiValue) -> Result<(), Refusal> {
    let value = only(values).ok_or(Refusal::Text("ERR redis.setresp() requires one argument."))?;
    match number(lua, value)? {
        Some(version @ (2 | 3)) => lock(shared).resp3 = version == 3,
        _ => return Err(Refusal::Text("ERR RESP version must be 2 or 3.")),
    }
    Ok(())
}

fn sha1hex<H: Host>(
    lua: &Lua,
    shared: &SharedSlot<H>,
    values: MultiValue,
) -> Result<String, Refusal> {
    let value = only(values).ok_or(Refusal::Text("ERR wrong number of arguments"))?;
    let Some(text) = lua.coerce_string(value)? else {
        return Ok(sha1_smol::Sha1::new().digest().to_string());
    };
    let text = text.as_bytes();
    if !lock(shared).charge(text.len() as u64 / DIGEST_BYTES_PER_INSTRUCTION) {
        return Err(token().into());
    }
    Ok(sha1_smol::Sha1::from(&*text).digest().to_string())
}

fn set_repl<H: Host>(lua: &Lua, shared: &SharedSlot<H>, values: MultiValue) -> Result<(), Refusal> {
    let value = only(values).ok_or(Refusal::Text(
        "ERR redis.set_repl() requires two arguments.",
    ))?;
    let flags = number(lua, value)?.unwrap_or(0);
    if flags & !3 != 0 {
        return Err(Refusal::Text(
            "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
        ));
    }
    if let Some(host) = &mut lock(shared).host {
        host.set_repl(flags);
    }
    Ok(())
}

fn acl_check_cmd<H: Host>(
    _: &Lua,
    shared: &SharedSlot<H>,
    values: MultiValue,
) -> Result<bool, Refusal> {
    if values.is_empty() {
        return Err(Refusal::Text(
            "ERR Please specify at least one argument for this redis lib call",
        ));
    }
    let mut request = OwnedRequest::default();
    let digits = lock(shared).digits;
    let size = values.iter().map(|value| match value {
        Value::String(text) => text.as_bytes().len(),
        _ => 0,
    });
    if size.sum::<usize>() > lock(shared).memory_bytes_max.min(REQUEST_BYTES_MAX) {
        return Err(Refusal::Text(TOO_LARGE));
    }
    if !values
        .iter()
        .all(|value| push_argument(value, digits, &mut request))
    {
        return Err(Refusal::Text(MISTYPED));
    }
    let allowed = match (request.as_request(), &mut lock(shared).host) {
        (Some(request), Some(host)) => host.acl_check(request),
        _ => None,
    };
    allowed.ok_or(Refusal::Text(
        "ERR Invalid command passed to redis.acl_check_cmd()",
    ))
}
