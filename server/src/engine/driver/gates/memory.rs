//! The gate of `maxmemory`: in front of every command of a client, and of every call of a script.

use crate::engine::CommandError;
use crate::engine::clients::session::Session;
use crate::engine::state::State;
use crate::engine::table::{CommandSpec, CommandTable, Flags};
use crate::resp::Request;

impl State {
    /// In front of each command of a client while there is a bound.
    #[cold]
    pub(in crate::engine) fn memory_gate(
        &mut self,
        table: &CommandTable,
        session: &Session,
        spec: &CommandSpec,
        request: Request<'_>,
    ) -> Result<(), CommandError> {
        let is_short = !self.make_room();
        self.data.set_short(is_short);
        if !is_short {
            return Ok(());
        }
        let denies = match &session.queue {
            Some(queue) if spec.name == "exec" => {
                let mut entries = (0..queue.len()).filter_map(|at| queue.get(at));
                entries.any(|(request, (number, _))| {
                    self.needs_memory(table.entry(number).spec, request)
                })
            }
            // What is queued takes memory, too.
            Some(_) => !["discard", "multi", "quit", "reset"].contains(&spec.name),
            None => self.needs_memory(spec, request),
        };
        if denies {
            Err(CommandError::OutOfMemory)
        } else {
            Ok(())
        }
    }

    /// Whether a request may need memory; a script that says how it may be run, unless it says that it
    /// does not (`eval.c: evalGetCommandFlags`).
    fn needs_memory(&self, spec: &CommandSpec, request: Request<'_>) -> bool {
        #[cfg(feature = "script")]
        if ["eval", "evalsha", "eval_ro", "evalsha_ro"].contains(&spec.name)
            && let Some(body_or_sha) = request.arg(1)
        {
            let is_sha = spec.name.starts_with("evalsha");
            return self.scripting.scripts.needs_memory(body_or_sha, is_sha);
        }
        #[cfg(not(feature = "script"))]
        let _unused = request;
        spec.flags.has(Flags::DENYOOM)
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
