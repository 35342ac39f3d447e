//! The native half of a script's environment: `redis`, patterns, random numbers, and errors with a
//! line.
//!
//! The other half is `prelude.lua`. A native function that fails stores an error *value* in the
//! slot and raises a token. `pcall`, `xpcall`, `coroutine.resume` and the end of the run, which are
//! all ours, exchange the token for the value. After a stop the exchange raises again, so no script
//! can catch a stop. Knows no command.

mod args;
mod call;
mod frame;
mod raise;
mod random;
mod redis;
mod text;

pub(crate) use args::{Args, type_name};
pub(crate) use frame::script_line;
pub(crate) use raise::{NO_MEMORY, out_of_memory, problem_text, token};
pub(crate) use random::RANDOM_START;

use super::library::{self, Settings};
use super::vm::{Host, Tick};
use crate::resp::OwnedRequest;
use mlua::{Lua, Table, Value};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Instructions between two calls of the hook.
pub(crate) const INSTRUCTIONS_PER_TICK: u32 = 10_000;
/// `tostring` prints this plus a number for a table, function or thread: it looks like an address
/// and is the same in every run.
const ADDRESS_BASE: u64 = 0x7f00_0000_0000;

/// Data that native functions and the engine share while a script runs.
pub(crate) struct Slot<H> {
    pub(crate) host: Option<H>,
    pub(crate) request: OwnedRequest,
    pub(crate) resp3: bool,
    pub(crate) stopped: bool,
    /// The line at which the hook stopped the script.
    pub(crate) stopped_at: Option<usize>,
    /// True if the running script has a single line; an unknown line is then the first one.
    pub(crate) one_line: bool,
    random: u64,
    settings: Settings,
    pending: Option<Value>,
    uncounted: u64,
    pub(crate) memory_bytes_max: usize,
}

impl<H: Host> Slot<H> {
    pub(crate) fn new(memory_bytes_max: usize) -> Self {
        Self {
            host: None,
            request: OwnedRequest::default(),
            resp3: false,
            stopped: false,
            stopped_at: None,
            one_line: false,
            random: RANDOM_START,
            settings: Settings::default(),
            pending: None,
            uncounted: 0,
            memory_bytes_max,
        }
    }

    /// Resets everything that the previous run may have changed.
    pub(crate) fn begin(&mut self, host: H, one_line: bool) {
        self.host = Some(host);
        self.resp3 = false;
        self.stopped = false;
        self.one_line = one_line;
        self.random = RANDOM_START;
        self.settings = Settings::default();
        self.pending = None;
        self.uncounted = 0;
    }

    /// The state of the random generator: that of the node, or one that every run resets.
    fn random_state(&mut self) -> &mut u64 {
        self.host
            .as_mut()
            .and_then(Host::random_state)
            .unwrap_or(&mut self.random)
    }

    /// The settings of the libraries: those of the node, or some that every run resets.
    pub(crate) fn settings(&mut self) -> &mut Settings {
        self.host
            .as_mut()
            .and_then(Host::settings)
            .unwrap_or(&mut self.settings)
    }

    /// Counts work done outside of the virtual machine. Returns false once the script must stop.
    pub(crate) fn charge(&mut self, amount: u64) -> bool {
        self.uncounted = self.uncounted.saturating_add(amount);
        if self.uncounted < u64::from(INSTRUCTIONS_PER_TICK) {
            return !self.stopped;
        }
        let amount = std::mem::take(&mut self.uncounted);
        self.tick(amount)
    }

    /// Asks the host whether to continue. Returns false once the script must stop.
    pub(crate) fn tick(&mut self, amount: u64) -> bool {
        if !self.stopped
            && let Some(host) = &mut self.host
            && matches!(host.tick(amount), Tick::Stop)
        {
            self.stopped = true;
        }
        !self.stopped
    }
}

pub(crate) type SharedSlot<H> = Arc<Mutex<Slot<H>>>;

pub(crate) fn lock<H>(slot: &Mutex<Slot<H>>) -> MutexGuard<'_, Slot<H>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The native functions that are passed to `prelude.lua`.
pub(crate) fn natives<H: Host>(lua: &Lua, slot: &SharedSlot<H>) -> mlua::Result<Table> {
    let natives = lua.create_table()?;
    raise::errors(lua, slot, &natives)?;
    text::texts(lua, slot, &natives)?;
    random::randoms(lua, slot, &natives)?;
    natives.raw_set("redis", redis::redis(lua, slot)?)?;
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
