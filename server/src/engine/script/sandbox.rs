//! The native half of a script's world: `redis`, matching, random numbers, errors with a line.
//!
//! The other half is `prelude.lua`. A native function that fails leaves an error *value* in the
//! slot and raises a token; whoever catches the token (`pcall`, `xpcall`, `coroutine.resume` and the
//! end of the run, all ours) exchanges it for the value. After a stop the exchange raises again, so
//! nothing in a script can swallow it. Knows no command.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the enums are those of mlua, and most kinds are all the same here"
)]

use super::convert::{self, error_table, push_argument, to_lua};
use super::pattern::{self, Capture, Matcher, PatternError, find_plain, is_plain};
use super::vm::{Host, MemoryLimit, Tick};
use crate::resp::{OwnedRequest, Reply};
use mlua::{BString, Either, Error, FromLua, Lua, LuaString, MultiValue, Table, Value};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Instructions between two calls of the hook.
pub(crate) const INSTRUCTIONS_PER_TICK: u32 = 10_000;
/// What `tostring` shows of the n-th table, function or thread: an address, but the same each time.
const ADDRESS_BASE: u64 = 0x7f00_0000_0000;
/// `rand.c`: the generator's state before its first use. Redis 7.0 does not reseed it between scripts.
pub(crate) const RANDOM_START: u64 = 0x1234_abcd_330e;
/// What the prelude calls the function under `pcall`; in the original it has no name.
const PROTECTED_NAME: &str = "f";
/// Redis's version that scripts see.
const REDIS_VERSION: &str = "7.0.15";
const REDIS_VERSION_NUM: i64 = 0x0007_000f;

/// What native functions share with the engine while a script runs.
pub(crate) struct Slot<H> {
    pub(crate) host: Option<H>,
    pub(crate) request: OwnedRequest,
    pub(crate) resp3: bool,
    pub(crate) stopped: bool,
    /// The line at which the hook stopped it.
    pub(crate) stopped_at: Option<usize>,
    /// The running script has a single line, so that a lost line is known to be the first.
    pub(crate) one_line: bool,
    random: u64,
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
            pending: None,
            uncounted: 0,
            memory_bytes_max,
        }
    }

    /// Everything a run may have changed, as it is before the first.
    pub(crate) fn begin(&mut self, host: H, one_line: bool) {
        self.host = Some(host);
        self.resp3 = false;
        self.stopped = false;
        self.one_line = one_line;
        self.random = RANDOM_START;
        self.pending = None;
        self.uncounted = 0;
    }

    /// The state of the random generator: the node's, or one that starts anew with each run.
    fn random_state(&mut self) -> &mut u64 {
        self.host
            .as_mut()
            .and_then(Host::random_state)
            .unwrap_or(&mut self.random)
    }

    /// Counts work done outside the virtual machine. False once the script has to stop.
    pub(crate) fn charge(&mut self, amount: u64) -> bool {
        self.uncounted = self.uncounted.saturating_add(amount);
        if self.uncounted < u64::from(INSTRUCTIONS_PER_TICK) {
            return !self.stopped;
        }
        let amount = std::mem::take(&mut self.uncounted);
        self.tick(amount)
    }

    /// Asks the host. False once the script has to stop.
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

pub(crate) type Shared<H> = Arc<Mutex<Slot<H>>>;

pub(crate) fn lock<H>(slot: &Mutex<Slot<H>>) -> MutexGuard<'_, Slot<H>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a native function raises; the value itself waits in the slot.
#[derive(Debug)]
struct Token;

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a script error")
    }
}

impl std::error::Error for Token {}

pub(crate) fn token() -> Error {
    Error::external(Token)
}

/// Raises `value` as the error.
fn raise<H>(slot: &Mutex<Slot<H>>, value: Value) -> Error {
    lock(slot).pending = Some(value);
    token()
}

/// Raises `message` with the line of the script that called.
fn raise_here<H>(lua: &Lua, slot: &Mutex<Slot<H>>, message: &str) -> Error {
    let text = format!("{}{message}", place(lua, slot));
    match lua.create_string(text) {
        Ok(text) => raise(slot, Value::String(text)),
        Err(problem) => problem,
    }
}

/// Raises the error of a `redis` function: a table, its place being added where it is caught.
fn raise_reply<H>(lua: &Lua, slot: &Mutex<Slot<H>>, message: &str) -> Error {
    match error_table(lua, message, false) {
        Ok(table) => raise(slot, Value::Table(table)),
        Err(problem) => problem,
    }
}

/// One frame of the Lua stack.
struct Frame {
    source: String,
    short_source: String,
    is_c: bool,
    is_tail: bool,
    line: Option<usize>,
}

impl Frame {
    fn at(lua: &Lua, level: usize) -> Option<Self> {
        lua.inspect_stack(level, |debug| {
            let source = debug.source();
            Self {
                is_c: source.what == "C",
                is_tail: source.what == "tail",
                source: source
                    .source
                    .map(|text| text.into_owned())
                    .unwrap_or_default(),
                short_source: source
                    .short_src
                    .map(|text| text.into_owned())
                    .unwrap_or_default(),
                line: debug.current_line(),
            }
        })
    }

    fn is_prelude(&self) -> bool {
        self.source == super::vm::PRELUDE_NAME
    }
}

/// The frame of the script that called, from `level` on, seen through the prelude.
///
/// A prelude function that was called in tail position has replaced its caller's frame, and the
/// caller's line is lost; only in a script of one line it is known all the same.
fn caller<H>(lua: &Lua, slot: &Mutex<Slot<H>>, mut level: usize) -> Option<Frame> {
    let mut inside = false;
    let mut replaced = false;
    loop {
        let frame = Frame::at(lua, level)?;
        level += 1;
        if frame.is_prelude() {
            inside = true;
        } else if inside && frame.is_tail {
            replaced = true;
        } else if replaced && frame.is_c && lock(slot).one_line {
            return Some(Frame {
                source: super::vm::SCRIPT_NAME.into(),
                short_source: super::vm::SCRIPT_NAME[1..].into(),
                is_c: false,
                is_tail: false,
                line: Some(1),
            });
        } else {
            return Some(frame);
        }
    }
}

/// `lauxlib.c: luaL_where` for the function that called ours.
fn place<H>(lua: &Lua, slot: &Mutex<Slot<H>>) -> String {
    let line = caller(lua, slot, 1).and_then(|frame| Some((frame.line?, frame.short_source)));
    line.map(|(line, source)| format!("{source}:{line}: "))
        .unwrap_or_default()
}

/// The values of a call, with Lua's words for what is wrong with them.
struct Args<'a, H> {
    lua: &'a Lua,
    slot: &'a Mutex<Slot<H>>,
    name: &'static str,
    values: MultiValue,
}

impl<'a, H> Args<'a, H> {
    fn new(lua: &'a Lua, slot: &'a Mutex<Slot<H>>, name: &'static str, values: MultiValue) -> Self {
        Self {
            lua,
            slot,
            name,
            values,
        }
    }

    /// `lauxlib.c: luaL_argerror`: a method does not count its subject, and a function that C calls has no name.
    fn wrong(&self, index: usize, what: &str) -> Error {
        let by_prelude = Frame::at(self.lua, 1).is_some_and(|frame| frame.is_prelude());
        let names = self.lua.inspect_stack(0, |debug| {
            let names = debug.names();
            (
                names.name.map(|name| name.into_owned()),
                names.name_what == Some("method"),
            )
        });
        let (name, is_method) = match names {
            Some((Some(name), is_method)) if !by_prelude => (name, is_method),
            Some((Some(name), _)) if name != PROTECTED_NAME => (self.name.to_owned(), false),
            _ => ("?".to_owned(), false),
        };
        let message = match index + 1 - usize::from(is_method) {
            0 => format!("calling '{name}' on bad self ({what})"),
            number => format!("bad argument #{number} to '{name}' ({what})"),
        };
        raise_here(self.lua, self.slot, &message)
    }

    fn mistyped(&self, index: usize, wanted: &str) -> Error {
        let found = self.values.get(index).map_or("no value", type_name);
        self.wrong(index, &format!("{wanted} expected, got {found}"))
    }

    fn text(&self, index: usize) -> mlua::Result<LuaString> {
        match self.values.get(index) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(value @ (Value::Integer(_) | Value::Number(_))) => self
                .lua
                .coerce_string(value.clone())?
                .ok_or_else(|| self.mistyped(index, "string")),
            _ => Err(self.mistyped(index, "string")),
        }
    }

    fn number(&self, index: usize) -> mlua::Result<f64> {
        match self.values.get(index) {
            Some(Value::Integer(number)) => Ok(*number as f64),
            Some(Value::Number(number)) => Ok(*number),
            Some(value @ Value::String(_)) => self
                .lua
                .coerce_number(value.clone())?
                .ok_or_else(|| self.mistyped(index, "number")),
            _ => Err(self.mistyped(index, "number")),
        }
    }

    fn integer(&self, index: usize) -> mlua::Result<i64> {
        self.number(index).map(convert::truncate)
    }

    fn integer_or(&self, index: usize, default: i64) -> mlua::Result<i64> {
        match self.values.get(index) {
            None | Some(Value::Nil) => Ok(default),
            Some(_) => self.integer(index),
        }
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Nil => "nil",
        Value::Boolean(_) => "boolean",
        Value::Integer(_) | Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Table(_) => "table",
        Value::Function(_) => "function",
        Value::Thread(_) => "thread",
        _ => "userdata",
    }
}

/// A value as part of an error text; what has an address is named by its type alone.
fn describe(lua: &Lua, value: Value) -> mlua::Result<LuaString> {
    match value {
        Value::Nil => lua.create_string("nil"),
        Value::Boolean(value) => lua.create_string(if value { "true" } else { "false" }),
        Value::Error(problem) => lua.create_string(problem_text(&problem)),
        other => {
            let name = type_name(&other);
            match lua.coerce_string(other)? {
                Some(text) => Ok(text),
                None => lua.create_string(name),
            }
        }
    }
}

/// The words of an error that is mlua's own.
pub(crate) fn problem_text(problem: &Error) -> String {
    match problem {
        Error::CallbackError { cause, .. } => problem_text(cause),
        Error::MemoryError(_) => "not enough memory".into(),
        Error::RuntimeError(text) => text.lines().next().unwrap_or_default().into(),
        other => other.to_string(),
    }
}

/// Everything that `prelude.lua` is given.
pub(crate) fn natives<H: Host>(lua: &Lua, slot: &Shared<H>) -> mlua::Result<Table> {
    let natives = lua.create_table()?;
    errors(lua, slot, &natives)?;
    texts(lua, slot, &natives)?;
    randoms(lua, slot, &natives)?;
    natives.raw_set("redis", redis(lua, slot)?)?;
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

fn errors<H: Host>(lua: &Lua, slot: &Shared<H>, natives: &Table) -> mlua::Result<()> {
    let shared = Arc::clone(slot);
    let deny = move |lua: &Lua, _: ()| -> mlua::Result<()> {
        Err(raise_here(
            lua,
            &shared,
            "Attempt to modify a readonly table",
        ))
    };
    natives.raw_set("deny", lua.create_function(deny)?)?;

    let shared = Arc::clone(slot);
    let missing = move |lua: &Lua, (_, name): (Value, Value)| -> mlua::Result<()> {
        let name = describe(lua, name)?.to_string_lossy();
        let message = format!("Script attempted to access nonexistent global variable '{name}'");
        Err(raise_here(lua, &shared, &message))
    };
    natives.raw_set("missing", lua.create_function(missing)?)?;

    // fail(message): with the script's line; fail(message, name): as the C function of that name;
    // fail(message, false): without a line.
    let shared = Arc::clone(slot);
    let fail = move |lua: &Lua, (message, name): (Value, Value)| -> mlua::Result<()> {
        if let Value::Error(problem) = &message
            && is_token(problem)
        {
            return Err(token());
        }
        let message = describe(lua, message)?.to_string_lossy();
        let message = match &name {
            Value::String(name) => message.replace("'?'", &format!("'{}'", name.to_string_lossy())),
            _ => message,
        };
        // What the core of Lua raises has no line when a C function was running.
        let is_core = matches!(&name, Value::String(name) if [&b"next"[..], b"rawset", b"tostring"].contains(&&*name.as_bytes()))
            && !message.starts_with("bad argument");
        if is_core || name == Value::Boolean(false) || message == "not enough memory" {
            return Err(raise(&shared, Value::String(lua.create_string(message)?)));
        }
        Err(raise_here(lua, &shared, &message))
    };
    natives.raw_set("fail", lua.create_function(fail)?)?;

    let shared = Arc::clone(slot);
    let caught = move |lua: &Lua, value: Value| -> mlua::Result<Value> {
        if lock(&shared).stopped {
            Err(token())
        } else {
            exchange(lua, &shared, value)
        }
    };
    let caught = lua.create_function(caught)?;
    natives.raw_set("caught", caught)?;

    // As `caught`, for the end of the run, which is not to raise.
    let shared = Arc::clone(slot);
    let pending = move |lua: &Lua, value: Value| exchange(lua, &shared, value);
    natives.raw_set("pending", lua.create_function(pending)?)?;
    natives.raw_set("describe", lua.create_function(describe)?)?;

    // Where an error came from, as `__redis__err__handler` finds it: the function that raised it,
    // or its caller if that is a C function. Our own frames count as part of the C function.
    let shared = Arc::clone(slot);
    let origin = move |lua: &Lua, _: ()| -> mlua::Result<(Option<String>, Option<i64>)> {
        let from = if Frame::at(lua, 2).is_some_and(|frame| frame.is_c) {
            3
        } else {
            2
        };
        Ok(match caller(lua, &shared, from) {
            Some(frame) => {
                let line = frame
                    .line
                    .and_then(|line| i64::try_from(line).ok())
                    .unwrap_or(-1);
                (Some(frame.source), Some(line))
            }
            None => (None, None),
        })
    };
    natives.raw_set("origin", lua.create_function(origin)?)?;

    let shared = Arc::clone(slot);
    let charge = move |_: &Lua, amount: f64| -> mlua::Result<()> {
        if lock(&shared).charge(amount as u64) {
            Ok(())
        } else {
            Err(token())
        }
    };
    natives.raw_set("charge", lua.create_function(charge)?)
}

/// The error value that a script may see for what was raised.
fn exchange<H>(lua: &Lua, slot: &Mutex<Slot<H>>, value: Value) -> mlua::Result<Value> {
    match value {
        Value::Error(problem) if is_token(&problem) => {
            Ok(lock(slot).pending.take().unwrap_or(Value::Nil))
        }
        Value::Error(problem) => lua.create_string(problem_text(&problem)).map(Value::String),
        Value::String(text) => match without_prelude(&text.as_bytes()) {
            Some(rest) => lua.create_string(rest).map(Value::String),
            None => Ok(Value::String(text)),
        },
        other => Ok(other),
    }
}

/// The text after a place in the prelude, where the original would name no place.
fn without_prelude(text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    let rest = text
        .strip_prefix(&super::vm::PRELUDE_NAME[1..])?
        .strip_prefix(':')?;
    let rest = rest
        .trim_start_matches(|digit: char| digit.is_ascii_digit())
        .strip_prefix(": ")?;
    Some(if rest.starts_with("bad argument #") {
        rest.replacen(&format!("to '{PROTECTED_NAME}' ("), "to '?' (", 1)
    } else {
        rest.to_owned()
    })
}

fn is_token(problem: &Error) -> bool {
    match problem {
        Error::CallbackError { cause, .. } => is_token(cause),
        Error::ExternalError(cause) => cause.is::<Token>(),
        _ => false,
    }
}

fn pattern_error<H>(lua: &Lua, slot: &Mutex<Slot<H>>, problem: PatternError) -> Error {
    match problem {
        PatternError::Malformed(text) => raise_here(lua, slot, text),
        PatternError::Stopped => token(),
    }
}

fn push_captures(
    lua: &Lua,
    subject: &[u8],
    matcher: &Matcher<'_, '_>,
    whole: (usize, usize),
    at_least: usize,
    out: &mut MultiValue,
) -> mlua::Result<Result<(), PatternError>> {
    for index in 0..matcher.captures().max(at_least) {
        match matcher.capture(index, whole) {
            Ok(Capture::Span(start, end)) => {
                out.push_back(Value::String(lua.create_string(&subject[start..end])?))
            }
            Ok(Capture::Position(at)) => out.push_back(Value::Integer(at as i64)),
            Err(problem) => return Ok(Err(problem)),
        }
    }
    Ok(Ok(()))
}

/// `string.find` and `string.match`.
fn find<H: Host>(
    lua: &Lua,
    slot: &Mutex<Slot<H>>,
    values: MultiValue,
    wants_place: bool,
) -> mlua::Result<MultiValue> {
    let args = Args::new(
        lua,
        slot,
        if wants_place { "find" } else { "match" },
        values,
    );
    let (subject, pattern) = (args.text(0)?, args.text(1)?);
    let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
    let len = subject.len() as i64;
    let mut init = args.integer_or(2, 1)?;
    if init < 0 {
        init = init.saturating_add(len + 1);
    }
    let start = (init.max(1) - 1).min(len) as usize;
    let is_set = args
        .values
        .get(3)
        .is_some_and(|value| !matches!(value, Value::Nil | Value::Boolean(false)));
    let mut meter = |amount| lock(slot).charge(amount);
    let mut out = MultiValue::new();
    if wants_place && (is_set || is_plain(&pattern)) {
        let found = find_plain(&subject[start..], &pattern, &mut meter);
        match found.map_err(|problem| pattern_error(lua, slot, problem))? {
            Some(at) => {
                out.push_back(Value::Integer((start + at + 1) as i64));
                out.push_back(Value::Integer((start + at + pattern.len()) as i64));
            }
            None => out.push_back(Value::Nil),
        }
        return Ok(out);
    }
    let anchored = pattern.first() == Some(&b'^');
    let mut matcher = Matcher::new(&subject, &pattern, &mut meter);
    let found = matcher.search(start, usize::from(anchored), anchored);
    match found.map_err(|problem| pattern_error(lua, slot, problem))? {
        Some(whole) => {
            if wants_place {
                out.push_back(Value::Integer(whole.0 as i64 + 1));
                out.push_back(Value::Integer(whole.1 as i64));
            }
            push_captures(
                lua,
                &subject,
                &matcher,
                whole,
                usize::from(!wants_place),
                &mut out,
            )?
            .map_err(|problem| pattern_error(lua, slot, problem))?;
        }
        None => out.push_back(Value::Nil),
    }
    Ok(out)
}

fn texts<H: Host>(lua: &Lua, slot: &Shared<H>, natives: &Table) -> mlua::Result<()> {
    let shared = Arc::clone(slot);
    natives.raw_set(
        "find",
        lua.create_function(move |lua, values: MultiValue| find(lua, &shared, values, true))?,
    )?;
    let shared = Arc::clone(slot);
    natives.raw_set(
        "match",
        lua.create_function(move |lua, values: MultiValue| find(lua, &shared, values, false))?,
    )?;

    // The next match at or after a place, with at least one capture; for gmatch, and gsub with a function.
    let shared = Arc::clone(slot);
    let find_from =
        move |lua: &Lua, (subject, pattern, from, anchors): (LuaString, LuaString, usize, bool)| {
            let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
            let mut out = MultiValue::new();
            if from > subject.len() + 1 {
                return Ok(out);
            }
            let anchored = anchors && pattern.first() == Some(&b'^');
            let mut meter = |amount| lock(&shared).charge(amount);
            let mut matcher = Matcher::new(&subject, &pattern, &mut meter);
            let found = matcher.search(from.saturating_sub(1), usize::from(anchored), anchored);
            if let Some(whole) = found.map_err(|problem| pattern_error(lua, &shared, problem))? {
                out.push_back(Value::Integer(whole.0 as i64 + 1));
                out.push_back(Value::Integer(whole.1 as i64));
                push_captures(lua, &subject, &matcher, whole, 1, &mut out)?
                    .map_err(|problem| pattern_error(lua, &shared, problem))?;
            }
            Ok(out)
        };
    natives.raw_set("find_from", lua.create_function(find_from)?)?;

    let shared = Arc::clone(slot);
    let replace = move |lua: &Lua, values: MultiValue| {
        let args = Args::new(lua, &shared, "gsub", values);
        let (subject, pattern) = (args.text(0)?, args.text(1)?);
        let replacement = match args.values.get(2) {
            Some(Value::String(_) | Value::Integer(_) | Value::Number(_)) => args.text(2)?,
            _ => return Err(args.wrong(2, "string/function/table expected")),
        };
        let count_max = args.integer_or(3, subject.as_bytes().len() as i64 + 1)?;
        let bytes_max = lock(&shared).memory_bytes_max;
        let replaced = pattern::replace(
            &subject.as_bytes(),
            &pattern.as_bytes(),
            &replacement.as_bytes(),
            usize::try_from(count_max).unwrap_or(0),
            bytes_max,
            &mut |amount| lock(&shared).charge(amount),
        );
        let (text, count) = replaced.map_err(|problem| pattern_error(lua, &shared, problem))?;
        Ok((lua.create_string(text)?, count))
    };
    natives.raw_set("replace", lua.create_function(replace)?)?;

    let shared = Arc::clone(slot);
    let check_text = move |lua: &Lua, (name, index, value): (String, usize, Value)| match value {
        Value::Integer(_) | Value::Number(_) => describe(lua, value),
        other => {
            let message = format!(
                "bad argument #{index} to '{name}' (string expected, got {})",
                type_name(&other)
            );
            Err(raise_here(lua, &shared, &message))
        }
    };
    natives.raw_set("check_text", lua.create_function(check_text)?)?;

    let shared = Arc::clone(slot);
    let rep = move |lua: &Lua, values: MultiValue| {
        let args = Args::new(lua, &shared, "rep", values);
        let text = args.text(0)?;
        let text = text.as_bytes();
        let count = usize::try_from(args.integer(1)?).unwrap_or(0);
        if text.is_empty() {
            return lua.create_string("");
        }
        let size = text.len().checked_mul(count);
        let bytes_max = lock(&shared).memory_bytes_max;
        let Some(size) = size.filter(|&size| size <= bytes_max) else {
            return Err(raise(
                &shared,
                Value::String(lua.create_string("not enough memory")?),
            ));
        };
        if !lock(&shared).charge(size as u64 / 64) {
            return Err(token());
        }
        lua.create_string(text.repeat(count))
    };
    natives.raw_set("rep", lua.create_function(rep)?)
}

/// The 48-bit generator of `rand.c`, which is `lrand48`.
fn seeded(seed: i32) -> u64 {
    (u64::from(seed.cast_unsigned()) << 16) | 0x330e
}

fn draw(state: &mut u64) -> f64 {
    const MAX: u64 = i32::MAX as u64;
    *state = state.wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & 0xffff_ffff_ffff;
    let bits = (*state >> 17) % MAX;
    bits as f64 / MAX as f64
}

fn randoms<H: Host>(lua: &Lua, slot: &Shared<H>, natives: &Table) -> mlua::Result<()> {
    let shared = Arc::clone(slot);
    let random = move |lua: &Lua, values: MultiValue| {
        let unit = draw(lock(&shared).random_state());
        let args = Args::new(lua, &shared, "random", values);
        let (low, high) = match args.values.len() {
            0 => return Ok(unit),
            1 => (1, args.integer(0)? as i32),
            2 => (args.integer(0)? as i32, args.integer(1)? as i32),
            _ => return Err(raise_here(lua, &shared, "wrong number of arguments")),
        };
        if low > high {
            return Err(args.wrong(args.values.len() - 1, "interval is empty"));
        }
        let span = if args.values.len() == 1 {
            high
        } else {
            high.wrapping_sub(low).wrapping_add(1)
        };
        Ok((unit * f64::from(span)).floor() + f64::from(low))
    };
    natives.raw_set("random", lua.create_function(random)?)?;

    let shared = Arc::clone(slot);
    let randomseed = move |lua: &Lua, values: MultiValue| {
        let seed = Args::new(lua, &shared, "randomseed", values).integer(0)?;
        *lock(&shared).random_state() = seeded(seed as i32);
        Ok(())
    };
    natives.raw_set("randomseed", lua.create_function(randomseed)?)
}

const MISTYPED: &str = "ERR Lua redis lib command arguments must be strings or integers";

/// How a reply is to be shown to the script.
#[derive(Clone, Copy, PartialEq)]
enum Shown {
    Resp2,
    Resp3,
    /// An error that no command has counted.
    Uncounted,
}

/// The first arguments of a call, without a list on the heap; the others in one. The name of the
/// command is copied from the stack; the others keep their type, which decides how numbers are written.
type CallArgs = (Either<BString, Value>, Arg, Arg, Arg, Arg, Arg, MultiValue);

/// A reply on its way to a script: an integer, a text, or anything else.
type Shape = Either<i64, Either<String, Value>>;

/// An argument, or none: mlua converts what is missing by `from_lua_arg`, what is there by `from_stack`.
enum Arg {
    Missing,
    Given(Value),
}

impl FromLua for Arg {
    fn from_lua(value: Value, _: &Lua) -> mlua::Result<Self> {
        Ok(Self::Given(value))
    }

    fn from_lua_arg(_: Value, _: usize, _: Option<&str>, _: &Lua) -> mlua::Result<Self> {
        Ok(Self::Missing)
    }
}

/// Runs a command for `redis.call` or `redis.pcall`.
fn invoke<H: Host>(shared: &Mutex<Slot<H>>, args: &CallArgs) -> (Reply, Shown) {
    let mut guard = lock(shared);
    let slot = &mut *guard;
    slot.request.clear();
    let (name, a, b, c, d, e, rest) = args;
    match name {
        Either::Left(name) => slot.request.push(name),
        Either::Right(Value::Nil) if matches!(a, Arg::Missing) => {
            let text = "ERR Please specify at least one argument for this redis lib call";
            return (Reply::error(text), Shown::Uncounted);
        }
        Either::Right(_) => return (Reply::error(MISTYPED), Shown::Uncounted),
    }
    let first = [a, b, c, d, e].into_iter().map_while(|arg| match arg {
        Arg::Missing => None,
        Arg::Given(value) => Some(value),
    });
    if !first
        .chain(rest)
        .all(|value| push_argument(value, &mut slot.request))
    {
        return (Reply::error(MISTYPED), Shown::Uncounted);
    }
    let (Some(request), Some(host)) = (slot.request.as_request(), &mut slot.host) else {
        let text = "ERR redis.call/pcall can only be called inside a script invocation";
        return (Reply::error(text), Shown::Uncounted);
    };
    (
        host.call(request),
        if slot.resp3 {
            Shown::Resp3
        } else {
            Shown::Resp2
        },
    )
}

fn redis<H: Host>(lua: &Lua, slot: &Shared<H>) -> mlua::Result<Table> {
    let redis = lua.create_table()?;
    redis.raw_set("REDIS_VERSION", REDIS_VERSION)?;
    redis.raw_set("REDIS_VERSION_NUM", REDIS_VERSION_NUM)?;
    for (name, value) in [
        ("LOG_DEBUG", 0),
        ("LOG_VERBOSE", 1),
        ("LOG_NOTICE", 2),
        ("LOG_WARNING", 3),
        ("REPL_NONE", 0),
        ("REPL_AOF", 1),
        ("REPL_SLAVE", 2),
        ("REPL_REPLICA", 2),
        ("REPL_ALL", 3),
    ] {
        redis.raw_set(name, value)?;
    }
    let bytes_max = lock(slot).memory_bytes_max;
    for (name, raises) in [("call", true), ("pcall", false)] {
        let shared = Arc::clone(slot);
        let call = move |lua: &Lua, args: CallArgs| -> mlua::Result<(Shape, MemoryLimit)> {
            let (reply, shown) = invoke(&shared, &args);
            let limit = MemoryLimit(bytes_max);
            if let Reply::Int(value) = reply {
                return Ok((Either::Left(value), limit));
            }
            lua.set_memory_limit(0)?;
            if let Reply::Bulk(bytes) = &reply
                && let Ok(text) = std::str::from_utf8(bytes)
            {
                return Ok((Either::Right(Either::Left(text.to_owned())), limit));
            }
            let value = match &reply {
                Reply::Error(error) if shown == Shown::Uncounted => {
                    error_table(lua, error.as_bytes(), false).map(Value::Table)
                }
                other => to_lua(lua, other, shown == Shown::Resp3),
            };
            if value.is_err() || (raises && reply.is_error()) {
                lua.set_memory_limit(bytes_max)?;
                return Err(raise(&shared, value?));
            }
            Ok((Either::Right(Either::Right(value?)), limit))
        };
        redis.raw_set(name, lua.create_function(call)?)?;
    }
    for (name, field) in [("error_reply", "err"), ("status_reply", "ok")] {
        let reply = move |lua: &Lua, values: MultiValue| -> mlua::Result<Table> {
            let (1, Some(Value::String(text))) = (values.len(), values.front()) else {
                return error_table(lua, "ERR wrong number or type of arguments", false);
            };
            if field == "err" {
                let bytes = text.as_bytes();
                return error_table(lua, bytes.strip_prefix(b"-").unwrap_or(&bytes), false);
            }
            let table = lua.create_table_with_capacity(0, 1)?;
            table.raw_set(field, text)?;
            Ok(table)
        };
        redis.raw_set(name, lua.create_function(reply)?)?;
    }
    redis_tools(lua, slot, &redis)?;
    Ok(redis)
}

/// The functions of `redis` that run no command.
fn redis_tools<H: Host>(lua: &Lua, slot: &Shared<H>, redis: &Table) -> mlua::Result<()> {
    let shared = Arc::clone(slot);
    let sha1hex = move |lua: &Lua, values: MultiValue| {
        let (1, Some(value)) = (values.len(), values.front()) else {
            return Err(raise_reply(lua, &shared, "ERR wrong number of arguments"));
        };
        let text = lua.coerce_string(value.clone())?;
        let digest = match text {
            Some(text) => sha1_smol::Sha1::from(&*text.as_bytes()),
            None => sha1_smol::Sha1::new(),
        };
        Ok(digest.digest().to_string())
    };
    redis.raw_set("sha1hex", lua.create_function(sha1hex)?)?;

    let shared = Arc::clone(slot);
    let log = move |lua: &Lua, values: MultiValue| {
        if values.len() < 2 {
            return Err(raise_reply(
                lua,
                &shared,
                "ERR redis.log() requires two arguments or more.",
            ));
        }
        let mut values = values.into_iter();
        let level = values
            .next()
            .map_or(Ok(None), |level| lua.coerce_number(level))?;
        let Some(level) = level.map(convert::truncate) else {
            return Err(raise_reply(
                lua,
                &shared,
                "ERR First argument must be a number (log level).",
            ));
        };
        if !(0..=3).contains(&level) {
            return Err(raise_reply(lua, &shared, "ERR Invalid debug level."));
        }
        let mut line = Vec::new();
        for (index, value) in values.enumerate() {
            if let Some(text) = lua.coerce_string(value)? {
                if index > 0 {
                    line.push(b' ');
                }
                line.extend_from_slice(&text.as_bytes());
            }
        }
        if let Some(host) = &mut lock(&shared).host {
            host.log(level, &line);
        }
        Ok(())
    };
    redis.raw_set("log", lua.create_function(log)?)?;

    let shared = Arc::clone(slot);
    let setresp = move |lua: &Lua, values: MultiValue| {
        if values.len() != 1 {
            return Err(raise_reply(
                lua,
                &shared,
                "ERR redis.setresp() requires one argument.",
            ));
        }
        let number = values
            .front()
            .map_or(Ok(None), |value| lua.coerce_number(value.clone()))?;
        match number.map(convert::truncate) {
            Some(version @ (2 | 3)) => lock(&shared).resp3 = version == 3,
            _ => {
                return Err(raise_reply(
                    lua,
                    &shared,
                    "ERR RESP version must be 2 or 3.",
                ));
            }
        }
        Ok(())
    };
    redis.raw_set("setresp", lua.create_function(setresp)?)?;

    let shared = Arc::clone(slot);
    let set_repl = move |lua: &Lua, values: MultiValue| {
        if values.len() != 1 {
            return Err(raise_reply(
                lua,
                &shared,
                "ERR redis.set_repl() requires two arguments.",
            ));
        }
        let flags = values
            .front()
            .map_or(Ok(None), |value| lua.coerce_number(value.clone()))?;
        let flags = flags.map_or(0, convert::truncate);
        if flags & !3 != 0 {
            let text =
                "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.";
            return Err(raise_reply(lua, &shared, text));
        }
        if let Some(host) = &mut lock(&shared).host {
            host.set_repl(flags);
        }
        Ok(())
    };
    redis.raw_set("set_repl", lua.create_function(set_repl)?)?;
    redis.raw_set(
        "replicate_commands",
        lua.create_function(|_, _: ()| Ok(true))?,
    )?;
    redis.raw_set("breakpoint", lua.create_function(|_, _: ()| Ok(false))?)?;
    redis.raw_set("debug", lua.create_function(|_, _: ()| Ok(()))?)?;

    let shared = Arc::clone(slot);
    let acl_check = move |lua: &Lua, values: MultiValue| {
        let mut request = OwnedRequest::default();
        if values.is_empty() {
            let text = "ERR Please specify at least one argument for this redis lib call";
            return Err(raise_reply(lua, &shared, text));
        }
        if !values
            .iter()
            .all(|value| push_argument(value, &mut request))
        {
            return Err(raise_reply(lua, &shared, MISTYPED));
        }
        let allowed = match (request.as_request(), &mut lock(&shared).host) {
            (Some(request), Some(host)) => host.acl_check(request),
            _ => None,
        };
        allowed.ok_or_else(|| {
            raise_reply(
                lua,
                &shared,
                "ERR Invalid command passed to redis.acl_check_cmd()",
            )
        })
    };
    redis.raw_set("acl_check_cmd", lua.create_function(acl_check)?)
}
