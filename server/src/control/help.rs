//! HELP.

use super::words::ControlArgs;
use super::{Answer, Family, error};
use crate::fault::FAULTS;
use crate::resp::Reply;

fn lines(lines: impl IntoIterator<Item = String>) -> Reply {
    let lines = lines.into_iter().map(|line| Reply::Status(line.into()));
    Reply::Array(lines.collect())
}

/// A line for each subcommand, indented ones that explain it.
pub(super) fn of(family: &Family, words: &mut ControlArgs<'_>) -> Answer {
    if let Some(name) = words.next() {
        return fault(name);
    }
    let head = format!("REDOUBLE.{} <subcommand> [<arg> ...]:", family.name);
    let rows = family.help.iter();
    let rows = rows.flat_map(|(form, does)| [(*form).to_owned(), format!("    {does}")]);
    Ok(lines(std::iter::once(head).chain(rows)))
}

/// The words of one fault.
fn fault(name: &[u8]) -> Answer {
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
