//! Sets: packed integers as long as there are few members and all are integers, else a table.

mod integers;
mod row;

pub(super) use row::ROW;

use super::element::Element;
use super::table::Table;
use crate::engine::config::Config;
use crate::resp::parse_integer;
use integers::IntegerSet;

/// Redis packs no more integers than this, whatever the parameter says (`t_set.c: setTypeAdd`).
const INTEGERS_MAX: usize = 1 << 30;

/// How large a set of packed integers may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetLimits {
    /// `set-max-intset-entries`.
    integers: usize,
}

impl SetLimits {
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            integers: config.set_max_intset_entries.min(INTEGERS_MAX),
        }
    }
}

/// Different strings. A change of the limits converts a set at its next insertion; a table stays a table.
#[derive(Clone, Debug)]
pub(crate) enum Set {
    /// In ascending order.
    Integers(IntegerSet),
    Table(Table<()>),
}

impl Default for Set {
    fn default() -> Self {
        Self::Integers(IntegerSet::default())
    }
}

impl Set {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Integers(integers) => integers.len(),
            Self::Table(table) => table.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn contains(&self, member: &[u8]) -> bool {
        match self {
            Self::Integers(integers) => {
                parse_integer(member).is_some_and(|value| integers.contains(value))
            }
            Self::Table(table) => table.contains(member),
        }
    }

    /// Adds a member; false if it is there.
    pub(crate) fn insert(&mut self, member: &[u8], limits: SetLimits) -> bool {
        match self {
            Self::Integers(integers) => {
                let Some(value) = parse_integer(member) else {
                    return self.unpack().insert(member, ()).is_none();
                };
                let is_new = integers.insert(value);
                if is_new && integers.len() > limits.integers {
                    self.unpack();
                }
                is_new
            }
            Self::Table(table) => table.insert(member, ()).is_none(),
        }
    }

    /// Removes a member; false if it is not there.
    pub(crate) fn remove(&mut self, member: &[u8]) -> bool {
        match self {
            Self::Integers(integers) => {
                parse_integer(member).is_some_and(|value| integers.remove(value))
            }
            Self::Table(table) => table.remove(member).is_some(),
        }
    }

    /// The member at a position; positions change with every insertion and removal.
    pub(crate) fn at(&self, position: usize) -> Option<Element> {
        match self {
            Self::Integers(integers) => integers.at(position).map(Element::from_integer),
            Self::Table(table) => table.at(position).map(|(member, ())| member.clone()),
        }
    }

    /// Removes the member at a position.
    pub(crate) fn take_at(&mut self, position: usize) -> Option<Element> {
        match self {
            Self::Integers(integers) => {
                let value = integers.at(position)?;
                integers.remove(value);
                Some(Element::from_integer(value))
            }
            Self::Table(table) => table.remove_at(position).map(|(member, ())| member),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Element> {
        let (integers, table) = match self {
            Self::Integers(integers) => (Some(integers), None),
            Self::Table(table) => (None, Some(table)),
        };
        let integers = integers.into_iter().flat_map(IntegerSet::iter);
        let table = table.into_iter().flat_map(Table::iter);
        integers
            .map(Element::from_integer)
            .chain(table.map(|(member, ())| member.clone()))
    }

    /// Members from a cursor of SSCAN on, and the next cursor. Packed integers come all at once.
    pub(crate) fn scan(&self, cursor: u64, count: usize) -> (Vec<Element>, u64) {
        match self {
            Self::Integers(_) => (self.iter().collect(), 0),
            Self::Table(table) => {
                let (found, next) = table.scan(cursor, count);
                let members = found.into_iter().map(|(member, ())| member.clone());
                (members.collect(), next)
            }
        }
    }

    /// Converts the set to a table.
    fn unpack(&mut self) -> &mut Table<()> {
        if let Self::Integers(_) = self {
            let mut table = Table::default();
            for member in self.iter() {
                table.insert(&member, ());
            }
            *self = Self::Table(table);
        }
        match self {
            Self::Table(table) => table,
            Self::Integers(_) => unreachable!("it was converted"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn set(members: impl IntoIterator<Item = String>, integers: usize) -> Set {
        let mut set = Set::default();
        for member in members {
            assert!(set.insert(member.as_bytes(), SetLimits { integers }));
        }
        set
    }

    #[test]
    fn the_limit_and_the_members_decide_what_is_packed() {
        let numbers = |count: i32| (0..count).map(|i| (i * 7).to_string());
        let is_packed = |set: &Set| matches!(set, Set::Integers(_));
        assert!(is_packed(&set(numbers(512), 512)) && !is_packed(&set(numbers(513), 512)));
        assert!(!is_packed(&set(["01".to_owned()], 512)));
        assert!(!is_packed(&set(numbers(1), 0)));
        let mut mixed = set(numbers(100), 512);
        let limits = SetLimits { integers: 512 };
        assert!(mixed.insert(b"x", limits) && !mixed.insert(b"7", limits));
        assert!(mixed.remove(b"x") && !mixed.remove(b"x") && mixed.contains(b"693"));
        assert!(!is_packed(&mixed) && mixed.len() == 100);
    }

    #[test]
    fn members_are_taken_by_position() {
        for limit in [0, 512] {
            let mut set = set((-50..50).map(|i| i.to_string()), limit);
            let mut all: BTreeSet<Vec<u8>> = set.iter().map(|member| member.to_vec()).collect();
            while let Some(member) = set.at(set.len() / 2) {
                assert_eq!(set.take_at(set.len() / 2).as_deref(), Some(&*member));
                assert!(all.remove(&*member));
            }
            assert!(all.is_empty() && set.is_empty() && set.take_at(0).is_none());
        }
    }
}
