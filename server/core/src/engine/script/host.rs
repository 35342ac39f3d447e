//! The interface between a VM and the code that runs scripts on it.

use crate::engine::scripting::Settings;
use crate::resp::{Reply, Request};

/// The engine as a VM sees it while a script runs.
pub(crate) trait Host: Send + 'static {
    /// Runs one command. Errors are [`Reply::Error`].
    fn call(&mut self, request: Request<'_>) -> Reply;

    /// Called after every 10,000 instructions, or the same amount of other work.
    fn tick(&mut self, instructions: u64) -> Tick;

    /// `redis.log`: level 0 (debug) to 3 (warning).
    fn log(&mut self, level: i64, text: &[u8]) {
        let _ = (level, text);
    }

    /// `redis.set_repl`: bit 0 is the append-only file, bit 1 the replicas.
    fn set_repl(&mut self, flags: i64) {
        let _ = flags;
    }

    /// The state of `math.random`, which Redis keeps between scripts and seeds with
    /// [`RANDOM_START`]. With `None` every run starts with that seed.
    ///
    /// [`RANDOM_START`]: crate::engine::scripting::RANDOM_START
    fn random_state(&mut self) -> Option<&mut u64> {
        None
    }

    /// The settings of the libraries, which Redis keeps between scripts. With `None` every run
    /// starts with the defaults.
    fn settings(&mut self) -> Option<&mut Settings> {
        None
    }

    /// `redis.acl_check_cmd`: true if the caller may run the command; `None` for an unknown
    /// command.
    fn acl_check(&mut self, request: Request<'_>) -> Option<bool> {
        let _ = request;
        Some(true)
    }
}

/// Whether a script continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tick {
    /// The script continues.
    Continue,
    /// The script stops, and every later attempt to continue fails.
    Stop,
}
