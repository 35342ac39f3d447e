//! The list to which a subject belongs, derived from its name. Reports show one list after another.

use crate::subject::{Expected, Row, subjects};
use serde::Serialize;

/// A list of subjects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// The locks of `redouble-lock`.
    Ours,
    /// Systems found in the wild; ids `seed-…`.
    Seeds,
    /// Known lock bugs: locks with one mistake each; ids `B01` and so on, with a letter for a variant.
    Specimens,
    /// All other locks: those of users, the canary.
    Others,
}

impl Group {
    /// All lists, in the order of reports.
    pub const ALL: [Self; 4] = [Self::Ours, Self::Seeds, Self::Specimens, Self::Others];

    /// Returns the list of a subject with this name.
    #[must_use]
    pub fn of(name: &str) -> Self {
        let digits = name.strip_prefix('B').unwrap_or("");
        if name.starts_with("seed-") {
            Self::Seeds
        } else if digits.len() >= 2 && digits.bytes().take(2).all(|byte| byte.is_ascii_digit()) {
            Self::Specimens
        } else if listed(name).is_some_and(|row| row.expected == Expected::Sound) {
            Self::Ours
        } else {
            Self::Others
        }
    }

    /// Returns the title in reports.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Ours => "locks of redouble-lock",
            Self::Seeds => "systems found in the wild",
            Self::Specimens => "known lock bugs",
            Self::Others => "other locks",
        }
    }

    /// Returns a description of its locks.
    #[must_use]
    pub const fn introduction(self) -> &'static str {
        match self {
            Self::Ours => "each has to keep all of its promises",
            Self::Seeds => "modelled on locks that services run, some sound and some broken",
            Self::Specimens => "locks with one mistake each, which the suite has to notice",
            Self::Others => {
                "locks outside of the lists, and the canary, which the suite has to convict"
            }
        }
    }

    /// Returns the name in machine-readable reports.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Seeds => "seeds",
            Self::Specimens => "specimens",
            Self::Others => "others",
        }
    }
}

/// Returns the listed subject with an id.
pub(crate) fn listed(id: &str) -> Option<&'static Row> {
    subjects().find(|row| row.id() == id)
}

/// Returns the name of a subject in reports: its descriptive name with its id, as in `blind-del (B02)`.
#[must_use]
pub fn shown(id: &str) -> String {
    match listed(id) {
        Some(row) if row.name != id => format!("{} ({id})", row.name),
        _ => id.to_owned(),
    }
}

/// Returns the id without the letter of a variant: `B08` for `B08a`, `seed-A1` for `seed-A1b`.
#[must_use]
pub fn without_variant(name: &str) -> &str {
    if !matches!(Group::of(name), Group::Seeds | Group::Specimens) {
        return name;
    }
    let last_digit = name.rfind(|character: char| character.is_ascii_digit());
    last_digit.map_or(name, |at| &name[..=at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_every_known_bug_is_met_somewhere() {
        let mut seen = BTreeSet::new();
        for row in subjects() {
            let id = row.id();
            assert!(
                seen.insert(row.name),
                "two locks have the name {}",
                row.name
            );
            assert!(row.name == id || seen.insert(id), "{id} is also a name");
            let words = row.name.chars();
            let plain = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-';
            assert!(words.into_iter().all(plain), "{}", row.name);
            let has_id = matches!(Group::of(id), Group::Seeds | Group::Specimens);
            assert_eq!(has_id, row.name != id, "{id}");
            assert_eq!(has_id, row.met().is_some(), "{id}");
        }
        assert_eq!(shown("B02"), "blind-del (B02)");
        assert_eq!(shown("mutex"), "mutex");
        assert_eq!(shown("of-a-user"), "of-a-user");
    }

    #[test]
    fn a_name_determines_the_list() {
        for (name, group, plain) in [
            ("mutex", Group::Ours, "mutex"),
            ("seed-A1", Group::Seeds, "seed-A1"),
            ("seed-A1b", Group::Seeds, "seed-A1"),
            ("B08a", Group::Specimens, "B08"),
            ("B12", Group::Specimens, "B12"),
            ("canary", Group::Others, "canary"),
            ("Bakery", Group::Others, "Bakery"),
        ] {
            assert_eq!(Group::of(name), group, "{name}");
            assert_eq!(without_variant(name), plain);
        }
    }
}
