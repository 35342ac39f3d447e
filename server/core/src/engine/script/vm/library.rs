//! The virtual machine of libraries: keeps the functions that they have registered, with their upvalues, and calls them.
//!
//! A library may not be lost, so this VM is never dropped after a stop or for want of memory, as the VM of scripts is.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the enums belong to mlua, and most variants are treated alike"
)]

use super::super::convert::{MemoryLimit, c_text, pass};
use super::super::host::Host;
use super::super::sandbox::{problem_text, registration};
use super::super::slot::{CallbackId, Registered, lock};
use super::machine::{Ended, Environment, TIGHT_SHARE, Vm, VmOptions, parsed_once, relax};
use crate::resp::{ErrorReply, Request};
use mlua::{Function, LuaString, Table, Value, Variadic};
use std::fmt;
use std::sync::OnceLock;

const TEXT: &str = include_str!("../functions.lua");
/// Redis's name for the chunk of a library.
pub(crate) const LIBRARY_NAME: &str = "@user_function";
/// Limit of keys for which there is a special entry point.
const KEYS_MAX: usize = 2;
/// Limit of arguments that are passed on the Lua stack; more are passed in tables.
const STACK_ARGS_MAX: usize = 64;

/// Why a library is not loaded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LoadError {
    /// The reply.
    Refused(ErrorReply),
    /// The host stopped the text.
    Stopped,
}

/// A virtual machine for libraries.
pub(crate) struct LibraryVm<H: Host> {
    load: Function,
    /// By number of keys.
    run: [Function; KEYS_MAX + 1],
    run_tables: Function,
    callbacks: Table,
    /// Size of the heap after the last full collection, bytes.
    collected_bytes: usize,
    vm: Vm<H>,
}

impl<H: Host> fmt::Debug for LibraryVm<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LibraryVm").finish_non_exhaustive()
    }
}

impl<H: Host> LibraryVm<H> {
    /// Creates a VM for libraries.
    pub(crate) fn new(options: VmOptions) -> mlua::Result<Self> {
        static PARSED: OnceLock<Vec<u8>> = OnceLock::new();
        let (vm, Environment { natives, prelude }) = Vm::with_source(options, LIBRARY_NAME)?;
        let callbacks = registration(&vm.lua, &vm.slot, &natives)?;
        let entries: Table = parsed_once(&vm.lua, TEXT, &PARSED)?.call((natives, prelude))?;
        Ok(Self {
            load: entries.raw_get("load")?,
            run: [
                entries.raw_get("run0")?,
                entries.raw_get("run1")?,
                entries.raw_get("run2")?,
            ],
            run_tables: entries.raw_get("run")?,
            callbacks,
            collected_bytes: 0,
            vm,
        })
    }

    /// Runs the text of a library, and returns the functions that it registers.
    pub(crate) fn load(&mut self, code: &[u8], host: H) -> (Result<Vec<Registered>, LoadError>, H) {
        // The first line is the library's header.
        let only_line = (code.iter().filter(|byte| **byte == b'\n').count() == 1).then_some(2);
        {
            let mut slot = lock(&self.vm.slot);
            slot.begin(host, only_line, true);
            slot.registering = Some(Vec::new());
        }
        let result = self.run_text(code);
        self.end();
        let (host, stopped, registered) = {
            let mut slot = lock(&self.vm.slot);
            slot.stopped_at = None;
            let registered = slot.registering.take().unwrap_or_default();
            (slot.host.take(), slot.stopped, registered)
        };
        let host = host.expect("the host stays in its slot during a run");
        let result = match result {
            _ if stopped => Err(LoadError::Stopped),
            Ok(None) => return (Ok(registered), host),
            Ok(Some(error)) => Err(LoadError::Refused(error)),
            Err(problem) => Err(LoadError::Refused(ErrorReply::new(format!(
                "ERR Error registering functions: ERR {}",
                problem_text(&problem)
            )))),
        };
        self.forget(registered.iter().map(|one| one.callback));
        (result, host)
    }

    /// The error reply of a text that fails.
    fn run_text(&self, code: &[u8]) -> mlua::Result<Option<ErrorReply>> {
        let lua = &self.vm.lua;
        let limit = MemoryLimit(Some(self.vm.memory_bytes_max));
        let code = lua.create_string(code)?;
        let (kind, problem): (Option<LuaString>, Value) = self.load.call((code, limit))?;
        let Some(kind) = kind else {
            return Ok(None);
        };
        let text = match problem {
            Value::Table(table) => match table.raw_get("err")? {
                Value::String(text) => c_text(&text),
                _ => b"ERR unknown error".to_vec(),
            },
            Value::String(text) if kind == "compile" => c_text(&text),
            Value::String(text) => [b"ERR ", &*c_text(&text)].concat(),
            _ => b"ERR execution failure".to_vec(),
        };
        let before: &[u8] = match kind == "compile" {
            true => b"ERR Error compiling function: ",
            false => b"ERR Error registering functions: ",
        };
        Ok(Some(ErrorReply::from_c_text(&[before, &text].concat())))
    }

    /// Calls a function. The arguments `first_key..first_key + keys` of `request` are its keys, the rest its arguments.
    pub(crate) fn call(
        &mut self,
        callback: CallbackId,
        name: &str,
        (request, first_key, keys): (Request<'_>, usize, usize),
        host: H,
    ) -> (Ended, H) {
        lock(&self.vm.slot).begin(host, callback.only_line, true);
        let result = self.enter(callback.number, request, first_key, keys);
        self.end();
        self.vm.take_result(result, name)
    }

    fn enter(
        &self,
        callback: i64,
        request: Request<'_>,
        first_key: usize,
        keys: usize,
    ) -> mlua::Result<(bool, Value)> {
        let lua = &self.vm.lua;
        let bytes_max = self.vm.memory_bytes_max;
        let limit = MemoryLimit(Some(bytes_max));
        let count = request.len().saturating_sub(first_key);
        let arg = |index: usize| pass(lua, request.arg(first_key + index).unwrap_or_default());
        if let Some(entry) = self
            .run
            .get(keys)
            .filter(|_| keys <= count && count <= STACK_ARGS_MAX)
        {
            return match count {
                0 => entry.call((callback, limit)),
                1 => entry.call((callback, arg(0)?, limit)),
                2 => entry.call((callback, arg(0)?, arg(1)?, limit)),
                3 => entry.call((callback, arg(0)?, arg(1)?, arg(2)?, limit)),
                _ => {
                    let rest: Variadic<_> = (0..count).map(arg).collect::<mlua::Result<_>>()?;
                    lua.set_memory_limit(bytes_max)?;
                    entry.call((callback, rest))
                }
            };
        }
        let table = |from: usize, to: usize| -> mlua::Result<Table> {
            let table = lua.create_table_with_capacity(to.saturating_sub(from), 0)?;
            for index in from..to {
                let arg = lua.create_string(request.arg(index).unwrap_or_default())?;
                table.raw_set(index - from + 1, arg)?;
            }
            Ok(table)
        };
        let middle = (first_key + keys).min(request.len());
        let (keys, argv) = (table(first_key, middle)?, table(middle, request.len())?);
        self.run_tables.call((callback, keys, argv, limit))
    }

    /// Ends a run: the heap has no limit while no library runs, and is collected when it has grown a lot.
    fn end(&mut self) {
        let lua = &self.vm.lua;
        let _ = lua.set_memory_limit(0);
        let used = lua.used_memory();
        let tight = self.vm.memory_bytes_max / TIGHT_SHARE;
        if used > tight && used / 2 > self.collected_bytes {
            // Lua frees what finalizers held in the second cycle.
            let _ = lua.gc_collect().and_then(|()| lua.gc_collect());
            self.collected_bytes = lua.used_memory();
            relax(lua);
        }
    }

    /// Drops functions.
    pub(crate) fn forget(&mut self, callbacks: impl Iterator<Item = CallbackId>) {
        for callback in callbacks {
            // Assigning nil needs no memory.
            let _ = self.callbacks.raw_set(callback.number, Value::Nil);
        }
    }

    /// Takes the host out of a run that a panic has ended.
    pub(crate) fn take_host(&mut self) -> Option<H> {
        self.vm.take_host()
    }
}
