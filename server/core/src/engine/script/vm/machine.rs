//! A Lua 5.1 virtual machine: keeps compiled scripts, runs one at a time, and keeps nothing else
//! between runs.
//!
//! The host moves into a slot for the time of a run and comes back with the result. So native
//! functions are created once per VM and borrow nothing. Knows neither commands nor the script
//! cache.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the enums belong to mlua, and most variants are treated alike"
)]

use super::super::convert::{Digits, c_text};
use super::super::host::Host;
use super::super::natives::natives;
use super::super::returned::to_reply;
use super::super::reuse::{assigns_only_locals, is_small, only_reads_arguments};
use super::super::sandbox::{NO_MEMORY, problem_text, script_line, token};
use super::super::slot::{INSTRUCTIONS_PER_TICK, SharedSlot, Slot, lock};
use super::super::source::PRELUDE_NAME;
use super::super::template::{Compact, compact};
use super::entry::{Entries, Script};
use crate::resp::{ErrorReply, Reply, Request};
use mlua::chunk::ChunkMode;
use mlua::state::{GcIncParams, GcMode};
use mlua::{Function, HookTriggers, Lua, LuaOptions, LuaString, StdLib, Table, Value, VmState};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

const PRELUDE: &str = include_str!("../prelude.lua");
/// Redis's name for the chunk of a script.
pub(crate) const SCRIPT_NAME: &str = "@user_script";
/// Growth of the heap between collections, in percent. A run allocates little, and each cycle
/// visits the whole heap.
const GC_PAUSE: std::os::raw::c_int = 1_000;
const GC_PAUSE_TIGHT: std::os::raw::c_int = 125;
/// Share of the memory limit from which the collector runs more often.
pub(super) const TIGHT_SHARE: usize = 16;
/// Limit of compiled scripts that a VM keeps for the next server.
const SCRIPTS_KEPT_MAX: usize = 64;

/// Outcome of a run.
#[derive(Debug, PartialEq)]
pub(crate) enum Ended {
    /// The script returned.
    Reply(Reply),
    /// The script raised an error.
    Error(ErrorReply),
    /// The host stopped the script.
    Stopped {
        /// Line of the script at which it stopped.
        line: usize,
    },
}

/// Settings with which a VM is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VmOptions {
    /// Limit of the Lua heap.
    pub(crate) memory_bytes_max: usize,
    /// The version of Redis that scripts see.
    pub(crate) redis_version: &'static str,
    /// How `redis.call` writes numbers.
    pub(crate) digits: Digits,
}

/// A compiled script of one VM, valid until [`Vm::forget`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FunctionId(usize);

/// A script's function, and the templates that replace its calls.
struct Compiled {
    function: Function,
    compact: Compact,
    is_small: bool,
}

/// State that scripts cannot reach: the native functions, and the parts of the prelude.
pub(super) struct Environment {
    pub(super) natives: Table,
    pub(super) prelude: Table,
}

/// A virtual machine.
pub(crate) struct Vm<H: Host> {
    scripts: Vec<Script>,
    entries: Entries,
    pub(super) slot: SharedSlot<H>,
    usable: bool,
    pub(super) memory_bytes_max: usize,
    options: VmOptions,
    /// This field must be the last one, because it is dropped last: all other fields refer to it.
    pub(super) lua: Lua,
}

impl<H: Host> fmt::Debug for Vm<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vm")
            .field("scripts", &self.scripts.len())
            .field("usable", &self.usable)
            .finish_non_exhaustive()
    }
}

impl<H: Host> Vm<H> {
    /// Creates a VM for scripts.
    pub(crate) fn new(options: VmOptions) -> mlua::Result<Self> {
        Self::with_source(options, SCRIPT_NAME).map(|(vm, _)| vm)
    }

    /// Creates a VM whose texts have this chunk name. Also returns the native functions and what the prelude returns.
    pub(super) fn with_source(
        options: VmOptions,
        source: &'static str,
    ) -> mlua::Result<(Self, Environment)> {
        let memory_bytes_max = options.memory_bytes_max;
        let lua = Lua::new_with(
            StdLib::TABLE | StdLib::STRING | StdLib::MATH,
            LuaOptions::new().catch_rust_panics(true),
        )?;
        let mut slot = Slot::new(memory_bytes_max, source);
        slot.digits = options.digits;
        let slot = Arc::new(Mutex::new(slot));
        let natives = natives(&lua, &slot, options.redis_version)?;
        let prelude: Table = prelude(&lua)?.call(&natives)?;
        let entries = Entries::of(&prelude)?;
        set_hook(&lua, &slot, memory_bytes_max)?;
        relax(&lua);
        let vm = Self {
            scripts: Vec::new(),
            entries,
            slot,
            usable: true,
            memory_bytes_max,
            options,
            lua,
        };
        Ok((vm, Environment { natives, prelude }))
    }

    /// The settings with which the VM was created.
    pub(crate) fn options(&self) -> VmOptions {
        self.options
    }

    /// False after a script has run out of memory or was stopped. The heap then contains an unknown
    /// amount of garbage, and a new VM costs less than measuring it.
    pub(crate) fn is_usable(&self) -> bool {
        self.usable
    }

    /// The compiled script of this digest, if there is one.
    pub(crate) fn known(&self, sha: &str) -> Option<FunctionId> {
        let known = self.scripts.iter().position(|script| *script.sha == *sha);
        known.map(FunctionId)
    }

    /// Compiles a script and keeps it. `sha` is its digest, 40 hexadecimal digits.
    pub(crate) fn define(&mut self, sha: &str, body: &[u8]) -> Result<FunctionId, ErrorReply> {
        if body.first() == Some(&27) {
            let text = "ERR Error compiling script (new function): user_script:1: unexpected symbol near 'char(27)'";
            return Err(ErrorReply::new(text));
        }
        let only_reads_arguments = only_reads_arguments(body);
        match self.compile(body, only_reads_arguments) {
            Ok(Compiled {
                function,
                compact,
                is_small,
            }) => {
                let names = |list: &[u8]| {
                    let mut texts = compact.text.windows(list.len());
                    !only_reads_arguments || texts.any(|text| text == list)
                };
                self.scripts.push(Script {
                    function,
                    sha: sha.into(),
                    only_line: (!body.contains(&b'\n')).then_some(1),
                    only_reads_arguments,
                    names_keys: names(b"KEYS"),
                    names_argv: names(b"ARGV"),
                    is_small,
                    inputs: compact.inputs,
                });
                lock(&self.slot).templates.extend(compact.templates);
                Ok(FunctionId(self.scripts.len() - 1))
            }
            Err(text) => {
                let before = &b"ERR Error compiling script (new function): "[..];
                Err(ErrorReply::from_bytes([before, &text].concat()))
            }
        }
    }

    /// Compiles a script; the error is Lua's message as bytes.
    fn compile(&self, body: &[u8], only_reads_arguments: bool) -> Result<Compiled, Vec<u8>> {
        let is_plain = assigns_only_locals(body);
        if is_plain && only_reads_arguments {
            let compact = compact(body, lock(&self.slot).templates.len() + 1);
            if let Ok(function) = self.compile_text(&compact.text, true) {
                return Ok(Compiled {
                    function,
                    is_small: is_small(&compact.text),
                    compact,
                });
            }
        }
        Ok(Compiled {
            function: self.compile_text(body, is_plain)?,
            compact: Compact {
                text: body.to_vec(),
                ..Compact::default()
            },
            is_small: false,
        })
    }

    /// Compiles a text. A plain one needs no read-only tables around the globals.
    fn compile_text(&self, text: &[u8], is_plain: bool) -> Result<Function, Vec<u8>> {
        let compiled = self
            .lua
            .create_string(text)
            .and_then(|text| self.entries.compile.call((text, SCRIPT_NAME, is_plain)));
        let compiled: mlua::Result<(Option<Function>, Option<LuaString>)> = compiled;
        match compiled {
            Ok((Some(function), _)) => Ok(function),
            Ok((None, text)) => Err(text.as_ref().map(c_text).unwrap_or_default()),
            Err(problem) => Err(problem_text(&problem).into_bytes()),
        }
    }

    /// Number of compiled scripts.
    pub(crate) fn compiled(&self) -> usize {
        self.scripts.len()
    }

    /// Drops all compiled scripts.
    pub(crate) fn forget(&mut self) {
        self.scripts.clear();
        lock(&self.slot).templates.clear();
    }

    /// Prepares the VM for another server. Compiled scripts are kept unless there are many.
    pub(crate) fn rest(&mut self) {
        let is_small = self.lua.used_memory() <= self.memory_bytes_max / TIGHT_SHARE;
        if self.scripts.len() > SCRIPTS_KEPT_MAX || !is_small {
            self.forget();
        }
    }

    /// Prepares a pooled VM for its next node: the instructions of earlier scripts no longer count
    /// towards the next tick. This takes half a microsecond, too long to be done for each script.
    pub(crate) fn wake(&self) -> mlua::Result<()> {
        set_hook(&self.lua, &self.slot, self.memory_bytes_max)
    }

    /// Runs a script. The arguments `first_key..first_key + keys` of `request` are KEYS, the rest
    /// are ARGV.
    pub(crate) fn run(
        &mut self,
        function: FunctionId,
        request: Request<'_>,
        first_key: usize,
        keys: usize,
        host: H,
    ) -> (Ended, H) {
        let Some(script) = self.scripts.get(function.0) else {
            return (
                Ended::Error(ErrorReply::new(
                    "NOSCRIPT No matching script. Please use EVAL.",
                )),
                host,
            );
        };
        {
            let mut slot = lock(&self.slot);
            slot.begin(host, script.only_line, !script.is_small);
            slot.inputs.fill(&script.inputs, request, first_key, keys);
        }
        let result = self.entries.enter(
            &self.lua,
            script,
            request,
            first_key,
            keys,
            self.memory_bytes_max,
        );
        if !script.is_small {
            let _ = self.lua.set_memory_limit(0);
        }
        let (ended, host) = self.take_result(result, &script.sha);
        self.usable &= !matches!(ended, Ended::Stopped { .. });
        if self.lua.used_memory() > self.memory_bytes_max / TIGHT_SHARE {
            self.shrink();
        }
        (ended, host)
    }

    /// Returns the outcome of a run, and the host. `name` is the digest of the script or the name of the
    /// function.
    pub(super) fn take_result(
        &self,
        result: mlua::Result<(bool, Value)>,
        name: &str,
    ) -> (Ended, H) {
        let (host, stopped, stopped_at, resp3) = {
            let mut slot = lock(&self.slot);
            (
                slot.host.take(),
                slot.stopped,
                slot.stopped_at.take(),
                slot.resp3,
            )
        };
        let ended = match result {
            _ if stopped => Ended::Stopped {
                line: stopped_at.or_else(|| error_line(&result)).unwrap_or(1),
            },
            Ok((true, value)) => Ended::Reply(to_reply(&value, resp3, self.memory_bytes_max)),
            Ok((false, value)) => Ended::Error(self.uncaught(&value, name)),
            Err(problem) => Ended::Error(ErrorReply::new(format!(
                "ERR Error running script {name}, {}",
                problem_text(&problem)
            ))),
        };
        (
            ended,
            host.expect("the host stays in its slot during a run"),
        )
    }

    /// Takes the host out of a run that a panic has ended.
    pub(crate) fn take_host(&mut self) -> Option<H> {
        self.usable = false;
        lock(&self.slot).host.take()
    }

    /// Collects garbage until the heap is small again. Each cycle halves Lua's buffer for
    /// concatenation.
    fn shrink(&mut self) {
        const CYCLES_MAX: u32 = 12;
        let small = self.memory_bytes_max / TIGHT_SHARE;
        let collected = (0..CYCLES_MAX)
            .any(|_| self.lua.gc_collect().is_ok() && self.lua.used_memory() <= small);
        self.usable &= collected;
        relax(&self.lua);
    }

    /// `script_lua.c: luaCallFunction`: the reply for an error that the script did not catch.
    fn uncaught(&self, value: &Value, name: &str) -> ErrorReply {
        let Value::Table(table) = value else {
            let text = match value {
                Value::String(text) => c_text(text),
                _ => b"execution failure".to_vec(),
            };
            let text = &text[..text.len().min(100)];
            let before = format!("ERR Error running script {name}, ");
            return ErrorReply::from_bytes([before.as_bytes(), text].concat());
        };
        let field = |field: &str| match table.raw_get::<Value>(field) {
            Ok(Value::Nil) | Err(_) => None,
            Ok(value) => self
                .lua
                .coerce_string(value)
                .ok()
                .flatten()
                .map(|text| c_text(&text)),
        };
        let mut message = field("err").unwrap_or_else(|| b"ERR unknown error".to_vec());
        if let (Some(source), Some(line)) = (field("source"), field("line")) {
            let script = format!(" script: {name}, on ");
            message.extend([script.as_bytes(), &source, b":", &line, b"."].concat());
        }
        ErrorReply::from_bytes(message)
    }
}

/// Compiles the prelude, which is parsed once per process, because every server has VMs.
fn prelude(lua: &Lua) -> mlua::Result<Function> {
    static PARSED: OnceLock<Vec<u8>> = OnceLock::new();
    parsed_once(lua, PRELUDE, &PARSED)
}

/// Compiles a text of ours, under the name of the prelude; `parsed` keeps the result for the next VM.
pub(super) fn parsed_once(
    lua: &Lua,
    text: &'static str,
    parsed: &OnceLock<Vec<u8>>,
) -> mlua::Result<Function> {
    if let Some(parsed) = parsed.get() {
        return lua
            .load(parsed.as_slice())
            .set_name(PRELUDE_NAME)
            .set_mode(ChunkMode::Binary)
            .into_function();
    }
    let function = lua.load(text).set_name(PRELUDE_NAME).into_function()?;
    parsed.get_or_init(|| function.dump(false));
    Ok(function)
}

/// Installs the hook that counts instructions and enforces both limits. A new hook counts from zero.
fn set_hook<H: Host>(lua: &Lua, slot: &SharedSlot<H>, memory_bytes_max: usize) -> mlua::Result<()> {
    let shared = Arc::clone(slot);
    let triggers = HookTriggers::new().every_nth_instruction(INSTRUCTIONS_PER_TICK);
    lua.set_global_hook(triggers, move |lua, _| {
        if lua.used_memory() > memory_bytes_max / TIGHT_SHARE {
            lua.gc_set_mode(GcMode::Incremental(
                GcIncParams::default().pause(GC_PAUSE_TIGHT),
            ));
            lua.gc_restart();
        }
        // Replies are added without a limit.
        if lua.used_memory() > memory_bytes_max {
            lua.gc_collect()?;
            if lua.used_memory() > memory_bytes_max {
                return Err(mlua::Error::MemoryError(NO_MEMORY.into()));
            }
        }
        let mut slot = lock(&shared);
        if slot.tick(u64::from(INSTRUCTIONS_PER_TICK)) {
            return Ok(VmState::Continue);
        }
        slot.stopped_at = slot.stopped_at.or_else(|| script_line(lua));
        Err(token())
    })
}

/// The line of a run's error.
fn error_line(result: &mlua::Result<(bool, Value)>) -> Option<usize> {
    match result {
        Ok((false, Value::Table(error))) => error.raw_get("line").ok(),
        _ => None,
    }
}

/// Makes collections rare: a run creates little garbage, and most heaps stay small.
pub(super) fn relax(lua: &Lua) {
    lua.gc_set_mode(GcMode::Incremental(GcIncParams::default().pause(GC_PAUSE)));
}

#[cfg(test)]
mod tests;
