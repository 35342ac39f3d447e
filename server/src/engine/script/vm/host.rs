//! What a machine asks of whoever runs scripts on it.

use super::super::library::Settings;
use crate::resp::{Reply, Request};

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
    /// [`RANDOM_START`]: super::super::sandbox::RANDOM_START
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
