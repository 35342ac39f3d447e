//! The gate of access rules: in front of every request of a client, of every queued request at EXEC, and of every call
//! of a script. A session that may do everything does not come here.

use crate::engine::CommandError;
use crate::engine::acl::{AclDecision, Denial, Place};
use crate::engine::clients::session::Session;
use crate::engine::state::State;
use crate::engine::table::Entry;
use crate::resp::Request;

impl State {
    /// True if the session has to log in first (`networking.c: authRequired`).
    pub(super) fn needs_login(&self, session: &Session) -> bool {
        !session.authenticated && !self.acl.admits_all()
    }

    /// Why the session's user may not run the request; `None` if it may. A denial is noted for ACL LOG.
    fn denial(
        &mut self,
        session: &Session,
        Entry { spec, number }: Entry,
        first: usize,
        request: Request<'_>,
        place: Place,
    ) -> Option<Denial> {
        let user = session.user?;
        let asked = spec.asked(number, first, request, self.acl.checks_keys(user));
        let AclDecision::Denied(denial) = self.acl.decide(user, &asked) else {
            return None;
        };
        let name = self.acl.command_name(number).to_owned();
        let object = denial.at().and_then(|at| request.arg(at));
        let object = object.unwrap_or(name.as_bytes());
        let running = (place != Place::Lua).then_some(request);
        self.log_denial(session, running, None, (denial.reason(), place), object);
        Some(denial)
    }

    /// In front of a request of a client (`server.c: processCommand`).
    #[cold]
    pub(super) fn acl_gate(
        &mut self,
        session: &Session,
        entry: Entry,
        first: usize,
        request: Request<'_>,
        place: Place,
    ) -> Result<(), CommandError> {
        let Some(denial) = self.denial(session, entry, first, request, place) else {
            return Ok(());
        };
        let text = match denial {
            Denial::Command => {
                let name = self.acl.command_name(entry.number);
                format!("NOPERM this user has no permissions to run the '{name}' command").into()
            }
            Denial::Key(_) => {
                "NOPERM this user has no permissions to access one of the keys used as arguments".into()
            }
            Denial::Channel(_) => {
                "NOPERM this user has no permissions to access one of the channels used as arguments".into()
            }
        };
        Err(CommandError::Text(text))
    }

    /// In front of a queued request at EXEC: rights may have changed since it was queued (`multi.c: execCommand`).
    #[cold]
    pub(in crate::engine) fn acl_exec_gate(
        &mut self,
        session: &Session,
        (entry, first): (Entry, usize),
        request: Request<'_>,
    ) -> Result<(), CommandError> {
        let Some(denial) = self.denial(session, entry, first, request, Place::Multi) else {
            return Ok(());
        };
        let why = match denial {
            Denial::Command => "no permission to execute the command or subcommand",
            Denial::Key(_) => "no permission to touch the specified keys",
            Denial::Channel(_) => "no permission to access one of the channels used as arguments",
        };
        let text = format!(
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This \
             command is no longer allowed for the following reason: {why}"
        );
        Err(CommandError::Text(text.into()))
    }

    /// In front of a call of a script (`script.c: scriptVerifyACL`).
    #[cold]
    pub(super) fn acl_script_gate(
        &mut self,
        session: &Session,
        entry: Entry,
        first: usize,
        request: Request<'_>,
    ) -> Result<(), CommandError> {
        let Some(denial) = self.denial(session, entry, first, request, Place::Lua) else {
            return Ok(());
        };
        let text = match denial {
            Denial::Command => {
                "ERR The user executing the script can't run this command or subcommand"
            }
            Denial::Key(_) => {
                "ERR The user executing the script can't access at least one of the keys mentioned in the command \
                 arguments"
            }
            Denial::Channel(_) => {
                "ERR The user executing the script can't publish to the channel mentioned in the command"
            }
        };
        Err(CommandError::Text(text.into()))
    }

    /// Returns whether a script's caller may run a request (`redis.acl_check_cmd`).
    #[cfg(feature = "script")]
    pub(in crate::engine) fn allows_call(
        &self,
        session: &Session,
        (Entry { spec, number }, first): (Entry, usize),
        request: Request<'_>,
    ) -> bool {
        let Some(user) = session.user.filter(|_| !session.is_unrestricted) else {
            return true;
        };
        let asked = spec.asked(number, first, request, self.acl.checks_keys(user));
        self.acl.decide(user, &asked) == AclDecision::Allowed
    }
}
