//! SAVE, BGSAVE, LASTSAVE, BGREWRITEAOF: all data in files, if the server was started with a folder for them.
//!
//! A file is written while the command runs, also for BGSAVE and BGREWRITEAOF: a double has no other process.

use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError};
use crate::engine::{Ctx, Origin, SaveError};
use crate::resp::Reply;

/// Returns the error of a server without a folder.
fn no_folder(command: &str) -> CommandError {
    CommandError::NotImplemented {
        what: format!("{command} without a folder for its file: start it with --dir"),
    }
}

fn failed(command: &str, error: &SaveError) -> CommandError {
    if matches!(error, SaveError::NoStorage) {
        return no_folder(command);
    }
    tracing::warn!(command, %error, "the file was not written");
    CommandError::Text("ERR".into())
}

fn save(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    match ctx.save_file() {
        Ok(()) => Ok(Reply::Ok),
        Err(error) => Err(failed("SAVE", &error)),
    }
}

fn bgsave(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    if !(args.is_empty() || args.remaining() == 1 && args.keyword("SCHEDULE")) {
        return Err(CommandError::Syntax);
    }
    match ctx.save_file_behind() {
        Err(SaveError::NoStorage) => Err(no_folder("BGSAVE")),
        _ if ctx.origin == Origin::Exec => Ok(Reply::Static("Background saving scheduled")),
        _ => Ok(Reply::Static("Background saving started")),
    }
}

fn bgrewriteaof(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    match ctx.rewrite_file() {
        Err(SaveError::NoStorage) => Err(no_folder("BGREWRITEAOF")),
        _ if ctx.origin == Origin::Exec => Ok(Reply::Static(
            "Background append only file rewriting scheduled",
        )),
        _ => Ok(Reply::Static(
            "Background append only file rewriting started",
        )),
    }
}

/// The start of the server counts as a time of saving.
fn lastsave(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    let saved_at = ctx.saves().saved_at;
    Ok(Reply::Int(saved_at.0.div_euclid(1_000_000)))
}

const ADMIN: &[Flags] = &[Flags::ADMIN, Flags::NOSCRIPT, Flags::NO_ASYNC_LOADING];

pub(crate) const COMMANDS: &[CommandSpec] = &[
    row("save", 1, save)
        .flags(ADMIN)
        .flags(&[Flags::NO_MULTI])
        .since("1.0.0")
        .summary("Writes all data to a file."),
    row("bgsave", -1, bgsave)
        .flags(ADMIN)
        .since("1.0.0")
        .syntax("[SCHEDULE]@3.2.2")
        .summary("Writes all data to a file."),
    row("bgrewriteaof", 1, bgrewriteaof)
        .flags(ADMIN)
        .since("1.0.0")
        .summary("Writes all data to an append-only file."),
    row("lastsave", 1, lastsave)
        .flags(&[Flags::LOADING, Flags::STALE, Flags::FAST])
        .acl(&["@admin", "@dangerous"])
        .tips(&["nondeterministic_output"])
        .since("1.0.0")
        .summary("The time at which data was written to a file for the last time."),
];

const fn row(name: &'static str, arity: i32, handler: super::spec::Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::Server, handler)
}
