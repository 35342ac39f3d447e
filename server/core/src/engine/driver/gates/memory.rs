//! The gate of `maxmemory`: in front of every command of a client, and of every call of a script.

use crate::engine::CommandError;
use crate::engine::clients::session::Session;
use crate::engine::state::State;
use crate::engine::table::{CommandSpec, Flags};

impl State {
    /// In front of each command of a client while there is a bound; `needs_memory` is true if the command may take
    /// memory, or a queued one at EXEC.
    #[cold]
    pub(in crate::engine) fn memory_gate(
        &mut self,
        session: &Session,
        spec: &CommandSpec,
        needs_memory: bool,
    ) -> Result<(), CommandError> {
        self.unit.is_evicting = true;
        let is_short = !self.make_room();
        self.unit.is_evicting = false;
        self.data.set_short(is_short);
        if !is_short {
            return Ok(());
        }
        let denies = match &session.queue {
            // Queued requests take memory, too.
            Some(_) if spec.name != "exec" => {
                !["discard", "multi", "quit", "reset"].contains(&spec.name)
            }
            _ => needs_memory,
        };
        if denies {
            Err(CommandError::OutOfMemory)
        } else {
            Ok(())
        }
    }

    /// Whether a script may not call this for want of memory: unless it has written before
    /// (`script.c: scriptVerifyOOM`).
    pub(in crate::engine) fn script_is_short(&self, spec: &CommandSpec) -> bool {
        self.data.is_short()
            && spec.flags.has(Flags::DENYOOM)
            && !self.scripting.wrote
            && !self.scripting.allows_oom
    }
}
