//! What there is to choose from.

use super::select::Listed;
use redouble_conformance::{
    checker::Property,
    report::terminal,
    scenario::{fixed, nemesis::NEMESES},
};
use std::io::{self, Write};

pub(super) fn all(locks: &[Listed], out: &mut impl Write) -> io::Result<()> {
    let width = locks.iter().map(|lock| lock.name.len()).max().unwrap_or(0);
    let mut group = None;
    for lock in locks {
        if group.replace(lock.group) != Some(lock.group) {
            let count = locks.iter().filter(|it| it.group == lock.group).count();
            writeln!(out, "locks, {} ({count}):", lock.group.title())?;
        }
        let (name, summary) = (lock.name, lock.row.summary);
        let expected = terminal::expected(lock.row.expected);
        writeln!(out, "  {name:width$}  {summary} (expected: {expected})")?;
    }
    writeln!(out, "\nfaults:")?;
    for nemesis in NEMESES {
        writeln!(out, "  {:18}  {}", nemesis.name(), nemesis.summary())?;
    }
    writeln!(
        out,
        "\nfixed scenarios ({}), which --backend spawn and --fixed play:",
        fixed::all().count()
    )?;
    for fixed in fixed::all() {
        writeln!(out, "  {:32}  {}", fixed.name, fixed.summary)?;
    }
    writeln!(out, "\nproperties:")?;
    for property in Property::ALL {
        let (id, title) = (property.id(), property.title());
        writeln!(out, "  {id:4} {title:18}  {}", property.statement())?;
    }
    Ok(())
}
