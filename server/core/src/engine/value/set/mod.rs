//! Sets: packed integers as long as there are few members and all are integers; from 7.2 on a listpack as long as there
//! are few and short ones; else a table.

mod integers;
mod row;

pub(super) use row::ROW;

use super::element::Element;
use super::run::{Packed, Run};
use super::table::Table;
use crate::engine::config::Config;
use crate::engine::profile::feature;
use crate::resp::parse_integer;
use integers::IntegerSet;

/// Redis packs no more integers than this, whatever the parameter says (`t_set.c: setTypeAdd`).
const INTEGERS_MAX: usize = 1 << 30;

/// Limits of a packed set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetLimits {
    /// `set-max-intset-entries`.
    integers: usize,
    /// `set-max-listpack-entries`; 0 before 7.2.
    strings: usize,
    /// `set-max-listpack-value`, bytes of a member.
    bytes: usize,
    /// The number of members of a request decides before they are added; from 7.2 on.
    counts_ahead: bool,
}

impl SetLimits {
    pub(crate) fn of(config: &Config) -> Self {
        let packs_strings = config.profile.has(feature::PACKED_SETS_AND_LISTS);
        Self {
            integers: config.set_max_intset_entries.min(INTEGERS_MAX),
            strings: if packs_strings {
                config.set_max_listpack_entries
            } else {
                0
            },
            bytes: config.set_max_listpack_value,
            counts_ahead: packs_strings,
        }
    }
}

/// Different strings. A change of the limits converts a set at its next insertion; a table stays a table.
#[derive(Clone, Debug)]
pub(crate) enum Set {
    /// In ascending order.
    Integers(IntegerSet),
    /// In the order in which they were added. A clone copies them: the limits keep them few.
    Strings(Box<Strings>),
    Table(Table<()>),
}

/// Few short strings in a run of bytes, as a listpack holds them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Strings {
    run: Run,
    len: u32,
}

impl Strings {
    fn len(&self) -> usize {
        self.len as usize
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.run.texts().map(|packed| packed.text)
    }

    fn find(&self, member: &[u8]) -> Option<Packed<'_>> {
        self.run.texts().find(|packed| packed.text == member)
    }

    /// Adds a missing member.
    fn push(&mut self, member: &[u8]) {
        self.run.push(member);
        self.len += 1;
    }

    fn remove(&mut self, member: &[u8]) -> bool {
        let place = self.find(member).map(|packed| packed.place);
        if let Some(place) = &place {
            self.run.remove(place.clone());
            self.len -= 1;
        }
        place.is_some()
    }
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
            Self::Strings(strings) => strings.len(),
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
            Self::Strings(strings) => strings.find(member).is_some(),
            Self::Table(table) => table.contains(member),
        }
    }

    /// Adds a member; false if it exists.
    pub(crate) fn insert(&mut self, member: &[u8], limits: SetLimits) -> bool {
        match self {
            Self::Integers(integers) => {
                let Some(value) = parse_integer(member) else {
                    let longest = integers.longest_text();
                    let fits = integers.len() < limits.strings
                        && member.len().max(longest) <= limits.bytes;
                    if !fits {
                        return self.unpack().insert(member, ()).is_none();
                    }
                    let mut strings = Box::<Strings>::default();
                    for value in integers.iter() {
                        strings.push(&Element::from_integer(value));
                    }
                    strings.push(member);
                    *self = Self::Strings(strings);
                    return true;
                };
                let is_new = integers.insert(value);
                if is_new && integers.len() > limits.integers {
                    self.unpack();
                }
                is_new
            }
            Self::Strings(strings) => {
                if strings.find(member).is_some() {
                    return false;
                }
                if strings.len() < limits.strings && member.len() <= limits.bytes {
                    strings.push(member);
                } else {
                    self.unpack().insert(member, ());
                }
                true
            }
            Self::Table(table) => table.insert(member, ()).is_none(),
        }
    }

    /// Removes a member; false if it does not exist.
    pub(crate) fn remove(&mut self, member: &[u8]) -> bool {
        match self {
            Self::Integers(integers) => {
                parse_integer(member).is_some_and(|value| integers.remove(value))
            }
            Self::Strings(strings) => strings.remove(member),
            Self::Table(table) => table.remove(member).is_some(),
        }
    }

    /// The member at a position; positions change with every insertion and removal.
    pub(crate) fn at(&self, position: usize) -> Option<Element> {
        match self {
            Self::Integers(integers) => integers.at(position).map(Element::from_integer),
            Self::Strings(strings) => strings.iter().nth(position).map(Element::new),
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
            Self::Strings(strings) => {
                let member = strings.iter().nth(position).map(Element::new)?;
                strings.remove(&member);
                Some(member)
            }
            Self::Table(table) => table.remove_at(position).map(|(member, ())| member),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Element> {
        let (integers, strings, table) = match self {
            Self::Integers(integers) => (Some(integers), None, None),
            Self::Strings(strings) => (None, Some(strings), None),
            Self::Table(table) => (None, None, Some(table)),
        };
        let strings = strings.into_iter().flat_map(|strings| strings.iter());
        let integers = integers.into_iter().flat_map(IntegerSet::iter);
        let table = table.into_iter().flat_map(Table::iter);
        integers
            .map(Element::from_integer)
            .chain(strings.map(Element::new))
            .chain(table.map(|(member, ())| member.clone()))
    }

    /// Members from a cursor of SSCAN on, and the next cursor. A packed set comes all at once.
    pub(crate) fn scan(&self, cursor: u64, count: usize) -> (Vec<Element>, u64) {
        match self {
            Self::Integers(_) | Self::Strings(_) => (self.iter().collect(), 0),
            Self::Table(table) => {
                let (found, next) = table.scan(cursor, count);
                let members = found.into_iter().map(|(member, ())| member.clone());
                (members.collect(), next)
            }
        }
    }

    /// Makes an empty set for `first` and `count` members in total (`t_set.c: setTypeCreate`).
    pub(crate) fn for_first(first: &[u8], count: usize, limits: SetLimits) -> Self {
        if !limits.counts_ahead || parse_integer(first).is_some() && count <= limits.integers {
            Self::default()
        } else if count <= limits.strings {
            Self::Strings(Box::default())
        } else {
            Self::Table(Table::default())
        }
    }

    /// An empty set for some members of this one: packed integers for packed integers, else packed strings. Before 7.2 it
    /// always begins as packed integers (`t_set.c: sinterGenericCommand`, `spopWithCountCommand`).
    pub(crate) fn for_a_part(&self, limits: SetLimits) -> Self {
        match self {
            Self::Strings(_) | Self::Table(_) if limits.counts_ahead => {
                Self::Strings(Box::default())
            }
            Self::Integers(_) | Self::Strings(_) | Self::Table(_) => Self::default(),
        }
    }

    /// Prepares a packed set for so many new members: if they were too many by themselves, it becomes a table
    /// (`t_set.c: setTypeMaybeConvert`).
    pub(crate) fn expect(&mut self, count: usize, limits: SetLimits) {
        let most = match self {
            Self::Integers(_) => limits.integers,
            Self::Strings(_) => limits.strings,
            Self::Table(_) => return,
        };
        if limits.counts_ahead && count > most {
            self.unpack();
        }
    }

    /// A set of packed strings or integers whose members are all integers becomes packed integers
    /// (`t_set.c: maybeConvertToIntset`).
    pub(crate) fn settle(&mut self, limits: SetLimits) {
        let is_settled = matches!(self, Self::Integers(_)) || self.len() > limits.integers;
        if is_settled || !limits.counts_ahead {
            return;
        }
        let values = self.iter().map(|member| parse_integer(&member));
        let Some(values) = values.collect::<Option<Vec<i64>>>() else {
            return;
        };
        let mut integers = IntegerSet::default();
        for value in values {
            integers.insert(value);
        }
        *self = Self::Integers(integers);
    }

    /// Converts the set to a table.
    fn unpack(&mut self) -> &mut Table<()> {
        if let Self::Integers(_) | Self::Strings(_) = self {
            let mut table = Table::default();
            for member in self.iter() {
                table.insert(&member, ());
            }
            *self = Self::Table(table);
        }
        match self {
            Self::Table(table) => table,
            Self::Integers(_) | Self::Strings(_) => unreachable!("it was converted"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn of_7_0(integers: usize) -> SetLimits {
        SetLimits {
            integers,
            strings: 0,
            bytes: 64,
            counts_ahead: false,
        }
    }

    #[test]
    fn from_7_2_on_few_short_strings_are_packed() {
        let limits = SetLimits {
            integers: 4,
            strings: 3,
            bytes: 5,
            counts_ahead: true,
        };
        let encoding = |members: &[&str]| {
            let mut set = Set::for_first(members[0].as_bytes(), 1, limits);
            for member in members {
                set.insert(member.as_bytes(), limits);
            }
            let sorted: BTreeSet<Vec<u8>> = set.iter().map(|member| member.to_vec()).collect();
            let expected: BTreeSet<Vec<u8>> =
                members.iter().map(|it| it.as_bytes().into()).collect();
            assert_eq!((set.len(), sorted), (expected.len(), expected));
            match set {
                Set::Integers(_) => "integers",
                Set::Strings(_) => "strings",
                Set::Table(_) => "table",
            }
        };
        assert_eq!(encoding(&["1", "2", "3", "4"]), "integers");
        assert_eq!(encoding(&["1", "2", "3", "4", "5"]), "table");
        assert_eq!(encoding(&["1", "2", "a"]), "strings");
        assert_eq!(encoding(&["1", "2", "3", "a"]), "table");
        assert_eq!(encoding(&["a", "b", "c"]), "strings");
        assert_eq!(encoding(&["a", "b", "c", "d"]), "table");
        assert_eq!(encoding(&["a", "12345"]), "strings");
        assert_eq!(encoding(&["a", "123456"]), "table");
        assert_eq!(encoding(&["123456", "a"]), "table");
        let mut set = Set::for_first(b"a", 4, limits);
        assert!(matches!(set, Set::Table(_)) && set.insert(b"7", limits));
        set.settle(limits);
        assert!(matches!(set, Set::Integers(_)) && set.contains(b"7"));
        set.expect(5, limits);
        assert!(matches!(set, Set::Table(_)) && set.contains(b"7"));
    }

    fn set(members: impl IntoIterator<Item = String>, integers: usize) -> Set {
        let mut set = Set::default();
        for member in members {
            assert!(set.insert(member.as_bytes(), of_7_0(integers)));
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
        let limits = of_7_0(512);
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
