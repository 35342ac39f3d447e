//! COMMAND: information from the table of commands.

use super::keys::describe_flags;
use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError, CommandTable, Entry, help, table};
use crate::engine::{Categories, Ctx, glob_match};
use crate::resp::{OwnedRequest, Reply};

/// A row with its container, if it has one.
type Found = (Option<&'static CommandSpec>, &'static CommandSpec);

/// The row of a name such as `get` or `config|get`.
fn find(table: &CommandTable, name: &[u8]) -> Option<Found> {
    let Some(bar) = name.iter().position(|byte| *byte == b'|') else {
        return Some((None, table.find(name)?.spec));
    };
    let row = table.find(&name[..bar])?.spec;
    let is_named = |sub: &&CommandSpec| name[bar + 1..].eq_ignore_ascii_case(sub.name.as_bytes());
    Some((Some(row), row.subcommands.iter().find(is_named)?))
}

/// The rows of this node's commands. A sentinel has QUIT without listing it (`server.c: processCommand`).
fn rows(ctx: &Ctx<'_>) -> impl Iterator<Item = &'static CommandSpec> {
    let is_sentinel = ctx.sentinel().is_some();
    let commands = table(ctx).commands();
    commands.filter(move |row| !(is_sentinel && row.name == "quit"))
}

/// Every row, each container before its subcommands.
fn every_row(ctx: &Ctx<'_>) -> impl Iterator<Item = Found> {
    rows(ctx).flat_map(|row| {
        let subcommands = row.subcommands.iter().map(move |sub| (Some(row), sub));
        std::iter::once((None, row)).chain(subcommands)
    })
}

fn describe_all(ctx: &Ctx<'_>) -> Reply {
    Reply::Array(rows(ctx).map(|row| row.describe(None)).collect())
}

fn command(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    Ok(describe_all(ctx))
}

fn count(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    Ok(Reply::Int(rows(ctx).count() as i64))
}

fn info(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    if args.is_empty() {
        return Ok(describe_all(ctx));
    }
    let table = table(ctx);
    let describe = |name: &[u8]| find(table, name).map(|(parent, row)| row.describe(parent));
    let replies = args.rest().map(|name| describe(name).unwrap_or(Reply::Nil));
    Ok(Reply::Array(replies.collect()))
}

fn docs(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let profile = ctx.config().profile;
    let document = |(parent, row): Found| row.document(parent, profile);
    let pairs = if args.is_empty() {
        rows(ctx).map(|row| document((None, row))).collect()
    } else {
        let table = table(ctx);
        let found = args.rest().filter_map(|name| find(table, name));
        found.map(document).collect()
    };
    Ok(Reply::Map(pairs))
}

fn list(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let filter: Box<dyn Fn(&Found) -> bool> = if args.is_empty() {
        Box::new(|_| true)
    } else {
        if args.remaining() != 3 || !args.keyword("FILTERBY") {
            return Err(CommandError::Syntax);
        }
        match (&args.required()?.to_ascii_uppercase()[..], args.required()?) {
            // There are no modules.
            (b"MODULE", _) => Box::new(|_| false),
            (b"ACLCAT", category) => match Categories::named(category) {
                None => Box::new(|_| false),
                Some(category) => Box::new(move |(_, row)| row.category_set().meets(category)),
            },
            (b"PATTERN", pattern) => Box::new(|(parent, row)| {
                glob_match(
                    &pattern.to_ascii_lowercase(),
                    row.full_name(*parent).as_bytes(),
                )
            }),
            _ => return Err(CommandError::Syntax),
        }
    };
    let names = every_row(ctx).filter(|found| filter(found));
    let names = names.map(|(parent, row)| Reply::bulk(row.full_name(parent)));
    Ok(Reply::Array(names.collect()))
}

/// Returns the keys of the request in the arguments, each formatted by `show`.
fn keys(ctx: &Ctx<'_>, args: &mut Args<'_>, show: fn(&[u8], Reply) -> Reply) -> CommandResult {
    let text = |text: &'static str| CommandError::Text(text.into());
    let inner = OwnedRequest::new(args.rest());
    let request = inner.as_request().ok_or(CommandError::Syntax)?;
    let Ok((Entry { spec: row, .. }, _)) = table(ctx).resolve(request) else {
        return Err(text("ERR Invalid command specified"));
    };
    if !row.keys.hold_keys() {
        return Err(text("ERR The command has no key arguments"));
    }
    if !row.accepts(request.len()) {
        return Err(text(
            "ERR Invalid number of arguments specified for command",
        ));
    }
    let places = row.key_places(request);
    if places.is_empty() && !row.flags.has(Flags::NO_MANDATORY_KEYS) {
        return Err(text("ERR Invalid arguments specified for command"));
    }
    let keys = places.iter().filter_map(|place| {
        let key = request.arg(place.at)?;
        Some(show(key, describe_flags(place.flags)))
    });
    Ok(Reply::Array(keys.collect()))
}

fn getkeys(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    keys(ctx, args, |key, _| Reply::bulk(key))
}

fn getkeysandflags(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    keys(ctx, args, |key, flags| {
        Reply::Array(vec![Reply::bulk(key), flags])
    })
}

const COMMAND: &[CommandSpec] = &[
    help::row(Group::Server, "5.0.0").acl(&["@connection"]),
    row("count", 2, count).summary("Number of commands."),
    row("docs", -2, docs)
        .tips(&["nondeterministic_output_order"])
        .since("7.0.0")
        .syntax("[command-name...]")
        .summary("Documentation of some commands."),
    row("getkeys", -4, getkeys).summary("The keys in a request."),
    row("getkeysandflags", -4, getkeysandflags)
        .since("7.0.0")
        .summary("The keys in a request, with their access flags."),
    row("info", -2, info)
        .tips(&["nondeterministic_output_order"])
        .syntax("[command-name...]")
        .summary("The rows of some commands."),
    row("list", -2, list)
        .tips(&["nondeterministic_output_order"])
        .since("7.0.0")
        .syntax(
            "[FILTERBY filterby=(MODULE module-name | ACLCAT category | PATTERN pattern:pattern)]",
        )
        .summary("The names of all commands, or of some."),
];

pub(crate) const COMMANDS: &[CommandSpec] = &[CommandSpec {
    handler: command,
    ..CommandSpec::container("command", -1, Group::Server, COMMAND)
}
.flags(&[Flags::LOADING, Flags::STALE, Flags::SENTINEL])
.acl(&["@connection"])
.tips(&["nondeterministic_output_order"])
.since("2.8.13")
.summary("The table of commands.")];

const fn row(name: &'static str, arity: i32, handler: super::spec::Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::Server, handler)
        .flags(&[Flags::LOADING, Flags::STALE])
        .acl(&["@connection"])
        .since("2.8.13")
}
