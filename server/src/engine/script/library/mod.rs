//! The libraries that Redis adds to Lua: `cjson`, `cmsgpack`, `bit` and `struct`.
//!
//! Each library is a table of native functions, which the prelude makes read-only. Their work
//! counts as instructions of the script, and the memory limit of the script bounds their results.
//! Nothing recurses, however deep the data are. The settings of `cjson` outlive a script, as in
//! Redis. They belong to the node and are kept with the cached scripts, not in the virtual machine.
//! Knows no command.

#![expect(clippy::wildcard_enum_match_arm, reason = "the enums belong to mlua")]

mod bit;
mod cjson;
mod cmsgpack;
mod structure;

use super::sandbox::{Args, SharedSlot, lock, out_of_memory, token};
use super::vm::Host;
use mlua::{Error, Function, IntoLuaMulti, Lua, MultiValue, Table, Value};
use std::sync::Arc;

/// Limit of the values that a function holds at once, nested or as results. In C these are on the
/// Lua stack, whose limit is 8,000 (`luaconf.h: LUAI_MAXCSTACK`). Here they are references of the
/// virtual machine, which has the same limit; compiled scripts and arguments take some of them.
const SLOTS_MAX: usize = 7_000;
/// Number of bytes read or written that count as one instruction.
const BYTES_PER_INSTRUCTION: u64 = 16;
/// Work that is reported to the meter at once.
const WORK_PER_CHARGE: u64 = 1_000;

/// Settings of the libraries that scripts have changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    cjson: cjson::Settings,
}

/// Why a library function fails.
enum Fault {
    /// An error with this message, preceded by the script's line (`luaL_error`).
    Text(Vec<u8>),
    /// An error with this message and no line: the Lua core raises it inside of a C function.
    Bare(&'static str),
    /// The result would exceed the memory limit.
    Memory,
    /// The script has to stop.
    Stopped,
    /// An error of Lua.
    Lua(Error),
}

impl Fault {
    fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into().into_bytes())
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Lua(error)
    }
}

/// Counts the work of one call, and limits the size of its result.
struct Budget<'a> {
    meter: &'a mut dyn FnMut(u64) -> bool,
    uncounted: u64,
    bytes_max: usize,
}

impl Budget<'_> {
    fn spend(&mut self, instructions: u64) -> Result<(), Fault> {
        self.uncounted += instructions;
        if self.uncounted < WORK_PER_CHARGE {
            return Ok(());
        }
        self.settle()
    }

    fn spend_bytes(&mut self, count: usize) -> Result<(), Fault> {
        self.spend(1 + count as u64 / BYTES_PER_INSTRUCTION)
    }

    /// Reports the remaining work to the meter.
    fn settle(&mut self) -> Result<(), Fault> {
        if (self.meter)(std::mem::take(&mut self.uncounted)) {
            Ok(())
        } else {
            Err(Fault::Stopped)
        }
    }

    /// Fails if `out` would grow by `more` bytes beyond the memory limit.
    fn reserve(&self, out: &mut Vec<u8>, more: usize) -> Result<(), Fault> {
        if out.len().saturating_add(more) > self.bytes_max {
            return Err(Fault::Memory);
        }
        out.try_reserve(more).map_err(|_| Fault::Memory)
    }
}

/// What library functions need besides their arguments.
#[derive(Clone)]
struct Tools {
    /// Lua's own `next`.
    next: Function,
    /// Maps a read-only table, as scripts see it, to the table behind it.
    locked: Table,
}

impl Tools {
    /// The table behind a read-only table.
    fn behind(&self, table: Table) -> mlua::Result<Table> {
        match self.locked.raw_get(&table)? {
            Value::Table(target) => Ok(target),
            _ => Ok(table),
        }
    }

    /// The pair after `key`: the first pair for nil, and nil after the last.
    fn next(&self, table: &Table, key: Value) -> mlua::Result<(Value, Value)> {
        self.next.call((table, key))
    }
}

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

/// Adds a function to a library.
fn add<H: Host, R: IntoLuaMulti>(
    lua: &Lua,
    slot: &SharedSlot<H>,
    library: &Table,
    name: &'static str,
    body: impl Fn(&Lua, &Args<'_, H>) -> Result<R, Fault> + Send + 'static,
) -> mlua::Result<()> {
    let shared = Arc::clone(slot);
    let function = lua.create_function(move |lua, values: MultiValue| {
        let args = Args::new(lua, &shared, name, values);
        body(lua, &args).map_err(|fault| match fault {
            Fault::Text(text) => args.fail(&text),
            Fault::Bare(text) => args.fail_bare(text),
            Fault::Memory => out_of_memory(lua, &shared),
            Fault::Stopped => token(),
            Fault::Lua(error) => error,
        })
    })?;
    library.raw_set(name, function)
}

/// Runs `work` with the script's budget.
fn budgeted<H: Host, R>(
    args: &Args<'_, H>,
    work: impl FnOnce(&mut Budget<'_>) -> Result<R, Fault>,
) -> Result<R, Fault> {
    let bytes_max = lock(args.slot).memory_bytes_max;
    let mut budget = Budget {
        meter: &mut |amount| lock(args.slot).charge(amount),
        uncounted: 0,
        bytes_max,
    };
    let result = work(&mut budget)?;
    budget.settle()?;
    Ok(result)
}
