//! Scripts: access of a running script to its node, and long scripts.
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

mod functions;

use super::busy_node::BusyNode;
use super::dispatch::{Dispatched, dispatch};
use super::{Engine, HAS_STATE, NodeApi, Outcome};
use crate::engine::CommandError;
use crate::engine::clients::session::Session;
use crate::engine::config::Config;
use crate::engine::conn_id::ConnId;
use crate::engine::context::ScriptCall;
use crate::engine::effect::Effect;
use crate::engine::libraries::ScriptFlags;
use crate::engine::origin::Origin;
use crate::engine::profile::feature;
use crate::engine::script::{Digits, Ended, FunctionId, Host, SCRIPT_NAME, Tick, Vm, VmOptions};
use crate::engine::scripting::{Busy, Scripts, Settings, Shebang, TO_ALL};
use crate::engine::state::State;
use crate::engine::table::CommandTable;
use crate::engine::time::UnixMicros;
use crate::resp::{Blob, ErrorReply, Protocol, Reply, Request};
use functions::Functions;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Limit of compiled scripts per node; beyond it all are dropped and compiled again on use. Redis
/// keeps all. Here each takes one of the VM's 8,000 references, which scripts need for their
/// values.
const COMPILED_MAX: usize = 500;
/// Limit of the instructions with which a library registers its functions. Redis allows 500 milliseconds
/// (`functions.c: LOAD_TIMEOUT_MS`).
const LOAD_INSTRUCTIONS_MAX: u64 = 20_000_000;
/// Number of VMs kept for later servers of this process.
const POOL_MAX: usize = 8;

static POOL: Mutex<Vec<Vm<Frame>>> = Mutex::new(Vec::new());

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

/// Code that runs on a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Script,
    Function,
    /// The text of a library, which registers functions.
    Library,
}

/// Promises of a script or function, and those of its caller.
#[derive(Clone, Copy, Debug, Default)]
struct Promises {
    /// `None` for a script without a shebang line.
    flags: Option<ScriptFlags>,
    /// The caller forbids writes (EVAL_RO, FCALL_RO).
    reads_only: bool,
}

impl Promises {
    /// Why it must not run here (`script.c: scriptPrepareForRun`).
    fn refuse(self, state: &State) -> Option<CommandError> {
        let Some(flags) = self.flags else {
            return state.has_lost_master().then_some(CommandError::MasterDown);
        };
        let may_write = !flags.has(ScriptFlags::NO_WRITES);
        let why = if flags.has(ScriptFlags::NO_CLUSTER) && state.peers.cluster.is_some() {
            "ERR Can not run script on cluster, 'no-cluster' flag is set."
        } else if may_write && state.refuses_writes() {
            "READONLY Can not run script with write flag on readonly replica"
        } else if may_write && self.reads_only {
            "ERR Can not execute a script with write flag using *_ro command."
        } else {
            return None;
        };
        Some(CommandError::Text(why.into()))
    }
}

/// The data of a running script: the node, and the limits of the script.
struct Frame {
    kind: Kind,
    state: Box<State>,
    table: &'static CommandTable,
    /// The script's own session: SELECT does not affect the caller.
    session: Box<Session>,
    caller: ConnId,
    now: UnixMicros,
    instructions: u64,
    /// True if the script is stopped after a number of instructions.
    is_bounded: bool,
    /// True if other connections were served during the script.
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
        }
        if self.kind == Kind::Library {
            return match self.instructions >= LOAD_INSTRUCTIONS_MAX {
                true => Tick::Stop,
                false => Tick::Continue,
            };
        }
        if let Some(busy_handler) = &self.busy_handler
            && busy_handler.elapsed() >= self.state.config.busy_reply_threshold
        {
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
        if self.is_bounded && self.instructions >= self.state.config.script_instructions_max {
            return Tick::Stop;
        }
        Tick::Continue
    }

    fn random_state(&mut self) -> Option<&mut u64> {
        Some(&mut self.state.scripting.scripts.random)
    }

    fn settings(&mut self) -> Option<&mut Settings> {
        let scripting = &mut self.state.scripting;
        Some(match self.kind {
            Kind::Script => &mut scripting.scripts.settings,
            Kind::Function | Kind::Library => &mut scripting.function_settings,
        })
    }

    fn acl_check(&mut self, request: Request<'_>) -> Option<bool> {
        let entry = self.table.resolve(request).ok()?;
        Some(self.state.allows_call(&self.session, entry, request))
    }

    fn set_repl(&mut self, flags: i64) {
        self.state.scripting.propagates_to = flags;
    }

    fn log(&mut self, level: i64, text: &[u8]) {
        tracing::debug!(level, text = %text.escape_ascii(), "redis.log");
    }
}

/// Runs scripts on one VM, which it takes from the pool at the first script, and functions on another.
pub(in crate::engine) struct Runner {
    vm: Option<Vm<Frame>>,
    functions: Functions,
    compiled: Vec<Option<FunctionId>>,
    generation: u64,
    session: Option<Box<Session>>,
    busy_handler: Option<Arc<dyn BusyHandler>>,
    vm_options: VmOptions,
}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner")
            .field("compiled", &self.compiled.len())
            .finish_non_exhaustive()
    }
}

impl Runner {
    pub(in crate::engine) fn new(config: &Config) -> Self {
        Self {
            vm: None,
            functions: Functions::default(),
            compiled: Vec::new(),
            generation: 0,
            session: None,
            busy_handler: None,
            vm_options: VmOptions {
                memory_bytes_max: config.script_memory_bytes_max,
                redis_version: config.profile.redis_version(),
                digits: match config.profile.has(feature::SHORTEST_DOUBLES) {
                    true => Digits::Shortest,
                    false => Digits::Seventeen,
                },
            },
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
            self.vm = Some(take_vm(self.vm_options)?);
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

fn take_vm(options: VmOptions) -> Result<Vm<Frame>, ErrorReply> {
    let pooled = POOL.lock().ok().and_then(|mut pool| {
        pool.iter()
            .position(|vm| vm.options() == options)
            .map(|at| pool.swap_remove(at))
    });
    match pooled {
        Some(vm) => vm.wake().map(|()| vm),
        None => Vm::new(options),
    }
    .map_err(|error| ErrorReply::new(format!("ERR cannot make a Lua VM: {error}")))
}

impl Engine {
    /// Enables serving other connections during long scripts.
    pub fn set_busy_handler(&mut self, busy_handler: Arc<dyn BusyHandler>) {
        self.runner.busy_handler = Some(busy_handler);
    }

    pub(in crate::engine) fn run_script(
        &mut self,
        call: ScriptCall,
        session: Box<Session>,
        request: Request<'_>,
        now: UnixMicros,
    ) -> Outcome {
        let script = match call {
            ScriptCall::Run { script, .. } | ScriptCall::Load { script } => script,
            ScriptCall::Function { .. }
            | ScriptCall::LoadLibrary { .. }
            | ScriptCall::ReadLibraries
            | ScriptCall::RestoreLibraries { .. } => {
                return self.run_functions(call, session, request, now);
            }
        };
        let state = self.state.as_mut().expect(HAS_STATE);
        let function = match self.runner.function(&state.scripting.scripts, script) {
            Ok(function) => function,
            Err(error) => {
                state.scripting.scripts.forget(script);
                state.clients.sessions.put_back(session);
                return Outcome::Reply(error.into());
            }
        };
        state.scripting.scripts.last = script;
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
        let promises = Promises {
            flags: state.scripting.scripts.list[script].shebang.flags(),
            reads_only,
        };
        if let Some(refusal) = promises.refuse(state) {
            state.clients.sessions.put_back(session);
            return Outcome::Reply(refusal.into());
        }
        let frame = self.begin(
            Kind::Script,
            promises,
            session,
            (request, first_key, keys),
            now,
        );
        let vm = self
            .runner
            .vm
            .as_mut()
            .expect("a function was compiled by it");
        let run = || vm.run(function, request, first_key, keys, frame);
        let (ended, frame) = match catch_unwind(AssertUnwindSafe(run)) {
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
        if !usable || matches!(ended, Ended::Stopped { .. }) {
            self.runner.abandon_vm();
        }
        let killed = |state: &State, line| {
            script_killed(&state.scripting.scripts.list[script].sha, SCRIPT_NAME, line)
        };
        self.conclude_run(frame, ended, killed)
    }

    /// Moves the node's state to a VM, with a session of the script's own.
    fn begin(
        &mut self,
        kind: Kind,
        promises: Promises,
        session: Box<Session>,
        (request, first_key, keys): (Request<'_>, usize, usize),
        now: UnixMicros,
    ) -> Frame {
        let mut state = self.state.take().expect(HAS_STATE);
        let caller = session.conn;
        let mut own = self
            .runner
            .session
            .take()
            .unwrap_or_else(|| session.clone());
        (own.conn, own.db, own.protocol) = (caller, session.db, Protocol::Resp2);
        (own.asking, own.reads_replica) = (session.asking, session.reads_replica);
        own.leaves_no_traces = session.leaves_no_traces;
        (own.user, own.is_unrestricted) = (session.user, session.is_unrestricted);
        state.clients.sessions.put_back(session);
        if state.clients.tracking.is_on() {
            let keys = request.iter().skip(first_key).take(keys);
            state
                .clients
                .tracking
                .script_begins(keys.map(Blob::new).collect());
        }
        let flags = promises.flags.unwrap_or_default();
        let scripting = &mut state.scripting;
        scripting.wrote = false;
        scripting.propagates_to = TO_ALL;
        scripting.reads_only = promises.reads_only || flags.has(ScriptFlags::NO_WRITES);
        scripting.keeps_to_slot =
            promises.flags.is_some() && !flags.has(ScriptFlags::ALLOW_CROSS_SLOT);
        scripting.allows_oom = flags.has(ScriptFlags::ALLOW_OOM);
        scripting.runs_function = kind != Kind::Script;
        Frame {
            kind,
            state,
            table: self.table,
            session: own,
            caller,
            now,
            instructions: 0,
            is_bounded: true,
            was_long: false,
            busy_handler: self.runner.busy_handler.clone(),
        }
    }

    /// Takes the state back after a run. `killed` makes the caller's reply if the run was stopped at this line.
    fn conclude_run(
        &mut self,
        mut frame: Frame,
        ended: Ended,
        killed: impl FnOnce(&State, usize) -> ErrorReply,
    ) -> Outcome {
        let Frame {
            was_long,
            caller,
            now,
            ..
        } = frame;
        let was_killed = frame.end();
        self.runner.session = Some(frame.session);
        let state = self.state.insert(frame.state);
        state.clients.tracking.script_ends();
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
                let killed = killed(state, line);
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

/// The error reply to the caller of a killed script or function.
fn script_killed(name: &str, source: &str, line: usize) -> ErrorReply {
    ErrorReply::new(format!(
        "ERR Script killed by user with SCRIPT KILL... script: {name}, on {source}:{line}."
    ))
}
