//! The libraries that Redis adds to Lua: `cjson`, `cmsgpack`, `bit` and `struct`.
//!
//! Each library is a table of native functions, which the prelude makes read-only. Their work
//! counts as instructions of the script, and the memory limit of the script bounds their results.
//! Nothing recurses, however deep the data are. The settings of `cjson` outlive a script, as in
//! Redis. They belong to the node and are kept with the cached scripts, not in the virtual machine.
//! Knows no command.

mod bit;
mod cjson;
mod cmsgpack;
mod structure;
mod tools;

use super::host::Host;
use super::slot::SharedSlot;
use mlua::{Lua, Table};
use std::sync::Arc;
use tools::Tools;

/// The library tables by name. `locked` maps each read-only table to the table behind it; the
/// prelude fills it.
pub(super) fn libraries<H: Host>(
    lua: &Lua,
    slot: &SharedSlot<H>,
    locked: &Table,
) -> mlua::Result<Table> {
    let tools = Arc::new(Tools {
        next: lua.globals().raw_get("next")?,
        locked: locked.clone(),
    });
    let libraries = lua.create_table_with_capacity(0, 4)?;
    libraries.raw_set("bit", bit::library(lua, slot)?)?;
    libraries.raw_set("struct", structure::library(lua, slot)?)?;
    libraries.raw_set("cmsgpack", cmsgpack::library(lua, slot, &tools)?)?;
    libraries.raw_set("cjson", cjson::library(lua, slot, &tools)?)?;
    Ok(libraries)
}
