//! The data that native functions and the engine share while a script runs, in a slot of the VM.

use super::convert::Digits;
use super::host::{Host, Tick};
use super::template::{Inputs, Template};
use crate::engine::libraries::Function;
use crate::engine::scripting::{RANDOM_START, Settings};
use crate::resp::OwnedRequest;
use mlua::Value;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Limit of a request in bytes: the same string may be an argument thousands of times. Redis has no
/// limit here.
pub(super) const REQUEST_BYTES_MAX: usize = 1 << 30;
/// Instructions between two calls of the hook.
pub(crate) const INSTRUCTIONS_PER_TICK: u32 = 10_000;
/// Data that native functions and the engine share while a script runs.
pub(crate) struct Slot<H> {
    pub(crate) host: Option<H>,
    pub(crate) request: OwnedRequest,
    pub(crate) resp3: bool,
    pub(crate) stopped: bool,
    /// The line at which the hook stopped the script.
    pub(crate) stopped_at: Option<usize>,
    /// The line of a text that has a single line; an unknown line is then this one.
    pub(crate) only_line: Option<usize>,
    /// The chunk name of the texts that run.
    pub(crate) source: &'static str,
    /// The functions that a library has registered so far; `None` unless one is being loaded.
    pub(crate) registering: Option<Vec<Registered>>,
    /// Number of the next function that is registered.
    pub(super) next_callback: i64,
    /// True if the heap has a limit while Lua runs.
    pub(crate) bounded: bool,
    /// The templates of all compiled scripts.
    pub(crate) templates: Vec<Template>,
    /// The elements of KEYS and ARGV that the running script's templates name.
    pub(crate) inputs: Inputs,
    random: u64,
    settings: Settings,
    pub(super) pending: Option<Value>,
    uncounted: u64,
    pub(crate) memory_bytes_max: usize,
    /// How `redis.call` writes numbers.
    pub(crate) digits: Digits,
}

impl<H: Host> Slot<H> {
    pub(crate) fn new(memory_bytes_max: usize, source: &'static str) -> Self {
        Self {
            host: None,
            request: OwnedRequest::default(),
            resp3: false,
            stopped: false,
            stopped_at: None,
            only_line: None,
            source,
            registering: None,
            next_callback: 0,
            bounded: true,
            templates: Vec::new(),
            inputs: Inputs::default(),
            random: RANDOM_START,
            settings: Settings::default(),
            pending: None,
            uncounted: 0,
            memory_bytes_max,
            digits: Digits::default(),
        }
    }

    /// Resets everything that the previous run may have changed.
    pub(crate) fn begin(&mut self, host: H, only_line: Option<usize>, bounded: bool) {
        self.host = Some(host);
        self.resp3 = false;
        self.stopped = false;
        self.only_line = only_line;
        self.bounded = bounded;
        self.random = RANDOM_START;
        self.settings = Settings::default();
        self.pending = None;
        self.uncounted = 0;
    }

    /// Size limit of a script's request in bytes.
    pub(super) fn bytes_max(&self) -> usize {
        self.memory_bytes_max.min(REQUEST_BYTES_MAX)
    }

    /// The state of the random generator: that of the node, or one that every run resets.
    pub(super) fn random_state(&mut self) -> &mut u64 {
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

/// A function of a library in its VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallbackId {
    pub(crate) number: i64,
    /// The line of a function that has a single line.
    pub(crate) only_line: Option<usize>,
}

/// A function that a library has registered.
#[derive(Clone, Debug)]
pub(crate) struct Registered {
    pub(crate) function: Function,
    pub(crate) callback: CallbackId,
}
