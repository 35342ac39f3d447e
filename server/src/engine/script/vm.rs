//! One Lua 5.1 virtual machine: compiled scripts, one run at a time, nothing kept between runs.
//!
//! The host moves into a slot for the time of a run and comes back with its result, so native
//! functions are made once per machine and borrow nothing. Knows neither commands nor the cache.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the enums are those of mlua, and most kinds are all the same here"
)]

mod reuse;

use self::reuse::only_reads_arguments;
use super::convert::c_text;
use super::library::Settings;
use super::returned::to_reply;
use super::sandbox::{INSTRUCTIONS_PER_TICK, Shared, Slot, lock, natives, problem_text, token};
use crate::resp::{ErrorReply, Reply, Request};
use mlua::chunk::ChunkMode;
use mlua::state::{GcIncParams, GcMode};
use mlua::{
    Either, Function, HookTriggers, IntoLuaMulti, Lua, LuaOptions, LuaString, MultiValue, StdLib,
    Table, Value, Variadic, VmState,
};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

/// The name of our own chunk in stack frames.
pub(crate) const PRELUDE_NAME: &str = "=redouble.prelude";
const PRELUDE: &str = include_str!("prelude.lua");
/// What Redis calls the chunk of a script.
pub(crate) const SCRIPT_NAME: &str = "@user_script";
/// Arguments that go over the Lua stack; more go through tables.
const STACK_ARGS_MAX: usize = 64;
/// Elements of ARGV up to which a script that only reads gets the same tables again.
const SAME_ARGV_MAX: usize = 4;
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

    /// What scripts have set in the libraries, which Redis keeps across scripts; `None` begins anew at
    /// every run.
    fn settings(&mut self) -> Option<&mut Settings> {
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
    Stopped {
        /// Where it was in the script.
        line: usize,
    },
}

/// A compiled script of one machine, valid until [`Vm::forget`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FunctionId(usize);

struct Script {
    function: Function,
    sha: Box<str>,
    one_line: bool,
    only_reads_arguments: bool,
}

/// Ways in: by number of keys, with new tables or with the same ones; and with tables made here.
struct Entries {
    new: [Function; 3],
    same: [Function; 3],
    tables: Function,
    /// Not into a script: makes one of a text.
    compile: Function,
}

impl Entries {
    fn of(prelude: &Table) -> mlua::Result<Self> {
        let named = |name: &str| -> mlua::Result<[Function; 3]> {
            let function = |keys: u8| prelude.raw_get(format!("{name}{keys}"));
            Ok([function(0)?, function(1)?, function(2)?])
        };
        Ok(Self {
            new: named("run")?,
            same: named("again")?,
            tables: prelude.raw_get("run")?,
            compile: prelude.raw_get("compile")?,
        })
    }
}

/// A virtual machine.
pub(crate) struct Vm<H: Host> {
    scripts: Vec<Script>,
    entries: Entries,
    slot: Shared<H>,
    usable: bool,
    memory_bytes_max: usize,
    /// Dropped last: everything above refers to it.
    lua: Lua,
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
    /// A machine whose Lua heap stays below `memory_bytes_max`.
    pub(crate) fn new(memory_bytes_max: usize) -> mlua::Result<Self> {
        let lua = Lua::new_with(
            StdLib::TABLE | StdLib::STRING | StdLib::MATH,
            LuaOptions::new().catch_rust_panics(true),
        )?;
        let slot = Arc::new(Mutex::new(Slot::new(memory_bytes_max)));
        let prelude: Table = prelude(&lua)?.call(natives(&lua, &slot)?)?;
        let entries = Entries::of(&prelude)?;
        let shared = Arc::clone(&slot);
        let triggers = HookTriggers::new().every_nth_instruction(INSTRUCTIONS_PER_TICK);
        lua.set_global_hook(triggers, move |lua, debug| {
            if lua.used_memory() > memory_bytes_max / TIGHT_SHARE {
                lua.gc_set_mode(GcMode::Incremental(
                    GcIncParams::default().pause(GC_PAUSE_TIGHT),
                ));
                lua.gc_restart();
            }
            let mut slot = lock(&shared);
            if slot.tick(u64::from(INSTRUCTIONS_PER_TICK)) {
                return Ok(VmState::Continue);
            }
            slot.stopped_at = slot.stopped_at.or_else(|| debug.current_line());
            Err(token())
        })?;
        relax(&lua);
        Ok(Self {
            scripts: Vec::new(),
            entries,
            slot,
            usable: true,
            memory_bytes_max,
            lua,
        })
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
            let text = "ERR Error compiling script (new function): user_script:1: unexpected symbol near 'char(27)'";
            return Err(ErrorReply::new(text));
        }
        match self.compile(body) {
            Ok(function) => {
                self.scripts.push(Script {
                    function,
                    sha: sha.into(),
                    one_line: !body.contains(&b'\n'),
                    only_reads_arguments: only_reads_arguments(body),
                });
                Ok(FunctionId(self.scripts.len() - 1))
            }
            Err(text) => {
                let before = &b"ERR Error compiling script (new function): "[..];
                Err(ErrorReply::from_bytes([before, &text].concat()))
            }
        }
    }

    /// The function of a text, or what is wrong with that, in bytes as Lua says it.
    fn compile(&self, body: &[u8]) -> Result<Function, Vec<u8>> {
        let compiled = self
            .lua
            .create_string(body)
            .and_then(|text| self.entries.compile.call((text, SCRIPT_NAME)));
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
            return (
                Ended::Error(ErrorReply::new(
                    "NOSCRIPT No matching script. Please use EVAL.",
                )),
                host,
            );
        };
        lock(&self.slot).begin(host, script.one_line);
        let result = self.enter(script, request, first_key, keys);
        let _ = self.lua.set_memory_limit(0);
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
                line: stopped_at.unwrap_or(1),
            },
            Ok((true, value)) => Ended::Reply(to_reply(&value, resp3, self.memory_bytes_max)),
            Ok((false, value)) => Ended::Error(self.uncaught(&value, &script.sha)),
            Err(problem) => Ended::Error(ErrorReply::new(format!(
                "ERR Error running script {}, {}",
                script.sha,
                problem_text(&problem)
            ))),
        };
        self.usable &= !stopped;
        if self.lua.used_memory() > self.memory_bytes_max / TIGHT_SHARE {
            self.shrink();
        }
        (
            ended,
            host.expect("the host stays in its slot during a run"),
        )
    }

    /// Collects until the machine is small again. A cycle halves Lua's buffer for joined texts.
    fn shrink(&mut self) {
        const CYCLES_MAX: u32 = 12;
        let small = self.memory_bytes_max / TIGHT_SHARE;
        let collected = (0..CYCLES_MAX)
            .any(|_| self.lua.gc_collect().is_ok() && self.lua.used_memory() <= small);
        self.usable &= collected;
        relax(&self.lua);
    }

    fn enter(
        &self,
        script: &Script,
        request: Request<'_>,
        first_key: usize,
        keys: usize,
    ) -> mlua::Result<(bool, Value)> {
        let count = request.len().saturating_sub(first_key);
        let function = &script.function;
        let limit = MemoryLimit(self.memory_bytes_max);
        if keys < self.entries.new.len() && keys <= count && count <= STACK_ARGS_MAX {
            let same = script.only_reads_arguments && count - keys <= SAME_ARGV_MAX;
            let entry = if same {
                &self.entries.same[keys]
            } else {
                &self.entries.new[keys]
            };
            let arg = |index: usize| {
                pass(
                    &self.lua,
                    request.arg(first_key + index).unwrap_or_default(),
                )
            };
            return match count {
                0 => entry.call((function, limit)),
                1 => entry.call((function, arg(0)?, limit)),
                2 => entry.call((function, arg(0)?, arg(1)?, limit)),
                3 => entry.call((function, arg(0)?, arg(1)?, arg(2)?, limit)),
                4 => entry.call((function, arg(0)?, arg(1)?, arg(2)?, arg(3)?, limit)),
                5 => entry.call((function, arg(0)?, arg(1)?, arg(2)?, arg(3)?, arg(4)?, limit)),
                _ => {
                    let rest: Variadic<_> = (0..count).map(arg).collect::<mlua::Result<_>>()?;
                    self.lua.set_memory_limit(self.memory_bytes_max)?;
                    entry.call((function, rest))
                }
            };
        }
        let table = |from: usize, to: usize| -> mlua::Result<Table> {
            let table = self
                .lua
                .create_table_with_capacity(to.saturating_sub(from), 0)?;
            for index in from..to {
                table.raw_set(
                    index - from + 1,
                    self.lua
                        .create_string(request.arg(index).unwrap_or_default())?,
                )?;
            }
            Ok(table)
        };
        let middle = (first_key + keys).min(request.len());
        let (keys, argv) = (table(first_key, middle)?, table(middle, request.len())?);
        self.entries.tables.call((function, keys, argv, limit))
    }

    /// `script_lua.c: luaCallFunction`: the words for an error that reached the end.
    fn uncaught(&self, value: &Value, sha: &str) -> ErrorReply {
        let Value::Table(table) = value else {
            let text = match value {
                Value::String(text) => c_text(text),
                _ => b"execution failure".to_vec(),
            };
            let text = &text[..text.len().min(100)];
            let before = format!("ERR Error running script {sha}, ");
            return ErrorReply::from_bytes([before.as_bytes(), text].concat());
        };
        let field = |name: &str| match table.raw_get::<Value>(name) {
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
            let script = format!(" script: {sha}, on ");
            message.extend([script.as_bytes(), &source, b":", &line, b"."].concat());
        }
        ErrorReply::from_bytes(message)
    }
}

/// Our half of a script's world, parsed once in a process: machines are made for every server.
fn prelude(lua: &Lua) -> mlua::Result<Function> {
    static PARSED: OnceLock<Vec<u8>> = OnceLock::new();
    if let Some(parsed) = PARSED.get() {
        return lua
            .load(parsed.as_slice())
            .set_name(PRELUDE_NAME)
            .set_mode(ChunkMode::Binary)
            .into_function();
    }
    let function = lua.load(PRELUDE).set_name(PRELUDE_NAME).into_function()?;
    PARSED.get_or_init(|| function.dump(false));
    Ok(function)
}

/// The last argument or result: no value, but from here on the heap is bounded.
///
/// Without a bound mlua pushes strings as they are; with one, each in a protected call of its own. So
/// the bound is off while values pass, and this comes after the last of them.
pub(crate) struct MemoryLimit(pub(crate) usize);

impl IntoLuaMulti for MemoryLimit {
    fn into_lua_multi(self, lua: &Lua) -> mlua::Result<MultiValue> {
        lua.set_memory_limit(self.0)?;
        Ok(MultiValue::new())
    }
}

/// Bytes on their way into a machine; texts in UTF-8 take a way without a reference.
fn pass<'a>(lua: &Lua, bytes: &'a [u8]) -> mlua::Result<Either<&'a str, LuaString>> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(Either::Left(text)),
        Err(_) => lua.create_string(bytes).map(Either::Right),
    }
}

/// Collects seldom: a run makes little garbage, and most machines stay small.
fn relax(lua: &Lua) {
    lua.gc_set_mode(GcMode::Incremental(GcIncParams::default().pause(GC_PAUSE)));
}

#[cfg(test)]
mod tests {
    use super::super::sandbox::RANDOM_START;
    use super::*;
    use crate::resp::{OwnedRequest, Protocol, encode};
    use std::collections::BTreeMap;

    /// Scripts and what redis-server 7.0.15 answered.
    const RECORDED: &str = include_str!("recorded-7.0.15.txt");
    const MEMORY_BYTES_MAX: usize = 64 << 20;
    /// Ticks until a script is told to stop.
    const INSTRUCTIONS_MAX: u64 = 5_000_000;
    const SHA: &str = "0000000000000000000000000000000000000000";

    /// A few commands, with the errors of Redis.
    struct Node {
        store: BTreeMap<Vec<u8>, Vec<u8>>,
        random: u64,
        instructions: u64,
        calls: Vec<OwnedRequest>,
    }

    impl Node {
        fn new(random: u64) -> Self {
            Self {
                store: BTreeMap::new(),
                random,
                instructions: 0,
                calls: Vec::new(),
            }
        }
    }

    impl Host for Node {
        fn call(&mut self, request: Request<'_>) -> Reply {
            self.calls.push(request.to_owned());
            let arg = |index| request.arg(index).unwrap_or_default();
            match (&*request.name().to_ascii_lowercase(), request.len()) {
                (b"get", 2) => self.store.get(arg(1)).map_or(Reply::Nil, Reply::bulk),
                (b"set", 3) => {
                    self.store.insert(arg(1).to_vec(), arg(2).to_vec());
                    Reply::Ok
                }
                (b"del", 2) => Reply::Int(i64::from(self.store.remove(arg(1)).is_some())),
                (b"echo", 2) => Reply::bulk(arg(1)),
                (b"incr", 2) => Reply::error("ERR value is not an integer or out of range"),
                (b"map", _) => Reply::Map(vec![(Reply::bulk("a"), Reply::Double(1.5))]),
                (b"null", _) => Reply::Nil,
                (b"true", _) => Reply::Bool(true),
                (b"get" | b"set" | b"incr" | b"lpush", _) => {
                    Reply::error("ERR Wrong number of args calling Redis command from script")
                }
                _ => Reply::error("ERR Unknown Redis command called from script"),
            }
        }

        fn tick(&mut self, instructions: u64) -> Tick {
            self.instructions += instructions;
            if self.instructions > INSTRUCTIONS_MAX {
                Tick::Stop
            } else {
                Tick::Continue
            }
        }

        fn random_state(&mut self) -> Option<&mut u64> {
            Some(&mut self.random)
        }

        fn acl_check(&mut self, request: Request<'_>) -> Option<bool> {
            (request.name() != b"nosuch").then_some(true)
        }
    }

    fn machine() -> Vm<Node> {
        Vm::new(MEMORY_BYTES_MAX).expect("a machine")
    }

    /// The reply as RESP2, with k1 and k2 as KEYS, a1 and a2 as ARGV.
    fn eval(vm: &mut Vm<Node>, body: &str, random: &mut u64) -> String {
        let sha = sha1_smol::Sha1::from(body).digest().to_string();
        let function = match vm.define(&sha, body.as_bytes()) {
            Ok(function) => function,
            Err(error) => return show(&Reply::Error(error)),
        };
        let request = OwnedRequest::new([
            &b"EVAL"[..],
            body.as_bytes(),
            b"2",
            b"k1",
            b"k2",
            b"a1",
            b"a2",
        ]);
        let request = request.as_request().expect("not empty");
        let (ended, node) = vm.run(function, request, 3, 2, Node::new(*random));
        *random = node.random;
        match ended {
            Ended::Reply(reply) => show(&reply),
            Ended::Error(error) => show(&Reply::Error(error)),
            Ended::Stopped { .. } => "stopped".into(),
        }
    }

    fn show(reply: &Reply) -> String {
        let mut bytes = Vec::new();
        encode(reply, Protocol::Resp2, &mut bytes);
        bytes.iter().map(|&byte| escape(byte)).collect()
    }

    fn escape(byte: u8) -> String {
        match byte {
            b'\r' => "\\r".into(),
            b'\n' => "\\n".into(),
            b'\\' => "\\\\".into(),
            b' '..=b'~' => char::from(byte).into(),
            other => format!("\\x{other:02x}"),
        }
    }

    fn check(body: &str, expected: &str) {
        assert_eq!(
            eval(&mut machine(), body, &mut RANDOM_START.clone()),
            expected,
            "{body}"
        );
    }

    #[test]
    fn answers_are_those_of_redis_on_a_fresh_and_on_a_used_machine() {
        let mut used = machine();
        let mut random = RANDOM_START;
        let lines: Vec<&str> = RECORDED
            .lines()
            .filter(|line| !line.starts_with('#'))
            .collect();
        assert!(lines.len() > 900, "the recording is complete");
        let mut wrong = Vec::new();
        for pair in lines.chunks(2) {
            let body = pair[0]
                .strip_prefix("> ")
                .expect("a script")
                .replace("\\n", "\n");
            let expected = pair[1].strip_prefix("< ").expect("an answer");
            let mut same = random;
            let fresh = eval(&mut machine(), &body, &mut same);
            if !used.is_usable() {
                used = machine();
            }
            let again = eval(&mut used, &body, &mut random);
            if fresh != expected || again != expected {
                wrong.push(format!(
                    "{body}\n  redis {expected}\n  fresh {fresh}\n  used  {again}"
                ));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn scripts_reach_the_host_and_get_their_arguments() {
        let mut vm = machine();
        let body = r#"redis.call("SET", KEYS[1], ARGV[1]) return redis.call("GET", KEYS[1])"#;
        let function = vm.define(SHA, body.as_bytes()).expect("it compiles");
        let request = OwnedRequest::new([&b"EVALSHA"[..], SHA.as_bytes(), b"1", b"key", b"value"]);
        let (ended, node) = vm.run(
            function,
            request.as_request().expect("not empty"),
            3,
            1,
            Node::new(0),
        );
        assert_eq!(ended, Ended::Reply(Reply::bulk("value")));
        assert_eq!(node.calls.len(), 2);
        for (keys, args) in [
            (0, 0),
            (0, 5),
            (1, 0),
            (2, 9),
            (3, 0),
            (3, 3),
            (2, 100),
            (500, 500),
            (0, 20_000),
        ] {
            let body = r##"return {#KEYS, #ARGV, KEYS[#KEYS] or "", ARGV[#ARGV] or "", KEYS[1] or "", ARGV[1] or ""}"##;
            let function = vm.define(SHA, body.as_bytes()).expect("it compiles");
            let texts: Vec<String> = (0..keys + args).map(|index| format!("v{index}")).collect();
            let request =
                OwnedRequest::new(texts.iter().map(String::as_bytes).chain([&b"end"[..]]));
            let mut whole = OwnedRequest::new([&b"EVALSHA"[..]]);
            request
                .as_request()
                .expect("not empty")
                .iter()
                .take(keys + args)
                .for_each(|arg| whole.push(arg));
            let (ended, _) = vm.run(
                function,
                whole.as_request().expect("not empty"),
                1,
                keys,
                Node::new(0),
            );
            let at = |index: Option<usize>| {
                Reply::bulk(index.map(|index| format!("v{index}")).unwrap_or_default())
            };
            let some = |count: usize, index: usize| at((count > 0).then_some(index));
            let expected = Reply::Array(vec![
                Reply::Int(keys as i64),
                Reply::Int(args as i64),
                some(keys, keys.saturating_sub(1)),
                some(args, (keys + args).saturating_sub(1)),
                some(keys, 0),
                some(args, keys),
            ]);
            assert_eq!(
                ended,
                Ended::Reply(expected),
                "{keys} keys, {args} arguments"
            );
        }
    }

    #[test]
    fn replies_come_in_both_flavours() {
        for (body, expected) in [
            (
                r#"return redis.call("map")"#,
                "*2\\r\\n$1\\r\\na\\r\\n$3\\r\\n1.5\\r\\n",
            ),
            (
                r#"redis.setresp(3) return redis.call("map").map.a.double * 2"#,
                ":3\\r\\n",
            ),
            (
                r#"return type(redis.call("null"))"#,
                "$7\\r\\nboolean\\r\\n",
            ),
            (
                r#"redis.setresp(3) return type(redis.call("null"))"#,
                "$3\\r\\nnil\\r\\n",
            ),
            (r#"return redis.call("true") + 1"#, ":2\\r\\n"),
            (
                r#"redis.setresp(3) return tostring(redis.call("true"))"#,
                "$4\\r\\ntrue\\r\\n",
            ),
        ] {
            check(body, expected);
        }
    }

    #[test]
    fn nothing_of_a_script_survives() {
        let mut vm = machine();
        let looks = r#"return {tostring(KEYS[9]), tostring(KEYS.x), #KEYS, #ARGV, tostring(getmetatable(KEYS)),
            tostring(rawget(_G, "x")), ("abc"):upper(), tostring({}), collectgarbage("count"), type(redis.call("null"))}"#;
        let before = eval(&mut vm, looks, &mut 0);
        for body in [
            "KEYS.x = 1 KEYS[9] = 2 setmetatable(KEYS, {__index = function() return 3 end})",
            "ARGV[1] = nil ARGV[10] = 5",
            "redis.setresp(3) tostring({}) tostring({})",
            "pcall(function() x = 1 end) pcall(rawset, _G, 'x', 1)",
            "pcall(function() getmetatable('').__index = {upper = function() return 'evil' end} end)",
            "pcall(function() string.upper = nil end)",
            "collectgarbage('stop')",
            "local co = coroutine.wrap(function() coroutine.yield() end) co()",
            "error('x')",
            "redis.call('nosuch')",
            "local t = {} for i = 1, 100000 do t[i] = {} end",
        ] {
            eval(&mut vm, body, &mut 0);
            assert_eq!(eval(&mut vm, looks, &mut 0), before, "after {body}");
        }
    }

    #[test]
    fn every_table_in_reach_is_locked() {
        check(
            r#"local seen, open = {}, {}
            local function walk(t, path)
              if seen[t] or t == KEYS or t == ARGV then return end
              seen[t] = true
              if pcall(rawset, t, "x", 1) then open[#open + 1] = path end
              if pcall(function() t.x = 1 end) then open[#open + 1] = path end
              if pcall(setmetatable, t, {}) then open[#open + 1] = path end
              for k, v in pairs(t) do if type(v) == "table" then walk(v, path .. "." .. tostring(k)) end end
              local meta = getmetatable(t)
              if meta then walk(meta, path .. "!") end
            end
            walk(_G, "_G") walk(getmetatable(""), "string!")
            return open"#,
            "*0\\r\\n",
        );
    }

    #[test]
    #[should_panic(expected = "a bug in the host")]
    fn a_panic_of_the_host_is_no_error_of_the_script() {
        struct Broken;
        impl Host for Broken {
            fn call(&mut self, _: Request<'_>) -> Reply {
                panic!("a bug in the host")
            }
            fn tick(&mut self, _: u64) -> Tick {
                Tick::Continue
            }
        }
        let mut vm = Vm::new(MEMORY_BYTES_MAX).expect("a machine");
        let function = vm
            .define(SHA, b"return pcall(redis.call, 'x')")
            .expect("it compiles");
        let request = OwnedRequest::new([&b"EVAL"[..]]);
        vm.run(
            function,
            request.as_request().expect("not empty"),
            1,
            0,
            Broken,
        );
    }

    #[test]
    fn without_a_state_of_the_host_random_numbers_begin_anew() {
        struct Plain;
        impl Host for Plain {
            fn call(&mut self, _: Request<'_>) -> Reply {
                Reply::Nil
            }
            fn tick(&mut self, _: u64) -> Tick {
                Tick::Continue
            }
        }
        let mut vm = Vm::new(MEMORY_BYTES_MAX).expect("a machine");
        let function = vm
            .define(SHA, b"return math.random(1000)")
            .expect("it compiles");
        let request = OwnedRequest::new([&b"EVAL"[..]]);
        for _ in 0..2 {
            let (ended, _) = vm.run(
                function,
                request.as_request().expect("not empty"),
                1,
                0,
                Plain,
            );
            assert_eq!(ended, Ended::Reply(Reply::Int(397)));
        }
    }

    /// What must end, by an answer or by being stopped, and leave the process alive.
    const ATTACKS: &[&str] = &[
        r"while true do end",
        r"while true do pcall(function() while true do end end) end",
        r"local function f() while true do end end while true do pcall(f) end",
        r"coroutine.wrap(function() while true do end end)()",
        r"while true do coroutine.wrap(function() while true do end end)() end",
        r"while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
        r"xpcall(function() while true do end end, function() while true do end end)",
        r"while true do xpcall(function() while true do end end, function() while true do end end) end",
        r"local function f() local ok = pcall(f) return f() end f()",
        r"local function f() return xpcall(f, f) end f()",
        r"while true do coroutine.wrap(function() for i=1,9000 do end end)() end",
        r"local t = setmetatable({}, {__index = function(t, k) while true do end end}) return t.x",
        r#"return string.find(("a"):rep(300000), ("a?"):rep(300000))"#,
        r#"return string.find(("a"):rep(30), ("a?"):rep(30)..("a"):rep(31))"#,
        r#"return string.find(("a"):rep(5000), (".*"):rep(20).."b")"#,
        r#"return string.match(("a"):rep(300000), (".-"):rep(300000).."b")"#,
        r#"return string.find(("a"):rep(100000), ".-.-.-.-b")"#,
        r#"return string.gsub(("a"):rep(100000), ".-.-.-.-b", "")"#,
        r#"return string.gsub(("a"):rep(100000), ".-.-.-.-b", function() end)"#,
        r#"for k in string.gmatch(("a"):rep(100000), ".-.-.-.-b") do end"#,
        r#"return string.find(("("):rep(1000000), "%b()")"#,
        r"return unpack({0},-2147483648,2147483647)",
        r"return unpack({0},-2147483647,2147483647)",
        r"return unpack({0}, 0, 2147483647)",
        r"return unpack({0}, 2147483647, 2147483647)",
        r"return unpack({0}, -1/0, 1/0)",
        r"return unpack({0}, 0/0, 0/0)",
        r"return {unpack({}, -5, -1)}",
        r##"return select("#", unpack({}, 1, 6999))"##,
        r##"local function f(...) return select("#", ...) end return f(unpack({}, 1, 6900), unpack({}, 1, 6900))"##,
        r#"local s = "x" while true do s = s .. s end"#,
        r##"local t = {} while true do t[#t+1] = ("x"):rep(1e6) .. #t end"##,
        r#"return ("x"):rep(1e9)"#,
        r#"return ("x"):rep(2^31)"#,
        r#"return ("x"):rep(2^53)"#,
        r#"return (""):rep(2^31-1)"#,
        r##"return #(("x"):rep(1e7))"##,
        r#"return string.format("%99999d", 1)"#,
        r#"return string.format("%.99999f", 1)"#,
        r##"return string.format("%0-+ #%d", 1)"##,
        r#"return string.format("%99.99f", 1e308)"#,
        r##"return string.format("%-+ #0-+ #0d", 1)"##,
        r#"return string.format("%q", ("\0"):rep(1e6)):len()"#,
        r#"return string.format(("%s"):rep(200), unpack({}, 1, 200))"#,
        r#"return string.format(("%s"):rep(20), string.rep("x",4e6),string.rep("x",4e6),string.rep("x",4e6),string.rep("x",4e6),string.rep("x",4e6),string.rep("x",4e6),string.rep("x",4e6),string.rep("x",4e6),string.rep("x",4e6),string.rep("x",4e6),string.rep("x",4e6),string.rep("x",4e6),string.rep("x",4e6),string.rep("x",4e6),string.rep("x",4e6),string.rep("x",4e6),string.rep("x",4e6),string.rep("x",4e6),string.rep("x",4e6),string.rep("x",4e6))"#,
        r##"local t = {} for i=1,1000 do t[i] = ("x"):rep(1e6) end return #table.concat(t)"##,
        r##"local s = ("x"):rep(1e6) local t = {} for i=1,1000 do t[i] = s end return #table.concat(t)"##,
        r#"return table.concat({}, "x", 1, 2147483647)"#,
        r#"return table.concat({}, "x", -2147483648, -1)"#,
        r"table.insert({}, -2147483648, 1)",
        r"table.insert({}, 2147483647, 1)",
        r"table.insert({}, 0/0, 1)",
        r"local t = {} for i=1,2000 do t[i]=i end table.insert(t, -2147483648, 1) return #t",
        r"return table.remove({}, -2147483648)",
        r"return table.maxn({[1e308]=1})",
        r"local t = {} for i=1,200000 do t[i] = i % 7 end table.sort(t, function(a,b) return true end)",
        r"local t = {} for i=1,100000 do t[i] = i % 7 end table.sort(t, function(a,b) return nil end) return #t",
        r"local t = {3,1,2} table.sort(t, function(a,b) t[1] = nil t[2] = nil return true end)",
        r"local t = {3,1,2,5,4} table.sort(t, function(a,b) coroutine.yield() end)",
        r"local t = {} for i=1,50 do t[i] = {} end table.sort(t, function(a, b) for i = 1, 100 do t[i] = nil end return a ~= nil end)",
        r"return loadstring(string.dump(function() end))",
        r#"return loadstring("\27Lua")"#,
        r#"return loadstring("\27LuaQ\0\1\4\8\4\8\0")"#,
        r#"return load(function() return "\27" end)"#,
        r#"local n = 0 return load(function() n = n + 1 if n == 1 then return "\27Lua" end end)"#,
        r#"local a, b = loadstring(("("):rep(100000) .. "1" .. (")"):rep(100000)) return b"#,
        r#"local a, b = loadstring("return " .. ("{"):rep(100000) .. ("}"):rep(100000)) return b"#,
        r#"local a, b = loadstring(("do "):rep(100000) .. ("end "):rep(100000)) return b"#,
        r#"local a, b = loadstring("return " .. ("function() return "):rep(10000) .. ("end "):rep(10000)) return b"#,
        r#"local a, b = loadstring("return " .. ("not "):rep(100000) .. "1") return b"#,
        r#"local a, b = loadstring("return " .. ("-"):rep(100) .. "1") return b"#,
        r#"local a, b = loadstring("return " .. ("1^"):rep(100000) .. "1") return b"#,
        r#"local a, b = loadstring("return " .. ("'a'.."):rep(100000) .. "1") return b"#,
        r#"local a, b = loadstring("return " .. ("a."):rep(100000) .. "a") return b"#,
        r#"local a, b = loadstring("return a" .. ("()"):rep(100000)) return b"#,
        r#"local a, b = loadstring("return a" .. ("[1"):rep(100000) .. ("]"):rep(100000)) return b"#,
        r#"local s = {} for i = 1, 250 do s[i] = "local a" .. i end local a, b = loadstring(table.concat(s, "\n")) return b"#,
        r#"local s = {} for i = 1, 300 do s[i] = "a" .. i end local a, b = loadstring("return function(" .. table.concat(s, ",") .. ") end") return b"#,
        r#"local s = {} for i = 1, 200 do s[i] = "a" .. i end local f = loadstring("return function(" .. table.concat(s, ",") .. ", ...) return a200 end")() local r = f() return tostring(r)"#,
        r#"local a = "local x = 0 " .. ("x = x + 1 "):rep(100000) .. "return x" local f, e = loadstring(a) return f and f() or e"#,
        r#"for i = 1, 200 do loadstring(("local a%d = %d "):format(i, i):rep(100), ("n"):rep(1000) .. i) end return 1"#,
        r#"for i = 1, 500 do local f, e = loadstring("x" .. ("y"):rep(i * 50) .. " (", ("chunk" .. i):rep(100)) end return 1"#,
        r"local function f() return coroutine.wrap(f)() end f()",
        r"local function f(n) local co = coroutine.create(f) return coroutine.resume(co, n + 1) end return f(0)",
        r"local function f(n) if n > 150 then return coroutine.wrap(function() return f(0) end)() end local t = setmetatable({}, {__index = function() return f(n + 1) end}) return t.x end return f(0)",
        r#"local function f(n) if n > 55 then return coroutine.wrap(function() return f(0) end)() end return (string.gsub("a", "a", function() return f(n + 1) end)) end return f(0)"#,
        r"local function f(n) if n > 180 then return coroutine.wrap(function() return f(0) end)() end return pcall(function() return f(n + 1) end) end return f(0)",
        r"local function f(n) if n > 90 then return coroutine.wrap(function() return f(0) end)() end local t = {2,1} table.foreach(t, function() f(n + 1) end) end return f(0)",
        r"local co co = coroutine.wrap(function() co() end) co()",
        r"local function f() return f() + 1 end return f()",
        r"local function f() return pcall(f) end return f()",
        r"local function f() error(setmetatable({}, {__tostring = f})) end f()",
        r"local t = setmetatable({}, {}) getmetatable(t).__index = t return t.x",
        r"local t = setmetatable({}, {}) getmetatable(t).__newindex = t t.x = 1",
        r"local t = setmetatable({}, {}) getmetatable(t).__call = t t()",
        r"local t = setmetatable({}, {__tostring = function() return nil end}) return tostring(t)",
        r"local t = setmetatable({}, {__tostring = 5}) return tostring(t)",
        r"local t = setmetatable({}, {__concat = function(a, b) return a .. b end}) return t .. t",
        r"local t = setmetatable({}, {__eq = function(a, b) return a == b end}) return t == setmetatable({}, getmetatable(t))",
        r"local t = setmetatable({}, {__lt = function(a, b) return a < b end}) return t < t",
        r"local t = {} t[1] = t return t",
        r"local t = {} t.map = {a = t} return t",
        r"local t = {} t.set = {[t] = 1} return t",
        r"local t = {} for i = 1, 100000 do t = {t} end return t",
        r"local t = {} local l = t for i = 1, 30 do l[1] = {} l[2] = l[1] l = l[1] end return 1",
        r#"for i = 1, 20000 do pcall(redis.call, "nosuch") end return 1"#,
        r"for i = 1, 20000 do pcall(error, {}) end return 1",
        r##"local t = {} for i = 1, 20000 do t[i] = redis.pcall("nosuch") end return #t"##,
        r"local t = {} for i = 1, 20000 do t[i] = coroutine.create(function() end) end return #t",
        r#"for i = 1, 20000 do pcall(string.find, "a", "[") end return 1"#,
        r"return redis.call(unpack({}, 1, 5000))",
        r#"local t = {"echo"} for i = 2, 6000 do t[i] = "x" end return redis.call(unpack(t))"#,
        r#"return string.byte(("x"):rep(100000), 1, -1)"#,
        r"return string.char(unpack({}, 1, 5000))",
        r"return #string.char(256)",
        r"return math.random(0, 2^53)",
        r"return math.floor(0/0)",
        r#"return string.sub("abc", -2^53, 2^53)"#,
        r#"return string.sub("abc", 0/0, 1/0)"#,
        r#"return ("x"):find("x", 2^53)"#,
        r#"return ("x"):find("x", -2^53)"#,
        r#"return ("x"):byte(-2^53, 2^53)"#,
        r"return tostring(2^1023 * 2)",
        r#"return tonumber(("9"):rep(100000))"#,
        r#"return tonumber("1", 1)"#,
        r#"return tonumber("1", 37)"#,
        r#"return tonumber(("z"):rep(100000), 36)"#,
        r#"return collectgarbage("setpause", -2147483648)"#,
        r#"return collectgarbage("step", 2147483647)"#,
        r"setmetatable(_G, nil)",
        r"getmetatable(_G).__index = nil",
        r"getmetatable(_G).__newindex = nil",
        r#"rawset(_G, "x", 1)"#,
        r#"rawset(string, "x", 1)"#,
        r#"rawset(getmetatable(""), "__index", nil)"#,
        r#"getmetatable("").__index = function() return 1 end"#,
        r#"getmetatable("").__add = function() return 1 end"#,
        r"string.format = nil",
        r"redis.call = nil",
        r"table.insert(string, 1)",
        r#"setmetatable(getmetatable(""), {})"#,
        r#"for k, v in pairs(_G) do if type(v) == "table" and v ~= KEYS and v ~= ARGV then local ok = pcall(function() v.zzz = 1 end) if ok then return k end end end return "locked""#,
        r##"local seen, bad = {}, {} local function walk(t, path) if seen[t] then return end seen[t] = true for k, v in pairs(t) do if type(v) == "table" then if v ~= KEYS and v ~= ARGV and pcall(rawset, v, "zzz", 1) then bad[#bad+1] = path .. tostring(k) end walk(v, path .. tostring(k) .. ".") end end local m = getmetatable(t) if m then walk(m, path .. "mt.") end end walk(_G, "") walk(getmetatable(""), "smt.") return bad"##,
        r#"KEYS.x = 1 setmetatable(KEYS, {__index = function() return "evil" end}) return KEYS[9]"#,
        r"return {KEYS[9], KEYS.x, #KEYS}",
        r"ARGV[1] = nil ARGV[10] = 5 return 1",
        r"return {ARGV[1], ARGV[10]}",
    ];

    const CHILD: &str = "REDOUBLE_ATTACKS";

    /// Runs in a child process, with the stack of an ordinary thread.
    #[test]
    fn attacks() {
        if std::env::var_os(CHILD).is_none() {
            return;
        }
        let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(|| {
            for body in ATTACKS {
                eprintln!("attack: {body}");
                let mut vm = machine();
                eval(&mut vm, body, &mut 0);
                if vm.is_usable() {
                    let answer = eval(
                        &mut vm,
                        "return {KEYS[1], ('x'):rep(3), #string.format('%5d', 1)}",
                        &mut 0,
                    );
                    assert_eq!(
                        answer, "*3\\r\\n$2\\r\\nk1\\r\\n$3\\r\\nxxx\\r\\n:5\\r\\n",
                        "after {body}"
                    );
                }
            }
        });
        thread.expect("a thread").join().expect("no panic");
    }

    #[test]
    fn attacks_leave_the_process_alive() {
        let name = format!(
            "{}::attacks",
            module_path!().split_once("::").expect("a crate").1
        );
        let child = std::process::Command::new(std::env::current_exe().expect("a path"))
            .args(["--exact", &name, "--nocapture"])
            .env(CHILD, "1")
            .output()
            .expect("the child runs");
        let errors = String::from_utf8_lossy(&child.stderr);
        let last = errors.lines().rev().take(5).collect::<Vec<_>>().join("\n");
        assert!(child.status.success(), "{} at:\n{last}", child.status);
        let begun = errors
            .lines()
            .filter(|line| line.starts_with("attack: "))
            .count();
        assert_eq!(begun, ATTACKS.len(), "{last}");
    }

    #[test]
    fn a_stop_cannot_be_swallowed() {
        for body in [
            "while true do end",
            "while true do pcall(function() while true do end end) end",
            "while true do xpcall(function() while true do end end, function() while true do end end) end",
            "coroutine.wrap(function() while true do end end)()",
            "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
            "while true do coroutine.wrap(function() for i = 1, 9000 do end end)() end",
            "local f f = function() return pcall(f) and f() end while true do f() end",
            "while true do string.gsub('aaa', 'a', function() pcall(function() while true do end end) end) end",
            "table.sort({1, 2, 3}, function() while true do end end)",
            "return setmetatable({}, {__index = function() while true do end end}).x",
            "return string.find(('a'):rep(40), ('a?'):rep(40) .. ('a'):rep(41))",
            "return load(function() return 'x' end)",
            "while true do local s = ('x'):rep(1e6):upper() end",
        ] {
            check(body, "stopped");
        }
    }

    #[test]
    fn memory_is_bounded_and_the_machine_goes_on() {
        let mut vm = machine();
        for body in [
            "local s = 'x' while true do s = s .. s end",
            "local t = {} while true do t[#t + 1] = ('x'):rep(1e6) .. #t end",
            "return ('x'):rep(1e9)",
            "local s = ('x'):rep(1e6) local t = {} for i = 1, 1000 do t[i] = s end return table.concat(t)",
            "return (string.gsub(('x'):rep(1e6), 'x', ('y'):rep(1000)))",
            "local ok, e = pcall(string.rep, 'x', 1e9) error(e, 0)",
        ] {
            let answer = eval(&mut vm, body, &mut 0);
            assert!(answer.contains("not enough memory"), "{body}: {answer}");
            assert!(vm.is_usable(), "after {body}");
            assert_eq!(
                eval(&mut vm, "return ('x'):rep(5)", &mut 0),
                "$5\\r\\nxxxxx\\r\\n"
            );
        }
    }
}
