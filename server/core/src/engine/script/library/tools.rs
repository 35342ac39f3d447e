//! Shared parts of the libraries: failures, the budget of a call, and functions that follow both.

#![expect(clippy::wildcard_enum_match_arm, reason = "the enums belong to mlua")]

use super::super::host::Host;
use super::super::sandbox::{Args, out_of_memory, token};
use super::super::slot::{SharedSlot, lock};
use mlua::{Error, Function, IntoLuaMulti, Lua, MultiValue, Table, Value};
use std::sync::Arc;

/// Limit of the values that a function holds at once, nested or as results. In C these are on the
/// Lua stack, whose limit is 8,000 (`luaconf.h: LUAI_MAXCSTACK`). Here they are references of the
/// virtual machine, which has the same limit; compiled scripts and arguments take some of them.
pub(super) const SLOTS_MAX: usize = 7_000;
/// Number of bytes read or written that count as one instruction.
pub(super) const BYTES_PER_INSTRUCTION: u64 = 16;
/// Work that is reported to the meter at once.
pub(super) const WORK_PER_CHARGE: u64 = 1_000;

/// Why a library function fails.
pub(super) enum Fault {
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
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into().into_bytes())
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Lua(error)
    }
}

/// Counts the work of one call, and limits the size of its result.
pub(super) struct Budget<'a> {
    pub(super) meter: &'a mut dyn FnMut(u64) -> bool,
    pub(super) uncounted: u64,
    pub(super) bytes_max: usize,
}

impl Budget<'_> {
    pub(super) fn spend(&mut self, instructions: u64) -> Result<(), Fault> {
        self.uncounted += instructions;
        if self.uncounted < WORK_PER_CHARGE {
            return Ok(());
        }
        self.settle()
    }

    pub(super) fn spend_bytes(&mut self, count: usize) -> Result<(), Fault> {
        self.spend(1 + count as u64 / BYTES_PER_INSTRUCTION)
    }

    /// Reports the remaining work to the meter.
    pub(super) fn settle(&mut self) -> Result<(), Fault> {
        if (self.meter)(std::mem::take(&mut self.uncounted)) {
            Ok(())
        } else {
            Err(Fault::Stopped)
        }
    }

    /// Fails if `out` would grow by `more` bytes beyond the memory limit.
    pub(super) fn reserve(&self, out: &mut Vec<u8>, more: usize) -> Result<(), Fault> {
        if out.len().saturating_add(more) > self.bytes_max {
            return Err(Fault::Memory);
        }
        out.try_reserve(more).map_err(|_| Fault::Memory)
    }
}

/// Context of a library function besides its arguments.
#[derive(Clone)]
pub(super) struct Tools {
    /// Lua's own `next`.
    pub(super) next: Function,
    /// Maps a read-only table, as scripts see it, to the table behind it.
    pub(super) locked: Table,
}

impl Tools {
    /// The table behind a read-only table.
    pub(super) fn behind(&self, table: Table) -> mlua::Result<Table> {
        match self.locked.raw_get(&table)? {
            Value::Table(target) => Ok(target),
            _ => Ok(table),
        }
    }

    /// The pair after `key`: the first pair for nil, and nil after the last.
    pub(super) fn next(&self, table: &Table, key: Value) -> mlua::Result<(Value, Value)> {
        self.next.call((table, key))
    }
}

/// Adds a function to a library.
pub(super) fn add<H: Host, R: IntoLuaMulti>(
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
pub(super) fn budgeted<H: Host, R>(
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
