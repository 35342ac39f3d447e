//! Hashes. Small ones are packed in a run of bytes, as a listpack is; big ones are a table. From 7.4 on fields may have
//! deadlines (`timed.rs`).

mod row;
mod timed;

pub(super) use row::ROW;

use crate::engine::config::Config;
use crate::engine::time::UnixMillis;
use crate::engine::value::element::{Element, Text};
use crate::engine::value::run::{Packed, Run, packed_bytes};
use crate::engine::value::table::Table;
use timed::Timed;

/// Limits of a packed hash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HashLimits {
    /// `hash-max-listpack-entries`.
    pub(crate) entries: usize,
    /// `hash-max-listpack-value`, bytes of a field or a value.
    pub(crate) bytes: usize,
}

impl HashLimits {
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            entries: config.hash_max_listpack_entries,
            bytes: config.hash_max_listpack_value,
        }
    }
}

/// Fields and values. A small hash does not become a big one by what the limits say, only by its next change; a
/// big one stays so.
#[derive(Clone, Debug)]
pub(crate) enum Hash {
    Small(Pairs),
    Big(Table<Element>),
    /// A hash some of whose fields have, or had, a deadline.
    Timed(Box<Timed>),
}

/// A small hash: fields and values in turn, in the order in which the fields were added. A clone copies it: the
/// limits keep it small.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pairs {
    run: Run,
    len: u32,
}

impl Pairs {
    /// The fields and values, with their places.
    fn iter(&self) -> impl Iterator<Item = (Packed<'_>, Packed<'_>)> {
        let mut texts = self.run.texts();
        std::iter::from_fn(move || Some((texts.next()?, texts.next()?)))
    }

    fn find(&self, field: &[u8]) -> Option<(Packed<'_>, Packed<'_>)> {
        self.iter().find(|(name, _)| name.text == field)
    }

    /// Adds a missing field.
    fn push(&mut self, field: &[u8], value: &[u8]) {
        self.run.reserve(packed_bytes(field) + packed_bytes(value));
        self.run.push(field);
        self.run.push(value);
        self.len += 1;
    }
}

impl Default for Hash {
    fn default() -> Self {
        Self::Small(Pairs::default())
    }
}

impl Hash {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Small(pairs) => pairs.len as usize,
            Self::Big(table) => table.len(),
            Self::Timed(timed) => timed.hash.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn get(&self, field: &[u8]) -> Option<Text<'_>> {
        match self {
            Self::Small(pairs) => pairs.find(field).map(|(_, value)| Text::Packed(value.text)),
            Self::Big(table) => table.get(field).map(Text::Own),
            Self::Timed(timed) => timed.hash.get(field),
        }
    }

    /// Sets a field, which then has no deadline; true when it is new.
    pub(crate) fn set(&mut self, field: &[u8], value: &[u8], limits: HashLimits) -> bool {
        if let Self::Timed(timed) = self {
            timed.set_deadline(field, None);
        }
        self.change(field, value, limits)
    }

    /// Sets a field, whose deadline stays; true when it is new.
    pub(crate) fn change(&mut self, field: &[u8], value: &[u8], limits: HashLimits) -> bool {
        if let Self::Timed(timed) = self {
            return timed.hash.change(field, value, limits);
        }
        if field.len() > limits.bytes || value.len() > limits.bytes {
            self.grow();
        }
        match self {
            Self::Small(pairs) => {
                let known = pairs.find(field).map(|(_, value)| value.place);
                let is_new = known.is_none();
                match known {
                    Some(place) => pairs.run.put(place, value),
                    None => pairs.push(field, value),
                }
                if self.len() > limits.entries {
                    self.grow();
                }
                is_new
            }
            Self::Big(table) => table.insert(field, Element::new(value)).is_none(),
            Self::Timed(_) => unreachable!("it was changed"),
        }
    }

    /// Makes room in a small hash for fields and values that will be added to it.
    pub(crate) fn reserve<'a>(
        &mut self,
        texts: impl Iterator<Item = &'a [u8]>,
        limits: HashLimits,
    ) {
        if let Self::Small(pairs) = self {
            let most = 2 * limits.entries;
            let texts = texts.take(most).filter(|text| text.len() <= limits.bytes);
            pairs.run.reserve(texts.map(packed_bytes).sum());
        }
    }

    /// The hash without deadlines.
    fn plain(&self) -> &Self {
        match self {
            Self::Timed(timed) => &timed.hash,
            Self::Small(_) | Self::Big(_) => self,
        }
    }

    /// The deadline of a field, if it has one.
    pub(crate) fn deadline(&self, field: &[u8]) -> Option<UnixMillis> {
        match self {
            Self::Timed(timed) => timed.deadline(field),
            Self::Small(_) | Self::Big(_) => None,
        }
    }

    /// Makes room for deadlines, which shows in the encoding (`t_hash.c: hashTypeSetExInit`).
    pub(crate) fn expect_deadlines(&mut self) {
        if !matches!(self, Self::Timed(_)) {
            *self = Self::Timed(Box::new(Timed::new(std::mem::take(self))));
        }
    }

    /// Sets or removes the deadline of an existing field.
    pub(crate) fn set_deadline(&mut self, field: &[u8], deadline: Option<UnixMillis>) {
        if deadline.is_some() {
            self.expect_deadlines();
        }
        if let Self::Timed(timed) = self {
            timed.set_deadline(field, deadline);
        }
    }

    /// The earliest deadline of a field.
    pub(crate) fn first_deadline(&self) -> Option<UnixMillis> {
        match self {
            Self::Timed(timed) => timed.first_deadline(),
            Self::Small(_) | Self::Big(_) => None,
        }
    }

    /// Removes the fields that are past their deadlines; their names, in the order of the deadlines.
    pub(crate) fn remove_expired(&mut self, now: UnixMillis) -> Vec<Vec<u8>> {
        match self {
            Self::Timed(timed) => timed.remove_expired(now),
            Self::Small(_) | Self::Big(_) => Vec::new(),
        }
    }

    /// Makes a small hash a big one.
    fn grow(&mut self) {
        if let Self::Small(pairs) = self {
            let mut table = Table::default();
            for (field, value) in pairs.iter() {
                table.insert(field.text, Element::new(value.text));
            }
            *self = Self::Big(table);
        }
    }

    /// A hash read from a payload, where a field may not come twice; `None` if one does.
    pub(crate) fn from_pairs(pairs: Vec<(Element, Element)>, is_small: bool) -> Option<Self> {
        let mut table = Table::default();
        for (field, value) in &pairs {
            if table.insert(field, value.clone()).is_some() {
                return None;
            }
        }
        if !is_small {
            return Some(Self::Big(table));
        }
        let mut packed = Pairs::default();
        pairs
            .iter()
            .for_each(|(field, value)| packed.push(field, value));
        Some(Self::Small(packed))
    }

    /// The pair at a position; positions change when a field is added or removed.
    pub(crate) fn at(&self, position: usize) -> Option<(Text<'_>, Text<'_>)> {
        match self {
            Self::Small(_) => self.iter().nth(position),
            Self::Big(table) => table.at(position).map(own),
            Self::Timed(timed) => timed.hash.at(position),
        }
    }

    /// Removes a field; true if it existed.
    pub(crate) fn remove(&mut self, field: &[u8]) -> bool {
        match self {
            Self::Small(pairs) => {
                let found = pairs.find(field);
                let place = found.map(|(name, value)| name.place.start..value.place.end);
                let is_there = place.is_some();
                if let Some(place) = place {
                    pairs.run.remove(place);
                    pairs.len -= 1;
                }
                is_there
            }
            Self::Big(table) => table.remove(field).is_some(),
            Self::Timed(timed) => {
                timed.set_deadline(field, None);
                timed.hash.remove(field)
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Text<'_>, Text<'_>)> {
        let (small, big) = match self.plain() {
            Self::Small(pairs) => (Some(pairs), None),
            Self::Big(table) => (None, Some(table)),
            Self::Timed(_) => (None, None),
        };
        let small = small.into_iter().flat_map(Pairs::iter);
        let small =
            small.map(|(field, value)| (Text::Packed(field.text), Text::Packed(value.text)));
        small.chain(big.into_iter().flat_map(Table::iter).map(own))
    }

    /// Pairs from a cursor of HSCAN on, and the next cursor. A small hash comes all at once.
    pub(crate) fn scan(&self, cursor: u64, count: usize) -> (Vec<(Text<'_>, Text<'_>)>, u64) {
        match self {
            Self::Timed(timed) => timed.hash.scan(cursor, count),
            Self::Small(_) => (self.iter().collect(), 0),
            Self::Big(table) => {
                let (found, next) = table.scan(cursor, count);
                (found.into_iter().map(own).collect(), next)
            }
        }
    }
}

fn own<'a>((field, value): (&'a Element, &'a Element)) -> (Text<'a>, Text<'a>) {
    (Text::Own(field), Text::Own(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: HashLimits = HashLimits {
        entries: 128,
        bytes: 64,
    };

    #[test]
    fn growing_keeps_fields() {
        let mut hash = Hash::default();
        for i in 0..300_i64 {
            assert!(hash.set(format!("f{i}").as_bytes(), i.to_string().as_bytes(), LIMITS));
        }
        assert!(matches!(hash, Hash::Big(_)));
        assert!(!hash.set(b"f7", b"-7", LIMITS));
        assert_eq!(hash.get(b"f7").map(Text::bytes), Some(&b"-7"[..]));
        assert_eq!((hash.len(), hash.iter().count()), (300, 300));
        assert!(hash.remove(b"f7") && !hash.remove(b"f7") && hash.len() == 299);
    }

    #[test]
    fn the_limits_decide_what_is_small() {
        let is_big = |count: usize, bytes: usize| {
            let mut hash = Hash::default();
            for i in 0..count {
                hash.set(format!("{i}").as_bytes(), &vec![b'x'; bytes], LIMITS);
            }
            matches!(hash, Hash::Big(_))
        };
        assert!(!is_big(128, 64) && is_big(129, 64) && is_big(1, 65));
    }

    #[test]
    fn a_small_hash_shifts() {
        let mut hash = Hash::default();
        for field in [b"a", b"b", b"c"] {
            hash.set(field, field, LIMITS);
        }
        hash.remove(b"a");
        assert_eq!(
            hash.iter().map(|(field, _)| field[0]).collect::<Vec<_>>(),
            b"bc"
        );
    }
}
