//! Selects locks, faults and properties by patterns.

use super::{Fallible, values::matches};
use redouble_conformance::{
    checker::Property,
    report::Group,
    scenario::nemesis::NEMESES,
    subject::{Row, subjects},
};

/// A listed lock.
pub(super) struct Listed {
    pub(super) id: &'static str,
    pub(super) group: Group,
    pub(super) row: &'static Row,
}

/// The locks whose names or ids match any of the patterns, by groups; all if there are no patterns.
pub(super) fn locks(patterns: &[String]) -> Fallible<Vec<Listed>> {
    let mut all: Vec<Listed> = subjects()
        .map(|row| {
            let id = row.id();
            let group = Group::of(id);
            Listed { id, group, row }
        })
        .collect();
    all.sort_by_key(|listed| listed.group);
    chosen(
        all,
        patterns,
        |listed| vec![listed.id, listed.row.name],
        "lock",
    )
}

/// The names of the faults that match any of the patterns; none if there are no patterns.
pub(super) fn faults(patterns: &[String]) -> Fallible<Vec<String>> {
    if patterns.is_empty() {
        return Ok(Vec::new());
    }
    let all = NEMESES.iter().map(|nemesis| nemesis.name()).collect();
    let names = chosen(all, patterns, |name: &&str| vec![*name], "fault")?;
    Ok(names.into_iter().map(str::to_owned).collect())
}

/// The properties whose ids or names match any of the patterns; none if there are no patterns.
pub(super) fn properties(patterns: &[String]) -> Fallible<Vec<Property>> {
    if patterns.is_empty() {
        return Ok(Vec::new());
    }
    let names = |property: &Property| vec![property.id(), property.title()];
    chosen(Property::ALL.to_vec(), patterns, names, "property")
}

/// Returns the items that match any of the patterns. A pattern without a match is an error.
fn chosen<T>(
    mut all: Vec<T>,
    patterns: &[String],
    names: impl Fn(&T) -> Vec<&'static str>,
    what: &str,
) -> Fallible<Vec<T>> {
    let meant = |pattern: &str, one: &T| names(one).iter().any(|name| matches(pattern, name));
    let mut unknown = patterns
        .iter()
        .filter(|it| !all.iter().any(|one| meant(it, one)));
    if let Some(pattern) = unknown.next() {
        return Err(format!("no {what} is called {pattern:?} (see --list)").into());
    }
    if !patterns.is_empty() {
        all.retain(|one| patterns.iter().any(|pattern| meant(pattern, one)));
    }
    Ok(all)
}
