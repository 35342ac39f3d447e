//! Which list a subject belongs to, read off its name: reports show one list after the other.

use crate::subject::{Expected, Row, subjects};
use serde::Serialize;

/// A list of subjects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// The locks of `redouble-lock`.
    Ours,
    /// Systems that others described, named `seed-…`.
    Seeds,
    /// Locks with a known mistake, named `B01` and so on, with a letter where there are variants.
    Specimens,
    /// Everything else: locks of other people, the canary.
    Others,
}

impl Group {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 4] = [Self::Ours, Self::Seeds, Self::Specimens, Self::Others];

    /// The list of a subject of this name.
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

    /// How it is called.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Seeds => "seed systems",
            Self::Specimens => "specimens",
            Self::Others => "others",
        }
    }
}

/// The listed subject of a name.
pub(crate) fn listed(name: &str) -> Option<&'static Row> {
    subjects().find(|row| (row.make)().name() == name)
}

/// The name without the letter of a variant: `B08` for `B08a`, `seed-A1` for `seed-A1b`.
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

    #[test]
    fn names_say_where_a_subject_belongs() {
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
