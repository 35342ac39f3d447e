//! Shared by the files of CLIENT: the row of a subcommand, and the list of all sessions.

use crate::command::spec::{CommandSpec, Flags, Group, Handler};
use crate::engine::{Ctx, Session};
use std::iter::once;

/// Flags of a subcommand that concerns only the client's own connection.
pub(in crate::command) const OWN: &[Flags] = &[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE];

/// Row of a subcommand of CLIENT.
pub(in crate::command) const fn row(
    name: &'static str,
    arity: i32,
    handler: Handler,
) -> CommandSpec {
    CommandSpec::new(name, arity, Group::Connection, handler)
}

/// All sessions in the order in which they connected. The session of the caller is not in the table, so it is added.
pub(in crate::command) fn all_sessions<'a>(ctx: &'a Ctx<'_>) -> Vec<&'a Session> {
    let mut all: Vec<&Session> = once(&*ctx.session).chain(ctx.sessions().iter()).collect();
    all.sort_by_key(|session| session.conn.client_id());
    all
}
