//! The subcommand HELP of every control command.

use super::args::ControlArgs;
use super::{ControlCommand, ControlResult, error};
use crate::fault::FAULTS;
use crate::resp::Reply;

fn lines(lines: impl IntoIterator<Item = String>) -> Reply {
    let lines = lines.into_iter().map(|line| Reply::Status(line.into()));
    Reply::Array(lines.collect())
}

/// One line per subcommand, followed by an indented line that explains it.
pub(super) fn of(command: &ControlCommand, args: &mut ControlArgs<'_>) -> ControlResult {
    if let Some(name) = args.next() {
        return fault(name);
    }
    let head = format!("REDOUBLE.{} <subcommand> [<arg> ...]:", command.name);
    let rows = command.help.iter();
    let rows = rows.flat_map(|(form, does)| [(*form).to_owned(), format!("    {does}")]);
    Ok(lines(std::iter::once(head).chain(rows)))
}

/// The arguments and conditions of one fault.
fn fault(name: &[u8]) -> ControlResult {
    let mut faults = FAULTS.iter();
    let found = faults.find(|fault| name.eq_ignore_ascii_case(fault.name.as_bytes()));
    let found = found.ok_or_else(|| {
        let names: Vec<_> = FAULTS.iter().map(|fault| fault.name).collect();
        let name = String::from_utf8_lossy(name);
        error(format!(
            "there is no fault '{name}', only {}",
            names.join(", ")
        ))
    })?;
    Ok(lines(found.help()))
}
