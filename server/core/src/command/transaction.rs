//! MULTI and WATCH. The gates fill the queue; the engine carries EXEC out.

use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError};
use crate::engine::{Continuation, Ctx};
use crate::resp::Reply;

fn multi(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    if ctx.session.queue.is_some() {
        return Err(CommandError::Text(
            "ERR MULTI calls can not be nested".into(),
        ));
    }
    ctx.begin_transaction();
    Ok(Reply::Ok)
}

/// `multi.c: execCommand`. Passes the queue to the engine, or returns the reason why it cannot run.
fn exec(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    let Some(queue) = ctx.session.queue.take() else {
        return Err(CommandError::Text("ERR EXEC without MULTI".into()));
    };
    let is_dirty = ctx.is_watch_broken();
    ctx.unwatch();
    if queue.spoiled {
        return Err(CommandError::Text(
            "EXECABORT Transaction discarded because of previous errors.".into(),
        ));
    }
    if is_dirty {
        return Ok(Reply::NilArray);
    }
    ctx.then = Some(Continuation::Exec(queue));
    Ok(Reply::Ok)
}

fn discard(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    if ctx.session.queue.take().is_none() {
        return Err(CommandError::Text("ERR DISCARD without MULTI".into()));
    }
    ctx.unwatch();
    Ok(Reply::Ok)
}

fn watch(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    if ctx.session.queue.is_some() {
        return Err(CommandError::Text(
            "ERR WATCH inside MULTI is not allowed".into(),
        ));
    }
    for key in args.rest() {
        ctx.watch(key);
    }
    Ok(Reply::Ok)
}

fn unwatch(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    ctx.unwatch();
    Ok(Reply::Ok)
}

const QUEUE: &[Flags] = &[
    Flags::NOSCRIPT,
    Flags::LOADING,
    Flags::STALE,
    Flags::FAST,
    Flags::ALLOW_BUSY,
    Flags::NOT_QUEUED,
];

pub(crate) const COMMANDS: &[CommandSpec] = &[
    row("multi", 1, multi)
        .flags(QUEUE)
        .since("1.2.0")
        .summary("Starts a transaction: later requests are queued."),
    row("exec", 1, exec)
        .flags(&[
            Flags::NOSCRIPT,
            Flags::LOADING,
            Flags::STALE,
            Flags::SKIP_SLOWLOG,
            Flags::NOT_QUEUED,
        ])
        .since("1.2.0")
        .summary("Executes the queued requests atomically."),
    row("discard", 1, discard)
        .flags(QUEUE)
        .since("2.0.0")
        .summary("Discards the queued requests."),
    row("watch", -2, watch)
        .flags(QUEUE)
        .keys(1, -1, 1, &["RO"])
        .since("2.2.0")
        .syntax("key...")
        .summary("Makes the next EXEC fail if one of the keys changes."),
    row("unwatch", 1, unwatch)
        .flags(&[
            Flags::NOSCRIPT,
            Flags::LOADING,
            Flags::STALE,
            Flags::FAST,
            Flags::ALLOW_BUSY,
        ])
        .since("2.2.0")
        .summary("Ends the watch of all keys."),
];

const fn row(name: &'static str, arity: i32, handler: super::spec::Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::Transactions, handler)
}
