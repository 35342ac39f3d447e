//! HELP of every container: its subcommands and their summaries, in our own words.

use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError, table};
use crate::engine::Ctx;
use crate::resp::Reply;

pub(super) fn help(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let name = args.request().name();
    let found = table(ctx).find(name).ok_or(CommandError::Syntax)?;
    let name = found.spec.name.to_ascii_uppercase();
    let mut lines = vec![format!(
        "{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"
    )];
    for row in found.spec.subcommands {
        lines.push(row.name.to_ascii_uppercase());
        lines.push(format!("    {}", row.summary));
    }
    let lines = lines.into_iter();
    let lines = lines.map(|line| Reply::Status(line.into_bytes()));
    Ok(Reply::Array(lines.collect()))
}

/// The row of HELP in a container of this group.
pub(super) const fn row(group: Group, since: &'static str) -> CommandSpec {
    CommandSpec::new("help", 2, group, help)
        .flags(&[Flags::LOADING, Flags::STALE])
        .since(since)
        .summary("Lists the subcommands.")
}
