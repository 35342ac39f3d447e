//! The flags of requests that run scripts or functions: what those have declared counts in place of what the command may do.

use crate::engine::state::State;
use crate::engine::table::{CommandSpec, Flags};
use crate::resp::Request;

#[cfg(feature = "script")]
use crate::engine::libraries::ScriptFlags;
#[cfg(feature = "script")]
use crate::engine::table::Group;

/// The flags that a declaration replaces.
#[cfg(feature = "script")]
const DECLARED: Flags = Flags::STALE
    .or(Flags::DENYOOM)
    .or(Flags::WRITE)
    .or(Flags::MAY_REPLICATE);

impl State {
    /// The flags with which a request passes the gates (`script.c: scriptFlagsToCmdFlags`).
    pub(super) fn effective_flags(&self, spec: &CommandSpec, request: Request<'_>) -> Flags {
        #[cfg(feature = "script")]
        if spec.group == Group::Scripting
            && let Some(declared) = self.declared(spec, request)
        {
            let mut flags = spec.flags.without(DECLARED);
            for (is_set, flag) in [
                (declared.needs_memory(), Flags::DENYOOM),
                (!declared.has(ScriptFlags::NO_WRITES), Flags::WRITE),
                (declared.has(ScriptFlags::ALLOW_STALE), Flags::STALE),
            ] {
                if is_set {
                    flags = flags.or(flag);
                }
            }
            return flags;
        }
        #[cfg(not(feature = "script"))]
        let _unused = request;
        spec.flags
    }

    /// Flags that the script or the function of a request declares. A script without a shebang line declares nothing.
    #[cfg(feature = "script")]
    fn declared(&self, spec: &CommandSpec, request: Request<'_>) -> Option<ScriptFlags> {
        let named = request.arg(1)?;
        match spec.name {
            "eval" | "eval_ro" => self.scripting.scripts.flags(named, false),
            "evalsha" | "evalsha_ro" => self.scripting.scripts.flags(named, true),
            "fcall" | "fcall_ro" => {
                let (library, place) = self.scripting.libraries.function(named)?;
                Some(library.functions[place].flags)
            }
            _ => None,
        }
    }
}
