//! The gates, in the order of `server.c: processCommand`; then the handler. No handler knows them.

use super::State;
use super::context::{Ctx, Origin, ScriptCall};
use super::effect::{Effect, Outbox};
use super::session::Session;
use super::time::UnixMicros;
use crate::command::{self, Args, CommandError, CommandSpec, Flags};
use crate::resp::{Reply, Request};

/// What dispatch leaves to its caller.
pub(super) enum Dispatched {
    Reply(Reply),
    /// The gates were passed; the script is to run now.
    Script(ScriptCall),
    /// No answer; the connection ends.
    Silent,
}

/// The row of a command; that of the request before is at hand without a look into the table.
#[inline]
fn find(state: &mut State, name: &[u8]) -> Option<&'static CommandSpec> {
    if let Some(last) = state.last_command
        && name.eq_ignore_ascii_case(last.name.as_bytes())
    {
        return Some(last);
    }
    let found = command::find(name);
    state.last_command = found.or(state.last_command);
    found
}

/// The command or subcommand a request names, with the position of its first argument.
#[inline]
pub(super) fn resolve(
    state: &mut State,
    request: Request<'_>,
) -> Result<(&'static CommandSpec, usize), CommandError> {
    let Some(spec) = find(state, request.name()) else {
        return Err(command::unknown(request));
    };
    if !spec.subcommands.is_empty()
        && let Some(name) = request.arg(1)
    {
        let found = spec
            .subcommands
            .iter()
            .find(|sub| name.eq_ignore_ascii_case(sub.name.as_bytes()));
        return match found {
            Some(sub) => Ok((sub, 2)),
            None => Err(command::unknown_subcommand(spec, name)),
        };
    }
    Ok((spec, 1))
}

fn full_name(request: Request<'_>, spec: &CommandSpec, first: usize) -> String {
    let parent = String::from_utf8_lossy(request.name()).to_ascii_lowercase();
    if first == 2 {
        format!("{parent}|{}", spec.name)
    } else {
        parent
    }
}

/// Runs one request. `now` is the instant of the whole unit.
#[inline]
pub(super) fn dispatch(
    state: &mut State,
    session: &mut Session,
    request: Request<'_>,
    now: UnixMicros,
    origin: Origin,
    outbox: &mut Outbox,
) -> Dispatched {
    match gates(state, session, request, origin) {
        Ok((spec, first)) => {
            state.stats.commands += 1;
            let mut ctx = Ctx {
                state,
                session,
                outbox,
                now,
                script: None,
            };
            let result = (spec.handler)(&mut ctx, &mut Args::new(request, first));
            if let Some(call) = ctx.script {
                return Dispatched::Script(call);
            }
            if spec.flags.has(Flags::WRITE) && origin == Origin::Script {
                ctx.state.script_wrote = true;
            }
            match result {
                Ok(reply) => Dispatched::Reply(reply),
                Err(CommandError::NoAnswer) => Dispatched::Silent,
                Err(error) => Dispatched::Reply(refuse(state, error)),
            }
        }
        // A browser that was sent here is shown out (`server.c: securityWarningCommand`).
        Err(CommandError::UnknownCommand { name, .. })
            if name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:") =>
        {
            outbox.push(Effect::Close { conn: session.conn });
            Dispatched::Silent
        }
        Err(error) => Dispatched::Reply(refuse(state, error)),
    }
}

fn refuse(state: &mut State, error: CommandError) -> Reply {
    state.stats.errors += 1;
    error.into()
}

#[inline]
fn gates<'t>(
    state: &mut State,
    session: &Session,
    request: Request<'_>,
    origin: Origin,
) -> Result<(&'t CommandSpec, usize), CommandError> {
    let from_script = origin == Origin::Script;
    let (spec, first) = match resolve(state, request) {
        Err(CommandError::UnknownCommand { .. } | CommandError::UnknownSubcommand { .. })
            if from_script =>
        {
            return Err(CommandError::UnknownFromScript);
        }
        other => other?,
    };
    if !spec.accepts(request.len()) {
        return Err(if from_script {
            CommandError::ArityFromScript
        } else {
            CommandError::Arity {
                command: full_name(request, spec, first),
            }
        });
    }
    if from_script {
        return match () {
            () if spec.flags.has(Flags::NOSCRIPT) => Err(CommandError::NotAllowedFromScript),
            () if state.script_reads_only && spec.flags.has(Flags::WRITE) => {
                Err(CommandError::ReadOnlyScript)
            }
            () => Ok((spec, first)),
        };
    }
    if !session.authenticated && !spec.flags.has(Flags::NO_AUTH) {
        return Err(CommandError::NoAuth);
    }
    if state.busy.is_some() && !spec.flags.has(Flags::ALLOW_BUSY) {
        return Err(CommandError::Busy);
    }
    Ok((spec, first))
}
