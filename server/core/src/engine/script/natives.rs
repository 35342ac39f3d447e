//! The native functions that are passed to `prelude.lua`.

use super::host::Host;
use super::library;
use super::sandbox;
use super::slot::SharedSlot;
use mlua::{Lua, Table};

/// `tostring` prints this plus a number for a table, function or thread: it looks like an address
/// and is the same in every run.
const ADDRESS_BASE: u64 = 0x7f00_0000_0000;

/// The native functions that are passed to `prelude.lua`.
pub(super) fn natives<H: Host>(
    lua: &Lua,
    slot: &SharedSlot<H>,
    redis_version: &str,
) -> mlua::Result<Table> {
    let natives = lua.create_table()?;
    sandbox::errors(lua, slot, &natives)?;
    sandbox::texts(lua, slot, &natives)?;
    sandbox::randoms(lua, slot, &natives)?;
    natives.raw_set("redis", sandbox::redis(lua, slot, redis_version)?)?;
    sandbox::template_calls(lua, slot, &natives)?;
    let locked = lua.create_table()?;
    natives.raw_set("libraries", library::libraries(lua, slot, &locked)?)?;
    natives.raw_set("locked", locked)?;
    natives.raw_set(
        "address",
        lua.create_function(|lua, number: u64| {
            lua.create_string(format!("{:#x}", ADDRESS_BASE + number * 32))
        })?,
    )?;
    natives.raw_set(
        "metatable",
        lua.create_function(|_, table: Table| Ok(table.metatable()))?,
    )?;
    Ok(natives)
}
