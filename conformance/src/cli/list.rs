//! `--list`: locks, faults, fixed scenarios and properties.

use super::select::Listed;
use redouble_conformance::{
    checker::Property,
    report::{shown, terminal, without_variant},
    scenario::{fixed, nemesis::NEMESES},
};
use std::io::{self, Write};

pub(super) fn all(locks: &[Listed], out: &mut impl Write) -> io::Result<()> {
    let widths = locks.iter().map(|lock| shown(lock.id).len());
    let width = widths.max().unwrap_or(0);
    let mut group = None;
    for lock in locks {
        if group.replace(lock.group) != Some(lock.group) {
            let count = locks.iter().filter(|it| it.group == lock.group).count();
            let (title, introduction) = (lock.group.title(), lock.group.introduction());
            writeln!(out, "{title} ({count}): {introduction}")?;
        }
        let (name, summary) = (shown(lock.id), lock.row.summary);
        let expected = terminal::expected(lock.row.expected);
        writeln!(out, "  {name:width$}  {summary} (expected: {expected})")?;
        if let Some(met) = lock.row.met().filter(|_| is_first_variant(locks, lock)) {
            writeln!(out, "  {:width$}    met in: {met}", "")?;
        }
    }
    writeln!(out, "\nfaults:")?;
    for nemesis in NEMESES {
        writeln!(out, "  {:18}  {}", nemesis.name(), nemesis.summary())?;
    }
    writeln!(
        out,
        "\nfixed scenarios ({}), written by hand; --backend spawn and --fixed play them:",
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

/// Returns true for the first listed variant of a mistake: all variants occur in the same kinds of code.
fn is_first_variant(locks: &[Listed], lock: &Listed) -> bool {
    let kind = without_variant(lock.id);
    let mut variants = locks.iter().filter(|it| without_variant(it.id) == kind);
    variants.next().is_some_and(|first| first.id == lock.id)
}
