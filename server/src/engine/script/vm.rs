//! One Lua 5.1 virtual machine: compiled scripts, one run at a time, nothing kept between runs.
//!
//! The host moves into a slot for the time of a run and comes back with its result, so native
//! functions are made once per machine and borrow nothing. Knows neither commands nor the cache.

use super::convert::to_reply;
use super::sandbox::{INSTRUCTIONS_PER_TICK, Shared, Slot, lock, natives, problem_text, token};
use crate::resp::{ErrorReply, Reply, Request};
use mlua::chunk::ChunkMode;
use mlua::state::{GcIncParams, GcMode};
use mlua::{Function, HookTriggers, IntoLuaMulti, Lua, LuaOptions, LuaString, StdLib, Table, Value, Variadic, VmState};
use std::fmt;
use std::sync::{Arc, Mutex};

/// The name of our own chunk in stack frames.
pub(crate) const PRELUDE_NAME: &str = "=prelude";
const PRELUDE: &str = include_str!("prelude.lua");
/// What Redis calls the chunk of a script.
pub(crate) const SCRIPT_NAME: &str = "@user_script";
/// Arguments that go over the Lua stack; more go through tables.
const STACK_ARGS_MAX: usize = 64;
/// Percentage the heap grows between collections: a run allocates little, a cycle visits everything.
const GC_PAUSE: std::os::raw::c_int = 1_000;
const GC_PAUSE_TIGHT: std::os::raw::c_int = 125;
/// The share of the memory bound from which the collector is in a hurry.
const TIGHT_SHARE: usize = 16;

/// What a machine asks of the engine while a script runs.
pub(crate) trait Host: Send + 'static {
    /// Runs one command. Errors are [`Reply::Error`].
    fn call(&mut self, request: Request<'_>) -> Reply;

    /// Told of every 10,000 instructions, or as much other work.
    fn tick(&mut self, instructions: u64) -> Tick;

    /// `redis.log`: level 0 (debug) to 3 (warning).
    fn log(&mut self, level: i64, text: &[u8]) {
        let _ = (level, text);
    }

    /// `redis.set_repl`: bit 0 is the append-only file, bit 1 the replicas.
    fn set_repl(&mut self, flags: i64) {
        let _ = flags;
    }

    /// The state of `math.random`, which Redis keeps across scripts and seeds with [`RANDOM_START`];
    /// `None` begins with that at every run.
    ///
    /// [`RANDOM_START`]: super::sandbox::RANDOM_START
    fn random_state(&mut self) -> Option<&mut u64> {
        None
    }

    /// `redis.acl_check_cmd`: whether the caller may run it; `None` for an unknown command.
    fn acl_check(&mut self, request: Request<'_>) -> Option<bool> {
        let _ = request;
        Some(true)
    }
}

/// Whether a script goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tick {
    /// It does.
    Continue,
    /// It ends here, and at every later attempt to go on.
    Stop,
}

/// How a run ended.
#[derive(Debug, PartialEq)]
pub(crate) enum Ended {
    /// With a value.
    Reply(Reply),
    /// With an error that nothing caught.
    Error(ErrorReply),
    /// Because a tick said stop.
    Stopped,
}

/// A compiled script of one machine, valid until [`Vm::forget`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FunctionId(usize);

struct Script {
    function: Function,
    sha: Box<str>,
    one_line: bool,
}

/// Ways in, by number of keys.
struct Entries {
    no_key: Function,
    one_key: Function,
    two_keys: Function,
    tables: Function,
}

/// A virtual machine.
pub(crate) struct Vm<H: Host> {
    scripts: Vec<Script>,
    entries: Entries,
    environment: Table,
    slot: Shared<H>,
    usable: bool,
    memory_bytes_max: usize,
    /// Dropped last: everything above refers to it.
    lua: Lua,
}

impl<H: Host> fmt::Debug for Vm<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vm").field("scripts", &self.scripts.len()).field("usable", &self.usable).finish_non_exhaustive()
    }
}

impl<H: Host> Vm<H> {
    /// A machine whose Lua heap stays below `memory_bytes_max`.
    pub(crate) fn new(memory_bytes_max: usize) -> mlua::Result<Self> {
        let lua = Lua::new_with(
            StdLib::TABLE | StdLib::STRING | StdLib::MATH,
            LuaOptions::new().catch_rust_panics(true),
        )?;
        let slot = Arc::new(Mutex::new(Slot::new(memory_bytes_max)));
        let prelude: Table = lua.load(PRELUDE).set_name(PRELUDE_NAME).call(natives(&lua, &slot)?)?;
        let entries = Entries {
            no_key: prelude.raw_get("run0")?,
            one_key: prelude.raw_get("run1")?,
            two_keys: prelude.raw_get("run2")?,
            tables: prelude.raw_get("run")?,
        };
        let shared = Arc::clone(&slot);
        let triggers = HookTriggers::new().every_nth_instruction(INSTRUCTIONS_PER_TICK);
        lua.set_global_hook(triggers, move |lua, _| {
            if lua.used_memory() > memory_bytes_max / TIGHT_SHARE {
                lua.gc_set_mode(GcMode::Incremental(GcIncParams::default().pause(GC_PAUSE_TIGHT)));
                lua.gc_restart();
            }
            let mut slot = lock(&shared);
            if slot.tick(u64::from(INSTRUCTIONS_PER_TICK)) { Ok(VmState::Continue) } else { Err(token()) }
        })?;
        let environment = prelude.raw_get("env")?;
        relax(&lua);
        Ok(Self { scripts: Vec::new(), entries, environment, slot, usable: true, memory_bytes_max, lua })
    }

    /// The bound it was made with.
    pub(crate) fn memory_bytes_max(&self) -> usize {
        self.memory_bytes_max
    }

    /// False once a script has run out of memory or was stopped: what is left in the machine is
    /// then garbage of unknown size, and a new machine costs less than finding out.
    pub(crate) fn is_usable(&self) -> bool {
        self.usable
    }

    /// Compiles a script and keeps it. `sha` is its digest, 40 hexadecimal digits.
    pub(crate) fn define(&mut self, sha: &str, body: &[u8]) -> Result<FunctionId, ErrorReply> {
        if body.first() == Some(&27) {
            let text = "ERR Error compiling script (new function): user_script: bad header in precompiled chunk";
            return Err(ErrorReply::new(text));
        }
        // The parser does not anchor the chunk's name (CVE-2025-49844): no collection meanwhile.
        self.lua.gc_stop();
        let chunk = self.lua.load(body).set_name(SCRIPT_NAME).set_mode(ChunkMode::Text);
        let function = chunk.set_environment(self.environment.clone()).into_function();
        self.lua.gc_restart();
        match function {
            Ok(function) => {
                self.scripts.push(Script { function, sha: sha.into(), one_line: !body.contains(&b'\n') });
                Ok(FunctionId(self.scripts.len() - 1))
            }
            Err(problem) => {
                let text = match problem {
                    mlua::Error::SyntaxError { message, .. } => message,
                    other => problem_text(&other),
                };
                Err(ErrorReply::new(format!("ERR Error compiling script (new function): {text}")))
            }
        }
    }

    /// Drops all compiled scripts.
    pub(crate) fn forget(&mut self) {
        self.scripts.clear();
    }

    /// Runs a script: arguments `first_key..first_key + keys` of `request` are KEYS, the rest ARGV.
    pub(crate) fn run(
        &mut self,
        function: FunctionId,
        request: Request<'_>,
        first_key: usize,
        keys: usize,
        host: H,
    ) -> (Ended, H) {
        let Some(script) = self.scripts.get(function.0) else {
            return (Ended::Error(ErrorReply::new("NOSCRIPT No matching script. Please use EVAL.")), host);
        };
        lock(&self.slot).begin(host, script.one_line);
        let result = self.enter(&script.function, request, first_key, keys);
        let _ = self.lua.set_memory_limit(0);
        let (host, stopped, resp3) = {
            let mut slot = lock(&self.slot);
            (slot.host.take(), slot.stopped, slot.resp3)
        };
        let ended = match result {
            _ if stopped => Ended::Stopped,
            Ok((true, value)) => Ended::Reply(to_reply(&value, resp3)),
            Ok((false, value)) => Ended::Error(self.uncaught(&value, &script.sha)),
            Err(problem) => Ended::Error(ErrorReply::new(format!(
                "ERR Error running script {}, {}",
                script.sha,
                problem_text(&problem)
            ))),
        };
        self.usable &= !stopped;
        if self.lua.used_memory() > self.memory_bytes_max / TIGHT_SHARE {
            self.usable &= self.lua.gc_collect().is_ok();
            self.usable &= self.lua.used_memory() <= self.memory_bytes_max / TIGHT_SHARE;
            relax(&self.lua);
        }
        #[expect(clippy::expect_used, reason = "nothing else takes it")]
        (ended, host.expect("the host stays in its slot during a run"))
    }

    fn enter(
        &self,
        function: &Function,
        request: Request<'_>,
        first_key: usize,
        keys: usize,
    ) -> mlua::Result<(bool, Value)> {
        let count = request.len().saturating_sub(first_key);
        // Without a bound mlua makes strings without a protected call each; so it is set at the last moment.
        self.lua.set_memory_limit(0)?;
        let text = |index: usize| self.lua.create_string(request.arg(index).unwrap_or_default());
        if keys <= 2 && keys <= count && count <= STACK_ARGS_MAX {
            let entry = match keys {
                0 => &self.entries.no_key,
                1 => &self.entries.one_key,
                _ => &self.entries.two_keys,
            };
            let arg = |index: usize| text(first_key + index);
            return match count {
                0 => self.call(entry, function),
                1 => self.call(entry, (function, arg(0)?)),
                2 => self.call(entry, (function, arg(0)?, arg(1)?)),
                3 => self.call(entry, (function, arg(0)?, arg(1)?, arg(2)?)),
                4 => self.call(entry, (function, arg(0)?, arg(1)?, arg(2)?, arg(3)?)),
                _ => {
                    let rest: Variadic<LuaString> = (0..count).map(arg).collect::<mlua::Result<_>>()?;
                    self.call(entry, (function, rest))
                }
            };
        }
        let table = |from: usize, to: usize| -> mlua::Result<Table> {
            let table = self.lua.create_table_with_capacity(to.saturating_sub(from), 0)?;
            for index in from..to {
                table.raw_set(index - from + 1, text(index)?)?;
            }
            Ok(table)
        };
        let middle = (first_key + keys).min(request.len());
        let (keys, argv) = (table(first_key, middle)?, table(middle, request.len())?);
        self.call(&self.entries.tables, (function, keys, argv))
    }

    fn call(&self, entry: &Function, args: impl IntoLuaMulti) -> mlua::Result<(bool, Value)> {
        self.lua.set_memory_limit(self.memory_bytes_max)?;
        entry.call(args)
    }

    /// `script_lua.c: luaCallFunction`: the words for an error that reached the end.
    fn uncaught(&self, value: &Value, sha: &str) -> ErrorReply {
        let Value::Table(table) = value else {
            let text = match value {
                Value::String(text) => text.to_string_lossy(),
                _ => "execution failure".into(),
            };
            return ErrorReply::new(format!("ERR Error running script {sha}, {text:.100}"));
        };
        let field = |name: &str| match table.raw_get::<Value>(name) {
            Ok(Value::Nil) | Err(_) => None,
            Ok(value) => self.lua.coerce_string(value).ok().flatten().map(|text| text.to_string_lossy()),
        };
        let message = field("err").unwrap_or_else(|| "ERR unknown error".into());
        ErrorReply::new(match (field("source"), field("line")) {
            (Some(source), Some(line)) => format!("{message} script: {sha}, on {source}:{line}."),
            _ => message,
        })
    }
}

/// Collects seldom: a run makes little garbage, and most machines stay small.
fn relax(lua: &Lua) {
    lua.gc_set_mode(GcMode::Incremental(GcIncParams::default().pause(GC_PAUSE)));
}
