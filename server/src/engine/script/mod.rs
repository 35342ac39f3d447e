//! Scripts: the script cache, access of a running script to its node, and long scripts.
//!
//! *Access to the node.* `redis.call` is created once per VM and finds its host in a slot. While a
//! script runs, the whole state of the node is in that slot; it comes back afterwards. Nothing is
//! borrowed across the C boundary, so no unsafe code is needed.
//!
//! *Long scripts.* A hook cannot suspend a Lua 5.1 VM, so the hook serves other clients itself. On a
//! server with sockets ([`BusyHandler`]) the hook of a script that has run for longer than
//! `busy-reply-threshold` dispatches the requests of other connections, and the busy gate allows only a
//! few commands. A script of a caller in process keeps the caller's thread, so it is also stopped after
//! a number of instructions. The node then stays busy until SCRIPT KILL or SHUTDOWN NOSAVE.
//!
//! *Panics.* If a command or the hook panics, the state returns to the engine before the panic goes on.

mod convert;
mod library;
mod pattern;
mod returned;
mod sandbox;
mod shebang;
mod source;
mod vm;

use super::clients::session::Session;
use super::conn_id::ConnId;
use super::context::{Origin, ScriptCall};
use super::driver::{BusyNode, Dispatched, HAS_STATE, dispatch};
use super::effect::Effect;
use super::scripting::Busy;
use super::table::CommandTable;
use super::time::UnixMicros;
use super::{Config, Engine, NodeApi, Outcome};
use crate::engine::CommandError;
use crate::engine::state::State;
use crate::resp::{Blob, ErrorReply, Protocol, Reply, Request};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use sandbox::RANDOM_START;
use shebang::Shebang;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vm::{Ended, FunctionId, Host, Tick, Vm};

/// Limit of compiled scripts per node; beyond it all are dropped and compiled again on use. Redis
/// keeps all. Here each takes one of the VM's 8,000 references, which scripts need for their
/// values.
const COMPILED_MAX: usize = 500;
/// Number of VMs kept for later servers of this process.
const POOL_MAX: usize = 8;

static POOL: Mutex<Vec<Vm<Frame>>> = Mutex::new(Vec::new());

/// The script cache of a node, by digest and by body.
#[derive(Debug)]
pub(crate) struct Scripts {
    list: Vec<Script>,
    by_sha: HashMap<String, usize, FixedState>,
    by_body: HashMap<Blob, usize, FixedState>,
    /// Incremented by every SCRIPT FLUSH, so that compiled functions are dropped too.
    generation: u64,
    /// The state of `math.random`, which Redis keeps between scripts.
    random: u64,
    /// The settings of `cjson` that scripts have changed. Redis keeps them until SCRIPT FLUSH.
    settings: library::Settings,
}

impl Default for Scripts {
    fn default() -> Self {
        let (by_sha, by_body) = (HashMap::default(), HashMap::default());
        Self {
            list: Vec::new(),
            by_sha,
            by_body,
            generation: 0,
            random: RANDOM_START,
            settings: library::Settings::default(),
        }
    }
}

#[derive(Debug)]
struct Script {
    sha: String,
    body: Blob,
    /// An invalid first line is reported when the script is compiled.
    shebang: Shebang,
}

impl Scripts {
    /// The script with this body; added if it is new.
    pub(crate) fn intern(&mut self, body: &[u8]) -> usize {
        if let Some(index) = self.by_body.get(body) {
            return *index;
        }
        let sha = sha1_smol::Sha1::from(body).digest().to_string();
        let body = Blob::new(body);
        let index = self.list.len();
        self.by_sha.insert(sha.clone(), index);
        self.by_body.insert(body.clone(), index);
        let shebang = Shebang::parse(&body).unwrap_or_default();
        self.list.push(Script { sha, body, shebang });
        index
    }

    /// The script with this digest, in upper or lower case.
    pub(crate) fn by_sha(&self, sha: &[u8]) -> Option<usize> {
        let sha = std::str::from_utf8(sha).ok()?;
        match self.by_sha.get(sha) {
            Some(index) => Some(*index),
            None => self.by_sha.get(&*sha.to_ascii_lowercase()).copied(),
        }
    }

    /// True if a script has a shebang line without the flag that allows it to run out of memory.
    pub(crate) fn needs_memory(&self, body_or_sha: &[u8], is_sha: bool) -> bool {
        let shebang = if is_sha {
            let known = self.by_sha(body_or_sha);
            known.map(|index| self.list[index].shebang)
        } else {
            Shebang::parse(body_or_sha).ok()
        };
        shebang.is_some_and(|shebang| shebang.may_write() && !shebang.allows_oom)
    }

    /// Number of cached scripts.
    pub(crate) fn len(&self) -> usize {
        self.by_sha.len()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self {
            generation: self.generation + 1,
            random: self.random,
            ..Self::default()
        };
    }

    /// Removes a script that did not compile.
    fn forget(&mut self, index: usize) {
        let Script { sha, body, .. } = &self.list[index];
        self.by_sha.remove(sha);
        self.by_body.remove(body);
        if index + 1 == self.list.len() {
            self.list.pop();
        }
    }
}

/// Serves connections beside a long script. A server with sockets has one.
pub trait BusyHandler: Send + Sync {
    /// Starts to measure the time of a script, which has run for a while.
    fn watch(&self);
    /// Returns whether a script of this caller is given up after a number of instructions: the caller is in
    /// process.
    fn is_bounded(&self, caller: ConnId) -> bool;
    /// Wall-clock time since [`BusyHandler::watch`].
    fn elapsed(&self) -> Duration;
    /// Serves what other connections than `caller` have sent. Called from the script's hook, again and
    /// again, once it has run for longer than `busy-reply-threshold`; every request then meets the busy gate.
    fn serve(&self, api: &mut dyn NodeApi, caller: ConnId);
    /// A script during which [`BusyHandler::serve`] was called has ended.
    fn end(&self);
    /// True when the server is being dropped and the script has to end at once.
    fn stopping(&self) -> bool;
}

/// The data of a running script: the node, and the limits of the script.
struct Frame {
    state: Box<State>,
    table: &'static CommandTable,
    /// The script's own session: SELECT does not affect the caller.
    session: Box<Session>,
    caller: ConnId,
    now: UnixMicros,
    instructions: u64,
    /// Whether the script is given up after a number of instructions.
    is_bounded: bool,
    /// Whether other connections were served beside the script.
    was_long: bool,
    busy_handler: Option<Arc<dyn BusyHandler>>,
}

impl Frame {
    /// Ends the serving of other connections. True if the script was killed, or the server ends.
    fn end(&mut self) -> bool {
        let Some(busy_handler) = &self.busy_handler else {
            return false;
        };
        if std::mem::take(&mut self.was_long) {
            busy_handler.end();
        }
        self.state
            .scripting
            .busy
            .as_ref()
            .is_some_and(|busy| busy.killed)
            || busy_handler.stopping()
    }
}

impl Host for Frame {
    fn call(&mut self, request: Request<'_>) -> Reply {
        match dispatch(
            &mut self.state,
            self.table,
            &mut self.session,
            request,
            self.now,
            Origin::Script,
        ) {
            Dispatched::Reply(reply) => reply,
            // Commands that run scripts have the noscript flag.
            Dispatched::Script(_)
            | Dispatched::Exec(_)
            | Dispatched::Parked
            | Dispatched::Silent => CommandError::NotAllowedFromScript.into(),
        }
    }

    fn tick(&mut self, instructions: u64) -> Tick {
        let is_first = self.instructions == 0;
        self.instructions += instructions;
        if let Some(busy_handler) = &self.busy_handler {
            if is_first {
                busy_handler.watch();
                self.is_bounded = busy_handler.is_bounded(self.caller);
            }
            if busy_handler.stopping() {
                return Tick::Stop;
            }
            if busy_handler.elapsed() >= self.state.config.busy_reply_threshold {
                let busy = Busy {
                    caller: self.caller,
                    killed: false,
                    abandoned: None,
                    transaction: None,
                };
                self.state.scripting.busy.get_or_insert(busy);
                self.was_long = true;
                let mut node = BusyNode {
                    state: &mut self.state,
                    table: self.table,
                };
                busy_handler.serve(&mut node, self.caller);
                if self
                    .state
                    .scripting
                    .busy
                    .as_ref()
                    .is_some_and(|busy| busy.killed)
                {
                    return Tick::Stop;
                }
            }
        }
        if self.is_bounded && self.instructions >= self.state.config.script_instructions_max {
            return Tick::Stop;
        }
        Tick::Continue
    }

    fn random_state(&mut self) -> Option<&mut u64> {
        Some(&mut self.state.scripting.scripts.random)
    }

    fn settings(&mut self) -> Option<&mut library::Settings> {
        Some(&mut self.state.scripting.scripts.settings)
    }

    fn acl_check(&mut self, request: Request<'_>) -> Option<bool> {
        // The only user has all permissions.
        self.table.resolve(request).is_ok().then_some(true)
    }

    fn log(&mut self, level: i64, text: &[u8]) {
        tracing::debug!(level, text = %text.escape_ascii(), "redis.log");
    }
}

/// Runs scripts on one VM, which it takes from the pool at the first script.
pub(super) struct Runner {
    vm: Option<Vm<Frame>>,
    compiled: Vec<Option<FunctionId>>,
    generation: u64,
    session: Option<Box<Session>>,
    busy_handler: Option<Arc<dyn BusyHandler>>,
    memory_bytes_max: usize,
}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner")
            .field("compiled", &self.compiled.len())
            .finish_non_exhaustive()
    }
}

impl Runner {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            vm: None,
            compiled: Vec::new(),
            generation: 0,
            session: None,
            busy_handler: None,
            memory_bytes_max: config.script_memory_bytes_max,
        }
    }

    /// The compiled function of a script; compiles it at its first use.
    fn function(&mut self, scripts: &Scripts, index: usize) -> Result<FunctionId, ErrorReply> {
        if self.generation != scripts.generation {
            self.generation = scripts.generation;
            self.compiled.clear();
            if let Some(vm) = &mut self.vm {
                vm.forget();
            }
        }
        if let Some(Some(function)) = self.compiled.get(index) {
            return Ok(*function);
        }
        if let Some(vm) = &mut self.vm
            && vm.compiled() >= COMPILED_MAX
        {
            vm.forget();
            self.compiled.clear();
        }
        if self.vm.is_none() {
            self.vm = Some(take_vm(self.memory_bytes_max)?);
        }
        let vm = self
            .vm
            .as_mut()
            .ok_or_else(|| ErrorReply::new("ERR no Lua VM"))?;
        let script = &scripts.list[index];
        let function = match vm.known(&script.sha) {
            Some(function) => function,
            None => {
                let shebang = Shebang::parse(&script.body)?;
                vm.define(&script.sha, &script.body[shebang.len..])?
            }
        };
        if self.compiled.len() <= index {
            self.compiled.resize(index + 1, None);
        }
        self.compiled[index] = Some(function);
        Ok(function)
    }

    /// Drops the VM after a script that was stopped or ran out of memory.
    fn abandon_vm(&mut self) {
        self.vm = None;
        self.compiled.clear();
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        if let Some(mut vm) = self.vm.take()
            && let Ok(mut pool) = POOL.lock()
            && pool.len() < POOL_MAX
        {
            vm.rest();
            pool.push(vm);
        }
    }
}

fn take_vm(memory_bytes_max: usize) -> Result<Vm<Frame>, ErrorReply> {
    let pooled = POOL.lock().ok().and_then(|mut pool| {
        pool.iter()
            .position(|vm| vm.memory_bytes_max() == memory_bytes_max)
            .map(|at| pool.swap_remove(at))
    });
    match pooled {
        Some(vm) => Ok(vm),
        None => Vm::new(memory_bytes_max)
            .map_err(|error| ErrorReply::new(format!("ERR cannot make a Lua VM: {error}"))),
    }
}

impl Engine {
    /// Has other connections served beside long scripts from now on.
    pub fn set_busy_handler(&mut self, busy_handler: Arc<dyn BusyHandler>) {
        self.runner.busy_handler = Some(busy_handler);
    }

    pub(super) fn run_script(
        &mut self,
        call: ScriptCall,
        session: Box<Session>,
        request: Request<'_>,
        now: UnixMicros,
    ) -> Outcome {
        let (ScriptCall::Run { script, .. } | ScriptCall::Load { script }) = call;
        let state = self.state.as_mut().expect(HAS_STATE);
        let function = match self.runner.function(&state.scripting.scripts, script) {
            Ok(function) => function,
            Err(error) => {
                state.scripting.scripts.forget(script);
                state.clients.sessions.put_back(session);
                return Outcome::Reply(error.into());
            }
        };
        let ScriptCall::Run {
            first_key,
            keys,
            reads_only,
            ..
        } = call
        else {
            let sha = Reply::bulk(&state.scripting.scripts.list[script].sha);
            state.clients.sessions.put_back(session);
            return Outcome::Reply(sha);
        };
        let shebang = state.scripting.scripts.list[script].shebang;
        if shebang.shuns_clusters && state.peers.cluster.is_some() {
            state.clients.sessions.put_back(session);
            let text = "ERR Can not run script on cluster, 'no-cluster' flag is set.";
            return Outcome::Reply(Reply::error(text));
        }
        if reads_only && shebang.may_write() {
            state.clients.sessions.put_back(session);
            let text = "ERR Can not execute a script with write flag using *_ro command.";
            return Outcome::Reply(Reply::error(text));
        }
        let caller = session.conn;
        let mut own = self
            .runner
            .session
            .take()
            .unwrap_or_else(|| session.clone());
        (own.conn, own.db, own.protocol) = (caller, session.db, Protocol::Resp2);
        (own.asking, own.reads_replica) = (session.asking, session.reads_replica);
        state.clients.sessions.put_back(session);
        if state.clients.tracking.is_on() {
            let keys = request.iter().skip(first_key).take(keys);
            state
                .clients
                .tracking
                .script_begins(keys.map(Blob::new).collect());
        }
        state.scripting.wrote = false;
        state.scripting.reads_only = reads_only || shebang.reads_only;
        state.scripting.keeps_to_slot = shebang.keeps_to_slot();
        state.scripting.allows_oom = shebang.allows_oom;
        let frame = Frame {
            state: self.state.take().expect(HAS_STATE),
            table: self.table,
            session: own,
            caller,
            now,
            instructions: 0,
            is_bounded: true,
            was_long: false,
            busy_handler: self.runner.busy_handler.clone(),
        };
        let vm = self
            .runner
            .vm
            .as_mut()
            .expect("a function was compiled by it");
        let run = || vm.run(function, request, first_key, keys, frame);
        let (ended, mut frame) = match catch_unwind(AssertUnwindSafe(run)) {
            Ok(ran) => ran,
            Err(panic) => {
                if let Some(mut frame) = vm.take_host() {
                    frame.end();
                    frame.state.scripting.busy = None;
                    self.state = Some(frame.state);
                }
                self.runner.abandon_vm();
                resume_unwind(panic);
            }
        };
        let usable = vm.is_usable();
        let was_long = frame.was_long;
        let was_killed = frame.end();
        self.runner.session = Some(frame.session);
        let state = self.state.insert(frame.state);
        state.clients.tracking.script_ends();
        if !usable {
            self.runner.abandon_vm();
        }
        match ended {
            Ended::Reply(reply) => {
                state.scripting.busy = None;
                Outcome::Reply(reply)
            }
            Ended::Error(error) => {
                state.scripting.busy = None;
                Outcome::Reply(error.into())
            }
            Ended::Stopped { line } => {
                self.runner.abandon_vm();
                let killed = script_killed(&state.scripting.scripts.list[script].sha, line);
                if was_killed {
                    state.scripting.busy = None;
                    return Outcome::Reply(killed.into());
                }
                // A script that exceeds its limit counts as endless, and the node as busy from the time at
                // which Redis would reply BUSY.
                state.scripting.busy = Some(Busy {
                    caller,
                    killed: false,
                    abandoned: Some(killed),
                    transaction: None,
                });
                if !was_long {
                    state.unit.outbox.push(Effect::Stall {
                        until: now.plus(state.config.busy_reply_threshold),
                    });
                }
                Outcome::Parked
            }
        }
    }
}

/// The error reply to the caller of a killed script.
fn script_killed(sha: &str, line: usize) -> ErrorReply {
    ErrorReply::new(format!(
        "ERR Script killed by user with SCRIPT KILL... script: {sha}, on @user_script:{line}."
    ))
}
